"""Which word of the answer comes from which word of the source, and where local attention could look."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.data.text.special_tokens import END
from regard.decode.settings import Decoding
from regard.show import Map
from regard.tasks.core import training
from regard.tasks.core.recipe import read
from regard.tasks.core.table import load


def owners(labels: Sequence[str]) -> list[int]:
    """The word of each label, where the labels put together are the text; a space is the next word's."""
    text, found, place = "".join(labels), [], 0
    for label in labels:
        rest = text[place:]
        begun = len(text[:place].split())
        inside = place > 0 and not text[place - 1].isspace() and not rest[:1].isspace()
        found.append(-1 if not rest.strip() else begun - inside)
        place += len(label)
    return found


def links_by_hand(seen: Map) -> set[tuple[int, int]]:
    """Columns of a word are added, rows averaged; where the end token weighs more than all, there is no link."""
    source, target = owners(seen.columns[:-1]), owners(seen.rows[:-1])
    links = set()
    for word in set(target) - {-1}:
        row = np.mean([seen.weights[i] for i, owner in enumerate(target) if owner == word], 0)
        looked = [sum(row[i] for i, owner in enumerate(source) if owner == n) for n in range(max(source) + 1)]
        nothing = row[-1] + sum(row[i] for i, owner in enumerate(source) if owner == -1)
        if max(looked) >= nothing:
            links.add((int(np.argmax(looked)), word))
    return links


def test_the_words_of_labels() -> None:
    assert owners(("ab", "c", " de", "f", " ", " ", "g", " ")) == [0, 0, 1, 1, 2, 2, 2, -1]


def test_each_word_is_linked_with_its_translation(lexicon: Any) -> None:
    for source in ("one two three", "eight", "five five four three two"):
        answer = lexicon.translator.translate(source)
        assert answer.alignment == {(place, place) for place in range(len(source.split()))}
        assert answer.alignment is answer.alignment, "computed once"


def test_links_count_the_words_of_the_text(lexicon: Any) -> None:
    """An unknown word that the text leaves out has no number, and the next word has its own."""
    left_out = lexicon.translator.translate("one Xyzzy three")
    assert (left_out.text, left_out.alignment) == ("eins drei", {(0, 0), (2, 1)})
    copied = lexicon.translator.translate("one Xyzzy three", Decoding(replace_unknown=True))
    assert (copied.text, copied.alignment) == ("eins Xyzzy drei", {(0, 0), (1, 1), (2, 2)})
    silent = lexicon.translator.translate("Plugh")
    assert (silent.text, silent.alignment) == ("", frozenset())
    several = lexicon.translator.translate("one Xyzzy three", dictionary={"Xyzzy": "Ksiz zi"})
    assert several.text == "eins Ksiz zi drei"
    assert {(0, 0), (1, 1), (2, 3)} <= several.alignment


def test_a_blank_text_has_no_links(lexicon: Any) -> None:
    assert lexicon.translator.translate(["  "])[0].alignment == frozenset()


def test_given_translations_are_aligned(lexicon: Any) -> None:
    pairs = [
        ("one two three", "eins zwei drei"),
        ("seven Xyzzy", "sieben Ksizzi"),
        ("", ""),
        ("two", ""),
        ("", "zwei"),
        ("five four one eight two", "fünf vier eins acht zwei"),
    ]
    found = list(lexicon.translator.align(iter(pairs)))
    assert found[0] == {(0, 0), (1, 1), (2, 2)}
    assert found[1] == {(0, 0), (1, 1)}
    assert found[2:5] == [frozenset()] * 3
    assert found[5] == {(place, place) for place in range(5)}
    for batch in (1, 2, 5):
        assert list(lexicon.translator.align(pairs, batch=batch)) == found, "whatever stands beside it"


def test_answers_and_given_translations_agree(lexicon: Any) -> None:
    texts = ["one two three", "eight seven", "four four four five"]
    answers = lexicon.translator.translate(texts)
    given = lexicon.translator.align((answer.source, answer.text) for answer in answers)
    assert list(given) == [answer.alignment for answer in answers]


def test_pieces_are_merged_to_words(words: str, tmp_path: Path, train: Any) -> None:
    """BPE too small to know a word whole, and texts with spaces before, behind and between."""
    changes = [
        "tokens.kind=bpe",
        "tokens.size=262",
        "train.steps=4",
        "train.eval_every=4",
        "model.max_positions=99",
    ]
    train(words, tmp_path, *changes)
    translator = load(tmp_path)
    pairs = [
        ("one two three", "eins zwei drei"),
        ("  seven   eight ", " sieben  acht  "),
        ("name77 five-six, four", "title77 f-s"),
        ("\teight\u00a0one", "acht\neins x"),
    ]
    found = list(translator.align(pairs))
    for (source, target), links in zip(pairs, found, strict=True):
        read, said = [*translator.source_tokenizer.encode(source), END], translator.tokenizer.encode(target)
        seen = translator.look(read, said).pieces
        assert len(read) > len(source.split()) + 1, "words are in pieces"
        assert all(i < len(source.split()) and j < len(target.split()) for i, j in links)
        if source.isascii():  # else bytes of it are no text to compare
            assert links == links_by_hand(seen)
    assert sum(map(len, found)) > 3
    for answer in translator.translate([source for source, _ in pairs], Decoding(temperature=0.7)):
        sizes = len(answer.source.split()), len(answer.text.split())
        assert all(i < sizes[0] and j < sizes[1] for i, j in answer.alignment)


@pytest.mark.parametrize("decode", [Decoding(), Decoding(beam=3), Decoding(temperature=1.0)])
def test_characters_are_merged_to_words(run: Any, decode: Decoding) -> None:
    for answer in run.translator.translate(["ab cd e", " q  we r ", "z"], decode):
        if "<unk>" not in answer.attention.rows:  # left out of the text
            assert answer.alignment == links_by_hand(answer.attention)


# ---- local attention


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory, words: str) -> Any:
    """Tiny runs of luong, by their way to weigh."""
    folder = tmp_path_factory.mktemp("local")
    head, _, tail = re.split(r"(?=\[model\]|\[train\])", Path(words).read_text())
    model = 'name = "luong"\nembed = 16\ndim = 16\nwindow = 2\n'
    (folder / "luong.toml").write_text(f"{head}[model]\n{model}\n{tail}")
    runs = {}
    for weigh in ("local-m", "local-p", "soft"):
        job, text = read(str(folder / "luong.toml"), [f"model.weigh={weigh}", "train.steps=2"])
        training.train(job, folder / weigh, recipe=text, command="")
        runs[weigh] = load(folder / weigh)
    return runs


@pytest.mark.parametrize("weigh", ["local-m", "local-p"])
@pytest.mark.parametrize("decode", [Decoding(max_length=7), Decoding(beam=3, max_length=7)])
def test_local_attention_shows_its_windows(weigh: str, decode: Decoding, local: Any) -> None:
    for answer in local[weigh].translate(["one two three four five six", "seven"], decode):
        seen = answer.attention
        assert seen.window == 2
        assert seen.centres.shape == (len(seen.rows),)
        if weigh == "local-m":
            assert seen.centres.tolist() == list(range(len(seen.rows)))
        else:
            assert ((seen.centres > 0) & (seen.centres < len(seen.columns))).all()
        for centre, weights in zip(seen.centres, seen.weights, strict=True):
            far = np.abs(np.arange(len(weights)) - np.round(centre)) > 2
            assert not weights[far].any()
        assert all(i < len(answer.source.split()) for i, _ in answer.alignment)


def test_global_attention_has_no_windows(local: Any) -> None:
    seen = local["soft"].translate("one two").attention
    assert (seen.centres, seen.window) == (None, 0)


@pytest.mark.parametrize("weigh", ["local-m", "local-p"])
def test_padding_changes_no_alignment_of_local_attention(weigh: str, local: Any) -> None:
    """p_t = n sigmoid(..), where n is the row's own length."""
    pairs = [("one two three", "eins zwei drei"), ("two", "zwei"), ("one " * 20, "eins " * 20)]
    together = list(local[weigh].align(pairs))
    assert together == [next(local[weigh].align([pair])) for pair in pairs]
