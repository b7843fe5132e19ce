"""config.json with settings that transformers does not know, or without model_type: opened, with a word; what
transformers follows and we do not is refused."""

from __future__ import annotations

import dataclasses
import inspect
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.data.artifacts import Artifacts
from regard.data.text.special_tokens import Special
from regard.data.text.tokenizer import Tokenizer
from regard.errors import RunError
from regard.foreign import FORMS, hf_files
from regard.foreign.form import Table
from regard.models.gpt2 import GPT2, GPT2Config
from regard.runs.folder import begin, save_weights
from regard.tasks.core.table import load


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tokens = Tokenizer.train(["abc def"], kind="character", numbering="gpt2")
    torch.manual_seed(0)
    model = GPT2(GPT2Config(len(tokens), dim=8, layers=1, heads=2, max_positions=16)).eval()
    begin(tmp_path / "run", model, Artifacts(tokens), "")
    save_weights(tmp_path / "run", model)
    return tmp_path / "run"


def change(folder: Path, name: str = "config.json", **changes: Any) -> None:
    table = json.loads((folder / name).read_text()) | changes
    (folder / name).write_text(json.dumps({key: value for key, value in table.items() if value is not ...}))


def logits(folder: Path) -> torch.Tensor:
    with torch.no_grad():
        return load(folder).model(torch.arange(6)[None])


def test_keys_of_the_authors_own_are_named_once_and_left_aside(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = logits(folder)
    assert capsys.readouterr().err == ""
    change(folder, condition_on_chain=True, eos_token_ids=[3], rope_theta=1e4)
    change(folder, "generation_config.json", my_own=1)
    assert torch.equal(logits(folder), before)
    load(folder)
    said = [f"{folder / name}: left aside, as transformers has no such setting: " for name in NAMES]
    assert capsys.readouterr().err.splitlines() == [
        said[0] + "'condition_on_chain', 'eos_token_ids', 'rope_theta'",
        said[1] + "'my_own'",
    ]


NAMES = ("config.json", "generation_config.json")


def test_many_own_keys_and_long_ones_make_one_short_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(folder, **{f"{number}\n{'x' * 500}": 1 for number in range(9)})
    load(folder)
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith("x' and 4 more")
    assert len(line) < len(str(folder)) + 350


def test_the_architecture_stands_in_for_model_type(folder: Path) -> None:
    before = logits(folder)
    change(folder, model_type=...)
    assert torch.equal(logits(folder), before)
    for other in (["LlamaForCausalLM"], "GPT2LMHeadModel", [], [None], 7):
        change(folder, architectures=other)
        with pytest.raises(RunError, match=r"it has no model_type; add one .*: marian, gpt2, bert, vit, regard-"):
            load(folder)


def test_gpt2_has_two_names_for_its_sizes(folder: Path) -> None:
    before = logits(folder)
    same = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 16}
    change(folder, **same)
    assert torch.equal(logits(folder), before)
    for key, value in same.items():
        change(folder, **same | {key: 2 * value})
        with pytest.raises(RunError, match=f"{key} = {2 * value} is not supported, only {value}"):
            load(folder)


def test_a_missing_special_token_beyond_the_vocabulary_is_named(folder: Path) -> None:
    change(folder, eos_token_id=...)
    with pytest.raises(RunError, match=r"eos_token_id is not given, which means 50,256, and the ids end at 8 "):
        load(folder)


# ---- what transformers knows


def settings_of(kind: Any) -> set[str]:
    """The keys that a configuration of transformers knows."""
    made = kind()
    found = {*made.to_dict(), *vars(made), *inspect.signature(kind).parameters, *getattr(kind, "attribute_map", ())}
    if dataclasses.is_dataclass(kind):
        found |= {field.name for field in dataclasses.fields(kind)}
    return {key for key in found if key != "kwargs" and not key.startswith("_")}


@pytest.mark.parametrize("name", [name for name, form in FORMS.items() if form.model_type])
def test_no_setting_of_transformers_is_taken_for_the_authors_own(name: str) -> None:
    transformers = pytest.importorskip("transformers")
    form = FORMS[name]
    known = settings_of(getattr(transformers, type(form).__name__.replace("Form", "Config")))
    assert len(known) > 20
    form.read_config(Table({}))
    for key in sorted(known - {"architectures"}):  # which is checked before
        try:
            table = Table({key: {"odd": 1}})
            form.read_config(table)
        except ValueError:
            continue  # refused
        assert key not in table.left - table.unsupported, key


def test_no_setting_of_generate_is_taken_for_the_authors_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    transformers = pytest.importorskip("transformers")
    known = settings_of(transformers.GenerationConfig)
    assert len(known) > 50
    for key in sorted(known):
        try:
            table = Table({key: {"odd": 1}}, hf_files.UNSUPPORTED)
            hf_files._check_generation(tmp_path, table, Special(0, 0, 0, -1), {"bad_words_ids": (None,)})
        except ValueError:
            continue
        assert not capsys.readouterr().err, key
