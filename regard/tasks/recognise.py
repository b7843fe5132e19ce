"""Pictures that are recognised, and what was looked at in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.attention import trace
from regard.data.images import SUFFIXES, is_picture, normalise, open_picture, resize
from regard.data.pairs import DataError
from regard.layers.products import plain_products
from regard.show import Overlay, patch_map, rollout
from regard.tasks.known import Pixels
from regard.tasks.search import sites_like
from regard.tasks.weights import RunError

BATCH = 32
Picture = str | Path | np.ndarray  # a file, or (H, W, 3) bytes


@dataclass(frozen=True)
class Recognised:
    name: str
    label: str
    probabilities: dict[str, float]  # of the likeliest classes, the likeliest first
    _look: Callable[[Sequence[str]], Overlay] = field(repr=False, compare=False)

    def overlay(self, *sites: str) -> Overlay:
        """The picture under its attention: rolled out through all layers (Abnar & Zuidema 2020) and as the last
        layer has it, or every head of the named sites ("blocks.0.*")."""
        return self._look(sites)


class Recogniser:
    """A trained classifier of pictures, as `regard.load(run)` gives it."""

    def __init__(self, model: Any, pixels: Pixels):
        self.model, self.pixels = model.eval(), pixels

    def recognise(self, picture: Picture | list[Picture], top: int = 5) -> Any:
        """What is in a picture, or in each of a list."""
        if isinstance(picture, list):
            return list(self.answers(picture, top))
        return next(self.answers([picture], top))

    def answers(self, pictures: Iterable[Picture], top: int = 5) -> Iterator[Recognised]:
        """In the order of the pictures. One that cannot be read is told once those before it are answered."""
        self.check_classes()
        if not isinstance(top, int | np.integer) or top < 1:
            raise ValueError(f"top must be a whole number of at least 1, got {top!r:.80}")
        labels, left = self.model.config.labels, iter(pictures)
        while part := list(islice(left, BATCH)):
            images, failed = self._read_up_to_a_bad_one(part)
            if images:
                with torch.inference_mode(), plain_products(self.model):
                    best = self.model(torch.cat(images)).float().softmax(-1).topk(min(top, len(labels)))
                for one, likely, places in zip(part, best.values.tolist(), best.indices.tolist(), strict=False):
                    found = {labels[place]: share for place, share in zip(places, likely, strict=True)}
                    called = "picture" if isinstance(one, np.ndarray) else str(one)
                    yield Recognised(called, labels[places[0]], found, partial(self._overlay, one, called, found))
            if failed:
                raise failed

    def _read_up_to_a_bad_one(self, pictures: Sequence[Picture]) -> tuple[list[Tensor], Exception | None]:
        """Each is resized as it is opened, so that not all of them are held whole."""
        images: list[Tensor] = []
        for one in pictures:
            try:
                images.append(self.read([pixels_of(one)]))
            except (OSError, ValueError) as error:
                return images, error
        return images, None

    def check_classes(self) -> None:
        if not self.model.config.labels:
            raise RunError(
                "this model has no head and knows no classes; teach it some: "
                "`regard train vit-pictures --from RUN --set data.train=FOLDER`"
            )

    def read(self, pictures: Sequence[np.ndarray]) -> Tensor:
        """(H, W, 3) bytes each, of any size -> (B, C, H, W) as the model takes them."""
        config = self.model.config
        if config.channels not in (1, 3):
            raise RunError(f"pictures are grey or have red, green and blue; this model takes {config.channels}")
        size = config.image, config.width or config.image
        sized = np.stack([resize(one, *size, resample=self.pixels.resample) for one in pictures])
        if config.channels == 1:
            sized = (sized @ np.array([0.299, 0.587, 0.114])).round().astype(np.uint8)[..., None]
        images = normalise(sized, self.pixels.mean, self.pixels.std)
        return images.to(next(self.model.parameters()).device)

    def maps(self, picture: np.ndarray, sites: Sequence[str] = ()) -> dict[str, np.ndarray]:
        """How much the answer looked at each patch (rows, columns): by rollout and in the last layer, or by every
        head of the named sites."""
        names = sites_like(self.model, sites)
        images, pool = self.read([picture]), self.model.config.pool
        grid = self.model.grid(images)
        with torch.inference_mode(), plain_products(self.model), trace(self.model, *names) as seen:
            self.model.tokens(images)
        weights = {site: seen[site][0].float().cpu().numpy() for site in names}  # (H, T, T)
        if sites:
            return {
                f"{site}, head {number}": patch_map(head, grid, pool=pool)
                for site, heads in weights.items()
                for number, head in enumerate(heads)
            }
        last = names[-1]
        rolled = rollout([weights[site] for site in names])
        return {
            "rollout": patch_map(rolled, grid, pool=pool),
            last: patch_map(weights[last].mean(0), grid, pool=pool),
        }

    def _overlay(self, picture: Picture, name: str, found: dict[str, float], sites: Sequence[str]) -> Overlay:
        told = ", ".join(f"{label} {share:.1%}" for label, share in list(found.items())[:3])
        pixels = pixels_of(picture)
        return Overlay(pixels, self.maps(pixels, sites), title=Path(name).name, caption=told)


def pixels_of(picture: Picture) -> np.ndarray:
    """(H, W, 3) bytes."""
    if isinstance(picture, str | Path):
        return open_picture(picture)
    if not isinstance(picture, np.ndarray):
        came = type(picture).__name__
    elif picture.dtype == np.uint8 and picture.ndim == 3 and picture.shape[2] == 3 and picture.size:
        return picture
    else:
        came = f"{picture.dtype} {picture.shape}"
    raise ValueError(f"a picture must be a file's name, or bytes (height, width, 3); got {came}")


def picture_files(paths: Iterable[Path]) -> list[Path]:
    """Files as they are named, and of folders the pictures in them."""
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            if not path.exists():
                raise FileNotFoundError(f"there is no picture {path}")
            found.append(path)
            continue
        inside = sorted(one for one in path.rglob("*") if is_picture(one.relative_to(path)) and one.is_file())
        if not inside:
            raise DataError(f"{path} holds no pictures ({', '.join(sorted(SUFFIXES))})")
        found += inside
    return found
