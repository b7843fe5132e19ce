"""Speculation by looking up the text writes what is written without it, in fewer passes where texts repeat."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_models import build, special

import regard
from regard.attention import trace
from regard.decode import graphs, lookup
from regard.decode.hypothesis import Hypothesis
from regard.decode.lookup import Text
from regard.decode.rules import Target
from regard.decode.search import decode
from regard.decode.settings import Decoding
from regard.errors import BadInput

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
WAYS = {
    "greedy": {},
    "repetition penalty": {"repetition_penalty": 1.3},
    "no repeated n-grams": {"no_repeat_ngram": 4},
    "sampling": {"temperature": 0.7, "top_k": 5, "seed": 3},
    "least length": {"min_length": 20},
}


@pytest.fixture(params=["plain", "captured", pytest.param("cuda", marks=gpu)])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Passes one by one; as graphs that are run instead of captured; as graphs."""
    if request.param == "captured":
        monkeypatch.setattr(graphs, "on_gpu", lambda tensor: True)
        monkeypatch.setattr(graphs, "captured", lambda work: work)
    monkeypatch.setattr(lookup, "WORTH", 0)
    return "cuda" if request.param == "cuda" else "cpu"


def written(
    model: Any, texts: list[list[int]], device: str, *, most: int = 30, never: tuple[int, ...] = (), **settings: Any
) -> list[Hypothesis]:
    text = torch.tensor(texts, device=device)
    target = Target(text[:, -1], special(model).end, most, never=never, prompt=text[:, :-1])
    mask = torch.ones_like(text[:, :-1], dtype=torch.bool)
    return [answer for (answer,) in decode(model, text[:, :-1], mask, Decoding(**settings), target)]


def passes(model: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the model's passes from now on."""
    taken: list[str] = []

    def counted(name: str) -> Any:
        run = getattr(model, name)
        return lambda *given: taken.append(name) or run(*given)

    for name in ("step", "read_on"):
        monkeypatch.setattr(model, name, counted(name), raising=False)
    return taken


def propose_partly(texts: list[list[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of these texts the next two tokens are proposed, and then a wrong one."""

    def propose(text: Text, count: int) -> list[int]:
        (whole,) = (whole for whole in texts if whole[: len(text.tokens)] == text.tokens)
        first, second, third, *_ = [*whole[len(text.tokens) :], 0, 0, 0]
        return [first, second, (third + 1) % 5][:count]

    monkeypatch.setattr(lookup, "TRUST", 0)
    monkeypatch.setattr(Text, "propose", propose)
    monkeypatch.setattr(lookup.Lookup, "right", property(lambda self: 2, lambda self, value: None), raising=False)


@pytest.mark.parametrize("way", WAYS)
def test_the_same_is_written(way: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("gpt2", max_positions=64).to(device)
    prompts = [[5, 6, 7, 5, 6, 7, 5], [3, 4, 5], [4, 4]]
    right = [written(model, [prompt], device, **WAYS[way])[0] for prompt in prompts]
    propose_partly([prompt + one.tokens for prompt, one in zip(prompts, right, strict=True)], monkeypatch)
    taken = passes(model, monkeypatch)
    for prompt, wanted in zip(prompts * 2, right * 2, strict=True):  # captured, and again by graphs that are kept
        (mine,) = written(model, [prompt], device, speculate=3, **WAYS[way])
        assert (mine.tokens, mine.finished) == (wanted.tokens, wanted.finished)
        assert mine.score == pytest.approx(wanted.score, abs=1e-4)
    assert "read_on" in taken


def test_rules_hold_at_the_end_of_what_is_proposed(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end token, the most tokens, the places of the model, and tokens that are never written."""
    model = build("gpt2", max_positions=32).to(device)
    for options in ({"most": 5}, {"most": 30}, {"never": (3, 4, 6)}):
        (right,) = written(model, [[5, 6, 5]], device, **options)
        with monkeypatch.context() as patched:
            propose_partly([[5, 6, 5, *right.tokens]], patched)
            (mine,) = written(model, [[5, 6, 5]], device, speculate=3, **options)
        assert (mine.tokens, mine.finished) == (right.tokens, right.finished)


def test_a_text_that_repeats_takes_fewer_passes(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that repeats its last token, as its embeddings are those of the output and nothing else counts."""
    model = build("gpt2", max_positions=64, tied=True).to(device)
    with torch.no_grad():
        model.embed.weight.copy_(torch.eye(*model.embed.weight.shape) * 9)
        for name, weight in model.named_parameters():
            if "out" in name or "outer" in name or "positions" in name:
                weight.mul_(0 if weight is not model.out.weight else 1)
    (right,) = written(model, [[5, 5, 5]], device, min_length=30)
    taken = passes(model, monkeypatch)
    (mine,) = written(model, [[5, 5, 5]], device, min_length=30, speculate=8)
    assert mine.tokens == right.tokens == [5] * 30
    if device == "cpu":  # a graph passes unseen
        assert 3 <= len(taken) <= 8
        assert set(taken) == {"step", "read_on"}


def test_what_is_proposed_followed_the_last_tokens() -> None:
    text = Text([1, 2, 3, 9, 2, 3])
    assert text.propose(2) == [9, 2]
    assert text.propose(6) == [9, 2, 3, 9, 2, 3], "what repeats itself goes on so"
    text.add([7])
    assert text.propose(3) == []
    text.add([3])
    assert text.propose(2) == [7, 3], "behind the last occurrence of one token"


@pytest.mark.parametrize("prompt", ["ROMEO:", "To be, or not to be, or not to be", "the the the the the the"])
def test_a_shipped_run_writes_the_same(prompt: str) -> None:
    run = regard.load("shakespeare", device="cpu")
    options = {"max_tokens": 24, "stop": "\n\n"}
    right = run.generate(prompt, **options)
    mine = run.generate(prompt, speculate=4, **options)
    assert mine.text == right.text
    assert mine.score == pytest.approx(right.score, abs=1e-4)
    assert "".join(run.stream(run.begin(prompt), run.decoding({"speculate": 4, **options}))) == right.text


def test_several_texts_and_traced_ones_are_written_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    model, said = build("gpt2", max_positions=64), []
    monkeypatch.setattr(graphs.log, "debug", lambda text, *parts: said.append(text % parts))
    prompts = [[5, 6, 5, 6], [6, 6, 6, 6]]
    taken, right = passes(model, monkeypatch), written(model, prompts, "cpu")
    assert written(model, prompts, "cpu", speculate=4) == right
    assert said == ["nothing is proposed: it is for one text at a time, and these are 2"]
    with trace(model, "blocks.*.attend"):
        assert written(model, prompts[:1], "cpu", speculate=4)[0].tokens == right[0].tokens
    assert said[1:] == ["nothing is proposed: attention is traced"]
    assert set(taken) == {"step"}


def test_who_cannot_speculate_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match="past can be cut back, and RNNLM is none; set it to 0"):
        written(build("rnnlm"), [[5, 6]], "cpu", speculate=4)
    with pytest.raises(BadInput, match="beam = 3 writes several; set beam = 1 or speculate = 0"):
        Decoding(beam=3, speculate=4)
