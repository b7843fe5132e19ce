"""Nothing is lost: what a command reads is not overwritten, no link is followed, what was done is kept."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import regard
from regard.decode.loop import Loop, Step
from regard.errors import BadInput
from regard.tasks.core import training
from regard.tasks.core.recipe import read
from regard.tasks.core.results import unfinished
from regard.tasks.generate.run import LanguageModel
from regard.tasks.shared import text_reader
from regard.tasks.translate import run as translating
from regard.tasks.translate.run import Translator

ROWS = "a b\tb a\nc d\td c\n"


@pytest.fixture
def own(lively: str, tmp_path: Path) -> Path:
    """A copy of the run, in the folder where commands are called."""
    return Path(shutil.copytree(lively, tmp_path / "run"))


def contents(folder: Path = Path()) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# ---- what is read is not overwritten


@pytest.mark.parametrize(
    "words",
    [
        "translate run --input in.txt --output in.txt",
        "translate run --input in.txt --output link.txt",
        "translate run --input link.txt --output hard.txt",
        "translate run --input in.txt --alignments in.txt",
        "translate run a --dictionary pairs.tsv --output pairs.tsv",
        "translate run a --output run/config.json",
        "translate run a --alignments run/model.safetensors",
        "translate run a --show run/loss.svg",
        "translate run a b --show shown.svg",
        "align run --data pairs.tsv --output pairs.tsv",
        "align run --data in.{txt,en} --output in.en",
        "align run --data pairs.tsv --gold gold.txt --output gold.txt",
        "align run --data pairs.tsv --output run/recipe.toml",
        "evaluate run --data pairs.tsv --show run/loss.svg",
        "evaluate run --data pairs.svg --show pairs.svg",
    ],
)
def test_what_is_read_is_not_overwritten(call: Any, own: Path, words: str) -> None:
    Path("in.txt").write_text("a b\nc d\n")
    Path("in.en").write_text("b a\nd c\n")
    Path("pairs.tsv").write_text(ROWS)
    Path("pairs.svg").write_text(ROWS)
    Path("gold.txt").write_text("1-1\n1-1\n")
    Path("link.txt").symlink_to("in.txt")
    os.link("in.txt", "hard.txt")
    os.link(own / "loss.svg", "shown-2.svg")
    before = contents()
    done = call(*words.split())
    assert (done.code, done.out) == (2, "")
    assert "take another name" in done.err
    assert "would be overwritten" in done.err
    assert contents() == before


def test_a_file_on_stdin_is_not_overwritten(call: Any, lively: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("in.txt").write_text("a b\n")
    before, handle = os.dup(0), os.open("in.txt", os.O_RDONLY)
    os.dup2(handle, 0)
    try:
        with open(0, closefd=False) as file:
            monkeypatch.setattr(sys, "stdin", file)
            done = call("translate", lively, "--output", "in.txt")
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(handle)
    assert (done.code, "would be overwritten" in done.err) == (2, True)
    assert Path("in.txt").read_text() == "a b\n"


def test_other_files_in_the_runs_folder_may_be_written_again(call: Any, own: Path) -> None:
    for _ in range(2):
        assert call("translate", own, "a b", "--output", "run/answers.txt").code == 0


def test_images_of_a_folder_are_not_drawn_over(call: Any, tmp_path: Path) -> None:
    """The data that `evaluate` reads is a folder."""
    for label in ("circle", "square"):
        Path("data", label).mkdir(parents=True)
        Image.new("RGB", (48, 48)).save(f"data/{label}/0.png")
    before = contents()
    done = call("evaluate", "shapes-senet", "--data", "data", "--show", "data/circle/0.png")
    assert (done.code, "would be overwritten" in done.err) == (2, True)
    assert contents() == before


@pytest.mark.parametrize("name", ["log.jsonl", "loss.svg"])
def test_a_training_does_not_write_over_its_data(call: Any, recipe: str, name: str) -> None:
    Path("out").mkdir()
    Path("out", name).write_text(ROWS * 30)
    Path("out/recipe.toml").write_text("")
    before = contents()
    words = ["--set", "data.made=", "--set", f"data.train=out/{name}", "--out", "out"]
    done = call("train", recipe, *words)
    assert (done.code, "would be overwritten" in done.err) == (2, True)
    assert contents() == before


def test_a_recipe_is_not_overwritten_by_its_settings(call: Any, recipe: str) -> None:
    Path("out").mkdir()
    shutil.copy(recipe, "out/recipe.toml")
    done = call("train", "out/recipe.toml", "--out", "out")
    assert done.code == 2
    assert "out/recipe.toml is the recipe that is read, and would be overwritten" in done.err
    assert Path("out/recipe.toml").read_bytes() == Path(recipe).read_bytes()


def test_a_comparison_does_not_write_over_its_data(call: Any, recipe: str) -> None:
    Path("out").mkdir()
    Path("out/from.txt").write_text(ROWS * 30)
    done = call("compare", recipe, "--set", "data.made=", "--set", "data.train=out/from.txt", "--out", "out")
    assert (done.code, "would be overwritten" in done.err) == (2, True)
    assert Path("out/from.txt").read_text() == ROWS * 30


# ---- links


def test_no_link_is_followed_in_the_place_of_a_draft(call: Any, lively: str) -> None:
    Path("victim").write_text("precious")
    Path("out").mkdir()
    Path("out/.tmp-a.txt").symlink_to("../victim")
    assert call("translate", lively, "a b", "--output", "out/a.txt") == (0, "", "")
    assert Path("victim").read_text() == "precious"
    assert Path("out/a.txt").is_file()


def test_no_link_is_followed_in_a_folder_that_is_resumed(call: Any, recipe: str) -> None:
    words = ["train", recipe, "--out", "out", "--set"]
    assert call(*words, "train.steps=1").code == 0
    Path("victim").write_text("precious")
    Path("others").mkdir()
    Path("others/file").write_text("precious")
    Path("out/.tmp-recipe.toml").symlink_to("../victim")
    Path("out/.tmp-folder").symlink_to("../others")
    assert call(*words, "train.steps=2", "--resume").code == 0
    Path("out/log.jsonl").unlink()
    Path("out/log.jsonl").symlink_to("../victim")
    done = call(*words, "train.steps=3", "--resume")
    assert done.code == 2
    assert "out/log.jsonl must be a regular file, and is a link; move it away" in done.err
    assert Path("victim").read_text() == Path("others/file").read_text() == "precious"


def test_links_that_leave_the_folder_are_not_copied(
    gpt2: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "secret").write_text("of this machine")
    folder = Path(shutil.copytree(gpt2, tmp_path / "run", ignore=shutil.ignore_patterns("training")))
    (folder / "notes.txt").symlink_to("../secret")
    (folder / "README.md").unlink()
    (folder / "README.md").symlink_to(tmp_path / "secret")
    (folder / "more.md").symlink_to("recipe.toml")
    run = regard.load(folder)
    run.save(tmp_path / "saved")
    said = capsys.readouterr().err
    for name in ("notes.txt", "README.md"):
        assert f"{folder / name} is a link to a file outside of that folder, and was not copied" in said
        assert not (tmp_path / "saved" / name).exists()
    assert (tmp_path / "saved" / "more.md").read_bytes() == (folder / "recipe.toml").read_bytes()
    run.export(tmp_path / "exported")
    assert "README.md is a link" in capsys.readouterr().err
    assert not (tmp_path / "exported" / "README.md").exists()


# ---- what was done is kept


@pytest.mark.parametrize(("prompt", "output"), [(["9 b"], None), (["--input", "in.txt"], "out.txt")])
def test_a_text_is_written_as_it_comes(
    call: Any, gpt2: str, ctrl_c: Any, monkeypatch: pytest.MonkeyPatch, prompt: list[str], output: str | None
) -> None:
    """Ctrl-C in the middle of a text leaves what there was of it, in a pipe or beside the file."""
    Path("in.txt").write_text("9 b\n")
    words = ["generate", gpt2, *prompt, "--max-tokens", 30, "--seed", 1, *(["--output", output] if output else [])]
    whole = call(*words)
    text = Path(output).read_text() if output else whole.out
    stream = LanguageModel.stream

    def stop(*args: Any) -> Iterator[str]:
        for number, piece in enumerate(stream(*args)):
            if number == 10:
                ctrl_c()
            yield piece

    monkeypatch.setattr(LanguageModel, "stream", stop)
    done = call(*words)
    assert done.code == 130
    part = Path("out.txt.partial").read_text() if output else done.out
    assert text.startswith(part)
    assert len(part) >= 3 + 10
    if output:
        assert done.err.startswith("out.txt.partial keeps what was done, a part of a line; out.txt was not written")
        assert Path(output).read_text() == text


@pytest.mark.parametrize(("most", "pressed"), [(20, 10), (60, 45)])
def test_texts_that_are_written_together_are_kept_so_far(
    call: Any, gpt2: str, ctrl_c: Any, monkeypatch: pytest.MonkeyPatch, most: int, pressed: int
) -> None:
    """Ctrl-C in the middle of a batch, also where its texts are longer than the model sees at once: 32 tokens."""
    prompts = ["9 b", "5 b", "\ud83d", "1 b"]  # the third cannot be read, and has its place
    Path("in.jsonl").write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts))
    words = ["generate", gpt2, "--input", "in.jsonl", "--max-tokens", most, "--seed", 1]
    whole = [json.loads(line) for line in call(*words, "--json").out.splitlines()]
    take, steps = Loop.step, []

    def stop(loop: Loop) -> Step:
        steps.append(loop)
        if len(steps) == pressed:
            ctrl_c()
        return take(loop)

    monkeypatch.setattr(Loop, "step", stop)
    done = call(*words, "--json", "--output", "out.jsonl")
    assert done.code == 130
    assert "the last 3 answers may not be complete\nout.jsonl.partial keeps what was done, 4 lines" in done.err
    parts = [json.loads(line) for line in Path("out.jsonl.partial").read_text().splitlines()]
    assert [part["input"] for part in parts] == [answer["input"] for answer in whole]
    for part, answer in zip(parts, whole, strict=True):
        assert ("error" in part) == ("error" in answer) == (part["input"] is None)
        assert answer.get("text", "").startswith(part.get("text", ""))
        assert part == answer or not part["finished"]
        assert part == answer or part["score"] is None
    assert next(len(part["text"]) >= 9 for part in parts if "text" in part)


def press_at(number: int, function: Any, ctrl_c: Any) -> Any:
    """The same function, with Ctrl-C before it is called for this time, from 1."""
    calls = count(1)

    def pressing(*args: Any, **options: Any) -> Any:
        if next(calls) == number:
            ctrl_c()
        return function(*args, **options)

    return pressing


TEXTS = [
    "a b c d a b",
    "a",
    "b c d",
    "d " * 50,
    "c",
    "b c",
    "a d c b a",
    "d",
    "c b",
]  # one is too long for the model


@pytest.mark.parametrize("as_json", [False, True])
def test_answers_that_came_out_of_order_keep_their_places(
    call: Any, lively: str, ctrl_c: Any, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    """Texts of similar length are translated together. Ctrl-C leaves those that are done, and places for others."""
    Path("in.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    words = ["translate", lively, "--input", "in.txt", *(["--json"] if as_json else [])]
    monkeypatch.setattr(translating, "check_batch", lambda batch, model: 2)
    whole = call(*words).out.splitlines()
    monkeypatch.setattr(Translator, "_search", press_at(3, Translator._search, ctrl_c))
    done = call(*words, "--output", "out.txt")
    assert done.code == 130
    assert "3 of the last 7 inputs were not answered: an empty line, in JSON an error, stands for each" in done.err
    assert "out.txt.partial keeps what was done, 8 lines; out.txt was not written" in done.err
    kept = Path("out.txt.partial").read_text().splitlines()
    for text, line, answer in zip(TEXTS[:8], kept, whole[:8], strict=True):
        if text in ("a", "c", "d", "b c", TEXTS[3]):
            assert line == answer
        elif as_json:
            stopped = "the work was stopped before this was answered"
            assert json.loads(line) == {"input": text, "error": stopped}
        else:
            assert line == ""


@pytest.mark.parametrize("verb", ["fill", "embed", "classify"])
def test_texts_that_were_read_are_kept(
    call: Any, request: pytest.FixtureRequest, verb: str, ctrl_c: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = request.getfixturevalue("classifier" if verb == "classify" else "filler")
    texts = [f"{'cat ' * length}[MASK]" for length in (1, 3, 2, 4)]
    Path("in.txt").write_text("".join(f"{text}\n" for text in texts))
    words = [verb, run, "--input", "in.txt", "--output", "out.jsonl", *([] if verb == "embed" else ["--json"])]
    assert call(*words).code == 0
    whole = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    monkeypatch.setattr(text_reader, "BATCH", 4)  # each text by itself
    monkeypatch.setattr(text_reader, "can_replay", press_at(3, text_reader.can_replay, ctrl_c))
    done = call(*words)
    assert done.code == 130
    kept = [json.loads(line) for line in Path("out.jsonl.partial").read_text().splitlines()]
    assert [row["input"] for row in kept] == texts
    assert ["error" in row for row in kept] == [True, False, True, False]
    for row, answer in zip(kept, whole, strict=True):
        assert "error" in row or row.keys() == answer.keys()


def test_an_error_carries_what_was_done(lively: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In Python too."""
    opened = regard.load(lively)
    whole = opened.translate(["c", "a b c", "b"])

    def press() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(translating, "check_batch", lambda batch, model: 2)
    monkeypatch.setattr(Translator, "_search", press_at(2, Translator._search, press))
    with pytest.raises(KeyboardInterrupt) as stopped:
        opened.translate(["c", "a b c", "b"])
    first, between, last = unfinished(stopped.value)
    assert (first, between, last) == (whole[0], None, whole[2])


# ---- no name is no path


@pytest.mark.parametrize(
    "words",
    [
        ["train", "RECIPE", "--out", ""],
        ["train", "RECIPE", "--out="],
        ["train", ""],
        ["train", "RECIPE", "--from", ""],
        ["demo", "--out", ""],
        ["compare", "RECIPE", "--out", ""],
        ["compare", ""],
        ["translate", "RUN", "a", "--output", ""],
        ["translate", "RUN", "a", "--show", ""],
        ["translate", "RUN", "--input", ""],
        ["translate", "RUN", "a", "--alignments", ""],
        ["translate", "", "a"],
        ["recognise", "shapes", ""],
        ["fewshot", "omniglot", "--support", "", "--query", "a.png"],
        ["fewshot", "omniglot", "--support", ".", "--query", ""],
        ["evaluate", "RUN", "--data", ""],
        ["evaluate", "RUN", ""],
        ["align", "RUN", "--data", "", "--gold", ""],
        ["export", "RUN", "--to", ""],
        ["serve", ""],
    ],
)
def test_no_name_is_no_path(call: Any, run: str, recipe: str, words: list[str]) -> None:
    done = call(*({"RUN": run, "RECIPE": recipe}.get(word, word) for word in words))
    assert (done.code, done.out) == (2, "")
    assert '"" names no file and no folder' in " ".join(done.err.replace("│", " ").split())
    assert not list(Path().iterdir())


def test_nor_is_it_in_python(run: str, recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    opened = regard.load(run)
    for call in (
        lambda: regard.train(recipe, out=""),
        lambda: regard.train(recipe, start=""),
        lambda: regard.load(""),
        lambda: regard.load_model(""),
        lambda: opened.save(""),
        lambda: opened.export(""),
        lambda: opened.evaluate(""),
    ):
        with pytest.raises(BadInput, match=r'""|is empty'):
            call()
    assert not list(tmp_path.iterdir())


# ---- control characters


def test_class_names_do_not_reach_a_terminal_raw(
    call: Any, tmp_path: Path, encoders: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("\x1b[31mred", "\x1b]0;title\x07")
    odd = encoders.build(tmp_path / "\x1b[2Jodd", head="classify", labels=names)
    Path("rows.tsv").write_text("the cat\t\x1b[31mred\nthe dog\t\x1b]0;title\x07\n")
    piped = call("classify", odd, "the cat")
    assert any(name in piped.out for name in names), "data stays exact"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for words in (["classify", odd, "the cat"], ["evaluate", odd, "--data", "rows.tsv"]):
        done = call(*words)
        assert done.code == 0
        assert "\x1b" not in done.out + done.err
        assert "\\x1b" in done.out
    done = call("classify", odd, "the cat", "--show", "-")
    assert "\x1b[31mred" not in done.out
    assert "\x1b]0" not in done.out
    for words in (["evaluate", odd, "--data", "\x1b[2J.tsv"], ["translate", odd, "a"], ["train", "x", "--\x1b[2J"]):
        done = call(*words)
        assert done.code == 2
        assert "\x1b" not in done.err


# ---- memory


def test_too_many_environments_are_refused(call: Any) -> None:
    done = call("evaluate", "copy", "--test-count", "1000000000")
    assert (done.code, done.out) == (2, "")
    assert "--test-count" in done.err
    assert "1000000" in done.err


def test_a_training_says_what_to_lower(recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(training, "run_loop", fail)
    job, text = read(recipe)
    said = r"training bahdanau on reverse needs more memory than there is; lower data.batch_tokens or "
    with pytest.raises(MemoryError, match=said):
        training.train(job, tmp_path / "run", recipe=text, command="")
