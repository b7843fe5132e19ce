"""One step of decoding: after a given beginning, the likeliest next tokens and where this step looked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch

from regard.attention import trace
from regard.data.artifacts import AnyTokenizer
from regard.decode.generator import at_least_float32, eval_mode
from regard.errors import BadInput
from regard.show import Overlay, ShadedText
from regard.show.heads_data import heads_title
from regard.tasks.shared.sites import sites_like
from regard.tasks.shared.writing import Passage, Writer


@dataclass(frozen=True)
class Beginning:
    """Where a step starts: a passage, the tokens that are written of it already, and how to name things."""

    passage: Passage
    fed: Sequence[int]  # the written tokens that the passage's source does not hold
    text: str  # what is written so far
    written: Sequence[int]  # the same as tokens
    tokenizer: AnyTokenizer
    columns: Callable[[str], Sequence[str]]  # what the memory of a site holds; of a past, at most what is kept
    grid: tuple[int, int] | None = None  # rows and columns of the places of an image
    image: np.ndarray | None = None  # as the model sees it, in bytes (H, W, 3)


@dataclass(frozen=True)
class StepLook:
    """Where one step looked: the weights (H, K) of every head of a site over what `columns` name."""

    site: str
    columns: tuple[str, ...]
    weights: np.ndarray
    grid: tuple[int, int] | None = None
    image: np.ndarray | None = None

    def picture(self, head: int | None = None) -> ShadedText | Overlay:
        """One head, or the mean of all, over the words or over the image."""
        if head is not None and not 0 <= head < len(self.weights):
            raise BadInput(f"{self.site} has heads 0 to {len(self.weights) - 1}, got {head}")
        weights = self.weights.mean(0, dtype=np.float64) if head is None else self.weights[head]
        title = heads_title(self.site, len(self.weights), head)
        if self.grid is None:
            return ShadedText(weights[None], self.columns, ("this step",), title, query=0)
        assert self.image is not None
        return Overlay(self.image, {title: weights.reshape(self.grid)})

    def to_dict(self) -> dict[str, object]:
        look = {"site": self.site, "columns": list(self.columns), "weights": self.weights.round(5).tolist()}
        return look | ({"grid": list(self.grid)} if self.grid else {})


@dataclass(frozen=True)
class NextStep:
    """The likeliest next tokens after a beginning."""

    text: str  # the beginning
    written: tuple[tuple[int, str], ...]  # its tokens, each with its name
    candidates: tuple[tuple[int, str, float, bool], ...]  # token, its name, probability, whether it ends the text
    look: StepLook | None

    def to_dict(self) -> dict[str, object]:
        names = ("token", "text", "probability", "ends")
        return {
            "text": self.text,
            "written": [{"token": token, "text": text} for token, text in self.written],
            "candidates": [dict(zip(names, candidate, strict=True)) for candidate in self.candidates],
            "look": self.look.to_dict() if self.look else None,
        }


def check_tokens(tokens: Sequence[object], words: int) -> None:
    """BadInput unless these are tokens of a vocabulary of so many words."""
    for token in tokens:
        if type(token) is not int or not 0 <= token < words:
            raise BadInput(f"prefix must hold tokens from 0 to {words - 1:,}, got {token!r:.40}")


def check_prefix(prefix: Sequence[int], most: int) -> None:
    """BadInput unless an answer of at most so many tokens can go on from here."""
    if len(prefix) >= most:
        raise BadInput(f"an answer has at most {most:,} tokens here, and prefix has {len(prefix):,}")


def next_step(run: Writer, begun: Beginning, *, top: int, site: str) -> NextStep:
    """The probabilities are the model's own; tokens that are never written are left out. `site`: whose look; ""
    is none."""
    model, passage = run.model, begun.passage
    target, limit = passage.target, passage.target.max_length
    assert isinstance(limit, int)
    check_prefix(begun.fed, limit)
    names = sites_like(model, [site]) if site else []
    with eval_mode(model):
        source, mask = run.collate([passage.source])
        state = model.start(source, mask)
        tokens = [target.start, *begun.fed]
        for token in tokens[:-1]:
            _, state = model.step(torch.tensor([token], device=source.device), state)
        last = torch.tensor(tokens[-1:], device=source.device)
        with trace(model, *names) if names else nullcontext() as seen:
            logits, _ = model.step(last, state)
    shares = at_least_float32(logits)[0].softmax(-1)
    shares[list(target.never)] = -1
    best = shares.topk(min(top, len(shares) - len(target.never)))
    candidates = [
        (token, begun.tokenizer.tokens([token])[0], share, token == target.end)
        for token, share in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]
    look = None
    if seen is not None and names[0] in seen.having("weights"):
        weights = seen[names[0]][0].float().cpu().numpy()  # (H, 1, K) or (1, K)
        weights = weights.reshape(-1, weights.shape[-1])
        columns = begun.columns(names[0])
        columns = columns[max(0, len(columns) - weights.shape[1]) :]
        look = StepLook(names[0], tuple(columns), weights, begun.grid, begun.image)
    written = zip(begun.written, begun.tokenizer.tokens(begun.written), strict=True)
    return NextStep(begun.text, tuple(written), tuple(candidates), look)
