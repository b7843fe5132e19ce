"""Commands under torchrun: two processes give what one gives. Started once, as each waits for torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from PIL import Image

from regard.base.divided import divided, dividing, each, each_of_first
from regard.data.made.scenes import scenes
from regard.tasks.core.table import TASKS, load
from regard.tasks.shared import image_run, text_reader
from regard.tasks.translate import run as translating

PATIENCE = 180  # seconds
AHEAD, PART = 1, 2  # so few inputs are answered together that small files are divided
TEXTS = [f"{'abcdefgh'[: number % 7 + 1]} {'hgfedcba'[number % 5 :]}" for number in range(240)]
SCENES = scenes("test", 5)
TEXTS[3], TEXTS[100] = "", "a" * 100  # nothing to translate, and more than the model takes
SCRIPT = """
import json, os, signal, sys
from pathlib import Path
import regard
from regard.app.cli.main import main
from regard.base.divided import divided, each, each_of_first
from regard.data.text import windows
from regard.data.text.tokenizer import Tokenizer
from regard.tasks.shared import image_run, text_reader
from regard.tasks.translate import align as aligning
from regard.tasks.translate import prepare as preparing
from regard.tasks.translate import run as translating
from regard.tasks.translate.run import Translator

rank, (commands, run, last) = int(os.environ["RANK"]), json.loads(Path("commands.json").read_text())
translating.AHEAD, text_reader.PART, image_run.BATCH = {ahead}, {part}, {part}
if rank:
    aligning.read_pairs = None  # the first process alone reads the pairs
made, make = [], windows._batch
windows._batch = lambda *parts: made.append(1) or make(*parts)
preparing.PART = 10  # pairs that are tokenised at a time
texts, encode_batch = [], Tokenizer.encode_batch
Tokenizer.encode_batch = lambda self, part: texts.extend(part) or encode_batch(self, part)
sources, reads, read = [], [], Translator.read
Translator.read = lambda self, text: sources.append(text) or read(self, text)

def command(words):
    sys.argv = ["regard", *words]
    sources.clear()
    try:
        main()
    except SystemExit as end:
        return end.code
    finally:
        reads.append(len(sources))
    return 0

def outcome(function):
    def work(piece, tick):
        if piece == 3:
            raise ValueError("three")
        yield from (piece, os.environ["RANK"])
    found = []
    try:
        for result in function(range(6), work):
            found.append(result)
    except ValueError as error:
        found.append([str(error), error.of_rank])
    return found

def differently():
    try:
        return list(each(range(2 + rank), lambda piece, tick: [piece]))
    except regard.errors.DataError as error:
        return str(error)

told = {{"codes": [command(words) for words in commands], "windows": len(made), "tokenised": len(texts)}}
told["read"] = reads[5]
with divided():
    told["each"] = outcome(each)
    told["each_of_first"] = outcome(each_of_first)
    told["differently"] = differently()
    told["evaluated"] = regard.load(run).evaluate().to_dict()
told["imported"] = [name for name in ("torch._dynamo", "sympy", "matplotlib") if name in sys.modules]
Path(f"told-{{rank}}.json").write_text(json.dumps(told))

answers, calls = Translator.answers, []
def killed(*args, **keywords):
    calls.append(1)
    if rank == 1 and len(calls) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return answers(*args, **keywords)
Translator.answers = killed
sys.exit(command(last))
"""


class Session(NamedTuple):
    code: int
    out: str
    err: str
    told: list[dict[str, Any]]  # by rank
    folder: Path


def commands(folder: Path, run: str, gpt2: str, classifier: str) -> list[list[str]]:
    """All of them write into the folder."""
    return [
        ["translate", run, "--input", "texts.txt", "--output", f"{folder}/texts", "--beam", "2", "--n-best", "2"],
        [
            "generate",
            gpt2,
            "--input",
            "prompts.txt",
            "--output",
            f"{folder}/prompts",
            "--max-tokens",
            "8",
            "--json",
        ],
        ["embed", classifier, "--input", "prompts.txt", "--output", f"{folder}/vectors.npy"],
        [
            "classify",
            classifier,
            "--input",
            "few.txt",
            "--output",
            f"{folder}/classes",
            "--show",
            f"{folder}/a.svg",
        ],
        ["align", run, "--data", "pairs.tsv", "--output", f"{folder}/links"],
        ["evaluate", run, "--data", "pairs.tsv", "--json"],
        ["evaluate", gpt2, "--data", "texts.txt", "--json"],
        ["caption", "scenes", "--input", "images.txt", "--output", f"{folder}/captions"],
    ]


def write_inputs(folder: Path) -> None:
    (folder / "texts.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    (folder / "prompts.txt").write_text("".join(f"{number} bottles of beer\n" for number in range(20)))
    (folder / "few.txt").write_text("the cat sat\na dog barked !\ncats\nall day\na bird and a dog\n")
    for number in range(len(SCENES)):
        Image.fromarray(SCENES.images.read(number)).save(folder / f"{number}.png")
    (folder / "images.txt").write_text("".join(f"{number}.png\n" for number in range(len(SCENES))))
    (folder / "pairs.tsv").write_text("".join(f"{text}\t{text[::-1]}\n" for text in TEXTS[4:100]))


@pytest.fixture(scope="module")
def session(lively: str, gpt2: str, classifier: str, tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder = tmp_path_factory.mktemp("divided")
    (folder / "two").mkdir()
    write_inputs(folder)
    last = ["translate", lively, "--input", "texts.txt", "--output", "two/killed"]
    asked = [*commands(Path("two"), lively, gpt2, classifier), ["serve", lively]]
    (folder / "commands.json").write_text(json.dumps([asked, lively, last]))
    (folder / "script.py").write_text(SCRIPT.format(ahead=AHEAD, part=PART))
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    words += ["--run-path", "--start-method", "fork", "script.py"]  # without importing torch three times
    here = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    here["LOGLEVEL"] = "CRITICAL"  # of torchrun, which imports torch's compiler to format an error
    done = subprocess.run(words, cwd=folder, env=here, capture_output=True, text=True, timeout=PATIENCE)
    told = [json.loads(file.read_text()) for file in sorted(folder.glob("told-*.json"))]
    assert len(told) == 2, done.stderr
    return Session(done.returncode, done.stdout, done.stderr, told, folder)


def test_two_processes_write_what_one_writes(
    session: Session,
    call: Any,
    lively: str,
    gpt2: str,
    classifier: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Files, pictures, metrics to the last digit, and what is said of an input that cannot be answered."""
    monkeypatch.setattr(text_reader, "PART", PART)
    monkeypatch.setattr(image_run, "BATCH", PART)
    monkeypatch.setattr(translating, "AHEAD", AHEAD)
    write_inputs(tmp_path)
    (tmp_path / "one").mkdir()
    outcomes = [call(*words) for words in commands(Path("one"), lively, gpt2, classifier)]
    for file in sorted((tmp_path / "one").iterdir()):
        assert (session.folder / "two" / file.name).read_bytes() == file.read_bytes(), file.name
    assert session.out == "".join(outcome.out for outcome in outcomes)
    assert outcomes[0].err in session.err
    assert session.told[0]["codes"] == [*(outcome.code for outcome in outcomes), 2]


def test_only_one_process_speaks(session: Session) -> None:
    assert session.err.count("were not answered") + session.err.count("was not answered") == 1
    assert [session.err.count(f"wrote two/a-{number}.svg") for number in (1, 5)] == [1, 1]


def test_a_process_makes_its_own_batches_of_text(session: Session, gpt2: str) -> None:
    run = load(gpt2)
    desk = TASKS["generate"].desk
    with desk.test_data(run, desk.test_settings(run.folder, str(session.folder / "texts.txt"))) as data:
        count = len(list(data.windows.order()))
    assert count > 1
    assert [told["windows"] for told in session.told] == [-(-count // 2), count // 2]


def test_a_process_tokenises_its_part_of_the_test_data(session: Session) -> None:
    """Of 96 pairs, 10 at a time; and of the sources those that it translates, 64 at a time."""
    assert [told["tokenised"] for told in session.told] == [2 * 50, 2 * 46]
    assert [told["read"] for told in session.told] == [64, 32]


def test_serve_is_one_process(session: Session) -> None:
    assert [told["codes"][-1] for told in session.told] == [2, 2]


def test_to_answer_imports_no_compiler(session: Session) -> None:
    """Each would take more than a second, before the first answer."""
    assert [told["imported"] for told in session.told] == [[], []]


def test_an_error_comes_in_its_turn_in_every_process(session: Session) -> None:
    """Piece 3 belongs to the second process. Of pieces that the first one reads, only it gets the results."""
    before = [0, "0", 1, "1", 2, "0", ["three", 1]]
    assert [told["each"] for told in session.told] == [before, before]
    assert [told["each_of_first"] for told in session.told] == [before, [["three", 1]]]


def test_processes_that_read_different_data_are_told_and_do_not_hang(session: Session) -> None:
    said = "the processes read different data (batches: rank 0 2, rank 1 3); give all of them the same files"
    assert [told["differently"] for told in session.told] == [said, said]


def test_python_gets_the_whole_evaluation_in_every_process(session: Session, lively: str) -> None:
    alone = json.loads(json.dumps(load(lively).evaluate().to_dict()))
    assert [told["evaluated"] for told in session.told] == [alone, alone]


def test_what_was_done_is_kept_if_a_process_is_killed(session: Session) -> None:
    """The second process dies in its second part: the first two parts, of 64 texts each, were written."""
    assert session.code == 1
    kept = session.folder / "two" / "killed.partial"
    assert not (session.folder / "two" / "killed").exists()
    assert f"{kept.relative_to(session.folder)} keeps what was done" in session.err
    assert len(kept.read_text().splitlines()) == 128


def work(piece: int, tick: Any) -> Sequence[int]:
    tick()
    return [piece, -piece]


@pytest.mark.parametrize("function", [each, each_of_first])
def test_one_process_does_all_itself(function: Any) -> None:
    ticks: list[None] = []
    with divided():
        assert not dividing()
        assert list(function(range(3), work, tick=lambda: ticks.append(None))) == [0, 0, 1, -1, 2, -2]
    assert len(ticks) == 3
