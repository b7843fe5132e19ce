"""Folders that are not what they claim to be: each is refused with a clear word, soon, and without running code."""

from __future__ import annotations

import json
import os
import pickle
import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import damage
import pytest
import small_models
import torch
from safetensors.torch import load_file, save_file

from regard.data.text.tokenizer import Tokenizer
from regard.errors import RunError
from regard.runs.folder import Folder, begin, find, save_weights
from regard.tasks.core.table import load

Damage = Callable[[Path], object]


def config(**changes: Any) -> Damage:
    """config.json with some entries changed, or removed where None is given."""

    def change(folder: Path) -> None:
        path = folder / "config.json"
        table = {**json.loads(path.read_text()), **changes}
        path.write_text(json.dumps({key: value for key, value in table.items() if value is not None}))

    return change


def text(name: str, content: str) -> Damage:
    return lambda folder: (folder / name).write_text(content)


def weights(change: Callable[[dict[str, torch.Tensor]], object]) -> Damage:
    def rewrite(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors")

    return rewrite


def cut(name: str, share: float) -> Damage:
    return lambda folder: os.truncate(folder / name, int((folder / name).stat().st_size * share))


def remove(name: str) -> Damage:
    return lambda folder: (folder / name).unlink()


def other_tokenizer(words: str) -> Damage:
    return lambda folder: Tokenizer.train([words], kind="character").save(folder / "tokenizer.json")


def far_ids(folder: Path) -> None:
    """As many entries as the model knows, but one with an id far beyond them."""
    path = folder / "tokenizer.json"
    table = json.loads(path.read_text())
    table["model"]["vocab"]["z"] = 5000
    path.write_text(json.dumps(table))


HOSTILE: dict[str, tuple[Damage, str]] = {
    "weights cut in the middle": (
        cut("model.safetensors", 0.5),
        "model.safetensors cannot be read; it is truncated",
    ),
    "weights cut in the header": (cut("model.safetensors", 0.01), "model.safetensors cannot be read"),
    "no weights at all": (cut("model.safetensors", 0), "model.safetensors cannot be read"),
    "weights that are text": (text("model.safetensors", "hello" * 100), "not a safetensors file"),
    "weights missing": (
        remove("model.safetensors"),
        "has no model.safetensors; if it is being trained, wait for the first valid",
    ),
    "a wider weight": (
        weights(lambda tensors: tensors.update({"first.bias": torch.zeros(17)})),
        r"first.bias should be \(16,\) by config.json, but is \(17,\)",
    ),
    "a weight too few": (
        weights(lambda tensors: tensors.pop("first.bias")),
        "first.bias should be .*, but is missing",
    ),
    "a weight too many": (
        weights(lambda tensors: tensors.update({"../../extra": torch.zeros(1)})),
        r"\.\./\.\./extra should be absent by config.json, but is \(1,\)",
    ),
    "config cut": (cut("config.json", 0.5), "config.json is not valid JSON"),
    "config empty": (cut("config.json", 0), "config.json is not valid JSON"),
    "config a list": (text("config.json", "[1, 2]"), r"config.json must hold a JSON object, got \[1, 2\]"),
    "config a number": (text("config.json", "7"), "config.json must hold a JSON object, got 7"),
    "config deep": (text("config.json", "[" * 100_000), "config.json is not valid JSON: .*recursion"),
    "config huge": (
        text("config.json", " " * (17 << 20) + "{}"),
        r"has 17,825,794 bytes, and at most 16,777,216 are read",
    ),
    "config of very many values": (
        text("config.json", "[" + "[]," * (5 << 20) + "0]"),
        "config.json is not valid JSON: it has about 10,485,761 values, and at most 524,288 are read",
    ),
    "tokens of very many values": (
        text("tokenizer.json", "[" + "[]," * (9 << 20) + "0]"),
        "values, and at most 4,194,304 are read",
    ),
    "config not UTF-8": (
        lambda folder: (folder / "config.json").write_bytes(b"\xff{}"),
        "config.json is not valid JSON: 'utf-8'",
    ),
    "config missing": (remove("config.json"), "is a folder without config.json, so it is not a run"),
    "no model": (config(model_type=None), "does not say which model this is: it has no model_type"),
    "an unknown model": (
        config(model_type="regard-oracle"),
        "asks for 'regard-oracle'; this version opens marian, gpt2, bert, vit, regard-seq2seq, regard-bahdanau",
    ),
    "a foreign model": (config(model_type="bahdanau"), "asks for 'bahdanau'; this version opens .*regard-bahdanau"),
    "a model that is a path": (config(model_type="regard-../../etc"), "asks for 'regard-../../etc'"),
    "a model that is a table": (config(model_type={"a": 1}), "its model_type is {'a': 1}"),
    "a format of the future": (
        config(format_version=2),
        "written by a newer version of regard: its format_version is 2, and this version reads up to 1; upgrade",
    ),
    "a format of no version": (
        config(format_version=None),
        "format_version must be a whole number of at least 1, got None",
    ),
    "a format of version 0": (config(format_version=0), "format_version must be .* at least 1, got 0"),
    "a format in words": (config(format_version="1"), "format_version must be a whole number .*, got '1'"),
    "a field too few": (
        config(embed=None),
        "missing or unknown: embed; bahdanau has vocabulary, source_vocabulary, embed",
    ),
    "a field too many": (config(__class__="os.system"), "missing or unknown: __class__"),
    "a number as text": (config(embed="8"), "embed must be a whole number, got '8'"),
    "a fraction": (config(embed=8.5), "embed must be a whole number, got 8.5"),
    "true for a number": (config(embed=True), "embed must be a whole number, got True"),
    "a list for a number": (config(decoder=[16]), r"decoder must be a whole number, got \[16\]"),
    "dropout of NaN": (config(dropout=float("nan")), "dropout must be a number, got nan"),
    "no width": (config(decoder=0), "decoder must be at least 1, got 0"),
    "less than nothing": (config(vocabulary=-5), "vocabulary must be at least 1, got -5"),
    "an unknown score": (config(score="oracle"), r"config.json: score must be one of 'dot', .*, got 'oracle'"),
    "an unknown way": (config(weigh="oracle"), r"config.json: weigh must be one of 'soft', .*, got 'oracle'"),
    "sizes that do not fit": (config(score="dot", decoder=18), "config.json: .* got 18 and 16; make them equal"),
    "a billion layers": (config(encoder_layers=10**9), "encoder_layers must be at most 1,000, got 1,000,000,000"),
    "a billion upper layers": (config(decoder_layers=10**9), "decoder_layers must be at most 1,000"),
    "a billion wide": (config(decoder=10**9), "decoder must be at most 16,777,216, got 1,000,000,000"),
    "beyond 64 bits": (config(encoder=10**30), "encoder must be at most 16,777,216"),
    "the widest allowed": (config(encoder=1 << 24, decoder=1 << 24, embed=1 << 24), "should be .* by config.json"),
    "the deepest allowed": (config(encoder_layers=1000), "it has 1,000 layers, and the folder holds only"),
    "tokenizer cut": (cut("tokenizer.json", 0.5), "tokenizer.json is not JSON"),
    "tokenizer a list": (text("tokenizer.json", "[]"), "tokenizer.json is JSON but describes no tokenizer"),
    "tokenizer deep": (text("tokenizer.json", "[" * 100_000), "recursion"),
    "a larger tokenizer": (
        other_tokenizer("".join(map(chr, range(97, 150)))),
        "tokenizer.json has 57 entries, ids up to 56, and config.json says 31; they are not from the same run",
    ),
    "a smaller tokenizer": (other_tokenizer("abc"), "tokenizer.json has 7 entries"),
    "ids beyond the table": (far_ids, "tokenizer.json has 31 entries, ids up to 5,000"),
    "recipe not TOML": (text("recipe.toml", "decode = "), "recipe.toml is not valid TOML"),
}


def test_a_run_older_than_a_setting_has_its_default(run: Any, tmp_path: Path) -> None:
    folder = shutil.copytree(run.folder, tmp_path / "run", ignore=shutil.ignore_patterns("training"))
    config(soft_share=None)(folder)
    assert load(folder).model.config.soft_share == 0.5


@pytest.mark.parametrize("name", HOSTILE)
def test_it_is_refused_soon_and_clearly(name: str, run: Any, tmp_path: Path) -> None:
    change, said = HOSTILE[name]
    folder = shutil.copytree(run.folder, tmp_path / "run", ignore=shutil.ignore_patterns("training"))
    load(folder)
    change(folder)
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(RunError, match=said) as caught:
        load(folder)
    assert time.monotonic() - began < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000, "in KiB: nothing large was made"
    assert len(str(caught.value)) < 1000


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_numbers_that_only_add_up_to_infinity_are_finite(run: Any, tmp_path: Path) -> None:
    folder = shutil.copytree(run.folder, tmp_path / "run", ignore=shutil.ignore_patterns("training"))
    weights(lambda tensors: tensors["out.bias"].fill_(3e38))(folder)
    assert load(folder).model.out.bias.sum().isinf()


@pytest.mark.parametrize("number", [torch.nan, -torch.inf])
def test_numbers_that_are_not_finite_are_told(number: float, run: Any, tmp_path: Path) -> None:
    folder = shutil.copytree(run.folder, tmp_path / "run", ignore=shutil.ignore_patterns("training"))
    weights(lambda tensors: tensors["out.bias"].fill_(number))(folder)
    with pytest.warns(RuntimeWarning, match="NaN or infinity in out.bias; this model"):
        load(folder)


@pytest.mark.parametrize("beam", [1, 2])
def test_answers_that_cannot_be_given_name_the_weights(beam: int, run: Any, tmp_path: Path) -> None:
    folder = shutil.copytree(run.folder, tmp_path / "run", ignore=shutil.ignore_patterns("training"))
    weights(lambda tensors: tensors["out.bias"].fill_(torch.nan))(folder)
    with pytest.warns(RuntimeWarning, match="NaN"):
        opened = load(folder)
    with pytest.raises(RunError, match=r"model.safetensors: NaN or infinity in out.bias, so there is no possible"):
        opened.translate("a b", beam=beam)


def test_weights_that_were_changed_are_told(run: Any, tmp_path: Path) -> None:
    """A bit of a tensor, and tensors that change places; written again as a whole, they are somebody's edit."""
    folder = shutil.copytree(run.folder, tmp_path / "run", ignore=shutil.ignore_patterns("training"))
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-2] + bytes([whole[-2] ^ 1]) + whole[-1:])
    with pytest.warns(RuntimeWarning, match=r"model.safetensors: the weights were changed since they were written"):
        load(folder)
    path.write_bytes(whole)
    damage.header(lambda entries: entries.update({a: entries[b] for a, b in alike(entries)}))(folder)
    with pytest.warns(RuntimeWarning, match="the weights were changed"):
        load(folder)
    weights(lambda tensors: tensors["out.bias"].add_(1))(folder)
    load(folder)
    path.write_bytes(whole)
    load(folder).save(tmp_path / "saved")
    load(tmp_path / "saved")
    assert "crc32:" in (tmp_path / "saved/model.safetensors").read_bytes()[:9999].decode("ascii", "replace")


def alike(entries: dict[str, Any]) -> list[tuple[str, str]]:
    """Two tensors of the same form, each with the name of the other."""
    forms: dict[str, str] = {}
    for name, entry in entries.items():
        if name != "__metadata__":
            form = f"{entry['dtype']} {entry['shape']}"
            if form in forms:
                return [(name, forms[form]), (forms[form], name)]
            forms[form] = name
    raise AssertionError("no two tensors have the same form")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"depths": [10**9, 1]}, "depths must add up to at most 1,000, got 1,000,000,001"),
        ({"depths": [10**30, 1]}, "depths must add up to at most 1,000, got 1,000"),
        ({"depths": [1] * 10**5, "widths": [1] * 10**5}, "depths must have at most 1,000 numbers, got 100,000"),
        ({"depths": [499, 501]}, "it has 1,000 layers, and the folder holds only"),
        ({"widths": [4, 10**9]}, "widths must be at most 16,777,216, got 1,000,000,000"),
        ({"depths": [1, -5]}, "depths must be at least 1, got -5"),
        ({"depths": [[1], 1]}, "depths must be a list of whole numbers, got"),
        ({"depths": "11"}, "depths must be a list of whole numbers, got '11'"),
        ({"widths": [4, 9]}, "should be .* by config.json, but is"),
    ],
)
def test_lists_of_numbers_are_bounded(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    model = small_models.build("senet", depths=(1, 1), widths=(4, 8))
    begin(tmp_path, model, small_models.artifacts(model), "")
    save_weights(tmp_path, model)
    Folder(tmp_path).model()
    config(**changes)(tmp_path)
    with pytest.raises(RunError, match=said) as caught:
        Folder(tmp_path).model()
    assert len(str(caught.value)) < 1000


class Trap:
    """Unpickled, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", "recipe.toml"])
@pytest.mark.parametrize("write", ["pickle", "torch"])
def test_no_file_is_unpickled(name: str, write: str, run: Any, tmp_path: Path) -> None:
    folder = shutil.copytree(run.folder, tmp_path / "run", ignore=shutil.ignore_patterns("training"))
    trap = tmp_path / "sprung"
    with open(folder / name, "wb") as file:
        pickle.dump(Trap(trap), file) if write == "pickle" else torch.save(Trap(trap), file)
    with pytest.raises(RunError):
        load(folder)
    assert not trap.exists()
    pickle.loads(pickle.dumps(Trap(trap)))
    assert trap.exists(), "the trap works"


@pytest.mark.parametrize("name", ["../outside", "/nowhere/at/all", "", ".", "nul\0byte", "shipped/../../etc"])
def test_names_that_are_no_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunError, match=r"there is no run|is a folder without config.json"):
        find(name)


def test_a_file_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(RunError, match="there is no run"):
        load(tmp_path / "file")


def test_weights_in_half_precision_are_read(run: Any, tmp_path: Path) -> None:
    """Not all that is unusual is hostile."""
    folder = shutil.copytree(run.folder, tmp_path / "run", ignore=shutil.ignore_patterns("training"))
    save_file({key: x.bfloat16() for key, x in load_file(folder / "model.safetensors").items()}, folder / "half")
    (folder / "half").replace(folder / "model.safetensors")
    assert {parameter.dtype for parameter in load(folder).model.parameters()} == {torch.float32}
    config(dropout=0)(folder)  # a whole number where a fraction may stand
    assert Folder(folder).config.dropout == 0
    assert load(folder).translate("a b").text
