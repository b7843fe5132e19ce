"""One token after another, the most likely each time; and the loop that sampling shares with it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import torch
from torch import Tensor

from regard.decode.protocol import Generator, Hypothesis, at_least_single, at_rest, collect
from regard.decode.rules import Rules, Stop, impossible, read_rules

Each = Callable[[list[tuple[int, int]]], None]


def greedy(
    model: Generator,
    source: Tensor,
    mask: Tensor,
    *,
    start: int | Tensor,
    end: int,
    limit: int | Tensor,
    least: int | Tensor = 0,
    never: tuple[int, ...] = (),
    repetition_penalty: float = 1.0,
    no_repeat: int = 0,
    prompt: Tensor | None = None,
    prompt_mask: Tensor | None = None,
    stop: Stop | None = None,
    each: Each | None = None,
) -> list[Hypothesis]:
    """y_t = argmax p(y | y_<t, source), at most `limit` tokens of each sentence, the end token included.

    The end token is not written before `least` others; where both cannot hold, the limit does. A limit, a least
    and a start per sentence (B,) keep an answer free of the batch it came in. Tokens in `never` are not written.

    `repetition_penalty` (1: none) divides the logits above 0 of tokens that came before and multiplies those
    below; `no_repeat` n > 0 lets no n tokens in a row come twice. Both count the start token and the `prompt`
    (B, P) before it, if there is one, beside what is written: to a language model that is its source.

    A row is done early once `stop`, asked after every token but the end, says so of all it has written. `each` gets
    (sentence, token) of every row that wrote one this step, the end token left out."""
    rules = read_rules(
        source,
        mask,
        start=start,
        end=end,
        limit=limit,
        least=least,
        never=never,
        repetition_penalty=repetition_penalty,
        no_repeat=no_repeat,
        prompt=prompt,
        prompt_mask=prompt_mask,
        stop=stop,
    )
    # argmax finds the same several times slower on the CPU
    return follow(model, source, mask, rules, lambda scores: scores.max(-1).indices, each)


def follow(
    model: Generator,
    source: Tensor,
    mask: Tensor,
    rules: Rules,
    choose: Callable[[Tensor], Tensor],
    each: Each | None,
) -> list[Hypothesis]:
    """Go where `choose` leads: logits (N, V) under the rules in, next tokens (N,) out. Who is done leaves."""
    answers = [Hypothesis([], 0.0, False) for _ in source]
    live = rules.limits.nonzero().flatten()  # (N,) which sentences are still being written
    if not len(live):
        return answers
    with at_rest(model):
        rules = rules.keep(live)
        state = model.start(source[live], mask[live])
        tokens = rules.start
        written = tokens[:, None][:, :0]  # (N, length)
        totals = torch.zeros(len(live), device=live.device)
        for length in count(1):
            logits, state = model.step(tokens, state)
            logits = at_least_single(logits)
            scores = logits.clone()
            rules.apply(scores, written)
            everything = logits.logsumexp(-1)
            impossible(~(scores.amax(-1) - everything).isfinite())
            tokens = choose(scores)
            totals = totals + (logits.gather(1, tokens[:, None]).flatten() - everything)
            written = torch.cat([written, tokens[:, None]], 1)
            ended = tokens == rules.end
            if each is not None:
                each(list(zip(live[~ended].tolist(), tokens[~ended].tolist(), strict=True)))
            done = ended | (rules.limits == length) | rules.stops(written, ~ended)
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
