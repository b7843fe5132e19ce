"""What the README and CONTRIBUTING tell people to do is done here."""

import gzip
import importlib
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import Executor, Future
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from PIL import Image
from typer.main import get_command

from regard.app.cli import main as cli
from regard.data.batch import PairData
from regard.data.made import MADE
from regard.data.shapes import shapes
from regard.models import MODELS
from regard.tasks.recipe import read

ROOT = Path(__file__).parent.parent
README, CONTRIBUTING = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "CONTRIBUTING.md"))
SHORT = ("train.steps=2", "train.eval_every=2", "data.batch_tokens=512")
SMALL = {  # of recipes that train a model of their own size
    "bahdanau-pairs": ("model.embed=16", "model.encoder=16", "model.decoder=16", "model.readout=16"),
    "mine.toml": ("model.embed=16", "model.encoder=16", "model.decoder=16", "model.readout=16"),
    "luong-pairs": ("model.embed=16", "model.dim=16"),
    "gpt2-text": ("model.dim=16", "model.layers=1"),
    "bert-text": ("model.size=tiny",),
    "vit-images": ("model.dim=24", "data.batch_size=8"),
}
FEW = ("data.train_count=200", "data.valid_count=20", "data.test_count=20")


def blocks(text: str, *languages: str) -> list[str]:
    found = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for language, block in found if language in languages]


def steps() -> list[tuple[str, str]]:
    """Every regard command of the README with the answer shown below it ("": none); those without come first."""
    found = [(line, "") for block in blocks(README, "bash") for line in block.splitlines()]
    for block in blocks(README, "console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, _, answer = part.partition("\n")
            found.append((line, answer))
    return [(line, answer) for line, answer in found if re.match(r"(echo .* \| )?regard ", line)]


def short(words: list[str]) -> list[str]:
    """The same command with less to do; of an option given twice the last one counts."""
    if words[0] == "generate":
        return [*words, "--max-tokens", "20"]
    if words[0] not in ("train", "compare"):
        return words
    changes = [one for one in SHORT if words[1] != "vit-images" or one != "data.batch_tokens=512"]
    if "--from" not in words:
        changes += SMALL.get(words[1], ())
    if "--resume" in words:  # something must be left to do
        changes.append("train.steps=3")
    once = ["--seeds", "1"] if words[0] == "compare" else []
    return [*words, *once, *(word for change in changes for word in ("--set", change))]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with the files that the README speaks of.

    A recipe is looked for as a file first: a small bahdanau-dates lies here, which `regard demo` takes too."""
    here = tmp_path_factory.mktemp("readme")
    (here / "bahdanau-dates").write_text(read("bahdanau-dates", [*SHORT, *FEW])[1])
    dates = {"train": MADE["dates"]("train", 200), "test": MADE["dates"]("test", 200)}
    for name, split, count in (("pairs.tsv", "train", 100), ("test.tsv", "test", 20)):
        write_lines(here / name, (f"{source}\t{target}" for source, target in dates[split][:count]))
    for name, side in (("train.en.gz", 0), ("train.de.gz", 1)):
        lines = "".join(f"{pair[side]}\n" for pair in dates["train"][:100])
        (here / name).write_bytes(gzip.compress(lines.encode()))
    for name, split in (("book.txt", "train"), ("other.txt", "test")):
        write_lines(here / name, (f"{source} is {target}." for source, target in dates[split]))
    for name, split in (("reviews.tsv", "train"), ("more.tsv", "test")):
        labels = ((source, "old" if target < "2000" else "new") for source, target in dates[split][:100])
        write_lines(here / name, (f"{source}\t{label}" for source, label in labels))
    drawn = shapes("train", 60)
    for number in range(len(drawn)):
        path = here / "images" / drawn.classes[drawn.labels[number]] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(drawn.read(number)).save(path)
    shutil.copy(path, here / "image.png")
    write_lines(here / "words.tsv", ["May\tMai"])
    write_lines(here / "dates.txt", ["3 May 1979", "4 June 1980"])
    for block in blocks(README, "toml"):
        (here / block.splitlines()[0].removeprefix("# ")).write_text(block)
    return here


def write_lines(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture
def folder(files, monkeypatch):
    monkeypatch.chdir(files)
    return files


class InProcess(Executor):
    """Does the work at once, here: each new process of `regard compare` would spend seconds on importing torch."""

    def submit(self, work, /, *given, **named):
        done = Future()
        done.set_result(work(*given, **named))
        return done


def run(line: str, monkeypatch, capsys) -> str:
    """Run one command here; what it printed."""
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
        if option in ("--out", "--output", "--alignments", "--show", "--to") and value != "-":
            assert Path(value).exists(), f"{line} did not write {value}"
    return capsys.readouterr().out


def test_every_command_of_the_readme_runs(folder, monkeypatch, capsys):
    monkeypatch.setattr("regard.tasks.compare.ProcessPoolExecutor", lambda *_, **__: InProcess())
    for line, answer in steps():
        printed = run(line, monkeypatch, capsys)
        assert answer in printed, f"{line} should print\n{answer}but printed\n{printed}"
    assert (folder / "demo" / "alignment.png").is_file()
    assert '"step": 3' in (folder / "runs" / "mine" / "log.jsonl").read_text()
    assert len((folder / "iso.txt").read_text().splitlines()) == 2


def test_the_readme_shows_every_command():
    shown = {re.search(r"\bregard (\w+)", line).group(1) for line, _ in steps()}
    assert shown == set(get_command(cli.app).commands)


@pytest.mark.parametrize("block", blocks(README, "python"))
def test_the_python_of_the_readme_runs(block, folder):
    exec(compile(block, "README.md", "exec"), {})


def test_the_table_tells_which_systems_are_there():
    rows = re.findall(r"^\| `(\w+)` \| .+ \| (there|coming) \|$", README, re.MULTILINE)
    assert len(rows) == len(dict(rows)) == 17
    assert {name for name, status in rows if status == "there"} == set(MODELS)


@pytest.mark.parametrize("text", [README, CONTRIBUTING], ids=["README", "CONTRIBUTING"])
def test_links_and_make_targets_are_there(text):
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"(?:^|`)make (\w+)", text, re.MULTILINE)) <= set(targets)
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert link.startswith("https://") or (ROOT / link).is_file(), f"there is no {link}"


def test_the_worked_paper_works(tmp_path, monkeypatch, capsys):
    """CONTRIBUTING's model file, its line in MODELS and its recipe are all that a new system needs."""
    (tmp_path / "key_value.py").write_text(blocks(CONTRIBUTING, "python")[0])
    recipe = blocks(CONTRIBUTING, "toml")[0]
    (tmp_path / "key-value-dates.toml").write_text(
        recipe.replace('made = "dates"', 'made = "dates"\ntrain_count = 200')
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    kind = importlib.import_module("key_value").KeyValue
    monkeypatch.delitem(sys.modules, "key_value")
    monkeypatch.setitem(MODELS, "key_value", kind)

    torch.manual_seed(0)
    model = kind(kind.Config(vocabulary=12, dim=8))
    data = PairData([[4, 5, 6], [7]], [[8, 9], [10, 11, 4]], batch_tokens=64, seed=0)
    batch = data.batch(data.order(0)[0])
    loss = model.loss(batch)
    loss.total.backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in model.parameters())
    model.eval()
    at_once = model(batch.source, batch.target, batch.source_mask)
    state = model.start(batch.source, batch.source_mask)
    for step, tokens in enumerate(batch.target.unbind(1)):
        logits, state = model.step(tokens, state)
        torch.testing.assert_close(logits, at_once[:, step])

    run("regard train key-value-dates.toml --out runs/own", monkeypatch, capsys)
    run('regard translate runs/own "3 May 1979" --beam 3 --show -', monkeypatch, capsys)
