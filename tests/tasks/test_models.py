"""Every model trains, is stopped, goes on, is saved and loaded, by the same few lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from regard.models import MODELS
from regard.tasks import Decoding, load

SMALL = {
    "seq2seq": ["model.embed=8", "model.dim=12"],
    "bahdanau": ["model.embed=8", "model.encoder=8", "model.decoder=12", "model.readout=8"],
    "luong": ["model.embed=8", "model.dim=12"],
    "transformer": ["model.dim=8", "model.layers=2", "model.heads=2", "model.ff=12"],
    "rnnlm": ["model.embed=8", "model.dim=12"],
    "gpt2": ["model.dim=8", "model.layers=2", "model.heads=2"],
}
VARIANTS = {
    "seq2seq": ["seq2seq", "model.reverse=true", "model.remind=true", "model.cell=gru", "model.layers=2"],
    "bahdanau": ["bahdanau", "model.score=general", "model.weigh=hard", "model.dropout=0.3"],
    "luong": ["luong", "model.weigh=local-p", "model.window=2", "model.layers=2", "model.bidirectional=true"],
    "luong without feeding": ["luong", "model.feeding=false", "model.score=additive", "model.weigh=local-m"],
    "transformer": ["transformer", "model.dropout=0.3", "model.attention_dropout=0.1"],
    "transformer pre-norm": ["transformer", "model.norm=pre", "model.positions=learned"],
}
WRITERS = {
    "rnnlm": ["rnnlm", "model.cell=gru", "model.layers=1"],
    "gpt2": ["gpt2", "model.dropout=0.3"],
    "gpt2 apart": ["gpt2", "data.apart=true", "data.documents=line", "model.tied=false", "tokens.kind=bpe"],
}
REST = '[tokens]\nkind = "character"\n[model]\nlongest = 40\n[train]\nsteps = 4\nevery = 2\n'


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    path = tmp_path / "tiny.toml"
    path.write_text(
        f'[data]\nmade = "reverse"\ntrain_count = 100\nvalid_count = 10\nbatch_tokens = 256\n{REST}',
    )
    return str(path)


@pytest.fixture
def writing(tmp_path: Path) -> str:
    """The same for language models."""
    (tmp_path / "text.txt").write_text("".join(f"{number} bottles of beer\n" for number in range(99, 0, -1)))
    path = tmp_path / "writing.toml"
    path.write_text(f'[data]\ntrain = "{tmp_path}/text.txt"\nlength = 20\nbatch_tokens = 200\n{REST}')
    return str(path)


def losses(folder: Path) -> list[float]:
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [row["loss"] for row in rows if "loss" in row]


def check_goes_on(train: Any, interrupt: Any, recipe: str, folder: Path, changes: list[str]) -> None:
    """Stopped and gone on in folder/run, all at once in folder/whole: nothing tells them apart."""
    whole = train(recipe, folder / "whole", *changes)
    interrupt(recipe, folder / "run", *changes)
    assert train(recipe, folder / "run", *changes, resume=True) == whole
    assert losses(folder / "run") == losses(folder / "whole")
    assert len(losses(folder / "run")) == 4
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        assert (folder / "run" / name).read_bytes() == (folder / "whole" / name).read_bytes(), name


def test_every_model_is_tested() -> None:
    tried = {variant[0] for variant in (*VARIANTS.values(), *WRITERS.values())}
    assert SMALL.keys() == MODELS.keys() == tried


@pytest.mark.parametrize("joint", ["true", "false"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_it_trains_stops_goes_on_and_answers(
    variant: str, joint: str, recipe: str, tmp_path: Path, train: Any, interrupt: Any
) -> None:
    name, *options = VARIANTS[variant]
    changes = [f"model.name={name}", f"tokens.joint={joint}", *SMALL[name], *options]
    check_goes_on(train, interrupt, recipe, tmp_path, changes)
    kind = "marian" if variant == "transformer" and joint == "true" else f"regard-{name}"
    assert json.loads((tmp_path / "run/config.json").read_text())["model_type"] == kind
    assert f"# {name} on reverse" in (tmp_path / "run/README.md").read_text()
    texts, decode = ["a b c", "z", "", "q w e r t y"], Decoding(beam=3, best=2, min_length=1)
    first, second = (load(tmp_path / run).translate(texts, decode) for run in ("run", "whole"))
    assert first == second
    assert [bool(answer.others) for answer in first] == [True, True, False, True]
    if MODELS[name].alignment:
        assert first[0].attention.columns == ("a", " ", "b", " ", "c", "</s>")


@pytest.mark.parametrize("variant", WRITERS)
def test_it_trains_stops_goes_on_and_writes(
    variant: str, writing: str, tmp_path: Path, train: Any, interrupt: Any
) -> None:
    name, *options = WRITERS[variant]
    changes = [f"model.name={name}", *SMALL[name], *options]
    check_goes_on(train, interrupt, writing, tmp_path, changes)
    kind = "gpt2" if name == "gpt2" else f"regard-{name}"
    assert json.loads((tmp_path / "run/config.json").read_text())["model_type"] == kind
    assert f"# {name} on text.txt" in (tmp_path / "run/README.md").read_text()
    prompts, decode = ["9 bottles", "", "b"], Decoding(beam=3, best=2, min_length=1, max_length=10)
    first, second = (load(tmp_path / run).generate(prompts, decode) for run in ("run", "whole"))
    assert first == second
    assert all(len(one.others) == 1 for one in first)


@pytest.mark.parametrize("name", MODELS)
def test_the_card_promises_a_picture_where_there_is_attention(
    name: str, recipe: str, writing: str, tmp_path: Path, train: Any
) -> None:
    task = MODELS[name].task
    train(
        recipe if task == "translate" else writing,
        tmp_path / "run",
        f"model.name={name}",
        *SMALL[name],
        "train.steps=1",
    )
    card = (tmp_path / "run/README.md").read_text()
    assert f'regard {task} DIR "..."' in card
    assert ("--show alignment.png" in card) == bool(MODELS[name].alignment)
