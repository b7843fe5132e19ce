"""Every kind of model that only transformers has, from its folder: served, asked and drawn as the page does, and
looked at by `regard look`; and folders that are not opened."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from served_models import png, served
from wrapped_folders import GENERATORS, IMAGE_READERS, TRANSLATORS, make_folder

from regard.tasks.shared import looking

pytest.importorskip("transformers")

TEXT = "the cat sat on the mat"
TASKS = dict.fromkeys(GENERATORS, "generate") | {"t5": "translate", "roberta": "fill", "distilbert": "fill"}
TASKS |= dict.fromkeys(IMAGE_READERS, "recognise")
PIXELS = np.random.default_rng(0).integers(0, 255, (12, 12, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    place, made = tmp_path_factory.mktemp("wrapped"), {}

    def folder(name: str) -> Path:
        if name not in made:
            made[name] = make_folder(name, place / name)
        return made[name]

    return folder


@pytest.mark.parametrize("name", TASKS)
def test_a_folder_is_served_asked_drawn_and_stepped_through(folders: Callable[[str], Path], name: str) -> None:
    given = png(PIXELS) if name in IMAGE_READERS else "the <mask> sat on" if TASKS[name] == "fill" else TEXT
    options = {"max_tokens": 5} if name in GENERATORS else {"max_length": 5} if name in TRANSLATORS else {}
    with served(str(folders(name))) as client:
        [model] = client.get("/api/models").json()["models"]
        address = f"/api/models/{model['name']}"
        assert model["tasks"][0]["task"] == TASKS[name]
        asked = {"inputs": [given], "options": options}
        [answer] = client.post(f"{address}/{TASKS[name]}", json=asked).json()["answers"]
        attention = f"{address}/answers/{answer['id']}/attention"
        for site in [each["name"] for each in model["sites"]]:
            assert client.get(attention, params={"site": site, "form": "svg"}).content.startswith(b"<svg")
        every = client.get(attention, params={"site": "*"})
        assert every.status_code == 200
        if TASKS[name] in ("generate", "translate"):
            step = client.post(f"{address}/{TASKS[name]}/step", json={"inputs": [given]}).json()
            assert len(step["candidates"]) > 1
            assert_streamed(client, f"{address}/{TASKS[name]}", asked, answer["text"])


def assert_streamed(client: Any, address: str, asked: Any, text: str) -> None:
    """The same text, token by token as it is written."""
    with client.stream("POST", address, json={**asked, "stream": True}) as lines:
        blocks = [block.split("\n") for block in "".join(lines.iter_text()).strip().split("\n\n")]
    events = [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]
    pieces = [data["text"] for kind, data in events if kind == "piece"]
    assert len(pieces) > 1
    assert "".join(pieces) == text
    assert [kind for kind, _ in events][-2:] == ["answer", "end"]


@pytest.mark.parametrize("name", TASKS)
def test_a_folder_is_looked_at(folders: Callable[[str], Path], call: Any, name: str) -> None:
    Image.fromarray(PIXELS).save("photo.png")
    given = "photo.png" if name in IMAGE_READERS else TEXT
    done = call("look", folders(name), given, "--show", "looks.html")
    assert (done.code, done.err) == (0, "wrote looks.html\n")
    lines = [line.split("\t") for line in done.out.splitlines()]
    assert all(len(line) == 4 for line in lines)
    words = [line[0].strip("▁") for line in lines]
    if name in IMAGE_READERS:
        assert words == ["rollout", "blocks.1.attend"]
    elif name != "t5":  # what it looks from there is what it writes
        assert [word for word in words if word.isalpha()] == TEXT.split()
    assert "blocks." in Path("looks.html").read_text() or name == "t5"


def test_of_a_long_text_the_command_says_which_part_to_ask_for(
    folders: Callable[[str], Path], call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its own options, not in those of a request."""
    monkeypatch.setattr(looking, "LONG", 10)
    monkeypatch.setattr(looking, "Part", partial(looking.Part, most=100))
    done = call("look", folders("llama"), TEXT)
    assert done.code == 2
    assert (
        "this would be 196 weights, and 100 are looked at at once; of a long text give one of --sites" in done.err
    )
    assert "side=" not in done.err
    assert call("look", folders("llama"), TEXT, "--head", 1).code == 0
    assert call("look", folders("llama"), TEXT, "--rows", "0-2").out.count("\n") == 3


def test_patches_of_an_image_are_those_of_its_maps(folders: Callable[[str], Path], call: Any) -> None:
    import regard

    Image.fromarray(PIXELS).save("photo.png")
    [*maps] = json.loads(call("look", folders("deit"), "photo.png", "--sites", "*.0.*", "--json").out)["maps"]
    wanted = regard.load(folders("deit"), device="cpu").maps(PIXELS, ["*.0.*"])
    assert [one["map"] for one in maps] == list(wanted)
    for one, weights in zip(maps, wanted.values(), strict=True):
        best = one["looks"][0]
        assert best["weight"] == pytest.approx(weights.max(), abs=1e-5)
        assert weights[best["row"], best["column"]] == weights.max()
    assert call("look", folders("deit"), "photo.png", "--head", 1).err.strip().endswith("name its heads by --sites")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"architectures": ["OwnForCausalLM"], "auto_map": {"AutoModel": "own.Own"}}, "auto_map names is not run"),
        ({"architectures": ["OwnForCausalLM"]}, "asks for 'OwnForCausalLM', and transformers has no such class"),
        ({"model_type": "own", "auto_map": {"AutoModel": "own.Own"}}, "(auto_map), which is never run here"),
        ({"trust_remote_code": True}, "trust_remote_code is not followed here"),
    ],
)
def test_code_of_a_folder_is_not_run(
    folders: Callable[[str], Path], call: Any, tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    folder = shutil.copytree(folders("llama"), tmp_path / "own")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))
    (folder / "own.py").write_text("raise SystemExit('it was run')")
    done = call("look", folder, TEXT)
    assert done.code == 2
    assert said in done.err


def test_its_own_class_of_transformers_is_taken_whatever_auto_map_says(
    folders: Callable[[str], Path], call: Any, tmp_path: Path
) -> None:
    folder = shutil.copytree(folders("llama"), tmp_path / "both")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"auto_map": {"AutoModelForCausalLM": "own.Own"}}))
    (folder / "own.py").write_text("raise SystemExit('it was run')")
    assert call("look", folder, TEXT).out == call("look", folders("llama"), TEXT).out


def test_a_pickle_is_not_opened(folders: Callable[[str], Path], call: Any, tmp_path: Path) -> None:
    folder = shutil.copytree(folders("llama"), tmp_path / "pickled")
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")
    done = call("look", folder, TEXT)
    assert done.code == 2
    assert "in a pickle or another format that can carry code" in done.err


def test_without_transformers_the_extra_is_named(
    folders: Callable[[str], Path], call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folders("llama")
    monkeypatch.setitem(sys.modules, "transformers", None)  # as where it is not installed
    done = call("look", folder, TEXT)
    assert done.code == 2
    assert "open with the extra `transformers`: pip install 'regard[transformers]'" in done.err
