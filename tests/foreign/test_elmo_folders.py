"""ELMo as it was published: its own weights and outputs, and folders written here in its form."""

from __future__ import annotations

import builtins
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from campaigns.folders import SMALL_ELMO, write_elmo
from regard.base.tensors import named_tensors
from regard.data.text.characters import END_SPELLING, START_SPELLING, character_batch, spell
from regard.errors import RunError
from regard.foreign import form_of, why_no_form
from regard.models.elmo.model import ELMo, ELMoConfig
from regard.runs.folder import Folder
from regard.tasks.core.table import load

h5py = pytest.importorskip("h5py", reason="needs h5py: pip install 'regard[elmo]'")

DATA = Path(os.environ.get("REGARD_DATA", "")) / "elmo"
published = pytest.mark.skipif(
    "REGARD_DATA" not in os.environ or not DATA.is_dir(),
    reason="set REGARD_DATA to a folder with elmo/: the small ELMo that allennlp tests with, and its outputs",
)
LSTM = "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell"


@pytest.fixture
def model() -> ELMo:
    torch.manual_seed(0)
    return ELMo(SMALL_ELMO).eval()


@pytest.fixture
def theirs(model: ELMo, tmp_path: Path) -> Path:
    """The model as bilm-tf would have saved it."""
    folder = tmp_path / "published"
    write_elmo(folder, model, "lm_weights.hdf5", n_epochs=10)
    return folder


def options(folder: Path, section: str, **changes: Any) -> None:
    """None: the setting is removed."""
    table = json.loads((folder / "options.json").read_text())
    part = table[section] if section else table
    part |= changes
    for key in [key for key, value in changes.items() if value is None]:
        del part[key]
    (folder / "options.json").write_text(json.dumps(table))


# ---- the published network


@published
@torch.no_grad()
def test_the_published_vectors_are_reproduced() -> None:
    """In batches of three sentences, whose states carry over from batch to batch."""
    model: Any = Folder(DATA).model()
    texts = json.loads((DATA / "sentences.json").read_text())
    state, seen = None, 0
    with h5py.File(DATA / "lm_embeddings_0.hdf5") as first, h5py.File(DATA / "lm_embeddings_1.hdf5") as second:
        for number in range(10):
            sentences = [[spell(word) for word in text[number].split()] for text in texts]
            states, state = model.read(character_batch(sentences, widest=5), state)
            for row, file in enumerate((first, second)):
                wanted = np.concatenate(list(file[str(number)][...]), -1)  # forward and backward, of the last layer
                np.testing.assert_allclose(states[row, -1, : len(wanted)], wanted, rtol=1e-6, atol=1e-6)
                seen += len(wanted)
    assert seen == 512


@published
@torch.no_grad()
def test_without_the_states_the_vectors_are_others() -> None:
    model: Any = Folder(DATA).model()
    text = json.loads((DATA / "sentences.json").read_text())[0][1].split()
    found = model.states_of_layers(character_batch([[spell(word) for word in text]], widest=5))[0, -1]
    with h5py.File(DATA / "lm_embeddings_0.hdf5") as file:
        wanted = np.concatenate(list(file["1"][...]), -1)
    assert np.abs(found.numpy() - wanted).max() > 1e-3


@published
@torch.no_grad()
def test_the_published_vectors_of_a_vocabulary_are_reproduced() -> None:
    model: Any = Folder(DATA).model()
    words = (DATA / "vocab_test.txt").read_text().split("\n")
    ends = {"<S>": START_SPELLING, "</S>": END_SPELLING}
    batch = character_batch([[ends.get(word) or spell(word) for word in words]], widest=5)
    with h5py.File(DATA / "elmo_token_embeddings.hdf5") as file:
        wanted = file["embedding"][...]
    np.testing.assert_allclose(model.word_vectors(batch)[0, 1:-1], wanted, rtol=1e-6, atol=1e-6)


@published
def test_a_run_of_the_published_network_reads_text_and_is_saved(tmp_path: Path) -> None:
    """In our own form, which needs no h5py."""
    run: Any = load(DATA)
    run.save(tmp_path / "own")
    again: Any = load(tmp_path / "own")
    assert json.loads((tmp_path / "own" / "config.json").read_text())["model_type"] == "regard-elmo"
    assert not list((tmp_path / "own").glob("*.hdf5"))
    text = "A <s> Zyzzyva ran ."
    assert np.array_equal(again.embed(text), run.embed(text))


# ---- folders in this form


@torch.no_grad()
def test_a_folder_is_opened(theirs: Path, model: ELMo) -> None:
    folder = Folder(theirs)
    assert (folder.name, folder.config) == ("elmo", ELMoConfig(**vars(model.config) | {"dropout": 0.1}))
    opened: Any = folder.model()
    for name, tensor in named_tensors(opened).items():
        torch.testing.assert_close(tensor, named_tensors(model)[name], rtol=0, atol=1e-7)
    tokenizer = folder.tokenizer()
    assert tokenizer.pieces("the <unk>  cat-like ,\nb") == ["the", "<unk>", "cat-like", ",", "b"]
    assert why_no_form("elmo", model.config) == "regard reads ELMo's published form, and does not write it"
    assert form_of("elmo", model.config) is None


def test_the_published_names_are_known(theirs: Path) -> None:
    """elmo_2x1024_128_2048cnn_1xhighway_options.json and _weights.hdf5, with vectors beside them."""
    (theirs / "options.json").rename(theirs / "elmo_2x10_options.json")
    (theirs / "lm_weights.hdf5").rename(theirs / "elmo_2x10_weights.hdf5")
    shutil.copy(theirs / "elmo_2x10_weights.hdf5", theirs / "vectors.hdf5")
    assert Folder(theirs).model().config.cell == 10


def test_no_clips_and_no_highways(theirs: Path) -> None:
    options(theirs, "lstm", cell_clip=None, proj_clip=None, use_skip_connections=None)
    options(theirs, "char_cnn", n_highway=None)
    config: Any = Folder(theirs).config
    assert (config.cell_clip, config.projection_clip, config.skip, config.highways) == (0, 0, False, 0)


def test_without_h5py_the_extra_is_named(theirs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "h5py":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    assert Folder(theirs).name == "elmo"
    with pytest.raises(RunError, match=r"lm_weights.hdf5 can only be read with h5py: pip install 'regard\[elmo\]'"):
        Folder(theirs).model()


# ---- folders that are refused

SETTINGS: dict[str, tuple[str, dict[str, Any], str]] = {
    "no size": ("lstm", {"dim": None}, "lstm.dim is missing"),
    "a size as text": ("lstm", {"dim": "10"}, "dim must be of type int, got '10'"),
    "nothing": ("lstm", {"n_layers": 0}, "n_layers must be at least 1, got 0"),
    "layers without end": ("lstm", {"n_layers": 10**9}, "layers must be at most 1,000, got 1,000,000,000"),
    "an absurd size": ("lstm", {"dim": 10**12}, "cell must be at most 16,777,216"),
    "no projection": ("lstm", {"projection_dim": 10}, "cell must be above dim = 10"),
    "a clip as text": ("lstm", {"cell_clip": "3"}, "cell_clip must be of type float, got '3'"),
    "a clip below 0": ("lstm", {"proj_clip": -3}, "projection_clip must be at least 0, got -3.0"),
    "one direction": ("", {"bidirectional": False}, "bidirectional = False is not supported, only True"),
    "no table": ("", {"lstm": [1]}, r"lstm must be a table of settings, got \[1\]"),
    "an embedding": ("char_cnn", {"embedding": 4}, "embedding must be a table of settings, got 4"),
    "other characters": ("char_cnn", {"n_characters": 261}, "n_characters must be 262, got 261; while training"),
    "an activation": ("char_cnn", {"activation": "gelu"}, "activation must be one of 'relu', 'tanh', got 'gelu'"),
    "no filters": (
        "char_cnn",
        {"filters": []},
        r"filters must be a list of \[width, number of filters\], got \[\]",
    ),
    "odd filters": ("char_cnn", {"filters": [[1, 4], [2]]}, "filters must be a list of"),
    "filters as text": ("char_cnn", {"filters": [["1", 4]]}, "filters must be a list of"),
    "filters without end": (
        "char_cnn",
        {"filters": [[1, 10**7]] * 999},
        "filters must add up to at most 1,048,576",
    ),
    "filters below 1": ("char_cnn", {"filters": [[0, 4]]}, "widths must be at least 1, got 0"),
    "wide filters": ("char_cnn", {"filters": [[51, 4]]}, "widths must be at most max_characters = 50"),
    "short words": ("char_cnn", {"max_characters_per_token": 2}, "max_characters must be at least 3, got 2"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_options_are_refused_by_name(name: str, theirs: Path) -> None:
    section, changes, said = SETTINGS[name]
    options(theirs, section, **changes)
    with pytest.raises(RunError, match=f"options.json: .*{said}") as caught:
        Folder(theirs).model()
    assert len(str(caught.value)) < 500


def replace(file: Any, name: str, value: Any) -> None:
    del file[name]
    file[name] = value


def outside(file: Any) -> None:
    file.create_dataset("more", (4,), "f4", external=[("/etc/passwd", 0, 16)])


def virtual(file: Any) -> None:
    layout = h5py.VirtualLayout((4,), "f4")
    layout[:] = h5py.VirtualSource("other.hdf5", "x", (4,))
    file.create_virtual_dataset("more", layout)


def itself(file: Any) -> None:
    file["CNN/inside"] = file["/"]


DAMAGES: dict[str, tuple[Callable[[Any], object], str]] = {
    "a missing set": (
        lambda file: file.pop(f"{LSTM}/B"),
        f"{LSTM}/B should be (40,) by options.json, but is missing",
    ),
    "another shape": (
        lambda file: replace(file, "char_embed", np.zeros((260, 4), "f4")),
        "char_embed should be (261, 4) by options.json, but is (260, 4)",
    ),
    "a set too many": (
        lambda file: file.update(more=np.zeros(3)),
        "more should be absent by options.json, but is (3,)",
    ),
    "an absurd size": (
        lambda file: (
            file.pop("char_embed"),
            file.create_dataset("char_embed", (10**9, 10**6), "f4", chunks=(1, 10)),
        ),
        "char_embed should be (261, 4) by options.json, but is (1000000000, 1000000)",
    ),
    "a table": (
        lambda file: (file.pop("CNN_proj/b_proj"), file.create_group("CNN_proj/b_proj")),
        "CNN_proj/b_proj should be (6,) by options.json, but is missing",
    ),
    "whole numbers": (
        lambda file: replace(file, "CNN/b_cnn_0", np.zeros(4, "i4")),
        "CNN/b_cnn_0 holds integers (I32), and this model has floating point there",
    ),
    "text": (lambda file: replace(file, "CNN/b_cnn_0", ["a"] * 4), "CNN/b_cnn_0 holds object; a run's tensors"),
    "records": (
        lambda file: replace(file, "CNN/b_cnn_0", np.zeros(4, [("a", "f4"), ("b", "f4")])),
        "CNN/b_cnn_0 holds void64; a run's tensors",
    ),
    "a soft link": (lambda file: file.update(more=h5py.SoftLink("/char_embed")), "more is a link"),
    "another file": (lambda file: file.update(more=h5py.ExternalLink("/etc/passwd", "/")), "more is a link"),
    "data elsewhere": (outside, "more has its data in other files, which are not read"),
    "a view": (virtual, "more has its data in other files, which are not read"),
    "a group in itself": (itself, "has data sets that share their bytes; store each by itself, under one name"),
    "an empty set": (lambda file: replace(file, "CNN/b_cnn_0", h5py.Empty("f4")), "CNN/b_cnn_0 should be (4,) by"),
    "a type alone": (lambda file: file.update(more=np.dtype("f4")), "more is neither a data set nor a group"),
}


def unwritten(file: Any) -> None:
    file.pop("char_embed")
    file.create_dataset("char_embed", (261, 4), "f4", chunks=(9, 4))[:9] = 1  # one chunk of 29


def huge_chunk(file: Any) -> None:
    """Nothing but zeros, which compress well: 64 MB to read four numbers."""
    file.pop("CNN/b_cnn_0")
    options = {"chunks": (1 << 24,), "maxshape": (None,), "compression": "gzip"}
    file.create_dataset("CNN/b_cnn_0", (4,), "f4", **options)[:] = 0


def many_names(file: Any) -> None:
    for number in range(1000):
        file[f"more/{number}"] = file["char_embed"]


DAMAGES |= {
    "values never written": (unwritten, "char_embed has only 144 of its 4,176 bytes"),
    "a chunk for a bomb": (huge_chunk, "bytes to be unpacked, and the file has only"),
    "one set by many names": (many_names, "has data sets that share their bytes; store each by itself"),
}


def test_groups_that_hold_each_other_are_counted(theirs: Path) -> None:
    """Ten links a level, thirteen levels: ten billion paths in a small file."""
    path = theirs / "lm_weights.hdf5"
    with h5py.File(path, "r+") as file:
        inner = file.create_group("last")
        for level in range(13):
            group = file.create_group(f"level{level}")
            for number in range(10):
                group[str(number)] = inner
            inner = group
    with pytest.raises(RunError, match="holds more than 10,000 data sets and groups, and no model does"):
        Folder(theirs).model()


def test_numbers_of_the_other_byte_order_are_read(theirs: Path, model: ELMo) -> None:
    with h5py.File(theirs / "lm_weights.hdf5", "r+") as file:
        replace(file, "char_embed", file["char_embed"][...].astype(">f4"))
    opened = named_tensors(Folder(theirs).model())
    assert all(torch.equal(opened[name], x) for name, x in named_tensors(model).items())


@pytest.mark.parametrize("name", DAMAGES)
def test_weights_are_refused_by_name(name: str, theirs: Path) -> None:
    damage, said = DAMAGES[name]
    with h5py.File(theirs / "lm_weights.hdf5", "r+") as file:
        damage(file)
    with pytest.raises(RunError) as caught:
        Folder(theirs).model()
    assert str(caught.value).startswith(str(theirs / "lm_weights.hdf5"))
    assert said in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("keep", [0, 7, 100, 3000])
def test_a_truncated_file_is_refused(keep: int, theirs: Path) -> None:
    path = theirs / "lm_weights.hdf5"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(
        RunError, match=r"lm_weights\.hdf5 cannot be read; it is truncated, changed or not an HDF5 file"
    ):
        Folder(theirs).model()


def test_other_files_are_no_weights(theirs: Path) -> None:
    path = theirs / "lm_weights.hdf5"
    path.write_bytes(b"\x80\x04N.")
    with pytest.raises(RunError, match="not an HDF5 file"):
        Folder(theirs).model()
    path.unlink()
    with pytest.raises(RunError, match=r"must hold the weights in one HDF5 file, .*; there is none"):
        Folder(theirs).model()
    for name in ("a.hdf5", "b.hdf5"):
        (theirs / name).touch()
    with pytest.raises(RunError, match=r"must hold the weights in one HDF5 file, .*; a\.hdf5, b\.hdf5"):
        Folder(theirs).model()


def test_damaged_bytes_never_pass_as_an_error_of_ours(theirs: Path) -> None:
    """Each eighth of the file in turn is overwritten: it opens, or RunError says why not."""
    path = theirs / "lm_weights.hdf5"
    whole = path.read_bytes()
    refused = []
    for begin in range(0, len(whole), len(whole) // 8):
        path.write_bytes(whole[:begin] + b"\xff" * 64 + whole[begin + 64 :])
        try:
            Folder(theirs).model()
        except RunError:
            refused.append(begin)
        except RuntimeWarning:  # 0xff.. is NaN, of which a warning says that answers will be of no use
            continue
    assert refused[:1] == [0], "the first bytes say that it is an HDF5 file"


def test_options_alone_are_no_run_and_other_options_neither(theirs: Path) -> None:
    (theirs / "options.json").write_text('{"a": 1}')
    with pytest.raises(RunError, match=r"is a folder without config\.json, so it is not a run"):
        Folder(theirs)
    (theirs / "options.json").write_text("{")
    with pytest.raises(RunError, match=r"options\.json is not valid JSON"):
        Folder(theirs)
