"""Every setting of decoding does what it says, and many texts are answered in order."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.attention import trace
from regard.data.text.special_tokens import END, START
from regard.decode.coverage import coverage_penalty
from regard.decode.settings import Decoding
from regard.tasks.core.table import load
from regard.tasks.translate.run import AHEAD

WAYS: dict[str, dict[str, Any]] = {"greedy": {}, "beam": {"beam": 3}, "draw": {"temperature": 1.0}}
KNOWN = ("one", "two", "three", "four", "five", "six", "seven", "eight")
TEXTS = ["one two", "three Xyzzy five six", "seven", "Plugh", "eight one two three four"]


# ---- lengths


@pytest.mark.parametrize("way", WAYS)
def test_answers_keep_to_the_lengths_asked_for(way: str, lexicon: Any) -> None:
    for least, most in ((0, 1), (0, 3), (7, 0), (4, 6), (5, 6)):
        decode = Decoding(min_length=least, max_length=most, **WAYS[way])
        for answer in lexicon.translator.translate(TEXTS, decode):
            length = len(answer.attention.rows) - 1  # tokens, unknown ones too; the last row is the end
            assert least <= length
            assert not most or length <= most


def test_a_length_that_suits_the_answer_changes_nothing(lexicon: Any) -> None:
    [free, bound] = [
        lexicon.translator.translate("one two three", decode)
        for decode in (Decoding(), Decoding(min_length=3, max_length=4))
    ]
    assert free == bound
    assert free.text == "eins zwei drei"
    longer = lexicon.translator.translate("one two three", Decoding(min_length=4, max_length=5))
    assert longer.score < free.score, "what the model likes less"


@pytest.mark.parametrize("way", WAYS)
def test_a_minimum_beyond_the_usual_limit_is_kept(way: str, lexicon: Any) -> None:
    answer = lexicon.translator.translate("one", Decoding(min_length=60, **WAYS[way]))
    assert len(answer.attention.rows) - 1 >= 60


# ---- coverage


def read_again(translator: Any, source: str, text: str) -> tuple[int, float, torch.Tensor]:
    """Of a text and the end: how many tokens, log p, and where each looked (T, S)."""
    read, said = [*translator.source_tokenizer.encode(source), END], translator.tokenizer.encode(text)
    with torch.no_grad(), trace(translator.model, "attend") as seen:
        known = translator.model(torch.tensor([read]), torch.tensor([[START, *said]]))[0].log_softmax(-1)
    length = len(said) + 1
    return length, float(known[range(length), [*said, END]].sum()), seen["attend"][0]


def test_coverage_reranks_the_answers_of_the_beam(lexicon: Any) -> None:
    """Best first by score / length + beta sum log min(sum a, 1); the answers themselves stay as they are."""
    translator, draw = lexicon.translator, random.Random(0)
    texts = [" ".join(draw.choices(list(KNOWN), k=draw.randint(2, 9))) for _ in range(16)]
    plain = translator.translate(texts, Decoding(beam=5, n_best=5))
    covered = translator.translate(texts, Decoding(beam=5, n_best=5, coverage=5.0))
    changed = checked = 0
    for before, after in zip(plain, covered, strict=True):
        found, ranked = ([(one.text, one.score), *one.others] for one in (before, after))
        assert sorted(text for text, _ in ranked) == sorted(text for text, _ in found)
        changed += ranked[0][0] != found[0][0]
        values = []
        for text, score in ranked:
            length, again, weights = read_again(translator, before.source, text)
            if again == pytest.approx(score, abs=1e-3):  # else words were unknown, which the text leaves out
                values.append(score / length + float(coverage_penalty(weights, beta=5.0)))
        assert values == sorted(values, reverse=True)
        checked += len(values) > 1
    assert changed > 2, "the penalty was felt"
    assert checked > 10


def test_with_coverage_the_best_are_chosen_from_the_whole_beam(lexicon: Any) -> None:
    for source in ("one two three four five six seven", "eight eight eight two two one"):
        whole = lexicon.translator.translate(source, Decoding(beam=5, n_best=5, coverage=5.0))
        few = lexicon.translator.translate(source, Decoding(beam=5, n_best=2, coverage=5.0))
        assert (few.text, few.others) == (whole.text, whole.others[:1])


# ---- unknown words


def test_an_unknown_word_is_left_out_or_replaced_by_the_one_looked_at(lexicon: Any) -> None:
    translator = lexicon.translator
    source, copied = "one Xyzzy three", Decoding(replace_unknown=True)
    assert translator.translate(source).text == "eins drei"
    assert translator.translate(source, copied).text == "eins Xyzzy drei"
    assert translator.translate("two Foo two Bar", copied).text == "zwei Foo zwei Bar"
    assert translator.translate("Plugh", copied).text == "Plugh"
    assert translator.translate("one two", copied) == translator.translate("one two")


def test_the_word_copied_is_the_one_with_the_most_weight(lexicon: Any) -> None:
    """Also where the model is lost, as in sentences longer than it ever saw."""
    draw, seen = random.Random(1), 0
    texts = [" ".join(draw.choices(["one", "two", "Foo", "Bar", "eight"], k=12)) for _ in range(20)]
    answers = lexicon.translator.translate(texts, Decoding(replace_unknown=True))
    for source, answer in zip(texts, answers, strict=True):
        words = iter(answer.text.split())
        for row, weights in zip(answer.attention.rows[:-1], answer.attention.weights, strict=False):
            word = next(words)
            if row == "<unk>":
                assert word == source.split()[weights[:-1].argmax()]
                seen += 1
            else:
                assert word == row
        assert next(words, None) is None
    assert seen > 20


def test_a_space_or_the_end_is_no_word_to_copy(lexicon: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    translator, source, copied = lexicon.translator, "Xyzzy , one", Decoding(replace_unknown=True)
    tokens = translator.source_tokenizer.pieces(source)
    assert tokens[:3] == ["Xyzzy", "", ","]
    weights = torch.zeros(1, 40, len(tokens) + 1)

    def looked(places: dict[int, float]) -> str:
        weights.zero_()
        for place, weight in places.items():
            weights[..., place] = weight
        monkeypatch.setattr(translator, "_weights", lambda *_: (weights, None))
        return translator.translate(source, copied).text

    assert "Xyzzy" in looked({1: 0.6, 0: 0.3, 2: 0.1})
    assert "<unk>" in looked({len(tokens): 1.0})


@pytest.mark.parametrize("beam", [1, 3])
def test_a_dictionary_translates_the_word_looked_at(beam: int, lexicon: Any) -> None:
    texts = ["one Xyzzy three", "Plugh two", "four five"]
    answers = lexicon.translator.translate(
        texts, Decoding(beam=beam), dictionary={"Xyzzy": "Ksizzi", "one": "EINS"}
    )
    assert [answer.text for answer in answers] == ["eins Ksizzi drei", "Plugh zwei", "vier fünf"]
    copied = lexicon.translator.translate(texts, Decoding(beam=beam), dictionary={})
    assert copied[0].text == "eins Xyzzy drei", "an empty dictionary still copies"


def test_the_next_best_have_their_unknown_words_replaced_too(lexicon: Any) -> None:
    answer = lexicon.translator.translate("one Xyzzy three", Decoding(beam=4, n_best=4, replace_unknown=True))
    plain = lexicon.translator.translate("one Xyzzy three", Decoding(beam=4, n_best=4))
    assert [score for _, score in answer.others] == [score for _, score in plain.others]
    assert [text for text, _ in answer.others] != [text for text, _ in plain.others]


# ---- a model that looks at nothing


def test_a_fixed_vector_translates_but_has_nothing_to_show(words: str, tmp_path: Path, train: Any) -> None:
    head, _, tail = re.split(r"(?=\[model\]|\[train\])", Path(words).read_text())
    recipe = tmp_path / "seq2seq.toml"
    recipe.write_text(f'{head}[model]\nname = "seq2seq"\nembed = 16\ndim = 16\n\n{tail}')
    train(str(recipe), tmp_path / "run", "train.steps=3")
    translator = load(tmp_path / "run")
    answers = translator.translate(["one two", "", "three"], Decoding(beam=3, n_best=2))
    assert [len(answer.others) for answer in answers] == [1, 1, 1]
    for ask in (
        lambda: translator.translate("one", Decoding(beam=3, coverage=0.2)),
        lambda: translator.translate("one", Decoding(replace_unknown=True)),
        lambda: translator.translate("one", dictionary={"one": "eins"}),
        lambda: answers[0].attention,
        lambda: answers[0].alignment,
        lambda: next(translator.align([("a", "b")])),
    ):
        with pytest.raises(ValueError, match=r"Seq2seq keeps the whole source in one vector and has no attention"):
            ask()
    assert answers[1].alignment == frozenset(), "the blank text was not translated"


# ---- many texts


@pytest.fixture(scope="module")
def alone(lexicon: Any) -> dict[str, str]:
    """Texts of all lengths, each with its answer."""
    draw = random.Random(7)
    lengths = [*draw.choices([1, 2, 5, 11], k=54), 0, 0]
    texts = [" ".join(draw.choices([*KNOWN, "Xyzzy"], k=length)) or draw.choice(["", " \t"]) for length in lengths]
    return {text: lexicon.translator.translate([text])[0].text for text in texts}


@pytest.mark.parametrize("batch", [1, 3, 7, 64])
def test_many_texts_of_all_lengths_are_answered_in_order(batch: int, lexicon: Any, alone: dict[str, str]) -> None:
    texts = random.Random(batch).choices(list(alone), k=70)
    ticks: list[int] = []
    read = map(lexicon.translator.read, texts)
    answers = list(lexicon.translator.answers(read, batch=batch, tick=lambda: ticks.append(1)))
    assert [answer.source for answer in answers] == texts
    assert len(ticks) == 70
    assert [answer.text for answer in answers] == [alone[text] for text in texts]


def test_no_more_is_read_than_a_few_batches(lexicon: Any) -> None:
    read = 0

    def texts() -> Iterator[str]:
        nonlocal read
        for number in range(1000):
            read += 1
            yield ("one two three", "", "four")[number % 3]

    answers = lexicon.translator.answers(map(lexicon.translator.read, texts()), batch=3)
    assert read == 0, "nothing before it is asked for"
    for number in range(100):
        next(answers)
        assert read <= (number // (3 * AHEAD) + 1) * 3 * AHEAD


def test_a_text_of_its_own_length_does_not_wait_for_the_end(lexicon: Any) -> None:
    """An endless stream is answered as it comes."""

    def endless() -> Iterator[str]:
        while True:
            yield "one two"

    answers = lexicon.translator.answers(map(lexicon.translator.read, endless()), batch=2)
    assert [next(answers).text for _ in range(40)] == ["eins zwei"] * 40


@pytest.mark.parametrize("batch", [0, -1])
def test_a_batch_of_none_is_refused(batch: int, lexicon: Any) -> None:
    with pytest.raises(ValueError, match="batch must be at least 1"):
        list(lexicon.translator.answers([lexicon.translator.read("one")], batch=batch))
    with pytest.raises(ValueError, match="batch must be at least 1"):
        list(lexicon.translator.align([("one", "eins")], batch=batch))


# ---- settings


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"beam": 0}, r"beam must lie in \[1, 1,000\), got 0"),
        ({"beam": 2.5}, "beam must be a whole number"),
        ({"beam": True}, "beam must be a whole number"),
        ({"beam": 10**9}, r"beam must lie in \[1, 1,000\), got 1000000000"),
        ({"n_best": 2}, "n_best must be at most beam = 1, got 2; take a wider beam"),
        ({"length_penalty": float("nan")}, "length_penalty must be a number, got nan"),
        ({"min_length": -1}, r"min_length must lie in \[0, 1,048,576\), got -1"),
        ({"max_length": 2.0}, "max_length must be a whole number, got 2.0"),
        ({"max_length": 1 << 20}, r"max_length must lie in \[0, 1,048,576\), got 1048576"),
        ({"min_length": 5, "max_length": 5}, "min_length must be below max_length = 5, .* got 5"),
        ({"coverage": 0.2}, "coverage chooses among the answers of a beam; set beam above 1"),
        ({"coverage": -0.2, "beam": 2}, r"coverage must lie in \[0, 1,000\], got -0.2"),
        ({"coverage": 1e300, "beam": 2}, r"coverage must lie in \[0, 1,000\], got 1e\+300"),
        ({"length_penalty": 300.0}, r"length_penalty must lie in \[-10, 10\], got 300"),
        ({"repetition_penalty": 1e40}, r"repetition_penalty must lie in \[1e-06, 1,000,000\.0\], got 1e\+40"),
        ({"coverage": float("nan"), "beam": 2}, "coverage must be a number, got nan"),
        ({"temperature": -1.0}, "temperature must be at least 0, got -1"),
        ({"temperature": float("nan")}, "temperature must be a number, got nan"),
        ({"top_p": 0.0}, r"top_p must lie in \(0, 1\], got 0.0"),
        ({"top_k": -1}, r"top_k must lie in \[0, 2,147,483,648\), got -1"),
        ({"seed": -1}, r"seed must lie in \[0, 9,223,372,036,854,775,808\), got -1"),
        ({"beam": 3, "n_best": 3, "temperature": 1.0}, "sampling gives one answer, got n_best = 3"),
    ],
)
def test_decoding_settings_check_themselves(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Decoding(**settings)
