"""Which tokens may be written and when a row ends: the same for every search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from regard.decode.repetition import forbid_repeats, penalise
from regard.decode.settings import MOST_REPETITION

Stop = Callable[[list[int]], bool]
NO_TOKEN = (
    "there is no possible next token: the logits hold NaN or infinity (did training diverge?), or every token left "
    "is listed in never, or the end token before min_length"
)


@dataclass(frozen=True)
class Rules:
    """The options of a search, made by `read_rules`; `keep` selects the sentences that are still unfinished."""

    max_lengths: Tensor  # (B,) most tokens, the end token included
    min_lengths: Tensor  # (B,) fewest tokens before the end token
    start: Tensor  # (B,) the first input token
    before: Tensor  # (B, P) the prompt and the start token; -1 is padding
    end: int
    never: tuple[int, ...]
    barred: Tensor  # (tokens,) those of never, on the device
    longest_minimum: int  # of all sentences
    penalty: float
    no_repeat_ngram: int
    stop: Stop | None

    def keep(self, sentences: Tensor) -> Rules:
        """The rules of these sentences."""
        max_lengths, min_lengths, start, before = (
            x[sentences] for x in (self.max_lengths, self.min_lengths, self.start, self.before)
        )
        return replace(self, max_lengths=max_lengths, min_lengths=min_lengths, start=start, before=before)

    @property
    def looks_back(self) -> bool:
        """Does a rule depend on what is written?"""
        return self.penalty != 1 or self.no_repeat_ngram > 0

    def apply(self, scores: Tensor, length: int, written: Tensor | None) -> None:
        """Apply the rules in place to the scores (N, V) of the next tokens, after so many have been written:
        `written` (N, length), which may be None where no rule `looks_back`."""
        if not length:
            self.check_tokens(scores.shape[1])
        ends = scores[:, self.end].clone() if self.no_repeat_ngram else None
        if self.looks_back:
            assert written is not None
            history = torch.cat([self.before.repeat_interleave(len(scores) // len(self.before), 0), written], 1)
            if self.penalty != 1:
                penalise(scores, history, self.penalty)
            if self.no_repeat_ngram:
                forbid_repeats(scores, history, self.no_repeat_ngram)
        self.forbid(scores, self.min_lengths > length if length < self.longest_minimum else None)
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
        for name, token in (("end", self.end), *(("never", token) for token in self.never)):
            if not 0 <= token < words:
                raise ValueError(f"{name} has token {token}, but the model's tokens are 0 to {words - 1}")

    def stops(self, written: np.ndarray, asked: np.ndarray) -> np.ndarray:
        """Which of those `asked` (..) end because `stop` says so of what they have written (.., length)."""
        stopped = np.zeros_like(asked)
        if self.stop is not None:
            stopped[asked] = [self.stop(tokens) for tokens in written[asked].tolist()]
        return stopped


def read_rules(
    source: Tensor,
    mask: Tensor,
    *,
    start: int | Tensor,
    end: int,
    max_length: int | Tensor,
    min_length: int | Tensor,
    never: tuple[int, ...],
    repetition_penalty: float,
    no_repeat_ngram: int,
    prompt: Tensor | None,
    prompt_mask: Tensor | None,
    stop: Stop | None,
) -> Rules:
    """Check the options of a search and expand them to the sentences of the source (B, S)."""
    if mask.dtype != torch.bool or mask.shape[:1] != source.shape[:1]:
        raise ValueError(
            f"mask must be boolean (True = a real token) with one row per sentence, here {len(source)}; "
            f"got {mask.dtype} of shape {tuple(mask.shape)}"
        )
    if not 1 / MOST_REPETITION <= repetition_penalty <= MOST_REPETITION:
        raise ValueError(
            f"repetition_penalty must lie in [{1 / MOST_REPETITION}, {MOST_REPETITION}], got {repetition_penalty}; "
            "1 is off, above 1 discourages repetition"
        )
    if no_repeat_ngram < 0:
        raise ValueError(
            f"no_repeat_ngram must be 0 (off) or the n of n-grams not to repeat, got {no_repeat_ngram}"
        )
    first = numbers("start", start, source)
    return Rules(
        max_lengths=numbers("max_length", max_length, source),
        min_lengths=numbers("min_length", min_length, source),
        start=first,
        before=torch.cat([read_prompt(prompt, prompt_mask, source), first[:, None]], 1),
        end=end,
        never=tuple(never),
        barred=torch.tensor(never, dtype=torch.long, device=source.device),
        longest_minimum=int(torch.as_tensor(min_length).max()) if len(source) else 0,
        penalty=repetition_penalty,
        no_repeat_ngram=no_repeat_ngram,
        stop=stop,
    )


def numbers(name: str, value: int | Tensor, source: Tensor) -> Tensor:
    """One non-negative integer per sentence (B,), on the source's device."""
    found = torch.as_tensor(value)
    if found.is_floating_point() or found.shape not in ((), source.shape[:1]):
        raise ValueError(
            f"{name} must be a whole number or one for each of the {len(source)} sentences; "
            f"got {found.dtype} of shape {tuple(found.shape)}"
        )
    if (found < 0).any():
        raise ValueError(f"{name} must be 0 or more, got {int(found.min())}")
    return found.to(source.device).expand(len(source))


def read_prompt(prompt: Tensor | None, prompt_mask: Tensor | None, source: Tensor) -> Tensor:
    """The prompts (B, P) with -1 for padding; (B, 0) if there are none."""
    if prompt is None:
        return torch.empty(len(source), 0, dtype=torch.long, device=source.device)
    if prompt.dim() != 2 or len(prompt) != len(source):
        raise ValueError(
            f"prompt must have one row of tokens for each of the {len(source)} sentences, "
            f"got shape {tuple(prompt.shape)}"
        )
    if prompt_mask is None:
        return prompt
    if prompt_mask.dtype != torch.bool or prompt_mask.shape != prompt.shape:
        raise ValueError(
            f"prompt_mask must be boolean (True = a real token) of the prompt's shape {tuple(prompt.shape)}; "
            f"got {prompt_mask.dtype} of shape {tuple(prompt_mask.shape)}"
        )
    return prompt.masked_fill(~prompt_mask, -1)


def impossible(rows: Tensor | np.ndarray) -> None:
    """Raise if any row has no possible next token."""
    if rows.any():
        raise ValueError(NO_TOKEN)
