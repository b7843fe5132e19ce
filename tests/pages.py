"""Carries out what a page tells people to do: the one mechanism for the README and every page of the docs.

The blocks of a page are run from top to bottom, in one folder, its Python with shared names. `# -> value` beside an
expression is its result, and the lines below `$ regard ...` are its output; `...` stands for anything. A block with
a title is a file of that name."""

import ast
import gzip
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from PIL import Image

from regard.app.cli import main as cli
from regard.data.made.facts import facts
from regard.data.made.glyphs import glyphs
from regard.data.made.pairs import MADE
from regard.data.made.shapes import shapes
from regard.runs.shipped import SHIPPED as PLACE
from regard.runs.shipped import shipped
from regard.tasks.core import compare, sweep
from regard.tasks.core.recipe import read
from regard.tasks.core.results import Evaluation
from regard.tasks.core.run import Run

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = {path.relative_to(ROOT).as_posix(): path for path in (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))}
SHORT = ("train.steps=2", "train.eval_every=2")
FEW = ("data.train_count=100", "data.valid_count=10", "data.test_count=10")
BRIEF = ("decode.max_length=12",)  # models that have learned nothing write as long as they may
NARROW = ("model.embed=16", "model.encoder=16", "model.decoder=32", "model.readout=16")
RECURRENT = (*BRIEF, *NARROW, "data.batch_tokens=512")
EYE = (
    "model.depths=[1,1]",
    "model.widths=[4,8]",
    "model.stage=-1",
    "model.image_size=32",
    "model.embed=8",
    "model.decoder=8",
    "data.batch_size=8",
    *BRIEF,
)
WORDS = ("model.widths=[1,2]", "model.filters=[4,4]", "model.dim=8", "model.cell=16")
EPISODES = ("data.valid_episodes=4", "data.test_episodes=8", "data.batch_size=2", "model.conv_filters=4")
SMALL = {  # the recipes that pages train by, with less to do
    "bahdanau-dates": (*FEW, *BRIEF, *NARROW),
    "bahdanau-pairs": ("data.train=pairs.tsv", *RECURRENT),
    "luong-pairs": ("data.train=pairs.tsv", *BRIEF, "model.embed=16", "model.dim=16", "data.batch_tokens=512"),
    "transformer-pairs": (
        "data.train=pairs.tsv",
        *BRIEF,
        "model.size=tiny",
        "model.layers=1",
        "data.batch_tokens=512",
    ),
    "transformer-summaries": (
        "data.train=pairs.tsv",
        *BRIEF,
        "model.size=mini",
        "model.layers=1",
        "data.batch_tokens=512",
    ),
    "gpt2-pairs": ("data.train=pairs.tsv", "model.dim=16", "model.layers=1", "data.batch_tokens=512"),
    "gpt2-text": ("data.train=book.txt", "model.dim=16", "model.layers=1", "data.batch_tokens=512"),
    "lstmn-text": ("data.train=book.txt", "model.embed=16", "model.dim=16", "data.batch_tokens=512"),
    "lstmn-labelled": ("data.train=reviews.tsv", "model.embed=8", "model.dim=8", "data.batch_tokens=512"),
    "bert-text": ("data.train=book.txt", "model.size=tiny", "data.batch_tokens=512"),
    "bert-questions": ("data.train=squad.json", "data.length=64", "model.size=tiny", "model.max_positions=64"),
    "facts-bert": ("data.train_count=50", "data.valid_count=20", "data.test_count=20"),
    "facts-pretrain": ("data.train_count=50", "data.valid_count=20", "data.test_count=20"),
    "bert-labelled": ("data.train=reviews.tsv", "model.size=tiny", "data.batch_tokens=512"),
    "vit-images": ("data.train=images", "model.dim=24", "model.layers=1", "data.batch_size=8"),
    "pooling-labelled": ("data.train=reviews.tsv", "model.embed=8", "model.dim=4", "data.batch_tokens=512"),
    "han-labelled": ("data.train=reviews.tsv", "model.embed=8", "model.dim=4", "data.batch_tokens=512"),
    "elmo-text": ("data.train=book.txt", *WORDS, "data.batch_tokens=512"),
    "elmo-labelled": ("data.train=reviews.tsv", "model.reader=4", "data.batch_tokens=512"),
    "senet-images": ("data.train=images", "model.depths=[1,1,1]", "data.batch_size=8"),
    "scenes-show-attend-tell": (*FEW, *EYE),
    "show-attend-tell-captions": ("data.train=captions.tsv", *EYE),
    "show-and-tell-captions": ("data.train=captions.tsv", *EYE),
    "glyphs-snail": ("data.train_count=8", "data.valid_count=6", "data.test_count=6", *EPISODES),
    "snail-images": ("data.train=images", "model.ways=3", *EPISODES),
    "bandit-snail": ("data.batch_size=4", "data.valid_count=4", "data.test_count=4", "model.dim=8"),
    "copy-ntm": ("data.batch_size=2", "data.valid_count=5", "data.test_count=2", "model.dim=8"),
    "copy-lstm": ("data.batch_size=2", "data.valid_count=5", "data.test_count=2", "model.dim=8"),
    "mine.toml": RECURRENT,
}
OTHERS = ("lightning_fabric", "accelerate")  # packages whose blocks are run where they are installed
USUAL_PORT = ":8000"  # of `regard serve`
HELPER = re.compile(r"--(background|status|stop)\b")  # of `regard serve`: not about a server
SERVERS = []  # those that run
SHIPPED = shipped()
EVALUATED: dict[str, str] = {}  # what `regard evaluate` printed of a shipped run
TRAINED: dict[
    str, tuple[str, dict[Path, bytes]]
] = {}  # what a command that trains printed, and the files of its run
EVALUATIONS: dict[Path, Evaluation] = {}  # of shipped runs on their own test data, from Python
EVALUATE = Run._evaluate
WRITTEN = ("--out", "--output", "--alignments", "--show")  # options that name a file or folder to write


class Block(NamedTuple):
    language: str
    title: str  # of a file; "": none
    text: str


def blocks(text: str) -> list[Block]:
    found = re.findall(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', text, re.MULTILINE | re.DOTALL)
    return [Block(*parts) for parts in found]


def read_page(name: str) -> str:
    return PAGES[name].read_text(encoding="utf-8")


def commands(block: Block) -> list[tuple[str, str]]:
    """Every regard command of a block with the answer shown below it ("": none)."""
    found = [(line, "") for line in block.text.splitlines()] if block.language == "bash" else []
    if block.language == "console":
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            line, _, answer = part.partition("\n")
            found.append((line, answer))
    return [(line, answer) for line, answer in found if re.match(r"((echo|cat) .* \| )?regard ", line)]


def shown_commands() -> list[tuple[str, str]]:
    return [one for name in PAGES for block in blocks(read_page(name)) for one in commands(block)]


# ---- a folder with the files that the pages speak of


def write_files(here: Path) -> None:
    """A recipe is looked for as a file first: small ones with the names of those in the package lie here."""
    dates = {"train": MADE["dates"]("train", 200), "test": MADE["dates"]("test", 200)}
    for name, split, count in (("pairs.tsv", "train", 100), ("test.tsv", "test", 20)):
        write_lines(here / name, (f"{source}\t{target}" for source, target in dates[split][:count]))
    tagged = [f"{source}\t{target}\t{tag}" for source, target in dates["train"][:60] for tag in ("de", "fr")]
    write_lines(here / "languages.tsv", tagged)
    for name, side in (("train.en.gz", 0), ("train.de.gz", 1)):
        lines = "".join(f"{pair[side]}\n" for pair in dates["train"][:100])
        (here / name).write_bytes(gzip.compress(lines.encode()))
    for name, split in (("book.txt", "train"), ("other.txt", "test")):
        write_lines(here / name, (f"{source} is {target}." for source, target in dates[split]))
    for name, split in (("reviews.tsv", "train"), ("more.tsv", "test")):
        labels = ((source, "old" if target < "2000" else "new") for source, target in dates[split][:100])
        write_lines(here / name, (f"{source}\t{label}" for source, label in labels))
    write_lines(here / "reviews.csv", ["words,stars", *(f"{source},2" for source, _ in dates["train"][:60])])
    for language, line in (("de", "Guten Morgen!"), ("en", "Good morning!")):
        write_lines(here / f"test.{language}", [line])
    write_lines(here / "long.txt", ["the cat sat on the mat where a dog ran over the hill"] * 20)
    write_lines(here / "words.tsv", ["May\tMai"])
    write_lines(here / "dates.txt", ["3 May 1979", "4 June 1980"])
    rows = [(row.context, row.text, row.answers[0]) for row in facts("train", 40)]
    squad = [
        {
            "context": context,
            "qas": [{"question": text, "answers": [{"text": right.text, "answer_start": right.start}]}],
        }
        for context, text, right in rows
    ]
    (here / "squad.json").write_text(json.dumps({"data": [{"paragraphs": squad}]}))
    write_lines(here / "text.txt", ["Nora lives in Oslo. Tom lives in Rome."])
    write_lines(
        here / "questions.csv", ["question,context", *(f"{text},{context}" for context, text, _ in rows[:5])]
    )
    drawn = shapes("train", 60)
    for number in range(len(drawn)):
        path = here / "images" / drawn.classes[drawn.labels[number]] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(drawn.read(number)).save(path)
    shutil.copy(path, here / "image.png")
    Image.open(path).save(here / "photo.jpg")
    captions = [
        f"{file.relative_to(here)}\ta {file.parent.name}" for file in sorted((here / "images").rglob("*.png"))
    ]
    write_lines(here / "captions.tsv", captions)
    write_lines(here / "list.txt", ["image.png", "images"])
    characters = glyphs("test", 3, examples=2).pixels
    for number, label in enumerate("abc"):
        for folder, image in (
            (f"examples/{label}", characters[2 * number]),
            ("queries", characters[2 * number + 1]),
        ):
            (here / folder).mkdir(parents=True, exist_ok=True)
            Image.fromarray(image[..., 0]).save(here / folder / f"{label}.png")
    for name, changes in SMALL.items():
        if not name.endswith(".toml"):  # those come from the pages
            (here / name).write_text(read(name, [*SHORT, *changes])[1])


def write_foreign(here: Path) -> None:
    """Folders of other libraries, and a run to be pushed."""
    from wrapped_folders import make_folder

    make_folder("llama", here / "llama-folder", num_hidden_layers=12, max_position_embeddings=512)
    for name in ("roberta", "t5", "deit"):
        make_folder(name, here / f"{name}-folder")
    shutil.copytree(PLACE / "dates", here / "runs" / "mine")


def write_lines(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))


# ---- Python


def results(block: str, names: dict[str, object]) -> Iterator[tuple[str, object, str]]:
    """Run Python and yield what it shows: the line, its value, and the text between `# -> ` and two spaces."""
    comments = {
        token.start[0]: token.string.removeprefix("# ->").strip().split("  ")[0]
        for token in tokenize.generate_tokens(io.StringIO(block).readline)
        if token.type == tokenize.COMMENT and token.string.startswith("# ->")
    }
    for statement in ast.parse(block).body:
        text = ast.unparse(statement)
        if statement.end_lineno not in comments:
            exec(compile(text, "page", "exec"), names)
            continue
        assert isinstance(statement, ast.Expr), f"only an expression has a result: {text}"
        yield text, eval(text, names), comments.pop(statement.end_lineno)
    assert not comments, f"these stand beside no expression: {comments}"


def agrees(value: object, shown: str) -> bool:
    """Numbers to the digits that are shown, a text exactly but for ..., all else as it is written."""
    wanted = ast.literal_eval(shown)
    if isinstance(wanted, float):
        return abs(value - wanted) <= 0.5000001 * 10.0 ** -len(shown.partition(".")[2])
    if isinstance(wanted, str) and "..." in wanted:
        return isinstance(value, str) and is_shown(wanted, value)
    return value == wanted


def is_shown(shown: str, printed: str) -> bool:
    """Does the text begin with what is shown, where ... stands for anything?"""
    return bool(re.match(r"[\s\S]*".join(map(re.escape, shown.strip().split("..."))), printed.strip()))


# ---- commands


def run_all(calls, jobs, tell):
    """Trains here: each new process of `regard compare` would spend seconds on importing torch."""
    for number, call in enumerate(calls):
        tell(number, compare._run(*call))


def run_at_once(work, calls, jobs, tell, look):
    """As `run_all`, of `regard sweep`."""
    for number, call in calls:
        tell(number, work(*call))


def short(words: list[str]) -> list[str]:
    """The same command with less to do; of an option given twice the last one counts."""
    if words[0] == "generate":
        return [*words, "--max-tokens", "8" if "--beam" in words else "20"]
    if words[0] == "compare":
        return [*words, "--seeds", "1"]
    if "--episodes" in words:
        return [*words, "--episodes", "10"]
    if "model.pulls=100" in words:
        return [*words, "--set", "model.pulls=12"]
    if words[0] == "train" and "--resume" in words:  # something must be left to do
        return [*words, "--set", "train.steps=3"]
    return words


def evaluate_once(run: Run, data: object, columns: str, **options: object) -> Evaluation:
    """As `run.evaluate`, but a shipped run is evaluated once on the test data of its recipe, for all pages."""
    path = run.folder.path if run.folder else Path()
    if data is not None or columns or options or path.parent != PLACE:
        return EVALUATE(run, data, columns, **options)
    if path not in EVALUATIONS:
        EVALUATIONS[path] = EVALUATE(run, data, columns)
    return EVALUATIONS[path]


def run_command(line: str, monkeypatch, capsys) -> str:
    """Run one command here; what it printed. What only evaluates a shipped run, or trains by a recipe that every
    page finds in its folder, is done once for all pages."""
    if re.fullmatch(r"regard train [\w-]+ .*--out runs/\w+", line) and line.count("runs/") == 1:
        return train_once(line, monkeypatch, capsys)
    evaluated = line.removeprefix("regard evaluate ")
    if evaluated in SHIPPED and evaluated in EVALUATED:
        return EVALUATED[evaluated]
    printed = run_here(line, monkeypatch, capsys)
    if evaluated in SHIPPED:
        EVALUATED[evaluated] = printed
    return printed


def train_once(line: str, monkeypatch, capsys) -> str:
    """Pages whose run is the same get a copy of it."""
    folder = Path(shlex.split(line)[-1])
    if line not in TRAINED:
        printed = run_here(line, monkeypatch, capsys)
        files = (path for path in folder.rglob("*") if path.is_file())
        TRAINED[line] = printed, {path.relative_to(folder): path.read_bytes() for path in files}
        return printed
    printed, contents = TRAINED[line]
    assert not folder.exists(), f"{line}\nwould refuse {folder}, where there is a run"
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return printed


def run_here(line: str, monkeypatch, capsys) -> str:
    before, _, command = line.rpartition("| ")
    if before:
        Path("stdin").write_bytes(subprocess.run(before, shell=True, check=True, capture_output=True).stdout)
    words = short(shlex.split(command, comments=True)[1:])
    with open("stdin" if before else "/dev/null") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys, "argv", ["regard", *words])
        capsys.readouterr()
        try:
            cli.main()
        except SystemExit as stop:
            pytest.fail(f"{line}\nexit {stop.code}: {capsys.readouterr().err}")
    for option, value in pairwise(words):
        if (option in WRITTEN or (words[0] == "export" and option == "--to")) and value != "-":
            assert Path(value).exists(), f"{line} did not write {value}"
    return capsys.readouterr().out


@cache
def serving(line: str):
    """A server at a port that is free, in a thread of this process; it runs until `end_servers`, for all pages that
    start it. `regard` reads the words of the command; tests/app/serve/test_process.py starts it as a program."""
    if not all(map(find_spec, ("starlette", "uvicorn", "multipart", "prometheus_client"))):
        pytest.skip("the extra `serve` is not installed")
    from served_models import Listening

    from regard.app.serve import start

    def listen(runs, *, token, limits, **others):
        SERVERS.append(Listening(*runs, token=token, limits=limits))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(start, "start", listen)
        patch.setattr(sys, "argv", shlex.split(line))
        cli.main()
    return SERVERS[-1]


def end_servers() -> None:
    while SERVERS:
        SERVERS.pop().end()
    serving.cache_clear()


def lacks(text: str) -> bool:
    """Does a block of Python begin with a package that is not among those of `dev`, and not installed?"""
    named = re.match(rf"from ({'|'.join(OTHERS)})\b", text)
    return named is not None and find_spec(named[1]) is None


def carry_out(text: str, monkeypatch, capsys) -> None:
    """Do what a page says, in the current folder, and compare what comes with what it shows."""
    monkeypatch.setattr(compare, "_run_all", run_all)
    monkeypatch.setattr(sweep, "run_at_once", run_at_once)
    monkeypatch.setattr(Run, "_evaluate", evaluate_once)
    names: dict[str, object] = {}
    port = USUAL_PORT
    for block in blocks(text):
        if block.title:
            Path(block.title).write_text(block.text)
            if block.title in SMALL:
                Path(block.title).write_text(read(block.title, [*SHORT, *SMALL[block.title]])[1])
        elif block.language == "python" and not lacks(block.text):
            text = re.sub(r'"(steps|eval_every)": \d+', r'"\1": 2', block.text)  # of a recipe
            for line, value, shown in results(text.replace(USUAL_PORT, port), names):
                assert agrees(value, shown), f"{line} is {value!r:.200}, and the page shows {shown}"
        for line, answer in commands(block):
            if HELPER.search(line):  # tests/app/test_helper.py
                continue
            if line.startswith("regard serve"):
                port = f":{serving(line.partition('#')[0].strip()).port}"
                continue
            printed = run_command(line, monkeypatch, capsys)
            assert is_shown(answer, printed), f"{line} should print\n{answer}but printed\n{printed}"
