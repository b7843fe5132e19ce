"""The table of forms: a folder is opened by the first form that says it is its own, whatever it goes by."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import small_models
import torch
from safetensors.torch import load_file, save_file

from regard.base.tensors import named_tensors
from regard.data.artifacts import Artifacts, Pixels
from regard.data.text.tokenizer import Tokenizer
from regard.errors import RunError
from regard.foreign import FORMS, form_of, why_no_form
from regard.foreign.contents import Contents, Json
from regard.foreign.form import Form, Part, Table, same
from regard.foreign.gpt2 import GPT2Form
from regard.models import MODELS
from regard.models.gpt2 import GPT2, GPT2Config
from regard.runs.folder import Folder, begin, find, save_weights
from regard.tasks.core.table import load


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
    tokens = Tokenizer.train(["abc def"], kind="character", numbering="gpt2")
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
    assert [form.model_type or name for name, form in FORMS.items()] == list(FORMS)
    for form in FORMS.values():
        assert form.model in MODELS
        if not form.model_type:  # known by something else, and not by the lack of it
            assert type(form).matches is not Form.matches
            assert not form.matches(Contents(Path("nowhere")))
            continue
        contents = Contents(Path("nowhere"))
        contents._tables["config.json"] = {"model_type": form.model_type}
        assert [name for name, one in FORMS.items() if one.matches(contents)] == [form.model_type]


# ---- a form whose config.json has neither model_type nor architectures


class NamelessForm(Form[Any]):
    """An SENet as another library might save it: config.json says how images are read, and has no model_type."""

    model = "senet"
    library = "nameless"
    optional = r".*\.num_batches_tracked"
    sizes = ("image_size", "channels", "block", "depths", "widths", "stem", "shortcut", "reduction")

    def matches(self, contents: Contents) -> bool:
        return isinstance(contents.config.get("network"), dict)

    def lacks(self, config: Any) -> str:
        return "" if config.block != "inception" else "nameless has no Inception"

    def read_config(self, table: Table) -> tuple[Any, None]:
        labels = table.take("classes", [], list)
        table.left.discard("pixels")
        return MODELS["senet"].Config(labels=tuple(labels), **table.take("network", {})), None

    def write_config(self, config: Any, special: Any) -> Json:
        network = {name: getattr(config, name) for name in self.sizes}
        return {"network": network, "classes": config.labels}

    def parts(self, config: Any) -> list[Part]:
        names = named_tensors(MODELS["senet"](config))
        return [same(f"body.{name}", name) for name in names]

    def pixels(self, contents: Contents, config: Any) -> Pixels:
        return Pixels(*(tuple(contents.config["pixels"][name]) for name in ("mean", "std")))

    def small_files(self, config: Any, artifacts: Artifacts, decoding: Any) -> dict[str, Json]:
        assert artifacts.pixels is not None
        return {"config.json": {"pixels": {"mean": artifacts.pixels.mean, "std": artifacts.pixels.std}}}


@pytest.fixture
def nameless(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A model in the folder, saved in that form."""
    for name in [name for name, form in FORMS.items() if form.model == "senet"]:
        monkeypatch.delitem(FORMS, name)
    monkeypatch.setitem(FORMS, "nameless", NamelessForm())
    model = small_models.build("senet", depths=(1, 1), widths=(4, 8))
    begin(tmp_path / "folder", model, small_models.artifacts(model), "", dtype="bfloat16")
    save_weights(tmp_path / "folder", model)
    return model


def test_a_form_without_model_type_is_written_and_opened(nameless: Any, tmp_path: Path) -> None:
    written = json.loads((tmp_path / "folder/config.json").read_text())
    assert set(written) == {"network", "classes", "pixels"}
    assert all(name.startswith("body.") for name in load_file(tmp_path / "folder/model.safetensors"))
    run = load(tmp_path / "folder")
    images = small_models.images(nameless)
    with torch.no_grad():
        assert torch.equal(run.model(images), nameless(images))
    assert Folder(tmp_path / "folder").pixels() == small_models.artifacts(nameless).pixels
    assert run.recognise(torch.zeros(8, 8, 3, dtype=torch.uint8).numpy()).label in nameless.config.labels
    run.save(tmp_path / "copy")
    run.export(tmp_path / "half", dtype="bfloat16")
    for place in ("copy", "half"):
        assert json.loads((tmp_path / place / "config.json").read_text()) == written
        assert torch.allclose(load(tmp_path / place).model(images), nameless(images), atol=0.5)
    assert Folder(tmp_path / "half").settings.config == nameless.config


def test_counters_that_a_file_lacks_are_0(nameless: Any, tmp_path: Path) -> None:
    path = tmp_path / "folder/model.safetensors"
    save_file({key: x for key, x in load_file(path).items() if not key.endswith("num_batches_tracked")}, path)
    tensors = named_tensors(Folder(tmp_path / "folder").model())
    counters = [x for name, x in tensors.items() if name.endswith("num_batches_tracked")]
    assert {(x.dtype, int(x)) for x in counters} == {(torch.int64, 0)}


def test_a_form_without_model_type_is_named_by_its_library(
    nameless: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "folder/config.json"
    table = json.loads(path.read_text())
    path.write_text(json.dumps({**table, "mine": 1}))
    assert Folder(tmp_path / "folder").config == nameless.config
    assert "left aside, as nameless has no such setting: 'mine'" in capsys.readouterr().err
    path.write_text(json.dumps({**table, "auto_map": "x.Y"}))
    with pytest.raises(RunError, match=r"auto_map = 'x\.Y': nameless follows .* or open the folder with nameless"):
        load(tmp_path / "folder")
    path.write_text('{"network": "resnet"}')
    with pytest.raises(
        RunError, match=r"has no model_type; add .*, regard-.*; and without .* of .*nameless's senet$"
    ):
        load(tmp_path / "folder")
    inception = MODELS["senet"].Config(block="inception")
    assert form_of("senet", inception) is None
    assert why_no_form("senet", inception) == "nameless has no Inception"
    with pytest.raises(RunError, match=r"folder: a senet reads no text"):
        NamelessForm().tokenizer(Contents(tmp_path / "folder"), nameless.config, None)  # type: ignore[arg-type]


def test_a_model_without_a_form_says_why() -> None:
    transformer = MODELS["transformer"]
    config = transformer.Config(vocabulary=9, norm="pre")
    assert form_of("transformer", config) is None
    assert why_no_form("transformer", config) == (
        "Marian is post-norm (model.norm = post), and this model is pre-norm"
    )
    for changes, words in (
        ({"norm": "batch"}, "Marian is post-norm (model.norm = post), and this model has batch norm"),
        ({"norm": "none"}, "Marian is post-norm (model.norm = post), and this model has no norm"),
        ({"residual": False}, "Marian has residual connections (model.residual = true), and this model has none"),
        (
            {"score": "cosine", "beta": 1.0},
            "Marian's score is scaled_dot, and this model's is cosine (model.score)",
        ),
        ({"ff": 0}, "Marian has feed-forward layers, and this model has none (model.ff = 0)"),
    ):
        config = transformer.Config(vocabulary=9, **changes)
        assert (form_of("transformer", config), why_no_form("transformer", config)) == (None, words)
    gpt2 = MODELS["gpt2"].Config(vocabulary=9, positions="sinusoidal")
    assert form_of("gpt2", gpt2) is None
    assert why_no_form("gpt2", gpt2) == (
        "GPT-2's positions are learned, and this model's are sinusoidal (model.positions)"
    )
    assert why_no_form("bahdanau", None) == "transformers has no model like bahdanau"
