"""Greedy decoding: the most likely token at each step; and the loop that it shares with sampling."""

from __future__ import annotations

from collections.abc import Callable, Generator
from itertools import count
from typing import NamedTuple

import torch
from torch import Tensor

from regard.decode.generator import at_least_float32, finish
from regard.decode.hypothesis import Hypothesis, collect
from regard.decode.rules import Rules, Stop, impossible, read_rules
from regard.models import protocols


class Step(NamedTuple):
    """The tokens that one step wrote, as tensors: a GPU is waited for only where somebody asks for `pairs`."""

    sentences: Tensor  # (N,)
    tokens: Tensor  # (N,)
    ended: Tensor  # (N,) True: the token is the end token

    def pairs(self) -> list[tuple[int, int]]:
        """(sentence, token) of every row that wrote a token, the end token left out."""
        kept = ~self.ended
        return list(zip(self.sentences[kept].tolist(), self.tokens[kept].tolist(), strict=True))


Writing = Generator[Step, None, list[Hypothesis]]


def greedy(
    model: protocols.Generator,
    source: Tensor,
    mask: Tensor,
    *,
    start: int | Tensor,
    end: int,
    max_length: int | Tensor,
    min_length: int | Tensor = 0,
    never: tuple[int, ...] = (),
    repetition_penalty: float = 1.0,
    no_repeat_ngram: int = 0,
    prompt: Tensor | None = None,
    prompt_mask: Tensor | None = None,
    stop: Stop | None = None,
) -> list[Hypothesis]:
    """y_t = argmax p(y | y_<t, source), at most `max_length` tokens of each sentence, the end token included.

    The end token is not written before `min_length` other tokens; if the two conflict, `max_length` wins. `start`,
    `max_length` and `min_length` may be given per sentence (B,), so that an answer does not depend on its batch.
    Tokens in `never` are not written.

    `repetition_penalty` (1: none) divides positive logits of tokens that occurred before and multiplies negative
    ones; `no_repeat_ngram` n > 0 forbids writing the same n tokens in a row twice. Both take into account what is
    written, the start token, and the `prompt` (B, P) before it, if given: for a language model, its source.

    `stop` is called with all tokens of a row after every token but the end token; True ends the row early."""
    rules = read_rules(
        source,
        mask,
        start=start,
        end=end,
        max_length=max_length,
        min_length=min_length,
        never=never,
        repetition_penalty=repetition_penalty,
        no_repeat_ngram=no_repeat_ngram,
        prompt=prompt,
        prompt_mask=prompt_mask,
        stop=stop,
    )
    return finish(model, follow(model, source, mask, rules, choose=likeliest))


def likeliest(scores: Tensor) -> Tensor:
    """(N, V) -> (N,); on the CPU argmax is several times slower than max."""
    return scores.max(-1).indices


def follow(
    model: protocols.Generator, source: Tensor, mask: Tensor, rules: Rules, *, choose: Callable[[Tensor], Tensor]
) -> Writing:
    """Decode with `choose`: logits (N, V) after the rules -> next tokens (N,). Finished rows leave the batch.

    Yields what each step wrote and returns the answers. Run it by `finish`, or by `step_by_step` to use the tokens
    as they are written: these set eval mode."""
    answers = [Hypothesis([], 0.0, False) for _ in source]
    live = rules.max_lengths.nonzero().flatten()  # (N,) which sentences are still being written
    if not len(live):
        return answers
    rules = rules.keep(live)
    state = model.start(source[live], mask[live])
    tokens = rules.start
    written = tokens[:, None][:, :0]  # (N, length)
    totals = torch.zeros(len(live), device=live.device)
    for length in count(1):
        logits, state = model.step(tokens, state)
        logits = at_least_float32(logits)
        scores = logits.clone()
        rules.apply(scores, length - 1, written)
        everything = logits.logsumexp(-1)
        impossible(~(scores.amax(-1) - everything).isfinite())
        tokens = choose(scores)
        totals = totals + (logits.gather(1, tokens[:, None]).flatten() - everything)
        written = torch.cat([written, tokens[:, None]], 1)
        ended = tokens == rules.end
        done = ended | (rules.max_lengths == length)
        if rules.stop is not None:
            done |= torch.from_numpy(rules.stops(written.cpu().numpy(), ~ended.cpu().numpy())).to(done.device)
        yield Step(live, tokens, ended)
        if not done.any():
            continue
        for sentence, answer in collect(live[done], written[done], totals[done], rules.end):
            answers[sentence] = answer
        keep = (~done).nonzero().flatten()
        if not len(keep):
            break
        state, rules = state.drop(keep), rules.keep(keep)
        live, tokens, written, totals = (x[keep] for x in (live, tokens, written, totals))
    return answers
