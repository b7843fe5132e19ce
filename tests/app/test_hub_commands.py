"""`regard push` and `regard get`, with a server of this process that speaks the Hub's protocol."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hub_server import Hub, hub_here

import regard
from regard.runs.shipped import SHIPPED

pytest.importorskip("huggingface_hub")
# Said by what huggingface_hub uploads with, of its own call.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")
FILES = {"README.md", "attention.png", "config.json", "examples.json", "log.jsonl", "model.safetensors"}
FILES |= {"recipe.toml", "tokenizer.json"}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with hub_here(tmp_path / "home", monkeypatch) as hub:
        yield hub


@pytest.fixture
def dates(tmp_path: Path) -> Path:
    """A run with training state and other things beside it."""
    to = tmp_path / "dates"
    shutil.copytree(SHIPPED / "dates", to)
    (to / "training").mkdir()
    (to / "training" / "state.safetensors").write_bytes(b"x")
    (to / "notes.bin").write_bytes(b"mine")
    (tmp_path / "secret.json").write_text("{}")
    (tmp_path / "test.tsv").write_text("3 May 1979\t1979-05-03\n4 June 1980\t1980-06-04\n")
    (to / "extra.json").symlink_to(tmp_path / "secret.json")
    return to


def test_a_run_is_pushed_with_its_card_and_got_again(hub: Hub, dates: Path, call: Any, tmp_path: Path) -> None:
    pushed = call("push", dates, "me/dates", "--license", "apache-2.0", "--data", tmp_path / "test.tsv")
    assert (pushed.code, pushed.out) == (0, f"{hub.address}/me/dates\n")
    assert "left here" in pushed.err
    assert "extra.json, notes.bin" in pushed.err
    files = hub.files("me/dates")
    assert set(files) == FILES
    assert files["model.safetensors"] == (dates / "model.safetensors").read_bytes()
    assert files["attention.png"].startswith(b"\x89PNG")
    card = files["README.md"].decode()
    head = dict(line.split(": ", 1) for line in card.split("\n---\n")[0].splitlines()[1:])
    assert json.loads(head["license"]) == "apache-2.0"
    assert json.loads(head["pipeline_tag"]) == "translation"
    [results] = json.loads(head["model-index"])[0]["results"]
    metrics = {one["type"]: one for one in results["metrics"]}
    wanted = regard.load("dates", device="cpu").evaluate(tmp_path / "test.tsv")
    assert metrics["bleu"]["value"] == pytest.approx(wanted.metrics["bleu"], abs=1e-4)
    assert metrics["bleu"]["args"]["signature"] == wanted.details["bleu_signature"]
    assert "| licence of the data | made by regard, Apache-2.0 |" in card
    assert "![Where the model looked](attention.png)" in card

    got = call("get", "me/dates", "--to", tmp_path / "again")
    assert (got.code, got.out) == (0, f"{tmp_path / 'again'}\n")
    assert "every file with its checksum" in got.err
    for name, data in files.items():
        assert (tmp_path / "again" / name).read_bytes() == data
        assert not (tmp_path / "again" / name).is_symlink()
    assert regard.load(tmp_path / "again").translate("3 May 1979").text == "1979-05-03"
    os.chdir(tmp_path)
    assert regard.load("me/dates").translate("3 May 1979").text == "1979-05-03"  # from the cache

    again = call("push", tmp_path / "again", "me/dates", "--data", tmp_path / "test.tsv")
    assert again.code == 0
    assert hub.files("me/dates")["README.md"].decode().count("library_name") == 1
    assert len(hub.uploads) == len(set(hub.uploads))  # what is there is not sent again


def test_a_push_that_breaks_off_changes_nothing_and_is_made_good(hub: Hub, dates: Path, call: Any) -> None:
    hub.put("me/dates", {"README.md": b"before", "model.safetensors": b"old"})
    hub.breaks = True
    words = ("push", dates, "me/dates", "--data", dates.parent / "test.tsv")
    broken = call(*words)
    assert broken.code == 1
    assert "me/dates could not be uploaded to the Hugging Face Hub" in broken.err
    assert hub.files("me/dates") == {"README.md": b"before", "model.safetensors": b"old"}
    hub.breaks = False
    assert call(*words).code == 0
    assert set(hub.files("me/dates")) == FILES


def test_what_was_fetched_is_what_the_hub_has(hub: Hub, call: Any, tmp_path: Path) -> None:
    hub.put("org/dates", {path.name: path.read_bytes() for path in (SHIPPED / "dates").iterdir()})
    hub.spoils = "model.safetensors"
    spoiled = call("get", "org/dates", "--to", tmp_path / "to")
    assert spoiled.code == 1
    assert "model.safetensors is not the file that the Hugging Face Hub has: its checksum differs" in spoiled.err
    assert not (tmp_path / "to").exists()


def test_only_safetensors_of_a_size_that_is_allowed(hub: Hub, call: Any, tmp_path: Path) -> None:
    hub.put("org/pickled", {"config.json": b"{}", "pytorch_model.bin": b"\x80"})
    assert "has no weights in safetensors" in call("get", "org/pickled").err
    files = {path.name: path.read_bytes() for path in (SHIPPED / "dates").iterdir()}
    hub.put("org/dates", {**files, "model.py": b"import os", "sub/model.safetensors": b"x", "old.bin": b"x"})
    refused = call("get", "org/dates", "--most", "0.0001")
    assert refused.code == 2
    assert "at most 0.0 GiB are downloaded; see --most" in refused.err
    assert not (tmp_path / "home" / "hub").exists()
    assert call("get", "org/dates", "--to", tmp_path / "to").code == 0
    assert {path.name for path in (tmp_path / "to").iterdir()} == set(files)


def test_the_token_and_the_name_decide(
    hub: Hub, dates: Path, call: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "the Hugging Face Hub has no model org/none" in call("get", "org/none").err
    hub.put("private/dates", {path.name: path.read_bytes() for path in (SHIPPED / "dates").iterdir()})
    assert call("get", "private/dates", "--to", tmp_path / "mine").code == 0
    monkeypatch.setenv("HF_TOKEN", "hf_of_another")
    for words in (
        ["get", "private/dates"],
        ["push", str(dates), "me/dates", "--data", str(dates.parent / "test.tsv")],
    ):
        refused = call(*words)
        assert refused.code == 2
        assert "HF_TOKEN" in refused.err
        assert "hf_of_another" not in refused.err
    assert "me/dates" not in hub.models
    for name in ("dates", "../x/y", "a/b/c", "org/.."):
        assert "is named org/name" in call("get", name).err


def test_without_a_network(call: Any, hub: Hub, dates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    for words in (["get", "org/name"], ["push", str(dates), "me/dates", "--data", str(dates.parent / "test.tsv")]):
        done = call(*words)
        assert done.code == 1
        assert "Hugging Face Hub" in done.err
        assert "Traceback" not in done.err


def test_a_dry_run_sends_nothing(call: Any, hub: Hub, dates: Path) -> None:
    done = call("push", dates, "me/dates", "--dry-run", "--data", dates / "test.tsv")
    assert done.code == 2  # there is no such file
    done = call("push", dates, "me/dates", "--dry-run")
    assert done.code == 0
    assert done.out.startswith("---\nlibrary_name")
    assert hub.models == {}
