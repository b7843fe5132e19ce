"""Does a ViT look at the middle of an image, and does it look elsewhere when its answer is wrong?

    OMP_NUM_THREADS=1 REGARD_DATA=DATA python results/rollout.py RUN PICTURE   # DATA/cifar10_jpeg; half an hour

RUN is a ViT trained on CIFAR-10. For all test images: the class token's attention, by rollout through all layers
and in the last layer (the mean of its heads), and its share on the middle half, a quarter of the area. The same
model before any training, on the same images and split by the trained model's answers, shows the effect of the
architecture alone. Draws the first right and the first wrong answers of the test set into the file PICTURE."""

from __future__ import annotations

import sys

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from pointing import MIDDLE_HALF, area, mass_inside

import regard
from regard.attention import trace
from regard.data.images.labelled_images import ImageSet, open_image_set
from regard.layers.onednn import without_onednn
from regard.metrics.accuracy import Z, interval
from regard.models.vit import ViT
from regard.show import patch_map, rollout
from regard.show.images import blend, grey, resize, smooth
from regard.tasks.recognise.run import Recogniser

BATCH, SEED = 64, 0
WAYS = ("rollout", "last layer")
SHOWN, SIDE = 6, 96  # images in a row, and the pixels of a side


def look(run: Recogniser, images: ImageSet) -> tuple[np.ndarray, np.ndarray]:
    """Of every image the maps (N, 2 ways, rows, columns) and the classes' probabilities (N, C)."""
    maps, likely = [], []
    pool = run.model.config.pool
    for first in range(0, len(images), BATCH):
        batch = run.read([images.read(at) for at in range(first, min(first + BATCH, len(images)))])
        grid = run.model.grid(batch)
        with torch.inference_mode(), without_onednn(run.model), trace(run.model, "blocks.*.attend") as seen:
            likely.append(run.model(batch).softmax(-1).numpy())
        layers = np.stack([seen[site].numpy() for site in seen.sites], 1)  # (B, L, H, T, T)
        for weights in layers:
            maps.append([patch_map(each, grid, pool=pool) for each in (rollout(weights), weights[-1].mean(0))])
    return np.array(maps), np.concatenate(likely)


def shares(maps: np.ndarray) -> np.ndarray:
    """On the middle half, in percent (N, 2)."""
    return 100 * np.array([[mass_inside(each) for each in pair] for pair in maps])


def mean(values: np.ndarray) -> tuple[float, float]:
    """The mean and its variance."""
    return values.mean(), values.var(ddof=1) / len(values)


def area_under(right: np.ndarray, wrong: np.ndarray) -> tuple[float, float]:
    """How often a right answer has more than a wrong one, and its variance   (DeLong et al. 1988)"""
    more = (right[:, None] > wrong) + 0.5 * (right[:, None] == wrong)
    return more.mean(), mean(more.mean(1))[1] + mean(more.mean(0))[1]


def within(values: np.ndarray, right: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Right minus wrong within each class, averaged over the classes, and its variance: classes differ in mass and
    in accuracy, which alone would make a difference."""
    groups = [labels == label for label in np.unique(labels)]
    gaps = [minus(mean(values[own & right]), mean(values[own & ~right])) for own in groups]
    return float(np.mean([gap for gap, _ in gaps])), sum(spread for _, spread in gaps) / len(gaps) ** 2


def minus(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    return first[0] - second[0], first[1] + second[1]


def shown(estimate: tuple[float, float], form: str = ".2f") -> str:
    value, reach = estimate[0], Z * estimate[1] ** 0.5
    return f"{value:{form}} ({value - reach:{form}} to {value + reach:{form}})"


def report(name: str, mass: np.ndarray, right: np.ndarray, labels: np.ndarray) -> None:
    """A row for each way, from the mass (N, 2) in percent."""
    for way, values in zip(WAYS, mass.T, strict=True):
        both = values[right], values[~right]
        gap = minus(mean(both[0]), mean(both[1]))
        cells = [shown(mean(values)), f"{values.std():.2f}", *(shown(mean(part)) for part in both)]
        cells += [shown(gap, "+.2f"), shown(within(values, right, labels), "+.2f"), shown(area_under(*both), ".3f")]
        print(f"| {name} | {way} | " + " | ".join(cells) + " |")


def by_class(classes: tuple[str, ...], mass: np.ndarray, right: np.ndarray, labels: np.ndarray) -> None:
    for place, name in enumerate(classes):
        own = labels == place
        low, high = interval(int(right[own].sum()), int(own.sum()))
        cells = [f"{100 * right[own].mean():.1f} ({low:.1f} to {high:.1f})"]
        cells += [shown(mean(mass[which, 0])) for which in (own, own & right, own & ~right)]
        print(f"| {name} | " + " | ".join(cells) + " |")


def draw(images: ImageSet, maps: np.ndarray, likely: np.ndarray, right: np.ndarray) -> None:
    """Two rows of right answers, then two of wrong ones: the image, and the rollout with the middle half framed.
    The true class is written above the image, the answer below it."""
    figure = Figure((1.1 * SHOWN, 5.9))
    rows = figure.subplots(4, SHOWN)
    top, left, low, far = (SIDE * edge for edge in MIDDLE_HALF)
    for above, below, which in ((rows[0], rows[1], right), (rows[2], rows[3], ~right)):
        above[0].text(-18, SIDE, "right" if which is right else "wrong", rotation=90, va="center", fontsize=10)
        for upper, lower, at in zip(above, below, np.flatnonzero(which).tolist(), strict=False):
            image = resize(images.read(at), SIDE, SIDE)
            weights, best = maps[at, 0], likely[at].argmax()
            upper.imshow(image)
            upper.set_title(images.classes[images.labels[at]], fontsize=9)
            lower.imshow(blend(grey(image), smooth(weights, SIDE, SIDE)))
            lower.add_patch(Rectangle((left, top), far - left, low - top, fill=False, ec="white", lw=0.6))
            answer = f"{images.classes[best]} {100 * likely[at, best]:.0f} %"
            lower.set_title(f"{answer}\nmiddle {100 * mass_inside(weights):.0f} %", fontsize=8)
    for axes in rows.flat:
        axes.set_axis_off()
    figure.subplots_adjust(left=0.045, right=0.995, top=0.96, bottom=0.01, wspace=0.06, hspace=0.34)
    figure.savefig(sys.argv[2], dpi=100, facecolor="white")


def main() -> None:
    run = regard.load(sys.argv[1])
    images = open_image_set("cifar10_jpeg/test.npz").relabelled(run.model.config.labels)
    torch.manual_seed(SEED)
    untrained = Recogniser(ViT(run.model.config), run.pixels)
    maps, likely = look(run, images)
    labels, confidence = images.labels, likely.max(1)
    right = likely.argmax(1) == labels
    draw(images, maps, likely, right)
    mass, before = (shares(drawn) for drawn in (maps, look(untrained, images)[0]))
    print(f"{right.sum()} right, {(~right).sum()} wrong; an even map has {100 * area(MIDDLE_HALF):.0f} %\n")
    print("| model | map | all | deviation | right | wrong | right - wrong | within classes | area under ROC |")
    print("|" + "---|" * 9)
    report("trained", mass, right, labels)
    report("untrained", before, right, labels)
    print(
        f"\nby the answer's probability: area {shown(area_under(confidence[right], confidence[~right]), '.3f')}\n"
    )
    print("| class | accuracy | rollout | right | wrong |\n|" + "---|" * 5)
    by_class(images.classes, mass, right, labels)


if __name__ == "__main__":
    main()
