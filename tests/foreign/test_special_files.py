"""Files of a folder that are no files, cannot be read or have no end: refused at once and by name. So are optional
files, as an absent file means something else."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from regard.base.files import LARGEST_JSON, LARGEST_RECIPE, LARGEST_TOKENIZER, read_bytes
from regard.data.artifacts import Artifacts, Pixels
from regard.data.text.tokenizer import Tokenizer
from regard.errors import DataError, RecipeError, RunError
from regard.models import MODELS
from regard.models.bert import Bert, BertConfig
from regard.models.gpt2 import GPT2, GPT2Config
from regard.models.rnnlm import RNNLM, RNNLMConfig
from regard.models.vit import ViT, ViTConfig
from regard.runs.folder import Folder, begin, save_weights
from regard.tasks.core.recipe import read
from regard.tasks.core.table import load

SMALL: dict[str, Any] = {"dim": 8, "layers": 1, "heads": 2}
WEIGHTS = "model.safetensors"
# The files that opening looks at, whether they are there or not.
FILES = {
    "own": ("config.json", "tokenizer.json", WEIGHTS, "recipe.toml"),
    "gpt2": (
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "generation_config.json",
        WEIGHTS,
        "recipe.toml",
    ),
    "bert": ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", WEIGHTS),
    "vit": ("config.json", "preprocessor_config.json", WEIGHTS),
}
CASES = [(kind, name) for kind, names in FILES.items() for name in names]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of our own form, and one of each kind of transformers."""
    folder, labels = tmp_path_factory.mktemp("runs"), ("cat", "dog")
    tokens = {
        numbering: Tokenizer.train(["abc def"], kind="character", numbering=numbering)
        for numbering in ("regard", "gpt2")
    }
    pieces = Tokenizer.train(["abc def"], kind="wordpiece", size=60, numbering="bert")
    made: dict[str, tuple[Any, Artifacts]] = {
        "own": (RNNLM(RNNLMConfig(len(tokens["regard"]), dim=8)), Artifacts(tokens["regard"])),
        "gpt2": (GPT2(GPT2Config(len(tokens["gpt2"]), max_positions=16, **SMALL)), Artifacts(tokens["gpt2"])),
        "bert": (Bert(BertConfig(len(pieces), max_positions=16, **SMALL)), Artifacts(pieces)),
        "vit": (
            ViT(ViTConfig(labels, image_size=8, patch_size=4, **SMALL)),
            Artifacts(labels=labels, pixels=Pixels()),
        ),
    }
    for name, (model, artifacts) in made.items():
        begin(folder / name, model, artifacts, "")
        save_weights(folder / name, model)
        load(folder / name)
    return folder


@pytest.fixture(autouse=True)
def in_time() -> Iterator[None]:
    """A pipe that is waited for must not stop the tests."""

    def stop(*_: object) -> None:
        raise TimeoutError("this waits for ever")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def bind(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the name of a socket is short
    socket.socket(socket.AF_UNIX).bind(path.name)
    os.chdir(here)


def sparse(path: Path) -> None:
    """3 GB of zeros that take no room."""
    with open(path, "wb") as file:
        file.truncate(3 << 30)


ODD: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a pipe": (os.mkfifo, "must be a regular file, and is a pipe"),
    "a socket": (bind, "must be a regular file, and is a socket"),
    "a device": (lambda path: path.symlink_to("/dev/zero"), "must be a regular file, and is a device"),
    "a directory": (Path.mkdir, "must be a regular file, and is a directory"),
    "a link to itself": (
        lambda path: path.symlink_to(path.name),
        "cannot be read: Too many levels of symbolic links",
    ),
    "a link to nothing": (lambda path: path.symlink_to("nowhere"), "is a link to a file that does not exist"),
    "a file without end": (sparse, "has 3,221,225,472 bytes, and at most|cannot be read"),
}


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize(("kind", "name"), CASES, ids=["/".join(case) for case in CASES])
def test_it_is_refused_by_name(kind: str, name: str, odd: str, runs: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(runs / kind, tmp_path / "run")
    (folder / name).unlink(missing_ok=True)
    make, said = ODD[odd]
    make(folder / name)
    with pytest.raises(RunError, match=f"{name} (?:{said})"):
        load(folder)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may read everything")
@pytest.mark.parametrize(("kind", "name"), CASES, ids=["/".join(case) for case in CASES])
def test_what_may_not_be_read_is_not_left_out(kind: str, name: str, runs: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(runs / kind, tmp_path / "run")
    (folder / name).touch()
    (folder / name).chmod(0)
    with pytest.raises(RunError, match=f"{name} cannot be read: Permission denied"):
        load(folder)


def test_links_to_files_are_followed(runs: Path, tmp_path: Path) -> None:
    """As in the cache of the hub, where every file is one."""
    for path in (runs / "bert").iterdir():
        (tmp_path / path.name).symlink_to(path)
    assert (load(tmp_path).embed("abc") == load(runs / "bert").embed("abc")).all()


def test_a_weight_file_of_an_index_must_be_one(runs: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(runs / "gpt2", tmp_path / "run")
    (folder / WEIGHTS).unlink()
    (folder / f"{WEIGHTS}.index.json").write_text('{"weight_map": {"x": "a.safetensors"}}')
    os.mkfifo(folder / "a.safetensors")
    with pytest.raises(RunError, match=r"a\.safetensors must be a regular file, and is a pipe"):
        load(folder)


def test_recipes_have_an_end(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    sparse(path)
    with pytest.raises(RecipeError, match=f"mine.toml has 3,221,225,472 bytes, and at most {LARGEST_RECIPE:,} are"):
        read(str(path))


def test_what_is_read_is_no_more_than_allowed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10)
    assert read_bytes(path, 10) == b"x" * 10
    with pytest.raises(DataError, match="file has 10 bytes, and at most 9 are read"):
        read_bytes(path, 9)
    with pytest.raises(DataError, match="does not exist; check the name"):
        read_bytes(tmp_path / "nowhere", 9)
    if Path("/proc/self/status").exists():  # of size 0, as it says
        with pytest.raises(DataError, match="at most 9 are read"):
            read_bytes("/proc/self/status", 9)
    assert max(LARGEST_JSON, LARGEST_TOKENIZER, LARGEST_RECIPE) <= 32 << 20


def test_a_run_of_our_own_form_keeps_how_much_of_a_text_is_read(tmp_path: Path) -> None:
    tokens = Tokenizer.train(["abc def"], kind="character")
    model = MODELS["rnnlm"](RNNLMConfig(len(tokens), dim=8))
    begin(tmp_path, model, Artifacts(tokens, max_length=12), "")
    assert Folder(tmp_path).max_length() == 12
    begin(tmp_path, model, Artifacts(tokens), "")
    assert Folder(tmp_path).max_length() == 0


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("kind", ["gpt2", "bert"])
def test_added_tokens_are_refused_by_name(kind: str, odd: str, runs: Path, tmp_path: Path) -> None:
    """The file belongs to folders without tokenizer.json."""
    folder = shutil.copytree(runs / kind, tmp_path / "run")
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
    (folder / "merges.txt").write_text("")
    (folder / "vocab.txt").write_text("\n".join(sorted(model["vocab"], key=model["vocab"].get)))
    load(folder)
    make, said = ODD[odd]
    make(folder / "added_tokens.json")
    with pytest.raises(RunError, match=f"added_tokens.json (?:{said})"):
        load(folder)
