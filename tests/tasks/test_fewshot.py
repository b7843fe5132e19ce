"""Few-shot classification from Python: what it is shown, asked and evaluated on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard.data.artifacts import Artifacts, Pixels
from regard.data.made.glyphs import glyphs
from regard.errors import BadInput, DataError
from regard.models.snail.model import SNAIL, SNAILConfig
from regard.runs.folder import begin, save_weights
from regard.tasks.core.table import TASKS, load
from regard.tasks.fewshot.prepare import drawn, test_data
from regard.tasks.fewshot.run import FewShot
from regard.tasks.fewshot.settings import EpisodeSettings

test_data.__test__ = False  # type: ignore[attr-defined]
GREY = Pixels((0.0,), (1.0,))
SMALL = {"ways": 3, "conv_filters": 4, "embed": 8, "keys": (8, 8), "values": (8, 8), "tc_filters": 4}
IMAGES = glyphs("test", 4, examples=4).pixels


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a random model, with images: support/{a,b,c}/0.png .. 1.png, query/{a,b,c}.png"""
    torch.manual_seed(0)
    here = tmp_path_factory.mktemp("fewshot")
    model = SNAIL(SNAILConfig(**SMALL)).eval()
    begin(
        here / "run", model, Artifacts(pixels=GREY), '[data]\nmade = "glyphs"\ntest_count = 5\ntest_episodes = 30\n'
    )
    save_weights(here / "run", model)
    for number, label in enumerate("abc"):
        for example in range(3):
            path = here / ("query" if example == 2 else f"support/{label}") / f"{label}{example}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(IMAGES[4 * number + example, ..., 0]).save(path)
    return here


def test_the_support_may_be_a_folder_images_by_class_or_named_files(folder: Path):
    run: Any = load(folder / "run")
    wanted = run.fewshot(folder / "query/a2.png", folder / "support", 3)
    assert wanted.label in "abc"
    assert sum(wanted.probabilities.values()) == pytest.approx(1)
    by_class = {label: [IMAGES[4 * at], IMAGES[4 * at + 1]] for at, label in enumerate("abc")}
    named = [f"{label}={folder}/support/{label}/{label}{at}.png" for label in "abc" for at in range(2)]
    for support in (by_class, named, run.learn(folder / "support")):
        again = run.fewshot(IMAGES[2], support)
        assert again.probabilities == pytest.approx(wanted.probabilities, abs=1e-6)
    several = run.fewshot([IMAGES[2], IMAGES[6]], by_class, top=1)
    assert several[0].label == wanted.label
    assert len(several[1].probabilities) == 1


def test_fewer_classes_and_other_numbers_of_examples_can_be_asked(folder: Path):
    run: Any = load(folder / "run")
    answer = run.fewshot(IMAGES[2], {"a": [IMAGES[0], IMAGES[1], IMAGES[3]], "b": IMAGES[4]})
    assert set(answer.probabilities) == {"a", "b"}
    assert sum(answer.probabilities.values()) == pytest.approx(1)
    for weights in answer.looks("*").values():
        assert weights.shape == (5,)
        assert weights.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("support", "message"),
    [
        ({"a": IMAGES[0]}, r"tells 2 to 3 classes apart, and the support has 1 \(a\); give a folder for each"),
        ({str(n): IMAGES[4 * n] for n in range(4)}, r"the support has 4 \(0, 1, 2, 3\); leave some out"),
        (["a=x.png", "y.png"], "the support is one folder .* or CLASS=FILE for each image; got 'y.png'"),
        (["a=nothing.png", "b=nothing.png"], "nothing.png"),
        ("nowhere", "there is no file nowhere"),
        (["nowhere"], "there is no file nowhere"),
        (None, "the support must be a folder, .*; got None"),
        (["a=x.png", 5], "the support must be a folder"),
    ],
)
def test_a_support_that_cannot_be_learned_from_is_refused(support: Any, message: str, folder: Path):
    run: Any = load(folder / "run")
    with pytest.raises(BadInput, match=message):
        run.fewshot(IMAGES[0], support)


def test_evaluation_counts_episodes_and_gives_an_interval(folder: Path):
    found = load(folder / "run").evaluate()
    assert found.counts == {"episodes": 30, "ways": 3, "shots": 1}
    assert found.details["accuracy_low"] <= found.metrics["accuracy"] <= found.details["accuracy_high"]


def test_evaluation_is_what_the_model_says_of_each_batch(folder: Path):
    run: Any = load(folder / "run")
    data = drawn(EpisodeSettings(made="glyphs", test_count=5), "test", run, count=40, device="cpu")
    with torch.inference_mode():
        batches = [data.batch(item) for item in data.order(0)]
        right = torch.cat([run.model.class_logits(one).argmax(-1) == one.answers[:, 0] for one in batches])
    found = TASKS["fewshot"].desk.evaluate(run, data)
    assert found.metrics["accuracy"] == pytest.approx(100 * float(right.float().mean()))


def test_the_number_of_episodes_has_the_commands_name(folder: Path) -> None:
    run: Any = load(folder / "run")
    assert run.evaluate(episodes=4) == run.evaluate(test_episodes=4)
    assert run.evaluate(episodes=4).counts["episodes"] == 4
    with pytest.raises(BadInput, match=r"^episodes must be at least 1, got 0"):
        run.evaluate(episodes=0)


def test_given_runs_are_evaluated_if_the_model_has_enough_ways(folder: Path, tmp_path: Path):
    run: Any = load(folder / "run")
    arrays = {"label": np.array([[0, 1]]), "test": IMAGES[[2, 6], ..., 0][None]}
    np.savez(tmp_path / "runs.npz", support=IMAGES[[0, 4], ..., 0][None], **arrays)
    assert run.evaluate(tmp_path / "runs.npz").counts == {"episodes": 2, "ways": 2, "shots": 1}
    np.savez(tmp_path / "wide.npz", support=IMAGES[[0, 4, 8, 12], ..., 0][None], **arrays)
    with pytest.raises(DataError, match="asks for one of 4 classes, and this model tells 3 apart"):
        run.evaluate(tmp_path / "wide.npz")


def settings_of(tmp_path: Path, **changes: Any) -> EpisodeSettings:
    x = np.random.default_rng(0).integers(256, size=(10, 3, 28, 28), dtype=np.uint8)
    np.savez(tmp_path / "x.npz", x=x, names=np.array([f"set/c{n}" for n in range(10)]))
    (tmp_path / "few.txt").write_text("c1/rot000\nc1/rot090\nc2\n")
    return EpisodeSettings(**{"train": str(tmp_path / "x.npz"), **changes})


def test_classes_are_held_out_or_listed(tmp_path: Path):
    plain = settings_of(tmp_path, valid_fraction=0.3)
    train, valid, test = ({one.label for one in plain.classes(split)[1]} for split in ("train", "valid", "test"))
    assert (len(train), len(valid), train & valid, test) == (7, 3, set(), valid)
    turned = settings_of(tmp_path, rotations=True)
    assert len(turned.classes("train")[1]) == 36
    listed = settings_of(tmp_path, test_classes=str(tmp_path / "few.txt"))
    assert [tuple(one) for one in listed.classes("test")[1]] == [(1, 0), (1, 1), (2, 0)]
    assert {one.label for split in ("train", "valid") for one in listed.classes(split)[1]} == {*range(10)} - {1, 2}
    assert listed.has_own_test
    assert not plain.has_own_test
    taught = settings_of(tmp_path, train_classes=str(tmp_path / "few.txt"))
    train, valid = ({one.label for one in taught.classes(split)[1]} for split in ("train", "valid"))
    assert (len(train), len(valid), train | valid) == (1, 1, {1, 2})  # none of both


@pytest.mark.parametrize(
    ("changes", "ways", "held"),
    [
        ({}, 1, 1),
        ({}, 3, 3),
        ({}, 5, 5),
        ({}, 6, 3),  # too few for both: a third
        ({}, 12, 3),
        ({"valid_fraction": 0.6}, 4, 6),
        ({"valid_fraction": 0.2}, 4, 4),
        ({"rotations": True}, 4, 1),  # each class is four
        ({"rotations": True}, 5, 2),
        ({"rotations": True}, 20, 5),
        ({"valid_classes": "few.txt"}, 5, 2),
        ({"test_classes": "few.txt"}, 4, 4),  # of the 8 others
    ],
)
def test_enough_classes_for_an_episode_are_held_out(changes: dict[str, Any], ways: int, held: int, tmp_path: Path):
    changes = {key: str(tmp_path / value) if key.endswith("classes") else value for key, value in changes.items()}
    settings = settings_of(tmp_path, **changes)
    train, valid = ({one.label for one in settings.classes(split, ways)[1]} for split in ("train", "valid"))
    assert (len(valid), train & valid) == (held, set())
    assert len(train | valid) == 8 + 2 * ("test_classes" not in changes)


@pytest.mark.parametrize(
    ("changes", "model", "message"),
    [
        (
            {"train_classes": "few.txt"},
            {},
            "has 2 classes at least, and [01] of 10 (is|are) there for train, as some",
        ),
        ({}, {"shots": 3}, "class 'set/c.' has 3 images; an episode takes 3 as examples and one as the query"),
        ({"train_classes": "none.txt"}, {}, "there is no file none.txt"),
    ],
)
def test_data_that_gives_no_episodes_is_refused(
    changes: dict[str, Any], model: dict[str, int], message: str, tmp_path: Path
):
    run = FewShot(SNAIL(SNAILConfig(**SMALL | model)), GREY)
    settings = settings_of(tmp_path, **changes)
    if changes.get("train_classes") == "few.txt":
        settings = replace(settings, train_classes=str(tmp_path / "few.txt"))
    with pytest.raises(DataError, match=message):
        drawn(settings, "train", run, device="cpu")


@pytest.mark.parametrize(
    ("ways", "changes", "trained", "valid"), [(6, {}, (6, 7), (3, 3)), (3, {"valid_fraction": 0.8}, (3, 7), (3, 3))]
)
def test_few_classes_give_episodes_of_fewer_ways(
    ways: int,
    changes: dict[str, Any],
    trained: tuple[int, int],
    valid: tuple[int, int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    """Both training and validation get some, and it is told where they have fewer ways than the model."""
    run, settings = FewShot(SNAIL(SNAILConfig(**SMALL | {"ways": ways})), GREY), settings_of(tmp_path, **changes)
    for split, (own, classes) in (("train", trained), ("valid", valid)):
        data = drawn(settings, split, run, count=8, device="cpu")
        assert (data.ways, len(data.counts)) == (own, classes)
        said = f"10 classes, {classes} of them for {split}: its episodes are {own}-way and not {ways}-way"
        assert (said in capsys.readouterr().err) == (own < ways)
        assert 0 <= TASKS["fewshot"].desk.evaluate(run, data).metrics["accuracy"] <= 100


def test_the_shipped_learner_tells_signs_of_a_set_that_it_was_not_trained_on() -> None:
    """Weights of half precision; chance is 20 %."""
    run = regard.load("omniglot", device="cpu")
    data = drawn(EpisodeSettings(made="glyphs", test_count=30), "test", run, count=400, device="cpu")
    assert TASKS["fewshot"].desk.evaluate(run, data).metrics["accuracy"] > 75
