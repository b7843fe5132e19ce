"""The table of forms: a folder is opened by the first form that says it is its own, whatever it goes by."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.data.artifacts import Artifacts
from regard.data.tokenizer import Tokenizer
from regard.errors import RunError
from regard.foreign import FORMS, form_of, why_no_form
from regard.foreign.contents import Contents
from regard.foreign.gpt2 import GPT2Form
from regard.models import MODELS
from regard.models.gpt2 import GPT2, GPT2Config
from regard.runs.folder import Folder, begin, find, save_weights
from regard.tasks.table import load


class ToyForm(GPT2Form):
    """GPT-2 as another library might save it: its settings are in options.json, which names no model_type."""

    config_file = "options.json"

    def matches(self, contents: Contents) -> bool:
        return contents.has("options.json") and contents.json("options.json").get("toy") is True

    def read_config(self, table: Any) -> Any:
        table.left.discard("toy")
        return super().read_config(table)


@pytest.fixture
def gpt2(tmp_path: Path) -> GPT2:
    """A model, saved as transformers would."""
    tokens = Tokenizer.train(["abc def"], kind="character", layout="gpt2")
    torch.manual_seed(0)
    model = GPT2(GPT2Config(len(tokens), dim=8, layers=1, heads=2, max_positions=16)).eval()
    begin(tmp_path / "folder", model, Artifacts(tokens), "")
    save_weights(tmp_path / "folder", model)
    return model


def rename_config(folder: Path, **changes: Any) -> None:
    """config.json becomes options.json, without model_type."""
    table = json.loads((folder / "config.json").read_text())
    del table["model_type"]
    (folder / "config.json").unlink()
    (folder / "options.json").write_text(json.dumps(table | changes))


def test_a_folder_without_model_type_is_opened_by_the_form_that_matches_it(
    gpt2: GPT2, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    rename_config(folder, toy=True)
    with pytest.raises(RunError, match=r"is a folder without config\.json"):
        find(folder)
    monkeypatch.setitem(FORMS, "toy", ToyForm())
    opened = Folder(folder)
    assert isinstance(opened.settings.form, ToyForm)
    assert (opened.name, opened.config) == ("gpt2", gpt2.config)
    run = load(folder)
    tokens = torch.arange(6)[None]
    with torch.no_grad():
        assert torch.equal(run.model(tokens), gpt2(tokens))
    assert run.generate("ab").prompt == "ab"


def test_a_folder_that_no_form_matches_is_no_run(
    gpt2: GPT2, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename_config(tmp_path / "folder", toy=False)
    monkeypatch.setitem(FORMS, "toy", ToyForm())
    with pytest.raises(RunError, match=r"is a folder without config\.json, so it is not a run"):
        load(tmp_path / "folder")


def test_faults_are_told_of_the_file_they_are_in(
    gpt2: GPT2, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename_config(tmp_path / "folder", toy=True, auto_map="x.Y")
    monkeypatch.setitem(FORMS, "toy", ToyForm())
    with pytest.raises(RunError, match=r"folder/options\.json: auto_map = 'x\.Y': .* does not support it"):
        load(tmp_path / "folder")


def test_every_form_is_of_a_model_and_told_by_its_own_folders() -> None:
    assert [form.model_type for form in FORMS.values()] == list(FORMS)
    for form in FORMS.values():
        assert form.model in MODELS
        contents = Contents(Path("nowhere"))
        contents._tables["config.json"] = {"model_type": form.model_type}
        assert [name for name, one in FORMS.items() if one.matches(contents)] == [form.model_type]


def test_a_model_without_a_form_says_why() -> None:
    transformer = MODELS["transformer"]
    config = transformer.Config(vocabulary=9, norm="pre")
    assert form_of("transformer", config) is None
    assert why_no_form("transformer", config) == (
        "Marian is post-norm (model.norm = post), and this model is pre-norm"
    )
    assert why_no_form("bahdanau", None) == "transformers has no model like bahdanau"
