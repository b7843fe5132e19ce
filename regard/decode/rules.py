"""Which tokens may be written and when a row ends: the same for every search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.decode.settings import Decoding
from regard.errors import BadInput, RunError
from regard.models.protocols import Module

Stop = Callable[[list[int]], bool]
PADDING = -1  # in the tokens that rows have behind them, so that a row does not depend on its batch
NO_TOKEN = (
    "there is no possible next token: the logits hold NaN or infinity (did training diverge?), or every token left "
    "is listed in never, or the end token before min_length"
)


@dataclass(frozen=True)
class Target:
    """What a caller knows of the answers beforehand, beside the settings: the tokens that they begin and end with,
    how long they may be, what came before them.

    `start` and the limits may be given per sentence (B,), so that an answer does not depend on its batch. If the
    limits conflict, `max_length` wins. Repetition is looked for in the `prompt` (B, P) too; for a language model
    this is its source. `stop` is called with all tokens of a row after every token but the end token; True ends
    the row."""

    start: int | Tensor  # the first input token
    end: int
    max_length: int | Tensor | None = None  # most tokens, the end token included; None: as the settings say
    min_length: int | Tensor | None = None  # fewest tokens before the end token; None: as the settings say
    never: Sequence[int] = ()  # tokens that are not written
    prompt: Tensor | None = None
    prompt_mask: Tensor | None = None  # True = a real token
    stop: Stop | None = None


@dataclass(frozen=True)
class Rules:
    """Settings and target, expanded to the sentences of a batch by `read_rules`; `keep` selects those that are
    still unfinished."""

    decoding: Decoding
    limits: np.ndarray  # (B,) most tokens, the end token included
    minima: np.ndarray  # (B,) fewest tokens before the end token
    start: Tensor  # (B,) the first input token
    before: Tensor  # (B, P) the prompt and the start token, behind PADDING
    end: int
    never: tuple[int, ...]
    stop: Stop | None

    def __len__(self) -> int:
        return len(self.start)

    def keep(self, sentences: np.ndarray) -> Rules:
        """The rules of these sentences."""
        here = to_device(sentences, self.start.device)
        limits, minima = self.limits[sentences], self.minima[sentences]
        return replace(self, limits=limits, minima=minima, start=self.start[here], before=self.before[here])

    @cached_property
    def min_lengths(self) -> Tensor:
        """The minima (B,) on the device."""
        return to_device(self.minima, self.start.device)

    def both_lengths(self) -> Tensor:
        """(B, 2) minima and limits, on the device."""
        return to_device(np.stack([self.minima, self.limits], 1), self.start.device)

    @cached_property
    def longest_minimum(self) -> int:
        """Of all sentences."""
        return int(self.minima.max(initial=0))

    @cached_property
    def barred(self) -> Tensor:
        """The tokens of `never`, on the device."""
        return to_device(np.array(self.never, np.int64), self.start.device)

    def early(self, length: int) -> Tensor | None:
        """Which sentences (B,) may not end yet, after so many tokens; None: all may."""
        return self.min_lengths > length if length < self.longest_minimum else None

    def apply(self, scores: Tensor, early: Tensor | None, history: Tensor) -> None:
        """Apply the rules in place to the scores (N, V) of the next tokens. `early` (B,): sentences that may not
        end yet. `history` (N, L) are all tokens before, behind PADDING; only settings that look back read it."""
        penalty, size = self.decoding.repetition_penalty, self.decoding.no_repeat_ngram
        ends = scores[:, self.end].clone() if size else None
        if penalty != 1:
            penalise(scores, history, penalty)
        if size:
            forbid_repeats(scores, history, size)
        self.forbid(scores, early)
        if ends is not None:  # a row that has used up the vocabulary ends
            used_up = scores.amax(-1) == -torch.inf
            scores[:, self.end] = torch.where(used_up, ends, scores[:, self.end])

    def forbid(self, scores: Tensor, early: Tensor | None) -> None:
        """-inf, in place, for the scores (N, V) of tokens that are never written, and of the end token in the rows
        of sentences that are too short for it (B,)."""
        if self.never:
            scores.index_fill_(1, self.barred, -torch.inf)
        if early is not None:
            scores.unflatten(0, (len(early), -1))[..., self.end].masked_fill_(early[:, None], -torch.inf)

    def check_tokens(self, words: int) -> None:
        """ValueError where a token is none of a vocabulary of so many words."""
        for name, token in (("end", self.end), *(("never", token) for token in self.never)):
            if not 0 <= token < words:
                raise ValueError(f"{name} has token {token}, but the model's tokens are 0 to {words - 1}")

    def stops(self, written: np.ndarray, alive: np.ndarray) -> np.ndarray:
        """Which of the rows `alive` (..) end because `stop` is true of what they have written (.., length)."""
        stopped = np.zeros_like(alive)
        if self.stop is not None:
            stopped[alive] = [self.stop(tokens) for tokens in written[alive].tolist()]
        return stopped


def read_rules(decoding: Decoding, target: Target, sentences: int, device: torch.device) -> Rules:
    """The rules of so many sentences. The settings are checked already; the target is checked here."""
    if target.max_length is None and not decoding.max_length:
        raise ValueError("max_length must say how many tokens an answer may have; give it in the settings")
    longest = decoding.max_length if target.max_length is None else target.max_length
    least = decoding.min_length if target.min_length is None else target.min_length
    start = per_sentence("start", target.start, sentences, device)
    return Rules(
        decoding=decoding,
        limits=on_host("max_length", longest, sentences),
        minima=on_host("min_length", least, sentences),
        start=start,
        before=start[:, None]
        if target.prompt is None
        else torch.cat([read_prompt(target, target.prompt, sentences, device), start[:, None]], 1),
        end=target.end,
        never=tuple(target.never),
        stop=target.stop,
    )


def check_mask(source: Tensor, mask: Tensor) -> None:
    """ValueError unless this can be the mask of a source."""
    if mask.dtype != torch.bool or mask.shape[:1] != source.shape[:1]:
        raise ValueError(
            f"mask must be boolean (True = a real token) with one row per sentence, here {len(source)}; "
            f"got {mask.dtype} of shape {tuple(mask.shape)}"
        )


def per_sentence(name: str, value: int | Tensor, sentences: int, device: torch.device) -> Tensor:
    """A non-negative integer for each sentence (B,), on the device."""
    if type(value) is int and value >= 0:  # filling takes less time than checking and copying
        return torch.full((sentences,), value, device=device)
    numbers = torch.as_tensor(value)
    if numbers.is_floating_point() or numbers.shape not in ((), (sentences,)):
        raise ValueError(
            f"{name} must be a whole number or one for each of the {sentences} sentences; "
            f"got {numbers.dtype} of shape {tuple(numbers.shape)}"
        )
    if (numbers < 0).any():
        raise ValueError(f"{name} must be 0 or more, got {int(numbers.min())}")
    return numbers.to(device, non_blocking=True).expand(sentences)


def on_host(name: str, value: int | Tensor, sentences: int) -> np.ndarray:
    """The same as an array (B,)."""
    if type(value) is int and value >= 0:
        return np.full(sentences, value)
    value = value.cpu() if isinstance(value, Tensor) else value
    return per_sentence(name, value, sentences, torch.device("cpu")).numpy().astype(np.int64)


def to_device(array: np.ndarray, device: torch.device) -> Tensor:
    """A few numbers, which a GPU gets behind what it has to do: the host does not wait for it."""
    return torch.from_numpy(array).to(device, non_blocking=True)


def read_prompt(target: Target, prompt: Tensor, sentences: int, device: torch.device) -> Tensor:
    """The prompts (B, P) with PADDING."""
    mask = target.prompt_mask
    if prompt.dim() != 2 or len(prompt) != sentences:
        raise ValueError(
            f"prompt must have one row of tokens for each of the {sentences} sentences, "
            f"got shape {tuple(prompt.shape)}"
        )
    if mask is None:
        return prompt.to(device)
    if mask.dtype != torch.bool or mask.shape != prompt.shape:
        raise ValueError(
            f"prompt_mask must be boolean (True = a real token) of the prompt's shape {tuple(prompt.shape)}; "
            f"got {mask.dtype} of shape {tuple(mask.shape)}"
        )
    return prompt.masked_fill(~mask, PADDING).to(device)


def join_padded(first: Tensor, second: Tensor) -> Tensor:
    """The rows (N, L) of both, PADDING before those of the shorter ones."""
    longest = max(first.shape[1], second.shape[1])
    return torch.cat([F.pad(rows, (longest - rows.shape[1], 0), value=PADDING) for rows in (first, second)])


def penalise(scores: Tensor, history: Tensor, penalty: float) -> None:
    """s / penalty where s > 0, else s * penalty, for every token of the history (Keskar 2019, sec. 4.1), in place.

    The paper always divides, which would make a token of negative score likelier; implementations since then
    respect the sign, as here."""
    # The last token is never padding, so it replaces the padding; scatter still changes it only once.
    seen = torch.where(history < 0, history[:, -1:], history)
    values = scores.gather(1, seen)
    scores.scatter_(1, seen, torch.where(values < 0, values * penalty, values / penalty))


def forbid_repeats(scores: Tensor, history: Tensor, size: int) -> None:
    """-inf, in place, for every token that would complete an n-gram (n = `size`) a second time (Paulus 2018)."""
    if history.shape[1] < size:
        return
    windows = history.unfold(1, size, 1)  # (N, L - size + 1, size)
    begun = history[
        :, history.shape[1] - size + 1 :
    ]  # (N, size - 1): the n-gram that the next token would complete
    again = (windows[..., :-1] == begun[:, None]).all(-1) & (windows >= 0).all(-1)
    closing = windows[..., -1].clamp_min(0)
    # The minimum, so that a window without a match does not undo the -inf of another.
    bars = torch.where(again, -torch.inf, torch.inf).to(scores.dtype)
    scores.scatter_reduce_(1, closing, bars, "amin")


def no_token(model: Module) -> BadInput:
    """Why a row has no possible next token. `broken`: what was not finite in the file of the model's weights."""
    broken: str = getattr(model, "broken", "")
    return RunError(f"{broken}, so there is no possible next token") if broken else BadInput(NO_TOKEN)
