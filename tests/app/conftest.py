"""Small runs of every task, and the command line called in this process."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from forked import Child, Parent
from small_models import save_encoder

from regard.app.cli.main import DEBUG, main
from regard.data.text.tokenizer import Tokenizer
from regard.runs.folder import save_weights
from regard.tasks.core import compare, sweep
from regard.tasks.core.recipe import read
from regard.tasks.core.table import load
from regard.tasks.core.training import train

VECTOR = """
[model]
name = "seq2seq"
cell = "rnn"
embed = 8
dim = 16
max_positions = 40
"""


LINES = "".join(f"{number} bottles of beer\n" for number in range(99, 0, -1))
REST = "[train]\nsteps = 10\nlearning_rate = 0.02\neval_every = 10\n"
GPT2 = """[data]
train = "{folder}/text.txt"
valid = "{folder}/valid.txt"
batch_tokens = 256
[tokens]
kind = "character"
[model]
name = "gpt2"
dim = 16
layers = 2
heads = 2
max_positions = 32
[decode]
temperature = 0.8
top_k = 10
"""
RNNLM = """[data]
train = "{folder}/text.txt"
length = 32
batch_tokens = 256
[tokens]
kind = "character"
[model]
name = "rnnlm"
embed = 8
dim = 8
max_positions = 64
"""
TRANSFORMER = """[data]
made = "reverse"
train_count = 200
valid_count = 20
batch_tokens = 512
[tokens]
kind = "character"
[model]
name = "transformer"
dim = 16
layers = 2
heads = 2
ff = 32
max_positions = 40
[decode]
max_length = 20
"""
RECIPES = {"gpt2": GPT2, "rnnlm": RNNLM, "transformer": TRANSFORMER}

SENTENCES = ["the cat sat on the mat .", "a dog barked at the cats !", "dogs and cats play outside all day ."]
LABELS = ("bad", "fair", "good")
LABELLED = """
[data]
train = "{folder}/train.tsv"
valid = "{folder}/train.tsv"
batch_tokens = 256

[tokens]
kind = "wordpiece"
size = 120

[model]
name = "bert"
dim = 16
layers = 1
heads = 2
max_positions = 16
head = "classify"

[train]
steps = 2
learning_rate = 0.001
eval_every = 2
"""


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


Call = Callable[..., Outcome]


@pytest.fixture(scope="session")
def recipe(recipe: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The recipe of the other tests, for another generated set and with fewer steps."""
    path = tmp_path_factory.mktemp("recipe") / "tiny.toml"
    path.write_text(Path(recipe).read_text().replace('"copy"', '"reverse"').replace("steps = 6", "steps = 4"))
    return str(path)


def trained(folder: Path, recipe: str, *changes: str) -> str:
    job, text = read(recipe, changes)
    train(job, folder, recipe=text, command="regard train tiny")
    return str(folder)


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory, recipe: str) -> str:
    """The folder of a trained run. Tests only read it, and the others below."""
    return trained(tmp_path_factory.mktemp("run") / "tiny", recipe)


@pytest.fixture(scope="session")
def lively(run: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A copy of the run with drawn weights, whose answers differ from text to text."""
    folder = tmp_path_factory.mktemp("lively") / "run"
    shutil.copytree(run, folder, ignore=shutil.ignore_patterns("training"))
    model = load(folder).model.cpu()
    torch.manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter))
    save_weights(folder, model)
    return str(folder)


@pytest.fixture(scope="session")
def worded(recipe: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run that knows few words, so that its answers are mostly <unk>."""
    changes = ("tokens.kind=word", "tokens.size=12", "train.steps=8", "train.eval_every=4")
    return trained(tmp_path_factory.mktemp("worded") / "worded", recipe, *changes)


@pytest.fixture(scope="session")
def vector(recipe: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A seq2seq run of plain RNNs: it looks at nothing and has no gates."""
    folder = tmp_path_factory.mktemp("vector")
    text = Path(recipe).read_text()
    before, after = text.split("[model]")[0], text.split("[train]")[1]
    (folder / "vector.toml").write_text(f"{before}{VECTOR}\n[train]{after}")
    return trained(folder / "vector", str(folder / "vector.toml"))


# ---- language models and a Transformer


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with texts and recipes for `gpt2`, `rnnlm` and `transformer`."""
    folder = tmp_path_factory.mktemp("texts")
    (folder / "text.txt").write_text(LINES)
    (folder / "valid.txt").write_text("44 bottles of beer\n13 beers\n")
    for name, text in RECIPES.items():
        (folder / f"{name}.toml").write_text(text.format(folder=folder) + REST)
    return folder


@pytest.fixture(scope="session")
def gpt2(texts: Path) -> str:
    return trained(texts / "gpt2", str(texts / "gpt2.toml"))


@pytest.fixture(scope="session")
def rnnlm(texts: Path) -> str:
    return trained(texts / "rnnlm", str(texts / "rnnlm.toml"))


@pytest.fixture(scope="session")
def transformer(texts: Path) -> str:
    return trained(texts / "transformer", str(texts / "transformer.toml"))


# ---- encoders of text


class Encoders:
    """Encoders with drawn weights, whose answers differ from text to text."""

    sentences, labels, labelled, max_positions = SENTENCES, LABELS, LABELLED, 16

    def build(self, folder: Path, **changes: Any) -> str:
        tokens = Tokenizer.train(self.sentences * 3, kind="wordpiece", size=120, lowercase=True, numbering="bert")
        settings = {"dim": 16, "layers": 2, "heads": 2, "max_positions": self.max_positions, **changes}
        save_encoder(folder, tokens, seed=5, **settings)
        return str(folder)


@pytest.fixture(scope="session")
def encoders() -> Encoders:
    return Encoders()


@pytest.fixture(scope="session")
def filler(tmp_path_factory: pytest.TempPathFactory, encoders: Encoders) -> str:
    return encoders.build(tmp_path_factory.mktemp("filler") / "filler")


@pytest.fixture(scope="session")
def classifier(tmp_path_factory: pytest.TempPathFactory, encoders: Encoders) -> str:
    return encoders.build(tmp_path_factory.mktemp("classifier") / "classifier", head="classify", labels=LABELS)


@pytest.fixture(scope="session")
def headless(tmp_path_factory: pytest.TempPathFactory, encoders: Encoders) -> str:
    return encoders.build(tmp_path_factory.mktemp("headless") / "headless", head="none", pooler=False)


@pytest.fixture(scope="session")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A recipe for labelled texts."""
    folder = tmp_path_factory.mktemp("reviews")
    rows = [
        (f"the {word} {animal}", label)
        for label, word in zip(LABELS, ("dull", "plain", "fine"), strict=True)
        for animal in ("cat", "dog", "bird", "fish")
    ]
    (folder / "train.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in rows))
    (folder / "reviews.toml").write_text(LABELLED.format(folder=folder))
    return str(folder / "reviews.toml")


# ---- the command line


@pytest.fixture
def ctrl_c(signals_heard: None) -> Callable[[], None]:
    """Press it."""
    return lambda: signal.raise_signal(signal.SIGINT)


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """`regard compare` and `regard sweep` train in this process; test_process.py has them with their own."""

    def run_all(calls: list[tuple[Any, ...]], jobs: int, tell: Callable[[int, Any], None]) -> None:
        for number, each in enumerate(calls):
            tell(number, compare._run(*each))

    def run_at_once(work: Any, calls: Any, jobs: int, tell: Callable[[int, Any], None], look: Any) -> None:
        for number, call in calls:
            try:
                tell(number, work(*call))
            except ValueError as error:
                tell(number, error)

    monkeypatch.setattr(compare, "_run_all", run_all)
    monkeypatch.setattr(sweep, "run_at_once", run_at_once)


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Call:
    """`regard ...` in this process and in an empty folder: its exit code, stdout and stderr."""
    monkeypatch.setenv(DEBUG, "")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)

    def run(*words: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["regard", *map(str, words)])
        capfd.readouterr()
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        return Outcome(code, *capfd.readouterr())

    return run


@pytest.fixture(scope="session")
def started() -> Iterator[Callable[..., AbstractContextManager[Child]]]:
    """`regard ...` in a process of its own."""
    with Parent() as parent:
        yield parent.start
