"""org/name: found in the cache of the Hugging Face Hub, or downloaded by its own library. No network here."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.runs import hub
from regard.runs.shipped import SHIPPED

huggingface_hub = pytest.importorskip("huggingface_hub")
COMMIT = "a" * 40


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and an empty folder to stand in."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for name in ("HUGGINGFACE_HUB_CACHE", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "hub"


def put(cache: Path, *, commit: str = COMMIT, left_out: tuple[str, ...] = (), name: str = "dates") -> Path:
    """A shipped run as org/model in the cache, laid out as huggingface_hub does: links to blobs."""
    place = cache / "models--org--model"
    snapshot = place / "snapshots" / commit
    for folder in (place / "blobs", place / "refs", snapshot):
        folder.mkdir(parents=True, exist_ok=True)
    for number, path in enumerate(sorted((SHIPPED / name).iterdir())):
        if path.name not in left_out:
            shutil.copyfile(path, place / "blobs" / f"{commit[0]}{number}")
            (snapshot / path.name).symlink_to(os.path.relpath(place / "blobs" / f"{commit[0]}{number}", snapshot))
    (place / "refs" / "main").write_text(commit)
    return snapshot


def no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)


def downloads(monkeypatch: pytest.MonkeyPatch, work: Any) -> list[dict[str, Any]]:
    """What snapshot_download is called with, and what it does."""
    calls: list[dict[str, Any]] = []

    def snapshot_download(**given: Any) -> str:
        calls.append(given)
        return str(work())

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    return calls


def test_it_is_found_in_the_cache_without_the_library(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(cache, name="shapes")
    no_library(monkeypatch)
    run, wanted = regard.load("org/model", task="recognise"), regard.load("shapes")
    image = torch.zeros(48, 48, 3, dtype=torch.uint8).numpy()
    assert run.recognise(image).probabilities == wanted.recognise(image).probabilities
    assert type(regard.load_model("org/model")) is type(wanted.model)


def test_the_cache_is_where_the_library_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HUGGINGFACE_HUB_CACHE", "HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert hub.cache_folder() == Path.home() / ".cache/huggingface/hub"
    for name, wanted in (("XDG_CACHE_HOME", "huggingface/hub"), ("HF_HOME", "hub"), ("HF_HUB_CACHE", ".")):
        monkeypatch.setenv(name, str(tmp_path / name))
        assert hub.cache_folder() == tmp_path / name / wanted


def test_main_is_taken_and_else_the_only_one(cache: Path) -> None:
    older = put(cache, commit="b" * 40)
    newer = put(cache)
    assert hub.hub_folder("org/model") == newer
    (cache / "models--org--model/refs/main").write_text(older.name)
    assert hub.hub_folder("org/model") == older
    (cache / "models--org--model/refs/main").write_text("../../../elsewhere")
    assert hub.cached("org/model") is None
    shutil.rmtree(newer)
    assert hub.hub_folder("org/model") == older


def test_it_is_downloaded_where_the_library_is(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = downloads(monkeypatch, lambda: put(cache))
    assert isinstance(regard.load("org/model"), regard.Translator)
    (asked,) = calls
    assert asked.pop("repo_id") == "org/model"
    patterns = asked.pop("allow_patterns")
    assert asked == {"cache_dir": cache, "ignore_patterns": ["*/*"]}
    there = ["config.json", "model.safetensors", "model-00001-of-00002.safetensors", "model.safetensors.index.json"]
    there += ["tokenizer.json", "merges.txt", "vocab.txt", "source.spm"]
    odd = ["pytorch_model.bin", "model.pt", "tf_model.h5", "modeling.py", "model.pkl", "x.onnx", "onnx/config.json"]
    from huggingface_hub.utils import filter_repo_objects

    kept = filter_repo_objects([*there, *odd], allow_patterns=patterns, ignore_patterns=["*/*"])
    assert list(kept) == there
    regard.load_model("org/model")
    assert len(calls) == 1  # it is in the cache now


@pytest.mark.parametrize("missing", ["model.safetensors", "config.json"])
def test_what_is_in_the_cache_in_part_is_completed(
    cache: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """A program may have asked for the tokenizer alone."""
    snapshot = put(cache, left_out=(missing,))

    def complete() -> Path:
        shutil.copyfile(SHIPPED / "dates" / missing, snapshot / missing)
        return snapshot

    with monkeypatch.context() as patch:
        no_library(patch)
        with pytest.raises(regard.RunError, match=r"only in part in the cache .* pip install 'regard\[hub\]'"):
            regard.load("org/model")
    calls = downloads(monkeypatch, complete)
    regard.load_model("org/model")
    assert len(calls) == 1


def test_a_model_of_pickles_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    downloads(monkeypatch, lambda: put(cache, left_out=("model.safetensors",)))
    with pytest.raises(regard.RunError, match="org/model has no weights in safetensors"):
        regard.load("org/model")


def test_without_the_library_it_says_how_to_get_it(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_library(monkeypatch)
    with pytest.raises(regard.RunError, match=r"pip install 'regard\[hub\]'.*https://huggingface.co/org/model"):
        regard.load("org/model")


def test_without_a_network_it_says_so(cache: Path) -> None:
    """The library itself answers: the tests are offline."""
    with pytest.raises(regard.DownloadError, match=r"'org/model' is neither .* could not be downloaded"):
        regard.load("org/model")


def test_a_model_that_does_not_exist(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = huggingface_hub.errors.RepositoryNotFoundError

    def fail() -> None:
        raise kind.__new__(kind, "404 Client Error.\nRepository Not Found")

    downloads(monkeypatch, fail)
    with pytest.raises(
        regard.RunError, match=r"there is no run 'org/model': .* the Hugging Face Hub has no such model"
    ):
        regard.load("org/model")


@pytest.mark.parametrize("name", ["runs/mine", "nosuch", "a/b/c", "/a/b", "../b", "a/..", ".a/b", "a/b\n", "a b/c"])
def test_what_is_rather_a_path_is_not_looked_for(cache: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    Path("runs").mkdir()
    calls = downloads(monkeypatch, lambda: pytest.fail("asked for"))
    with pytest.raises(regard.RunError, match="there is no run"):
        regard.load(name)
    assert not calls


def test_a_folder_comes_first(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(cache)
    shutil.copytree(SHIPPED / "shapes", "org/model")
    assert isinstance(regard.load("org/model"), regard.Recogniser)


def test_a_cache_whose_links_lead_nowhere(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = put(cache)
    (snapshot / "tokenizer.json").resolve().unlink()
    with pytest.raises(regard.RunError, match=r"tokenizer\.json is a link to a file that does not exist"):
        regard.load("org/model")


def test_a_run_of_the_cache_is_saved_with_all_its_files(cache: Path, tmp_path: Path) -> None:
    """Its files are links out of the snapshot, to blobs of the same model; other links are not followed."""
    snapshot = put(cache)
    (tmp_path / "secret").write_text("of this machine")
    (snapshot / "notes.txt").symlink_to(tmp_path / "secret")
    regard.load("org/model").save(tmp_path / "saved")
    assert not (tmp_path / "saved" / "notes.txt").exists()
    saved = regard.load(tmp_path / "saved", task="translate")
    assert saved.translate("3 May 1979").text == "1979-05-03"
