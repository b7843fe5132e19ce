"""`regard recall`, and how `evaluate` and `train` treat sequences of bits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.data.artifacts import Artifacts
from regard.data.made.sequences import SEQUENCES, sequences_of
from regard.errors import BadInput, NoAttention, RunError
from regard.models.ntm.bit_lstm import BitLSTM, BitLSTMConfig
from regard.models.ntm.model import NTM, NTMConfig
from regard.runs.folder import begin, save_weights
from regard.tasks.core.recipe import read
from regard.tasks.core.results import Evaluation
from regard.tasks.recall.settings import KINDS, RecallSettings

RUNS = {
    "copy": ("copy-bits", 3),
    "repeat": ("repeat-copy", 2),
    "recall": ("associative-recall", 2),
    "ngram": ("n-gram", 1),
    "sort": ("priority-sort", 2),
    "lstm": ("copy-bits", 3),
}
OWN = {
    "copy": "010 111",
    "repeat": "01 11 x2",
    "recall": "00 01 10 / 11 11 00 ? 00 01 10",
    "ngram": "01101001",
    "sort": "01:0.5 10:0.7",
    "lstm": "010 111",
}
TARGET = {"copy": "010 111", "repeat": "010 110 010 110 001", "recall": "11 11 00", "ngram": "001", "sort": "10"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """With drawn weights."""
    found = {}
    for name, (kind, bits) in RUNS.items():
        torch.manual_seed(1)
        sizes: dict[str, Any] = Artifacts(sequences=sequences_of(kind, bits)).settings()
        config = NTMConfig(dim=6, places=5, width=4, heads=2, **sizes)
        model = NTM(config) if name != "lstm" else BitLSTM(BitLSTMConfig(dim=6, layers=1, **sizes))
        folder = tmp_path_factory.mktemp(name)
        begin(folder, model, Artifacts(), f'[data]\nmade = "{kind}"\nbits = {bits}\ntest_count = 4\n')
        save_weights(folder, model)
        found[name] = str(folder)
    return found


def by_length(found: Evaluation) -> Any:
    return found.details["lengths"]


@pytest.mark.parametrize("name", RUNS)
def test_a_sequence_of_ones_own(runs: dict[str, str], call: Any, name: str) -> None:
    done = call("recall", runs[name], OWN[name])
    sequence, output, target, wrong = done.out.rstrip("\n").split("\t")
    assert sequence == OWN[name]
    assert target == TARGET.get(name, TARGET["copy"])
    assert len(output) == len(target)
    assert int(wrong) == sum(one != other for one, other in zip(output, target, strict=True))
    found = json.loads(call("recall", runs[name], OWN[name], "--json").out)
    assert found["output"] == output
    assert found["bits"] == len(target.replace(" ", ""))
    heads = [] if name == "lstm" else ["write 0", "write 1", "read 0", "read 1"]
    assert list(found["heads"]) == heads
    for head in heads:
        assert all(0 <= one["place"] < 5 and 0 < one["weight"] <= 1 for one in found["heads"][head])


def test_a_drawn_sequence(runs: dict[str, str], call: Any) -> None:
    first, again, other = (
        call("recall", runs["copy"], "--length", "4", *more).out for more in ([], [], ["--seed", "1"])
    )
    assert first == again != other
    assert len(first.split("\t")[0].split()) == 4
    sequence = call("recall", runs["repeat"], "--length", "2", "--repeats", "5").out.split("\t")[0]
    assert sequence.endswith(" x5")


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        ("copy", ["01"], "a vector must be 3 of the digits 0 and 1, got '01'"),
        ("copy", ["010", "--seed", "1"], "--seed is for a sequence that is drawn"),
        ("copy", ["--repeats", "2"], "repeats are for repeat-copy alone, got 2"),
        ("recall", ["--length", "1"], r"the length must lie in [2, 1,000], got 1"),
        ("copy", ["--length", "5000"], "the length must lie in [1, 1,000], got 5000"),
    ],
)
def test_what_cannot_be_asked(runs: dict[str, str], call: Any, name: str, given: list[str], told: str) -> None:
    done = call("recall", runs[name], *given)
    assert done.code == 2
    assert told in done.err


def test_sequences_of_a_file(runs: dict[str, str], call: Any, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("010\n0\n111 000\n")
    done = call("recall", runs["copy"], "--input", str(tmp_path / "in.txt"))
    assert done.code == 1
    assert [line.split("\t")[0] for line in done.out.splitlines()] == ["010", "0", "111 000"]
    assert "line 2: a vector must be 3" in done.err
    for option in ("--length", "--seed"):
        done = call("recall", runs["copy"], "--input", str(tmp_path / "in.txt"), option, "4")
        assert (done.code, done.out) == (2, "")
        assert f"{option} is for a sequence that is drawn; give it or sequences, not both" in done.err


@pytest.mark.parametrize("name", ["copy", "lstm"])
def test_what_it_did_is_drawn(runs: dict[str, str], call: Any, name: str, tmp_path: Path) -> None:
    drawn = call("recall", runs[name], "--length", "4", "--show", "-").out
    assert "target" in drawn
    assert ("write 1" in drawn) == ("memory after step 8" in drawn) == (name == "copy")
    for suffix in ("svg", "html", "png"):
        call("recall", runs[name], "--length", "4", "--show", str(tmp_path / f"tape.{suffix}"))
        assert (tmp_path / f"tape.{suffix}").stat().st_size > 1000


def test_the_heads_alone_are_drawn(runs: dict[str, str], call: Any, tmp_path: Path) -> None:
    """--sites draws the named attention; gates are no part of this picture."""
    done = call("recall", runs["copy"], "--length", "4", "--show", "-", "--sites", "memory.*")
    assert "write 1" in done.out
    assert "target" not in done.out
    for name, site in (("copy", "cell"), ("lstm", "*")):
        done = call("recall", runs[name], "--length", "4", "--show", str(tmp_path / "x.svg"), "--sites", site)
        assert (done.code, done.out) == (2, ""), "refused before anything is computed"
        assert f"no attention has a name like '{site}'" in done.err
    one = regard.load(runs["copy"], device="cpu", task="recall").recall("010")
    assert list(one.picture(["memory.attend"]).panels) == list(one.looks())
    with pytest.raises(NoAttention, match="no attention has a name like 'cell'"):
        one.picture(["cell"])


def test_evaluated_by_length(runs: dict[str, str], call: Any, tmp_path: Path) -> None:
    found = json.loads(call("evaluate", runs["copy"], "--lengths", "2,5", "--json").out)
    assert found["sequences"] == 8
    assert [row["length"] for row in found["lengths"]] == [2, 5]
    for row in found["lengths"]:
        assert row["wrong_bits"] == pytest.approx(100 * row["bit_errors"] / (3 * row["length"]))
    assert found["bit_errors"] == pytest.approx(sum(row["bit_errors"] for row in found["lengths"]) / 2)
    text = call("evaluate", runs["copy"], runs["lstm"], "--lengths", "3", "--show", str(tmp_path / "c.svg")).out
    assert "paired bootstrap" in text
    assert "evaluated on 4 generated sequences (copy-bits) of each of the lengths 3" in text
    assert "wrong bits" in (tmp_path / "c.svg").read_text()
    for wrong, told in (("4,x", "as in 20,40,80; got '4,x'"), ("0", "must lie in [1, 1,000], got 0")):
        done = call("evaluate", runs["copy"], "--lengths", wrong)
        assert done.code == 2
        assert told in done.err
    assert "leave --data out" in call("evaluate", runs["copy"], "--data", "x.tsv").err


def test_ngrams_are_compared_with_the_best_estimate(runs: dict[str, str]) -> None:
    """It costs less than a fair coin, and than a machine that has learned nothing."""
    found = regard.load(runs["ngram"], device="cpu", task="recall").evaluate(test_count=20)
    assert 60 < found.rows["optimal_cost"] < 150
    assert found.metrics["cost_in_bits"] > 190
    (row,) = by_length(found)
    assert row["length"] == 200
    assert "optimal" in found.notes[0]


def test_from_python(runs: dict[str, str]) -> None:
    run = regard.load(runs["repeat"], device="cpu", task="recall")
    one = run.recall(OWN["repeat"])
    assert one == run.recall([OWN["repeat"], "00 x1"])[0]
    assert one.probabilities.shape == (8, 3)
    memory = one.memory()
    assert memory is not None
    assert memory.shape == (8, 5, 4)
    heads = one.looks()
    np.testing.assert_allclose([weights.sum(1) for weights in heads.values()], np.ones((4, 8)), atol=1e-5)
    assert list(one.picture().panels) == ["input", "output", "target", *heads]
    assert [row["length"] for row in by_length(run.evaluate(lengths=[2, 3], repeats=2))] == [2, 3]
    assert [row["length"] for row in by_length(run.evaluate(test_lengths=[2, 3], test_repeats=2))] == [2, 3]
    with pytest.raises(BadInput, match="lengths and test_lengths are the same; give lengths alone"):
        run.evaluate(lengths=[2], test_lengths=[2])
    with pytest.raises(BadInput, match=r"sequences\[1\]: end with the number of copies"):
        run.recall([OWN["repeat"], "00"])
    for told in ({"length": 3}, {"repeats": 2}, {"seed": 1}):
        for asked in (OWN["repeat"], [OWN["repeat"]]):
            with pytest.raises(BadInput, match=f"{next(iter(told))} is for a sequence that is drawn"):
                run.recall(asked, **told)
    for wrong in ({"length": True}, {"seed": -1}, {"repeats": "2"}):
        with pytest.raises(BadInput, match=r"(length|seed|repeats) must be a whole number"):
            run.recall(**wrong)


def test_a_run_without_its_recipe_or_with_another(runs: dict[str, str], tmp_path: Path) -> None:
    for name, recipe, told in (
        ("none", None, "has no recipe that says which sequences"),
        ("other", '[data]\nmade = "n-gram"\n', "the recipe.toml in its folder is not its own"),
        ("broken", '[data]\nmade = "nothing"\n', "made must be one of .copy-bits"),
    ):
        folder = tmp_path / name
        regard.load(runs["copy"], device="cpu").save(folder)
        (folder / "recipe.toml").unlink() if recipe is None else (folder / "recipe.toml").write_text(recipe)
        with pytest.raises(RunError, match=told):
            regard.load(folder, device="cpu", task="recall").recall("010")


# ---- settings


def test_lengths_are_the_papers_unless_told() -> None:
    assert tuple(SEQUENCES) == KINDS
    assert RecallSettings().ranges() == ((1, 20), (1, 1))
    assert RecallSettings("repeat-copy").ranges() == ((1, 10), (1, 10))
    assert RecallSettings(max_length=4).ranges() == ((1, 4), (1, 1))
    assert [size.length for size in RecallSettings().valid_sizes()] == [1, 6, 10, 15, 20]
    assert [tuple(size) for size in RecallSettings("repeat-copy", test_lengths=(3, 30)).test_sizes()] == [
        (3, 10),
        (30, 10),
    ]
    for settings in (RecallSettings("n-gram"), RecallSettings("n-gram", test_lengths=(200, 200))):
        assert [size.length for size in settings.valid_sizes()] == [200], "each sequence counts once"
        assert [size.length for size in settings.test_sizes()] == [200]
    with pytest.raises(BadInput, match="max_length must be at least min_length, got 3 and 5"):
        RecallSettings(min_length=5, max_length=3).ranges()
    with pytest.raises(BadInput, match="bits must be 1, got 2"):
        RecallSettings("n-gram", bits=2)


def test_sizes_that_follow_from_the_data_are_not_set() -> None:
    with pytest.raises(BadInput, match=r"model\.inputs follow from the data; set data\.made and data\.bits"):
        read("copy-ntm", ["model.inputs=3"])
    assert read("copy-lstm", ["data.made=priority-sort", "data.test_lengths=[20]"])[0].model == "bit_lstm"
