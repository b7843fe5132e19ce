"""The answers of a generator: from settings to a search."""

from __future__ import annotations

from collections.abc import Generator

from torch import Tensor

from regard.decode.beam import beam
from regard.decode.generator import finish
from regard.decode.hypothesis import Hypothesis
from regard.decode.lookup import check_speculation
from regard.decode.loop import Step, write
from regard.decode.rules import Target, check_mask, read_rules
from regard.decode.settings import Decoding
from regard.layers.engine import engine_of
from regard.models import protocols

Searching = Generator[Step, None, list[list[Hypothesis]]]


def decode(
    model: protocols.Generator, source: Tensor, mask: Tensor, decoding: Decoding, target: Target
) -> list[list[Hypothesis]]:
    """The answers to each sentence of a source (B, S), best first: `decoding.n_best` of a beam (fewer if fewer
    exist), else one. The mask is True for real tokens.

        decode(model, source, mask, Decoding(beam=5, n_best=3), Target(start=1, end=2, max_length=50))

    Greedy takes y_t = argmax p(y | y_<t, source); sampling, at a temperature above 0, draws y_t ~ softmax(log p /
    temperature), restricted to the `top_k` likeliest tokens, then to the nucleus `top_p`. `repetition_penalty`
    divides positive logits of tokens that occurred before and multiplies negative ones; `no_repeat_ngram` n > 0
    forbids writing the same n tokens in a row twice. Of the settings, `coverage`, `replace_unknown` and `stop` need
    weights, words and texts: they are left to `Translator` and `LanguageModel`."""
    return finish(model, search(model, source, mask, decoding, target))


def search(
    model: protocols.Generator, source: Tensor, mask: Tensor, decoding: Decoding, target: Target
) -> Searching:
    """As `decode`, step by step: run it by `finish`, or by `step_by_step` where the tokens are wanted as they are
    written. A beam knows no answer before its end and has no steps."""
    check_mask(source, mask)
    check_speculation(model, decoding)
    rules = read_rules(decoding, target, len(source), source.device)
    engine = engine_of(model)
    if engine is not None:
        found: list[list[Hypothesis]] = yield from engine.search(source, mask, rules)
        return found
    if decoding.is_beam:
        return beam(model, source, mask, rules)
    answers = yield from write(model, source, mask, rules)
    return [[answer] for answer in answers]
