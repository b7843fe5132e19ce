"""Every model trains, is stopped, goes on, is saved and loaded, by the same few lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from regard.models import MODELS
from regard.tasks import Decoding, load

SMALL = {
    "seq2seq": ["model.dim=12"],
    "bahdanau": ["model.encoder=8", "model.decoder=12", "model.readout=8"],
    "luong": ["model.dim=12"],
}
VARIANTS = {
    "seq2seq": ["seq2seq", "model.reverse=true", "model.remind=true", "model.cell=gru", "model.layers=2"],
    "bahdanau": ["bahdanau", "model.score=general", "model.weigh=hard", "model.dropout=0.3"],
    "luong": ["luong", "model.weigh=local-p", "model.window=2", "model.layers=2", "model.bidirectional=true"],
    "luong without feeding": ["luong", "model.feeding=false", "model.score=additive", "model.weigh=local-m"],
}


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    path = tmp_path / "tiny.toml"
    path.write_text(
        '[data]\nmade = "reverse"\ntrain_count = 100\nvalid_count = 10\nbatch_tokens = 256\n'
        '[tokens]\nkind = "character"\n[model]\nembed = 8\nlongest = 40\n[train]\nsteps = 4\nevery = 2\n'
    )
    return str(path)


def losses(folder: Path) -> list[float]:
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [row["loss"] for row in rows if "loss" in row]


def test_every_model_is_tested() -> None:
    assert SMALL.keys() == MODELS.keys() == {variant[0] for variant in VARIANTS.values()}


@pytest.mark.parametrize("joint", ["true", "false"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_it_trains_stops_goes_on_and_answers(
    variant: str, joint: str, recipe: str, tmp_path: Path, train: Any, interrupt: Any
) -> None:
    name, *options = VARIANTS[variant]
    changes = [f"model.name={name}", f"tokens.joint={joint}", *SMALL[name], *options]
    whole = train(recipe, tmp_path / "whole", *changes)
    interrupt(recipe, tmp_path / "run", *changes)
    assert train(recipe, tmp_path / "run", *changes, resume=True) == whole
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")
    assert json.loads((tmp_path / "run/config.json").read_text())["model_type"] == f"regard-{name}"
    assert f"# {name} on reverse" in (tmp_path / "run/README.md").read_text()
    weights = [(tmp_path / run / "model.safetensors").read_bytes() for run in ("run", "whole")]
    assert weights[0] == weights[1]
    texts, decode = ["a b c", "z", "", "q w e r t y"], Decoding(beam=3, best=2, min_length=1)
    first, second = (load(tmp_path / run).translate(texts, decode) for run in ("run", "whole"))
    assert first == second
    assert [bool(answer.others) for answer in first] == [True, True, False, True]
    if MODELS[name].alignment:
        assert first[0].attention.columns == ("a", " ", "b", " ", "c", "</s>")


@pytest.mark.parametrize("name", MODELS)
def test_the_card_promises_a_picture_where_there_is_attention(
    name: str, recipe: str, tmp_path: Path, train: Any
) -> None:
    train(recipe, tmp_path, f"model.name={name}", *SMALL[name], "train.steps=1")
    card = (tmp_path / "README.md").read_text()
    assert 'regard translate DIR "..."' in card
    assert ("--show alignment.png" in card) == bool(MODELS[name].alignment)
