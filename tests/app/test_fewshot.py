"""`regard fewshot`, and how `evaluate` treats episodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from regard.data.artifacts import Artifacts, Pixels
from regard.data.made.glyphs import glyphs
from regard.models.snail.model import SNAIL, SNAILConfig
from regard.runs.folder import begin, save_weights
from regard.tasks.core.table import load

RECIPE = '[data]\nmade = "glyphs"\ntest_count = 5\ntest_episodes = 8\n'
IMAGES: Any = glyphs("test", 3, examples=2).pixels


@pytest.fixture(scope="module")
def learner(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a run with random weights. Tests only read it."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("learner") / "run"
    sizes: dict[str, Any] = {"conv_filters": 4, "embed": 8, "keys": (8, 8), "values": (8, 8), "tc_filters": 4}
    model = SNAIL(SNAILConfig(ways=3, **sizes))
    begin(folder, model, Artifacts(pixels=Pixels((0.0,), (1.0,))), RECIPE)
    save_weights(folder, model)
    return str(folder)


@pytest.fixture(autouse=True)
def images(call: Any) -> None:
    """shown/{a,b,c}/0.png, asked/{a,b,c}.png and a file that is no image, where the command is called."""
    Path("asked").mkdir()
    for number, label in enumerate("abc"):
        Path("shown", label).mkdir(parents=True)
        Image.fromarray(IMAGES[2 * number, ..., 0]).save(f"shown/{label}/0.png")
        Image.fromarray(IMAGES[2 * number + 1, ..., 0]).save(f"asked/{label}.png")
    Path("broken.png").write_bytes(b"no")


def test_a_line_for_each_query(call: Any, learner: str) -> None:
    done = call("fewshot", learner, "--support", "shown", "--query", "asked", "--top", "2")
    assert (done.code, done.err) == (0, "")
    found = load(learner).fewshot([f"asked/{label}.png" for label in "abc"], "shown", top=2)
    assert done.out == "".join(f"{one.line()}\n" for one in found)
    assert done.out.count("\n") == 6
    named = [word for label in "abc" for word in ("--support", f"{label}=shown/{label}/0.png")]
    assert call("fewshot", learner, "asked", *named, "--top", "2").out == done.out
    each = [word for label in "abc" for word in ("--query", f"asked/{label}.png")]
    assert call("fewshot", learner, *each, *named, "--top", "2").out == done.out


def test_a_bad_file_is_named_and_the_others_are_answered(call: Any, learner: str) -> None:
    done = call("fewshot", learner, "--support", "shown", "broken.png", "--query", "asked/a.png", "--json")
    assert done.code == 1
    bad, good = map(json.loads, done.out.splitlines())
    assert bad["error"].startswith("broken.png cannot be decoded")
    assert list(good) == ["input", "file", "label", "probabilities"]
    assert "1 of 2 images was not answered" in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--query", "asked"], "give examples of each class with --support"),
        (["--support", "shown"], "give images to classify with --query"),
        (["--support", "shown", "--query", "broken.png"], "broken.png cannot be decoded"),
        (["--support", "shown", "asked/a.png", "--show", "shown/a/0.png"], "would be overwritten"),
        (["--support", "asked", "--query", "asked"], "asked has no folders in it; it needs one for each class"),
        (["--support", "a=broken.png", "--support", "b=broken.png", "asked"], "broken.png cannot be decoded"),
    ],
)
def test_what_is_asked_wrongly(words: list[str], message: str, call: Any, learner: str) -> None:
    done = call("fewshot", learner, *words)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_pictures(call: Any, learner: str) -> None:
    for show in ("looks.png", "looks.svg", "looks.html"):
        words = ("--support", "shown", "--query", "asked/b.png", "--show", show, "--sites", "*")
        assert call("fewshot", learner, *words).code == 0
        assert Path(show).stat().st_size > 1000
    done = call("fewshot", learner, "--support", "shown", "--query", "asked/b.png", "--show", "-")
    assert done.code == 0
    assert "itself" in done.out


def test_evaluate_draws_as_many_episodes_as_asked(call: Any, learner: str) -> None:
    done = call("evaluate", learner, "--json")
    assert json.loads(done.out)["episodes"] == 8
    found = json.loads(call("evaluate", learner, "--episodes", "20", "--json").out)
    assert (found["episodes"], found["ways"], found["shots"]) == (20, 3, 1)
    assert found["accuracy_low"] <= found["accuracy"] <= found["accuracy_high"]
