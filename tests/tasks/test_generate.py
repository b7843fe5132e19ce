"""Continuing a prompt: how it is read, when it ends, what comes piece by piece, and where each token looked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.attention import trace
from regard.data.text.tokenizer import Tokenizer
from regard.decode.generator import finish
from regard.decode.settings import Decoding
from regard.errors import NoAttention
from regard.layers.recurrent import gates_of
from regard.models import MODELS
from regard.tasks.generate.continuation import Continuation
from regard.tasks.generate.run import LanguageModel

TEXT = "How now, spirit! whither wander you? Über Hügel, über Thäler, 日本語 😀 und Busch! " * 3
LONGEST = 24
GREEDY = Decoding(max_length=12, min_length=11)


def build(name: str, kind: str = "character", seed: int = 0, **sizes: Any) -> LanguageModel:
    """Drawn weights: it writes what nobody wrote, and never the same for long."""
    tokenizer = Tokenizer.train([TEXT], kind=kind, size=300, numbering="gpt2")
    model = MODELS[name]
    torch.manual_seed(seed)
    network = model(model.Config(vocabulary=len(tokenizer), **{"max_positions": LONGEST, **sizes}))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.5)
    return LanguageModel(network, tokenizer)


@pytest.fixture(scope="module")
def gpt2() -> LanguageModel:
    return build("gpt2", dim=16, layers=2, heads=2)


@pytest.fixture(scope="module")
def by_bytes() -> LanguageModel:
    """Byte-level BPE: a character may take several tokens."""
    return build("gpt2", "bpe", dim=16, layers=2, heads=2, max_positions=64)


@pytest.fixture(scope="module")
def rnnlm() -> LanguageModel:
    return build("rnnlm", embed=16, dim=16)


@pytest.fixture(scope="module")
def lstmn() -> LanguageModel:
    return build("lstmn", embed=16, dim=16, layers=2)


@pytest.fixture(params=["gpt2", "by_bytes", "rnnlm", "lstmn"])
def any_model(request: pytest.FixtureRequest) -> LanguageModel:
    return request.getfixturevalue(request.param)


def written(model: LanguageModel, prompt: str, decode: Decoding) -> list[int]:
    """The tokens of a continuation; its text does not tell unknown ones."""
    [[found]] = finish(model.model, model._write([model.read(prompt)], decode))
    return found.tokens


def streamed(model: LanguageModel, prompt: str, decode: Decoding) -> tuple[Continuation, list[str]]:
    pieces: list[str] = []
    steps = model.stream(model.begin(prompt, decode), decode)
    while True:
        try:
            pieces.append(next(steps))
        except StopIteration as end:
            return end.value, pieces


# ---- prompts


def test_greedy_writes_the_likeliest_token_each_time(any_model: LanguageModel) -> None:
    one = any_model.generate("How now", replace(GREEDY, max_length=10, min_length=9))
    ids = any_model.tokenizer.encode("How now")
    score, written = 0.0, []
    with torch.no_grad():
        for _ in range(10):
            logits = any_model.model(torch.tensor([ids + written]))[0, -1]
            allowed = logits.clone()
            if len(written) < 9:
                allowed[any_model.tokenizer.special.end] = -torch.inf
            token = int(allowed.argmax())
            score += float(logits.log_softmax(-1)[token])
            if token == any_model.tokenizer.special.end:
                break
            written.append(token)
    assert one.prompt == "How now"
    assert one.text == any_model.tokenizer.decode(written)
    assert one.score == pytest.approx(score, rel=1e-4)


def test_the_empty_prompt_begins_a_text(any_model: LanguageModel) -> None:
    special = any_model.tokenizer.special
    assert any_model.read("") == [special.start] == [special.end]
    one = any_model.generate("", GREEDY)
    assert one.prompt == ""
    assert one.text


def test_a_list_gives_a_list_and_batches_change_nothing(any_model: LanguageModel) -> None:
    prompts = ["How now", "", "spirit! whither wander", "Ü", "日本語 😀"]
    alone = [any_model.generate(prompt, GREEDY) for prompt in prompts]
    for batch in (2, 16):
        together = list(any_model.continuations(map(any_model.begin, prompts), GREEDY, batch=batch))
        assert [one.text for one in together] == [one.text for one in alone]
        assert [one.score for one in together] == pytest.approx([one.score for one in alone], rel=1e-4)
    assert any_model.generate([], GREEDY) == []
    with pytest.raises(ValueError, match="batch must be at least 1, got 0"):
        next(any_model.continuations([any_model.begin("a")], batch=0))


def test_unicode_goes_in_and_comes_out(by_bytes: LanguageModel) -> None:
    for prompt in ("Über", "日本語", "😀", "é\u0301", "<|endoftext|>", "never seen: ẞ Ω"):
        assert by_bytes.tokenizer.decode(by_bytes.read(prompt)) == prompt
        assert by_bytes.generate(prompt, GREEDY).prompt == prompt
    assert by_bytes.tokenizer.special.end not in by_bytes.read("<|endoftext|>"), "typed, it is text"


def test_a_prompt_may_be_as_long_as_the_model_sees_and_no_longer(gpt2: LanguageModel) -> None:
    assert len(gpt2.generate("a" * LONGEST, Decoding(max_length=1, min_length=0)).text) <= 1
    with pytest.raises(ValueError, match=r"the prompt 'a{25}'\.\.\. has 25 tokens and this model takes 24; keep"):
        gpt2.generate("a" * (LONGEST + 1))


# ---- length


def test_it_goes_on_beyond_the_window(gpt2: LanguageModel) -> None:
    """Where a window ends does not hang on the other prompts: each is as if alone, and as worked out by hand."""
    prompts, decode = ["How now", "", "whither wander you?"], Decoding(max_length=44, min_length=43)
    for prompt, one in zip(prompts, gpt2.generate(prompts, decode), strict=True):
        ids, written, window = gpt2.read(prompt), list[int](), list[int]()
        window = [*ids]
        with torch.no_grad():
            while len(written) < 43:
                logits = gpt2.model(torch.tensor([window]))[0, -1]
                logits[gpt2.tokenizer.special.end] = -torch.inf
                written.append(int(logits.argmax()))
                window.append(written[-1])
                if len(window) > LONGEST:
                    window = window[-LONGEST // 2 :]
        text = gpt2.tokenizer.decode(written)
        assert one.text.startswith(text)
        assert one.text == gpt2.generate(prompt, decode).text


def test_the_least_length_counts_all_that_was_written() -> None:
    """In a later window it is not asked for again: there, the end token may come at once."""
    ends = []
    for seed in range(12):
        model = build("gpt2", seed=seed, dim=16, layers=1, heads=2)
        with torch.no_grad():
            model.model.embed.weight[model.tokenizer.special.end] *= 3  # type: ignore[union-attr,operator]
        tokens = written(model, "How now", Decoding(max_length=60, min_length=20))
        assert 20 <= len(tokens) <= 60
        if len(tokens) < 60:
            ends.append(len(tokens))
        if ends and min(ends) < 38:
            break
    assert ends, "some model ends its text"
    assert min(ends) < 38, "18 tokens fill the first window: 2 more are asked for in the next, and not 20"


def test_a_least_length_may_pass_what_is_usual(gpt2: LanguageModel) -> None:
    assert len(written(gpt2, "How", Decoding(min_length=230))) >= 230


def test_a_beam_stays_in_the_window(gpt2: LanguageModel) -> None:
    with pytest.raises(ValueError, match=r"a beam may write 18 tokens .* sees 24 at once, and 19 were asked for"):
        gpt2.generate("How now", Decoding(beam=2, max_length=19))
    assert gpt2.generate("How now", Decoding(beam=2, max_length=18)).text
    prompts = ["How now", "spirit! whither wander"]
    decode = Decoding(beam=3, min_length=2)
    assert [one.text for one in gpt2.generate(prompts, decode)] == [gpt2.generate(x, decode).text for x in prompts]


# ---- stopping


def middle(text: str, begin: int, count: int) -> str:
    assert len(text) >= begin + count
    return text[begin : begin + count]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_it_ends_before_a_stop_string(count: int, any_model: LanguageModel) -> None:
    whole = any_model.generate("How now", GREEDY)
    stop = middle(whole.text.replace("\ufffd", "?"), 3, count)
    if stop not in whole.text:
        stop = middle(whole.text, 3, count)
    one = any_model.generate("How now", replace(GREEDY, stop=(stop, "never written")))
    assert one.text == whole.text[: whole.text.index(stop)]
    assert not one.finished
    assert one.score >= whole.score


@pytest.mark.parametrize("stop", ["ü", "日本", "日本語 😀"])
def test_a_stop_string_of_many_bytes(stop: str, by_bytes: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written is set: a stop string comes in the middle, one byte a token."""
    force(by_bytes, monkeypatch, "abc" + stop + "def")
    one, pieces = streamed(by_bytes, "How", Decoding(max_length=40, stop=(stop,)))
    assert one.text == "".join(pieces) == "abc"
    assert "\ufffd" not in "".join(pieces)


def force(model: LanguageModel, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Let the model write this text, whatever it thinks, and then end."""
    tokenizer = model.tokenizer
    of_byte = {tokenizer.decode([number]).encode(): number for number in range(len(tokenizer))}
    script: list[int] = []
    for character in text:
        script += [of_byte[character.encode()]] if character.isascii() else tokenizer.encode(character)
    wanted = iter([*script, tokenizer.special.end])
    step = model.model.step

    def say(tokens: Any, state: Any) -> Any:
        logits, state = step(tokens, state)  # type: ignore[operator]
        logits = torch.zeros_like(logits)
        logits[:, next(wanted)] = 50.0
        return logits, state

    monkeypatch.setattr(model.model, "step", say)


def test_a_stop_string_at_the_border_of_two_windows(gpt2: LanguageModel) -> None:
    """The first window ends after 18 tokens, and the stop string begins there and ends in the next."""
    decode = Decoding(max_length=30, min_length=29)
    whole = gpt2.generate("How now", decode).text
    for begin in (15, 16, 17):
        stop = middle(whole, begin, 4)
        one = gpt2.generate(["How now", "whither wander you?"], replace(decode, stop=(stop,)))[0]
        first = whole.index(stop)
        assert one.text == whole[:first]
        alone = gpt2.generate("How now", replace(decode, max_length=first + 4, min_length=first + 3))
        assert one.score == pytest.approx(alone.score, rel=1e-4), "nothing was written behind it"


# ---- as it comes


@pytest.mark.parametrize(
    ("decode", "stop"),
    [
        (GREEDY, ("e", "spirit")),
        (Decoding(max_length=60, min_length=50), ()),
        (Decoding(max_length=30, min_length=29), ("never written by it",)),
        (Decoding(beam=3, max_length=9), ()),
        (Decoding(beam=3, max_length=9), ("e", "spirit")),
    ],
)
def test_pieces_add_up_to_the_text(decode: Decoding, stop: tuple[str, ...], any_model: LanguageModel) -> None:
    if decode.beam > 1 and any_model.model.config.max_positions < 20:  # type: ignore[union-attr,operator]
        pytest.skip("no room for the beam")
    one, pieces = streamed(any_model, "How now", replace(decode, stop=stop))
    assert "".join(pieces) == one.text
    assert all(pieces)
    if decode.beam == 1 and len(one.text) > 25:
        assert len(pieces) > 1, "not all at once"


def test_pieces_hold_whole_characters(by_bytes: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a日b😀c é"
    force(by_bytes, monkeypatch, text)
    one, pieces = streamed(by_bytes, "How", Decoding(max_length=60))
    assert one.text == "".join(pieces) == text
    assert one.finished
    assert not any("\ufffd" in piece for piece in pieces)
    assert len(pieces) == len(text)


def test_nothing_of_a_stop_string_is_shown_nor_what_follows_it_in_one_token(
    by_bytes: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One token holds the stop string and more."""
    texts = {number: by_bytes.tokenizer.decode([number]) for number in range(len(by_bytes.tokenizer))}
    token = next(number for number, text in texts.items() if len(set(text)) == len(text) >= 3)
    step = by_bytes.model.step

    def say(tokens: Any, state: Any) -> Any:
        logits, state = step(tokens, state)  # type: ignore[operator]
        logits = torch.zeros_like(logits)
        logits[:, token] = 50.0
        return logits, state

    monkeypatch.setattr(by_bytes.model, "step", say)
    one, pieces = streamed(by_bytes, "How", Decoding(max_length=10, stop=(texts[token][1],)))
    assert one.text == "".join(pieces) == texts[token][0]


# ---- other ways to write


def test_a_beam_finds_no_worse_and_gives_as_many_as_asked(any_model: LanguageModel) -> None:
    decode = Decoding(beam=5, n_best=3, max_length=6, min_length=5, length_penalty=0.0)
    one = any_model.generate("How now", decode)
    greedy = any_model.generate("How now", Decoding(max_length=6, min_length=5))
    assert one.score >= greedy.score - 1e-4
    assert len(one.others) == 2
    assert len({one.text, *(text for text, _ in one.others)}) == 3
    assert one.score >= one.others[0][1] >= one.others[1][1]
    long = any_model.generate("How now", Decoding(beam=5, n_best=4, max_length=6, length_penalty=2.0))
    assert list(long.ranks) == sorted(long.ranks, reverse=True)
    assert f"{long.ranks[1]:.4f}\tHow now{long.others[0][0]}" in long.line()


def repeats(ids: list[int], count: int) -> bool:
    parts = [tuple(ids[place : place + count]) for place in range(len(ids) - count + 1)]
    return len(parts) > len(set(parts))


@pytest.mark.parametrize("size", [1, 2, 3])
def test_nothing_comes_twice_where_that_is_asked_also_from_the_prompt_and_over_windows(
    size: int, gpt2: LanguageModel
) -> None:
    length = 20 if size == 1 else 44
    prompt = "wander"
    free, bound = (
        written(gpt2, prompt, Decoding(max_length=length, min_length=length - 1, no_repeat_ngram=count))
        for count in (0, size)
    )
    assert not repeats(gpt2.read(prompt), size)
    assert repeats([*gpt2.read(prompt), *free], size)
    assert not repeats([*gpt2.read(prompt), *bound], size)


def test_a_repetition_penalty_has_other_tokens_come(any_model: LanguageModel) -> None:
    def kinds(penalty: float) -> int:
        decode = Decoding(max_length=30, min_length=29, repetition_penalty=penalty)
        return len(set(any_model.tokenizer.encode(any_model.generate("How now", decode).text)))

    assert kinds(0.01) < kinds(1e6)


def test_seeds_tell_draws_apart(any_model: LanguageModel) -> None:
    def draw(**options: Any) -> str:
        return any_model.generate("How now", replace(GREEDY, temperature=2.0, **options)).text

    assert draw(seed=3) == draw(seed=3)
    assert len({draw(seed=seed) for seed in range(4)}) > 1
    greedy = any_model.generate("How now", GREEDY).text
    assert draw(top_k=1) == draw(top_p=1e-6, seed=5) == greedy
    long = Decoding(max_length=30, min_length=29, temperature=1.0, seed=(1 << 63) - 1)
    assert any_model.generate("How now", long) == any_model.generate("How now", long)


def test_what_asks_for_a_source_is_refused(gpt2: LanguageModel) -> None:
    for decode in (Decoding(beam=2, coverage=0.2), Decoding(replace_unknown=True)):
        with pytest.raises(ValueError, match="need a source, and a language model has none"):
            gpt2.generate("a", decode)


# ---- where it looked


def test_the_map_has_a_row_for_each_written_token(gpt2: LanguageModel) -> None:
    one = gpt2.generate("How now", GREEDY)
    seen = one.attention
    written, prompt = list(one.text), list("How now")
    assert list(seen.rows) == gpt2.tokenizer.tokens(gpt2.tokenizer.encode(one.text))
    assert list(seen.columns) == gpt2.tokenizer.tokens(gpt2.tokenizer.encode("How now" + one.text))[:-1]
    assert seen.weights.shape == (len(written), len(prompt) + len(written) - 1)
    np.testing.assert_allclose(seen.weights.sum(1), 1, atol=1e-5)
    for row in range(len(written)):
        assert not seen.weights[row, len(prompt) + row :].any(), "the future is not looked at"
        assert (seen.weights[row, : len(prompt) + row] > 0).all()


def test_heads_are_those_of_the_named_sites(gpt2: LanguageModel) -> None:
    one = gpt2.generate("How now", GREEDY)
    heads = one.heads()
    assert list(heads.panels) == ["blocks.0.attend", "blocks.1.attend"]
    assert list(one.heads("blocks.1.*").panels) == ["blocks.1.attend"]
    weights = heads.panels["blocks.1.attend"]
    assert weights.shape == (2, *one.attention.weights.shape)
    np.testing.assert_allclose(weights.mean(0), one.attention.weights, atol=1e-6)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    with pytest.raises(
        NoAttention,
        match=r"no attention has a name like 'decoder\.\*'; there are blocks\.0\.attend, blocks\.1\.attend$",
    ):
        one.heads("decoder.*")


def test_of_lstmn_each_word_that_was_read_looks_back(lstmn: LanguageModel, tmp_path: Path) -> None:
    """The last word has no column, and the first one nothing to look at."""
    one = lstmn.generate("How now", GREEDY)
    ids = [*lstmn.read("How now"), *written(lstmn, "How now", GREEDY)][:-1]
    names = tuple(lstmn.tokenizer.tokens(ids))
    assert (tuple(one.attention.rows), tuple(one.attention.columns)) == (names, names[:-1])
    np.testing.assert_allclose(one.attention.weights.sum(1), [0] + [1] * (len(ids) - 1), atol=1e-5)
    assert not np.triu(one.attention.weights).any(), "only words before it are looked at"
    assert list(one.heads().panels) == ["layers.0.attend", "layers.1.attend"]
    assert list(one.gates().panels)[:3] == [f"layers.0.cell, {gate}" for gate in gates_of("lstm")]
    for name in ("look.svg", "look.html"):
        one.attention.save(tmp_path / name)


def test_a_single_word_has_nothing_to_look_back_at(lstmn: LanguageModel) -> None:
    one = lstmn.generate("H", Decoding(max_length=1))
    with pytest.raises(NoAttention, match="fewer than two words were read"):
        one.heads()


def test_of_a_long_text_the_last_window_is_shown(gpt2: LanguageModel) -> None:
    one = gpt2.generate("How now", Decoding(max_length=50, min_length=49))
    assert one.attention.weights.shape == (LONGEST, LONGEST)
    np.testing.assert_allclose(np.triu(one.attention.weights, 1), 0)


def test_rnnlm_looks_at_nothing(rnnlm: LanguageModel) -> None:
    one = rnnlm.generate("How now", GREEDY)
    for ask in (lambda: one.attention, one.heads, rnnlm.check_looks):
        check_nothing(ask)


def test_rnnlms_gates_over_all_that_was_read(rnnlm: LanguageModel, gpt2: LanguageModel) -> None:
    one = rnnlm.generate("How now", GREEDY)
    found = one.gates(units=3)
    assert list(found.panels) == [f"stack.l{layer}, {gate}" for layer in (0, 1) for gate in gates_of("lstm")]
    ids = [*rnnlm.read("How now"), *written(rnnlm, "How now", GREEDY)][:-1]
    assert "".join(found.tokens("stack.l0, input")[1]) == "".join(rnnlm.tokenizer.tokens(ids))
    with torch.inference_mode(), trace(rnnlm.model, "stack.l1") as seen:
        rnnlm.model(torch.tensor([ids]))
    mean = seen["stack.l1", "forget"][0].mean(-1)
    np.testing.assert_allclose(found.panels["stack.l1, forget"][0, 0], mean, atol=1e-6)
    picture = one.picture(["stack.l1"])
    assert picture is not None
    assert "gates of layer 2, forget" in picture.svg()
    with pytest.raises(NoAttention, match="this model has no gates: only GRU and LSTM cells do"):
        gpt2.generate("How now", GREEDY).gates()


def check_nothing(ask: Callable[[], Any]) -> None:
    with pytest.raises(NoAttention, match="RNNLM keeps the whole text in one state and has no attention to show"):
        ask()


def test_an_unknown_word_is_never_written() -> None:
    """It would be missing from the text."""
    model = build("rnnlm", "word", embed=8, dim=8)
    unknown = model.tokenizer.special.unknown
    with torch.no_grad():
        model.model.out.bias[unknown] = 1e4
    for decode in (GREEDY, Decoding(beam=2, max_length=5), Decoding(temperature=1.0, max_length=5)):
        assert unknown not in written(model, "How now", decode)


@pytest.mark.parametrize("kind", ["word", "space"])
def test_a_word_is_spaced_from_the_prompt(kind: str) -> None:
    model = build("gpt2", kind, dim=16, layers=2, heads=2)
    spaced = {}
    for prompt in ("How now, spirit!", "und wander", "und never_seen", "und ", ""):
        one, pieces = streamed(model, prompt, GREEDY)
        assert "".join(pieces) == one.text
        tokens = written(model, prompt, GREEDY)
        known = [token for token in tokens if token != model.tokenizer.special.unknown]
        alone = model.tokenizer.decode(known)
        assert one.text in (alone, " " + alone)
        spaced[prompt] = one.text != alone
        if "never" not in prompt and prompt != "und ":
            both = model.tokenizer.decode([*model.tokenizer.encode(prompt), *known])
            assert prompt + one.text == both
    assert not spaced["und "]
    assert not spaced[""]
    assert spaced["und wander"] or model.generate("und wander", GREEDY).text[0] in "!?, "
