"""Fixtures of several folders. What imports torch does so when it is asked for."""

from __future__ import annotations

import faulthandler
import gc
import os
import random
import signal
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer.main

from regard.show import Curves

if TYPE_CHECKING:
    from regard.learn.loop import Report
    from regard.tasks.translate.run import Translator

os.environ["HF_HUB_OFFLINE"] = "1"  # read when huggingface_hub is imported: no test asks the network
gc.disable()  # until every test is collected: imports make millions of objects and no garbage
SAVE = Curves.save
ENDS_AFTER = 400  # seconds, after which the process of a test that hangs outside Python ends
REARMED = 60
LONG = (
    "tests/browser",
    "tests/test_",
    "tests/app/test_process",
    "tests/app/serve/test_process",
    "tests/learn/test_resume",
)
# A model that has learned nothing writes as long as it may.
RECIPE = """# A few tiny steps.
[data]
made = "copy"
train_count = 200
valid_count = 30
test_count = 20
batch_tokens = 512

[tokens]
kind = "character"

[model]
name = "bahdanau"
embed = 8
encoder = 8
decoder = 16
readout = 8
max_positions = 40

[train]
steps = 6
learning_rate = 0.02
eval_every = 2

[decode]
max_length = 20
"""

# Word for word, in the same order; names are each seen once, so that they are unknown on both sides.
LEXICON = {
    "one": "eins",
    "two": "zwei",
    "three": "drei",
    "four": "vier",
    "five": "fünf",
    "six": "sechs",
    "seven": "sieben",
    "eight": "acht",
}
WORDS = """
[data]
train = "{folder}/train.tsv"
valid = "{folder}/valid.tsv"
batch_tokens = 512

[tokens]
kind = "word"
size = 12
joint = false

[model]
name = "bahdanau"
embed = 24
encoder = 24
decoder = 32
readout = 24
max_positions = 40
dropout = 0.0

[train]
steps = 150
learning_rate = 0.01
eval_every = 150

[decode]
max_length = 16
"""


class Backwards(pytest.Dir):
    """A folder whose last file is collected first."""

    def collect(self) -> list[Any]:
        return list(super().collect())[::-1]


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Every other worker collects from the end: in a fresh clone two workers then compile half of the tests each,
    and read what the other has compiled, instead of all of them at the same time."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    return Backwards.from_parent(parent, path=path) if int(worker[2:]) % 2 else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """By file, in whichever order these were collected. Then files with long tests first: at the end, when one
    worker has nothing left to do, only short tests are left to take from the other."""
    items.sort(key=lambda item: item.path)
    yield
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))


def pytest_collection_finish() -> None:
    """What is there now stays to the end, so that no collection of garbage goes through it again; later imports are
    gone through less often."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Watchdog(), "watchdog")
    if hasattr(config, "workerinput") and not (config.option.durations or config.option.xmlpath):
        _send_less(config)


class Watchdog:
    """Ends the process of a test that hangs outside Python, where pytest-timeout does not reach it, and says where
    it hangs; xdist goes on with another process. As pytest's `faulthandler_timeout`, except that not every test
    starts a thread and ends it."""

    def __init__(self) -> None:
        self.stderr = os.dup(2)  # that of tests is captured
        self.armed = 0.0

    def pytest_runtest_logstart(self) -> None:
        if not self.armed or time.monotonic() > self.armed + REARMED:
            faulthandler.dump_traceback_later(ENDS_AFTER + REARMED, exit=True, file=self.stderr)
            self.armed = time.monotonic()

    def pytest_exception_interact(self) -> None:
        self.armed = 0.0  # pytest has disarmed it

    def pytest_sessionfinish(self) -> None:
        faulthandler.cancel_dump_traceback_later()


def _send_less(config: pytest.Config) -> None:
    """A worker sends six messages for each test, which takes longer than most tests. Nothing shows four of them:
    that the test starts and ends, and that there was nothing wrong before and after it."""
    interactor = next(plugin for plugin in config.pluginmanager.get_plugins() if hasattr(plugin, "sendevent"))
    send = interactor.sendevent

    def sendevent(name: str, **values: Any) -> None:
        report = values["data"] if name == "testreport" else {}
        uneventful = report.get("when") in ("setup", "teardown") and report["outcome"] == "passed"
        if name not in ("logstart", "logfinish") and not uneventful:
            send(name, **values)

    interactor.sendevent = sendevent


@dataclass(frozen=True)
class Run:
    folder: Path
    report: Report
    translator: Translator


@pytest.fixture(scope="session", autouse=True)
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One fixture and not several, since every test asks for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(tmp_path_factory.mktemp("cache")))  # and not the user's own
        _short_trainings(patch)
        _auto_is_the_cpu(patch)
        _seeds_of_what_is_there(patch)
        # typer builds every command anew each time `regard` is called, which takes longer than most calls.
        patch.setattr(typer.main, "get_command", cache(typer.main.get_command))
        yield


def _short_trainings(patch: pytest.MonkeyPatch) -> None:
    """A training of a few steps spends most of its time waiting for the disk and drawing its loss curve. The `run`
    below draws one, tests/show draws others, and tests of a full disk replace `fsync` themselves."""

    def save(self: Curves, path: str | Path) -> None:
        if Path(path).name == "loss.svg":
            Path(path).write_text("<svg/>")
        else:
            SAVE(self, path)

    patch.setattr(os, "fsync", lambda handle: None)
    patch.setattr(Curves, "save", save)


def _auto_is_the_cpu(patch: pytest.MonkeyPatch) -> None:
    """Tests compare with tensors on the CPU, also where there is a GPU; those that want the GPU name it."""
    from regard.base import device

    patch.setattr(device, "best_device", lambda: "cpu")


def _seeds_of_what_is_there(patch: pytest.MonkeyPatch) -> None:
    """For each kind of device that is not there, `torch.manual_seed` keeps a traceback, which takes longer than
    many a small model."""
    import torch

    for kind in (torch.cuda, torch.xpu, torch.mtia):
        if not kind.is_available():
            patch.setattr(kind, "manual_seed_all", lambda seed: None)


@pytest.fixture(scope="session")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file with a recipe of a few tiny steps."""
    path = tmp_path_factory.mktemp("recipe") / "tiny.toml"
    path.write_text(RECIPE)
    return str(path)


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory, recipe: str) -> Run:
    """A trained run. Tests only read it."""
    folder = tmp_path_factory.mktemp("run") / "tiny"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Curves, "save", SAVE)
        report = _train(recipe, folder)
    return Run(folder, report, _load(folder))


@pytest.fixture(scope="session")
def words(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file with a recipe by which a model learns LEXICON and where to look, in seconds."""
    folder = tmp_path_factory.mktemp("words")
    for name, count in (("train", 1000), ("valid", 40)):
        lines = (f"{source}\t{target}\n" for source, target in _sentences(name, count))
        (folder / f"{name}.tsv").write_text("".join(lines))
    path = folder / "words.toml"
    path.write_text(WORDS.format(folder=folder))
    return str(path)


@pytest.fixture(scope="session")
def lexicon(tmp_path_factory: pytest.TempPathFactory, words: str) -> Run:
    """A run that knows LEXICON, with a vocabulary for each side. Tests only read it."""
    folder = tmp_path_factory.mktemp("lexicon") / "run"
    report = _train(words, folder)
    return Run(folder, report, _load(folder))


@pytest.fixture(scope="module")
def quiet_transformers() -> Iterator[None]:
    """transformers draws bars, gives advice, and tells of tensors that it misses or has no use for."""
    import transformers

    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    yield
    transformers.logging.set_verbosity(level)
    transformers.logging.enable_progress_bar()


@pytest.fixture
def train() -> Callable[..., Report]:
    return _train


@pytest.fixture
def signals_heard() -> Iterator[None]:
    """For tests that send signals: these have their usual effect also where the tests were started with them
    ignored, as in the background of a script."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch, signals_heard: None) -> Callable[..., None]:
    """As `train`, but Ctrl-C is pressed while the first validation runs."""

    from regard.errors import Interrupted
    from regard.learn.validation import Validation

    def start(recipe: str, folder: Path, *changes: str) -> None:
        measure = Validation.measure

        def press(*args: Any) -> dict[str, float]:
            os.kill(os.getpid(), signal.SIGINT)
            return measure(*args)

        with monkeypatch.context() as patch:
            patch.setattr(Validation, "measure", press)
            with pytest.raises(Interrupted, match=r"Go on with --resume"):
                _train(recipe, folder, *changes)

    return start


def _train(recipe: str, folder: Path, *changes: str, resume: bool = False) -> Report:
    from regard.tasks.core import training
    from regard.tasks.core.recipe import read

    job, text = read(recipe, changes)
    return training.train(job, folder, recipe=text, command="regard train tiny", resume=resume)


def _load(folder: Path) -> Any:
    from regard.tasks.core.table import load

    return load(folder)


def _sentences(seed: str, count: int) -> list[tuple[str, str]]:
    draw, pairs = random.Random(seed), []
    for number in range(count):
        source = draw.choices(list(LEXICON), k=draw.randint(1, 5))
        target = [LEXICON[word] for word in source]
        if draw.random() < 0.5:
            place = draw.randrange(len(source))
            source[place], target[place] = f"name{number}", f"title{number}"
        pairs.append((" ".join(source), " ".join(target)))
    return pairs
