"""Gates of a network that weighs its channels: of one image, of each class, and where there are none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from regard.attention import trace
from regard.data.artifacts import Pixels
from regard.data.images.image_batches import ImageData
from regard.data.made.shapes import CLASSES
from regard.errors import BadInput, NoAttention
from regard.models.senet import SENet, SENetConfig
from regard.models.vit import ViT, ViTConfig
from regard.show import Gates, Overlay
from regard.tasks.core.table import TASKS
from regard.tasks.recognise.prepare import build_data
from regard.tasks.recognise.run import BATCH, Recogniser
from regard.tasks.recognise.settings import ImageSettings

RECOGNISE = TASKS["recognise"].desk
PIXELS = Pixels((0.5,) * 3, (0.5,) * 3)
CONFIG = SENetConfig(CLASSES, image_size=8, depths=(1, 2), widths=(4, 8), reduction=2)
SITES = ["stages.0.0.excite", "stages.1.0.excite", "stages.1.1.excite"]


def recogniser(config: Any = CONFIG) -> Recogniser:
    torch.manual_seed(0)
    model: Any = SENet(config) if isinstance(config, SENetConfig) else ViT(config)
    with torch.no_grad():
        for weight in model.parameters():  # so large that gates differ from image to image
            weight += torch.randn_like(weight)
    return Recogniser(model, PIXELS)


def images(count: int) -> list[np.ndarray]:
    return list(np.random.default_rng(0).integers(256, size=(count, 8, 8, 3), dtype=np.uint8))


@pytest.fixture(scope="module")
def run() -> Recogniser:
    return recogniser()


@pytest.fixture(scope="module")
def plain() -> Recogniser:
    return recogniser(replace(CONFIG, reduction=0))


def test_the_gates_of_an_image_are_those_of_a_trace(run: Recogniser) -> None:
    (one,) = images(1)
    with torch.no_grad(), trace(run.model) as seen:
        run.model(run.read([one]))  # type: ignore[operator]
    answer = run.recognise(one)
    made = answer.gates()
    assert list(made.panels) == SITES
    for site, gates in made.panels.items():
        assert gates[0] == pytest.approx(seen[site, "gate"][0].numpy(), abs=1e-6)
    assert np.array_equal(made.image, one)
    assert made.caption == ", ".join(
        f"{label} {100 * share:.1f} %" for label, share in list(answer.probabilities.items())[:3]
    )


def test_the_picture_is_what_the_model_has(run: Recogniser) -> None:
    answer = run.recognise(images(1)[0])
    found = answer.picture(["stages.1.*"])
    assert isinstance(found, Gates)
    assert list(found.panels) == SITES[1:]
    assert "<svg" in answer._repr_html_()
    with pytest.raises(NoAttention, match="SENet does not weigh places; its gates may be shown"):
        answer.overlay()
    with pytest.raises(NoAttention, match=r"has a name like 'blocks\.\*'; there are stages\.0\.0\.excite"):
        answer.gates("blocks.*")
    looking = recogniser(ViTConfig(CLASSES, image_size=8, patch_size=4, dim=8, layers=1, heads=2))
    answer = looking.recognise(images(1)[0])
    assert isinstance(answer.picture(), Overlay)
    with pytest.raises(NoAttention, match="this model has no gates"):
        answer.gates()


def test_without_gates_there_is_nothing_to_show(plain: Recogniser) -> None:
    answer = plain.recognise(images(1)[0])
    with pytest.raises(NoAttention, match="weighs neither places nor channels: there is nothing to show"):
        answer.picture()
    with pytest.raises(NoAttention, match="weighs neither places nor channels"):
        RECOGNISE.check(plain, drawing=True)
    RECOGNISE.check(plain)
    assert answer._repr_html_().startswith("<pre")  # the answer alone
    with pytest.raises(NoAttention, match="this model has no gates"):
        plain.class_gates(images(2), ["ring", "star"])


def test_the_mean_gates_of_each_class(run: Recogniser) -> None:
    given = images(BATCH + 5)
    labels = [("star", "ring", "ring")[at % 3] for at in range(len(given))]
    made = run.class_gates(given, labels, sites=["stages.1.1.*"])
    assert made.rows == ("ring", "star")  # in the order of the model, and only those that there are
    each = np.stack([run.gates(one)[SITES[2]] for one in given])
    wanted = [each[np.array(labels) == label].mean(0) for label in made.rows]
    assert list(made.panels) == SITES[2:]
    assert made.panels[SITES[2]] == pytest.approx(np.stack(wanted), abs=1e-5)


@pytest.mark.parametrize(
    ("count", "labels", "words"),
    [
        (2, ["star"], "a label for each image, got 2 images, 1 labels"),
        (0, [], "a label for each image, got 0 images"),
        (1, ["cat"], "this model has no class 'cat'; there are circle"),
    ],
)
def test_labels_that_do_not_fit(run: Recogniser, count: int, labels: list[str], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        run.class_gates(images(count), labels)
    with pytest.raises(BadInput, match="labels are for a list of images"):
        run.class_gates("folder", labels)


def data(run: Recogniser) -> ImageData:
    return build_data(ImageSettings(made="shapes", test_count=20, batch_size=6), "test", run)


def test_an_evaluation_keeps_the_mean_gates_and_scores_as_without(run: Recogniser) -> None:
    found = RECOGNISE.evaluate(run, data(run))
    short = RECOGNISE.evaluate(run, data(run), only=("accuracy", "loss"))
    assert short.metrics == {name: found.metrics[name] for name in short.metrics}
    assert short.compared is None  # a validation in training does not pay for it
    made = RECOGNISE.plot({"one": found})
    given = data(run).images
    wanted = run.class_gates([given.read(at) for at in range(20)], [given.classes[at] for at in given.labels])
    assert made.rows == wanted.rows
    for site in SITES:
        assert made.panels[site] == pytest.approx(wanted.panels[site], abs=1e-5)
    both = RECOGNISE.plot({"one": found, "two": found})
    assert list(both.panels) == [f"{name}: {site}" for name in ("one", "two") for site in SITES]
    assert np.array_equal(both.panels[f"two: {SITES[0]}"], made.panels[SITES[0]])


def test_an_evaluation_without_gates_keeps_none(plain: Recogniser) -> None:
    assert RECOGNISE.evaluate(plain, data(plain)).compared is None
    with pytest.raises(NoAttention, match="this model has no gates"):
        RECOGNISE.check_plot(plain)
