"""Hostile texts, files, images, settings and arguments: through every command, and through Python."""

from __future__ import annotations

import base64
import functools
import gzip
import inspect
import json
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import typer.main
from PIL import Image

import regard
from campaigns.children import Ended, in_child
from campaigns.damage import change_bytes, change_lines
from campaigns.folders import MEMORY, TYPED
from campaigns.frame import Case, Fault, campaign
from campaigns.trainings import SMALL, write_data
from regard.app.cli.main import UsageError, app, main
from regard.runs.shipped import SHIPPED, shipped
from regard.tasks.core.recipe import dump
from regard.tasks.core.table import load

SECONDS = 90
TEXTS = (
    *("", " ", "\t", "\n", "a", "3 May 1979", "den 24 december 1953", "The cat sat on the mat.", "0101 1100", "7"),
    *("[MASK]", "He plays the [MASK] very well.", "[MASK]" * 300, "<s></s><pad>", "</s>", "<unk>", "��"),
    *(
        "\u202e abc",
        "e\u0301" * 500,
        "\u200b" * 100,
        "😀" * 200,
        "日本語のテキスト",
        "ـ" * 100,
        "\x1b[31mred",
        "a\0b",
    ),
    *(
        "x" * 5000,
        "word " * 3000,
        "-",
        "--",
        "-1",
        "--help",
        "nan",
        "1e400",
        "../..",
        "/dev/null",
        "'\"`$(x)",
        "=1+1",
    ),
    *(
        "{}",
        "[]",
        '{"a": 1}',
        "<script>alert(1)</script>",
        "%s%n",
        "\\",
        "a,b\tc;d|e",
        "\ufeffabc",
        "\r\n",
        "\x85\u2028",
    ),
)
NUMBERS = (
    "0",
    "1",
    "2",
    "3",
    "5",
    "-1",
    "1.5",
    "0.0",
    "nan",
    "inf",
    "1e400",
    "9" * 30,
    "",
    "x",
    "0x10",
    "1_000",
    "²",
)
FILES = (
    "pairs.tsv", "labelled.tsv", "text.txt", "prompts.jsonl", "table.csv", "image.png", "image.jpg", "noise",
    "empty", "lines.txt.gz", "folder", "nosuch", "data.npz", "recipe.toml", "/dev/null", "image.gif", "list.txt",
)  # fmt: skip

SHOWS = ("a.svg", "a.png", "a.html", "-", "a.txt", "folder/a.svg", "nosuch/a.svg", "")


def judge(ended: Ended, words: str) -> str:
    """Of a command."""
    if ended.late:
        return "still at work after the time of a case"
    if ended.traceback or ended.code not in (0, 1, 2):
        raise Fault(f"{words}: status {ended.code}: {ended.said[-600:]}")
    if ended.code and not ended.said.strip():
        raise Fault(f"{words}: status {ended.code} without a message")
    return ("done", "failed with a message", "refused")[ended.code]


@campaign(
    "commands",
    "`regard COMMAND ...` with a few arguments and options of that command, most usual, one or more hostile: "
    "texts, numbers, files that are damaged or of another kind, recipes with changed settings; short trainings on "
    "damaged data.",
    holds="status 0, 1 or 2, and a message where it is not 0; no traceback, no crash.",
    reach=5000,
)
@contextmanager
def commands(place: Path) -> Iterator[Case]:
    write_data(place)
    files = make_files(place / "files")
    by_task = {name: load(name, "cpu").task for name in shipped()}
    built = functools.cache(typer.main.get_command)  # of the same app each time: most of what a refusal costs
    with suppress(UsageError), patch("typer.main.get_command", built):
        app(["nosuch"], standalone_mode=False)  # imports what commands need, once

    def case(draw: Random) -> str:
        folder = place / "case"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(files, folder)
        spoil_files(folder, draw)
        words = words_of(draw, by_task, folder, place)
        with patch("typer.main.get_command", built):
            ended = in_child(lambda: command(words), seconds=SECONDS, memory=MEMORY, folder=folder)
        return f"{kind_of(words)}: " + judge(ended, repr(words)[:500])

    yield case


def kind_of(words: list[str]) -> str:
    return (
        "training" if words[0] == "train" else "evaluating" if words[0] == "evaluate" else "asking and the others"
    )


def command(words: list[str]) -> None:
    sys.argv = ["regard", *words]
    os.environ["REGARD_CACHE"] = str(Path.cwd() / "cache")
    main()


def words_of(draw: Random, runs: dict[str, Any], folder: Path, data: Path) -> list[str]:
    kind = draw.choice(("ask", "ask", "ask", "train", "train", "evaluate", "other"))
    if kind == "train":
        return train_words(draw, folder, data)
    name = draw.choice(sorted(runs))
    task = runs[name]
    if kind == "evaluate":
        words = ["evaluate", name, *some(draw, ["--data", draw.choice(FILES)], 0.9)]
        return [*words, *some(draw, ["--columns", draw.choice((*TEXTS, "1", "2", "text,label"))], 0.3)]
    if kind == "other":
        verb = draw.choice(("models", "recipe", "align", "export", "compare", "gallery", "evaluate", "nosuch"))
        words = [
            draw.choice((*TEXTS, *FILES, name, "bahdanau-dates", "--help", "--json"))
            for _ in range(draw.randint(0, 3))
        ]
        return [verb, *(["--list"] if verb == "gallery" else []), *words]
    words = [task.verb, name if draw.random() < 0.95 else draw.choice((*TEXTS, *FILES))]
    for _ in range(draw.choice((0, 1, 1, 1, 2))):
        words.append(
            draw.choice(FILES if draw.random() < 0.5 else TEXTS) if draw.random() < 0.9 else " ".join(TEXTS)
        )
    for option in draw.sample(task.options, k=min(len(task.options), draw.choice((0, 0, 1, 2)))):
        words.append(option.flag)
        if option.kind is not bool:
            words.append(value_of(option.kind, draw))
    words += some(draw, ["--input", draw.choice(FILES)], 0.25) + some(draw, ["--json"], 0.2)
    words += some(draw, ["--show", draw.choice(SHOWS)], 0.3) + some(draw, ["--output", draw.choice(FILES)], 0.1)
    if task.verb in ("generate",):
        words += ["--max-tokens", "5"]
    return words


def value_of(kind: type, draw: Random) -> str:
    if kind in (int, float) and draw.random() < 0.9:
        return draw.choice(NUMBERS)
    return draw.choice((*TEXTS, *FILES))


def train_words(draw: Random, folder: Path, data: Path) -> list[str]:
    """A small training with changed settings, or on damaged data, or by a damaged recipe."""
    recipes = SMALL["recipes"](data)
    name = draw.choice(sorted(recipes))
    recipe = json.loads(json.dumps(recipes[name])) | {"train": {"steps": 2, "eval_every": 2, "device": "cpu"}}
    for key in ("train", "valid"):
        if isinstance(recipe["data"].get(key), str):
            copied = folder / Path(recipe["data"][key]).name
            shutil.copy(recipe["data"][key], copied)
            recipe["data"][key] = copied.name if draw.random() < 0.8 else draw.choice(FILES)
    for path in sorted({folder / str(recipe["data"].get(key)) for key in ("train", "valid")}):
        if path.is_file() and path.stat().st_size and draw.random() < 0.5:
            draw.choice((change_bytes, change_lines))(path, draw)
    (folder / "mine.toml").write_text(dump(recipe))
    if draw.random() < 0.1:
        draw.choice((change_bytes, change_lines))(folder / "mine.toml", draw)
    words = ["train", "mine.toml", "--out", draw.choice(("run", "run", "run", "folder", "noise", "", "a/b/c"))]
    section = draw.choice(sorted(recipe))
    for _ in range(draw.choice((0, 1, 1, 2))):
        value = draw.choice((*NUMBERS, *map(json.dumps, TEXTS[:20]), "true", "[1, 2]", "[]", '["a"]', "{}"))
        words += ["--set", f"{section}.{draw.choice(sorted(recipe[section]))}={value}"]
    words += ["--set", "train.steps=2"] if draw.random() < 0.9 else []
    return words + some(draw, ["--resume"], 0.1) + some(draw, ["--from", draw.choice((*shipped(), *FILES))], 0.1)


def some(draw: Random, words: list[str], share: float) -> list[str]:
    return words if draw.random() < share else []


def make_files(folder: Path) -> Path:
    """Whole files of every kind."""
    (folder / "folder").mkdir(parents=True)
    (folder / "pairs.tsv").write_text("3 May 1979\t1979-05-03\n5 June 2020\t2020-06-05\n" * 3)
    (folder / "labelled.tsv").write_text("text\tlabel\nI found it dull.\tnegative\nIt was superb.\tpositive\n")
    (folder / "text.txt").write_text("The cat sat.\nThe dog [MASK].\n01010101 11110000\n")
    (folder / "list.txt").write_text("image.png\nnosuch.png\nimage.jpg\n")
    (folder / "prompts.jsonl").write_text('{"prompt": "The", "text": "a b"}\n{"prompt": "A", "text": ""}\n')
    (folder / "table.csv").write_text("source,target,text\n3 May 1979,1979-05-03,a\n")
    (folder / "recipe.toml").write_text((SHIPPED / "dates" / "recipe.toml").read_text())
    (folder / "lines.txt.gz").write_bytes(gzip.compress(b"3 May 1979\t1979-05-03\n" * 5))
    (folder / "noise").write_bytes(bytes(range(256)) * 4)
    (folder / "empty").touch()
    encoded = json.loads((SHIPPED / "scenes" / "examples.json").read_text())["inputs"][0].partition(",")[2]
    (folder / "image.png").write_bytes(base64.b64decode(encoded))
    with Image.open(folder / "image.png") as image:
        for form in ("jpg", "gif"):
            image.convert("RGB").save(folder / f"image.{form}")
        pixels = np.asarray(image.convert("RGB"))
    np.savez(folder / "data.npz", images=np.stack([pixels] * 4), labels=np.array([0, 1, 0, 1]))
    return folder


def spoil_files(folder: Path, draw: Random) -> None:
    """A third of the files, one change each."""
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.stat().st_size and draw.random() < 0.33:
            draw.choice((change_bytes, change_lines))(path, draw)


# ---- Python


@campaign(
    "python",
    "A method of a shipped run, or a function of the package, called with a few usual arguments and one or more "
    "hostile ones of any type.",
    holds="an answer, or an error of `regard.errors`, with a message; no other exception, no crash.",
    reach=5000,
)
@contextmanager
def python(place: Path) -> Iterator[Case]:
    files = make_files(place / "files")
    runs = {name: load(name, "cpu") for name in shipped()}

    def case(draw: Random) -> str:
        folder = place / "case"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(files, folder)
        spoil_files(folder, draw)
        state = draw.getstate()
        ended = in_child(lambda: called(draw, runs), seconds=SECONDS, memory=MEMORY, folder=folder)
        if ended.late:
            return "still at work after the time of a case"
        if ended.result is None:
            draw.setstate(state)
            raise Fault(f"{told_call(*drawn_call(draw, runs))}: status {ended.code}: {ended.said[-500:]}")
        if ended.result["fault"]:
            raise Fault(ended.result["fault"])
        return str(ended.result["end"])

    yield case


def drawn_call(draw: Random, runs: dict[str, Any]) -> tuple[Callable[..., Any], list[Any], dict[str, Any]]:
    name = draw.choice(sorted(runs))
    run = runs[name]
    verb = draw.choice((run.task.verb, run.task.verb, run.task.verb, "evaluate", "save", "export", "to", "about"))
    call = draw.choice(
        (getattr(run, verb), getattr(run, verb), getattr(run, verb), regard.load, regard.load_model, regard.train)
    )
    first = examples(name)
    values = [value for value in VALUES() if call is not regard.train or not isinstance(value, dict)]
    usual = {regard.load: [name], regard.load_model: [name], regard.train: ["nosuch-recipe"]}
    arguments = usual.get(call, [draw.choice(first)] if verb == run.task.verb and first else [])
    if draw.random() < 0.3 or not arguments:
        arguments = [draw.choice(values)]
    keywords: dict[str, Any] = {}
    names = [each.name for each in inspect.signature(call).parameters.values() if each.kind is each.KEYWORD_ONLY]
    for word in draw.sample(names, k=min(len(names), draw.choice((0, 1, 1, 2)))):
        keywords[word] = draw.choice(values)
    if draw.random() < 0.05:
        keywords["nosuch"] = 1
    if "max_tokens" in names and run.task.verb == "generate":
        keywords.setdefault("max_tokens", 4)
    return call, arguments, keywords


def called(draw: Random, runs: dict[str, Any]) -> dict[str, str]:
    """In the child."""
    call, arguments, keywords = drawn_call(draw, runs)
    warnings.simplefilter("ignore")
    fault = ""
    try:
        answer = call(*arguments, **keywords)
        if inspect.isgenerator(answer):
            list(answer)
        repr(answer)
        end = "an answer"
    except TYPED as error:
        end = "a typed error"
        if not str(error).strip():
            fault = f"{told_call(call, arguments, keywords)}: an error without a message"
    except Exception as error:
        end = "an untyped error"
        fault = f"{told_call(call, arguments, keywords)}: {type(error).__name__}: {error!s:.300}"
    return {"end": end, "fault": fault}


def told_call(call: Callable[..., Any], arguments: list[Any], keywords: dict[str, Any]) -> str:
    owner = getattr(call, "__self__", None)
    words = [f"{value!r:.80}" for value in arguments] + [f"{key}={value!r:.80}" for key, value in keywords.items()]
    return f"{type(owner).__name__ + '.' if owner is not None else ''}{call.__name__}({', '.join(words)})"


def examples(name: str) -> list[Any]:
    return list(json.loads((SHIPPED / name / "examples.json").read_text())["inputs"]) + list(TEXTS[:12])


def VALUES() -> tuple[Any, ...]:
    import torch

    return (
        *TEXTS, *map(Path, FILES), *FILES,
        None, True, False, -1, 0, 1, 2, 7, 10**30, 0.5, float("nan"), float("inf"), 1j, b"bytes", bytearray(3),
        [], [None], [[]], ["x", 3], ["a", "b"], ("a", "b"), {}, {"a": 1}, {"a": ["image.png"], "b": ["image.jpg"]},
        {1: 2}, {None}, object(), print, range(3), iter(["a"]), [["a", "b"]], [{"text": "a", "label": "b"}],
        np.zeros(3), np.zeros((4, 4, 3), np.uint8), np.zeros((0, 4, 3), np.uint8), np.full((8, 8), np.nan),
        np.zeros((40, 40, 3), np.uint8), np.array("x"), np.array(None), np.float32("nan"), np.int64(3),
        torch.zeros(3), torch.zeros(3, 8, 8), torch.zeros(2, 3, 4, dtype=torch.int64), torch.tensor(np.nan), ...,
    )  # fmt: skip
