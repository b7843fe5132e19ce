"""What may be written, and when a row is done: the same for every search."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.decode.repetition import forbid_repeats, penalise

Stop = Callable[[list[int]], bool]


@dataclass(frozen=True)
class Rules:
    """Read by `read_rules` from the options of a search; made for the sentences it still works on by `keep`."""

    limits: Tensor  # (B,) the most tokens, the end token included
    leasts: Tensor  # (B,) the fewest before the end token
    start: Tensor  # (B,) the first token fed
    before: Tensor  # (B, P) the prompt and the start token; -1 is padding
    end: int
    never: tuple[int, ...]
    penalty: float
    no_repeat: int
    stop: Stop | None

    def keep(self, sentences: Tensor) -> Rules:
        """The rules of some of the sentences."""
        limits, leasts, start, before = (x[sentences] for x in (self.limits, self.leasts, self.start, self.before))
        return replace(self, limits=limits, leasts=leasts, start=start, before=before)

    def apply(self, scores: Tensor, written: Tensor) -> None:
        """Change the scores (N, V) of the next tokens in place, given what each row has written (N, length)."""
        if not written.shape[1]:
            self.check_tokens(scores.shape[1])
        if self.penalty != 1 or self.no_repeat:
            history = torch.cat([self.before.repeat_interleave(len(scores) // len(self.before), 0), written], 1)
            if self.penalty != 1:
                penalise(scores, history, self.penalty)
            if self.no_repeat:
                forbid_repeats(scores, history, self.no_repeat)
        for token in self.never:
            scores[:, token] = -torch.inf
        early = self.leasts > written.shape[1]
        scores.unflatten(0, (len(early), -1))[..., self.end].masked_fill_(early[:, None], -torch.inf)

    def check_tokens(self, words: int) -> None:
        for name, token in (("end", self.end), *(("never", token) for token in self.never)):
            if not 0 <= token < words:
                raise ValueError(f"{name} names token {token}, but the model's tokens are 0 to {words - 1}")

    def stops(self, written: Tensor, asked: Tensor) -> Tensor:
        """Which of the rows asked (N,) `stop` closes, given all they have written (N, length)."""
        stopped = torch.zeros_like(asked)
        if self.stop is not None:
            rows = asked.nonzero().flatten()
            closed = [self.stop(tokens) for tokens in written[rows].tolist()]
            stopped[rows] = torch.tensor(closed, dtype=torch.bool, device=asked.device)
        return stopped


def read_rules(
    source: Tensor,
    mask: Tensor,
    *,
    start: int | Tensor,
    end: int,
    limit: int | Tensor,
    least: int | Tensor,
    never: tuple[int, ...],
    repetition_penalty: float,
    no_repeat: int,
    prompt: Tensor | None,
    prompt_mask: Tensor | None,
    stop: Stop | None,
) -> Rules:
    """The options of a search, checked and spread over the sentences of the source (B, S)."""
    if mask.dtype != torch.bool or mask.shape[:1] != source.shape[:1]:
        raise ValueError(
            f"mask must be boolean (True = a real token) with one row a sentence, here {len(source)}; "
            f"got {mask.dtype} of shape {tuple(mask.shape)}"
        )
    if not 0 < repetition_penalty < math.inf:
        raise ValueError(
            f"repetition_penalty must be above 0 and finite, got {repetition_penalty}; 1 is none, above 1 avoids"
        )
    if no_repeat < 0:
        raise ValueError(f"no_repeat must be 0 (off) or the length of what may not come twice, got {no_repeat}")
    first = numbers("start", start, source)
    return Rules(
        limits=numbers("limit", limit, source),
        leasts=numbers("least", least, source),
        start=first,
        before=torch.cat([read_prompt(prompt, prompt_mask, source), first[:, None]], 1),
        end=end,
        never=tuple(never),
        penalty=repetition_penalty,
        no_repeat=no_repeat,
        stop=stop,
    )


def numbers(name: str, value: int | Tensor, source: Tensor) -> Tensor:
    """A whole number of 0 or more for each sentence (B,), on the source's device."""
    found = torch.as_tensor(value, device=source.device)
    if found.is_floating_point() or found.shape not in ((), source.shape[:1]):
        raise ValueError(
            f"{name} must be a whole number or one for each of the {len(source)} sentences; "
            f"got {found.dtype} of shape {tuple(found.shape)}"
        )
    if (found < 0).any():
        raise ValueError(f"{name} must be 0 or more, got {int(found.min())}")
    return found.expand(len(source))


def read_prompt(prompt: Tensor | None, prompt_mask: Tensor | None, source: Tensor) -> Tensor:
    """The prompts (B, P) with -1 for padding; none are empty ones (B, 0)."""
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


def impossible(rows: Tensor) -> None:
    """Refuse to go on where any of the rows has no next token."""
    if rows.any():
        raise ValueError(
            "the model leaves no possible next token: its logits hold NaN or infinity (look for a diverged "
            "training run), or all that is possible was named in never, was barred by no_repeat, or is the end "
            "token before the least length"
        )
