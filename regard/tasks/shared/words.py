"""From the pieces that a tokenizer makes to words, and from a trace to a picture of them.

Words are separated by spaces and punctuation: "isn't it (42)?" has the words isn't, it, (, 42, ) and ?. An
apostrophe belongs to its word. Scripts without spaces, such as Chinese, are split as the tokenizer splits them.
Special tokens and line breaks stand alone. Models of characters or whole words are shown as they are, but a space
that is a token beside whole words belongs to the word after it."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence

import numpy as np
from tokenizers import models

from regard.attention import Trace
from regard.data.artifacts import AnyTokenizer
from regard.data.text.tokenizer import Tokenizer
from regard.show import Document, Heads, Words
from regard.show.label_text import without_spaces

APOSTROPHES = "'’ʼ"
BROKEN = "\ufffd"  # what the bytes of an incomplete character decode to
LONGEST = 8  # pieces of a character, at most
Tokens = tuple[AnyTokenizer, Sequence[int]]  # a tokenizer and ids of its vocabulary


def words_of(tokenizer: AnyTokenizer, ids: Sequence[int]) -> Words:
    """The words of a text, and the word that each id is part of."""
    ids = [int(i) for i in ids]
    names = tokenizer.tokens(ids)
    alone = tokenizer.silent | {tokenizer.special.unknown}
    if isinstance(tokenizer, Tokenizer) and isinstance(tokenizer.inner.model, models.WordLevel):
        if all(len(name) == 1 or i in alone for name, i in zip(names, ids, strict=True)):  # characters
            return Words(names, range(len(names)))
        return _whole_words(names, [i in tokenizer.silent for i in ids])
    places = tokenizer.word_of(ids)  # words between spaces
    starts: list[int] = []
    before, at = None, 0
    while at < len(ids):
        text, end = _characters(tokenizer, ids, at, alone)
        if not (at and places[at] == places[at - 1] >= 0 and _joined(before, text)):
            starts.append(at)
        before, at = text, end
    labels, numbers = [], []
    for number, (first, end) in enumerate(zip(starts, [*starts[1:], len(ids)], strict=True)):
        said = "" if ids[first] in alone else tokenizer.decode(ids[first:end])
        labels.append(said.strip() or "".join(names[first:end]))  # a line break as the tokenizer names it
        numbers += [number] * (end - first)
    return Words(labels, numbers)


def _whole_words(names: Sequence[str], silent: Sequence[bool]) -> Words:
    """A space of its own, as before a full stop that has one, belongs to the word after it."""
    spaces = [name == " " for name in names]
    joined = [at > 0 and spaces[at - 1] and not (spaces[at] or silent[at]) for at in range(len(names))]
    numbers = np.cumsum([not part for part in joined]) - 1
    last = [at for at in range(len(names)) if at + 1 == len(names) or not joined[at + 1]]
    return Words([names[at] for at in last], numbers.tolist())


def _characters(tokenizer: AnyTokenizer, ids: list[int], at: int, alone: set[int]) -> tuple[str | None, int]:
    """The text of the id at this place, and the place after it; of several ids if only together they are whole
    characters. None: a special token."""
    if ids[at] in alone:
        return None, at + 1
    text = tokenizer.decode(ids[at : at + 1])
    for end in range(at + 1, min(at + LONGEST, len(ids)) + 1):
        whole = tokenizer.decode(ids[at:end])
        if BROKEN not in (whole[:1], whole[-1:]):
            return whole[2:] if len(whole) > 2 and whole.startswith("##") else whole, end  # "##" continues a word
        if end < len(ids) and ids[end] in alone:
            break
    return text, at + 1


def _joined(before: str | None, text: str | None) -> bool:
    """Whether two pieces without a space between them are parts of one word; None is a special token."""
    if before is None or text is None or "\n" in before + text:
        return False
    if not before.strip():  # a space of its own belongs to the word after it; several are a word
        return len(before) <= 1 and not text[:1].isspace()
    if not text.strip():
        return not text  # a piece without text
    last, first = before[-1], text[0]
    return _in_word(last) and _in_word(first) and not (without_spaces(last) and without_spaces(first))


def _in_word(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN" or character in APOSTROPHES


def heads_of(seen: Trace, tokens: Callable[[str], tuple[Tokens, Tokens]]) -> Heads:
    """Every head of the first text of a trace, in words; `tokens(site)` are a site's queries and its memory."""
    panels, masks = {}, {}
    for site in seen.having("weights"):
        weights = seen[site][0].float().cpu().numpy()
        panels[site] = weights if weights.ndim == 3 else weights[None]
        masks[site] = seen[site, "mask"][0].cpu().numpy()
    read: dict[tuple[int, ...], Words] = {}  # most sites have the same text

    def words(text: Tokens) -> Words:
        tokenizer, ids = text
        key = (id(tokenizer), *ids)
        if key not in read:
            read[key] = words_of(tokenizer, ids)
        return read[key]

    rows, columns = ({site: tokens(site)[side] for site in panels} for side in (0, 1))
    names = ({site: tokenizer.tokens(ids) for site, (tokenizer, ids) in side.items()} for side in (rows, columns))
    merged = ({site: words(text) for site, text in side.items()} for side in (rows, columns))
    row_names, column_names = names
    return Heads(panels, row_names, column_names, mask=masks).in_words(*merged)


def document_of(
    tokenizer: AnyTokenizer,
    sentences: Sequence[Sequence[int]],
    pieces: Sequence[Sequence[str]],
    words: np.ndarray | None,
    weights: np.ndarray | None,
) -> Document:
    """A document shaded by attention, in words. For each sentence its ids and how they are spelled in the text;
    `words` (S, W): the weights of its tokens, None: not shown; `weights` (S,): those of the sentences."""
    if words is None:
        words = np.zeros((len(sentences), max(map(len, sentences), default=0)))
    shares = [row[: len(ids)] for row, ids in zip(words, sentences, strict=True)]
    merged = [words_of(tokenizer, ids) for ids in sentences]
    labels, sums = [], []
    for sentence, spelled, share in zip(merged, pieces, shares, strict=True):
        ends = [*sentence.starts[1:], len(spelled)]
        labels.append(["".join(spelled[first:end]) for first, end in zip(sentence.starts, ends, strict=True)])
        sums.append(np.add.reduceat(share, sentence.starts))
    found = Document(labels, sums, weights)
    if labels == [list(own) for own in pieces]:
        return found
    return found.over(Document(pieces, shares, weights))
