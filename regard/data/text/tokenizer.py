"""Text to token ids and back. One tokenizer.json holds everything."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path

import tokenizers
from tokenizers import models
from tokenizers.pre_tokenizers import ByteLevel

from regard.base.files import LARGEST_TOKENIZER, read_bytes, write_file
from regard.data.text.byte_level import bytes_of
from regard.data.text.special_tokens import (
    GPT2_BYTES,
    NUMBERINGS,
    SPECIAL,
    TAG,
    TEXT_END,
    Special,
    numbering_for,
    tag_token,
)
from regard.data.text.tokenizer_file import read_tokenizer, without_panic
from regard.data.text.tokenizer_training import KINDS, KINDS_OF_BERT, SPLITTERS, check_training, train_vocabulary
from regard.data.text.wordpiece import NAMES
from regard.errors import DataError

# Each matches the text up to the last place where it may be split without changing the ids. The rest begins with an
# ASCII character, which no normal form merges with the character before it. Words look at both sides of a space.
CUTS = {
    "character": re.compile(r"[\s\S]*(?=[\x00-\x7f])"),
    "word": re.compile(r"[\s\S]*(?=[\n.,;:!?])"),
    "space": re.compile(r"[\s\S]*(?<=\S)(?=[ \t\n\r])"),
    "bpe": re.compile(r"[\s\S]*(?<=\S)(?=[ \t\n\r])"),
    "wordpiece": re.compile(r"[\s\S]*(?=[ \t\n\r])"),
}
HARMLESS = {"space": {"Replace"}, "wordpiece": {"BertNormalizer"}}  # further normalisers with which CUTS hold
MOST_SPECIAL = 1000  # ids from 0 on among which tags are
PART = 1 << 16  # characters that are encoded at a time


class Tokenizer:
    """Characters, words, split at white space, byte-level BPE or WordPiece, trained by `tokenizers`.

    The special tokens are in the vocabulary but are not registered as added tokens, because `tokenizers` would look
    for those in the text: "<s>" typed by a user is three characters, never the token. No other piece can spell a
    special token either, because letters and brackets are always separate pieces. The exception is "space", which
    splits at white space only: there the word "<unk>" is the unknown token, as in data sets that contain it, and
    a word that spells another special token becomes <unk> too."""

    def __init__(
        self,
        inner: tokenizers.Tokenizer,
        special: Special,
        *,
        size: int | None = None,
        before: tuple[int, ...] = (),
    ) -> None:
        """`size`: how many ids the model has, if more than the vocabulary; the further ids decode to nothing.

        `before`: ids that a language model of another library wants before every prompt."""
        self.inner, self.special, self.before = inner, special, before
        self.size = inner.get_vocab_size() if size is None else size
        # Another library's file may register the special tokens; in the user's text they are still text.
        inner.encode_special_tokens = True
        inner.no_truncation()
        inner.no_padding()
        registered = {i for i, token in inner.get_added_tokens_decoder().items() if token.special}
        named = (TAG.fullmatch(inner.id_to_token(i) or "") for i in range(min(self.size, MOST_SPECIAL)))
        self.tags = {tag[1]: i for i, tag in enumerate(named) if tag}  # of targets: their tokens
        self.silent = (registered - {special.unknown}) | {special.pad, special.start, special.end, special.mask}
        self.silent |= {*self.tags.values()}
        self.byte_level = inner.decoder is not None and b'"ByteLevel"' in inner.decoder.__getstate__()
        self.join = partial(without_panic, inner.decoder.decode) if inner.decoder is not None else " ".join

    def beginning_with(self, tag: str) -> Tokenizer:
        """The same, of targets that begin with this tag's token instead of the start token."""
        tagged = copy(self)
        tagged.special = replace(self.special, start=self.tags[tag])
        return tagged

    def __repr__(self) -> str:
        return f"<Tokenizer: {len(self):,} tokens, {type(self.inner.model).__name__}>"

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        *,
        kind: str,
        size: int | None = None,
        min_count: int = 1,
        lowercase: bool = False,
        normalise: str = "",
        numbering: str = "regard",
        tags: Sequence[str] = (),
    ) -> Tokenizer:
        """`size` is the size of the vocabulary with its special tokens; the most frequent pieces are kept.

        Without it all characters or words are kept, BPE stops at 8,000 and WordPiece at 30,000. What occurs less
        often than `min_count` in the texts is left out (BPE merges no pair that occurs once). `normalise` is "",
        "nfc" or "nfkc", before lower-casing; WordPiece has BERT's own. `tags`: what kinds of targets there are;
        each gets a token. The texts are read once, in order."""
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
        if numbering not in NUMBERINGS:
            raise ValueError(f"numbering must be one of {', '.join(NUMBERINGS)}, got {numbering!r}")
        if kind not in KINDS_OF_BERT if numbering == "bert" else kind == "wordpiece":
            raise ValueError(
                f"the numbering bert goes with {' or '.join(KINDS_OF_BERT)} tokens, and wordpiece with it alone; "
                f"got {kind!r} and {numbering!r}"
            )
        if isinstance(texts, str):
            raise ValueError("texts must be many texts, got a single one; put it in a list")
        order = numbering_for(numbering, kind)
        check_training(kind, size, normalise, order)
        inner = train_vocabulary(
            _checked_texts(texts),
            kind=kind,
            size=size,
            min_count=min_count,
            lowercase=lowercase,
            normalise=normalise,
            numbering=order,
            tags=[tag_token(tag) for tag in tags],
        )
        special = order.ids(inner)
        assert special is not None
        return cls(inner, special)

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """From a tokenizer.json that `save` wrote."""
        inner = read_tokenizer(read_bytes(path, LARGEST_TOKENIZER), path)
        for numbering in (*NUMBERINGS.values(), GPT2_BYTES):
            if special := numbering.ids(inner):
                return cls(inner, special)
        names = [inner.id_to_token(i) for i in range(len(SPECIAL))]
        raise DataError(
            f"{path}: the ids from 0 must be {', '.join(SPECIAL)}; or </s>, <unk> with <pad> as the last id; or "
            f"{TEXT_END}; or {', '.join(NAMES)}; but the first are {names}"
        )

    def save(self, path: str | Path) -> None:
        """Atomic: see write_file."""
        write_file(Path(path), self.inner.to_str(pretty=True).encode("utf-8"))

    def __len__(self) -> int:
        return self.size

    def encode(self, text: str) -> list[int]:
        """Ids without special tokens; pieces that are not in the vocabulary become <unk>."""
        return without_panic(self.inner.encode, valid_text(text), add_special_tokens=False).ids

    def encode_stream(self, chunks: Iterable[str]) -> Iterator[list[int]]:
        """The ids of encode("".join(chunks)), some at a time, so that a long text is never in memory as a whole."""
        return map(self.encode, self.split_stream(chunks))

    def split_stream(self, chunks: Iterable[str]) -> Iterator[str]:
        """Parts of a text, split where no token can reach across; a text without such a place is kept whole."""
        waiting, length = [""], 0
        for chunk in filter(None, chunks):
            length += len(chunk)
            before = waiting[-1][-1:]
            cut = self.cut.match(before + chunk, len(before)) if length >= PART and self.cut else None
            if not cut:
                waiting.append(chunk)
                continue
            place = cut.end() - len(before)
            yield "".join(waiting) + chunk[:place]
            waiting, length = [chunk[place:]], len(chunk) - place
        if length:
            yield "".join(waiting)

    @cached_property
    def cut(self) -> re.Pattern[str] | None:
        """Matches a long text up to the last place where it may be split; None: nowhere."""
        return _cut_of(self.inner)

    @cached_property
    def mask_takes_space(self) -> bool:
        """Whether the space before a mask token is part of it, as in RoBERTa."""
        mask = self.inner.get_added_tokens_decoder().get(self.special.mask)
        return mask is not None and mask.lstrip

    @cached_property
    def white_space(self) -> frozenset[int]:
        """The ids of white space alone that a classifier may leave out: those of a tokenizer of words, which are
        words without them. Elsewhere a space says where a word begins."""
        if not self._of_words:
            return frozenset()
        return frozenset(place for place, token in enumerate(self.tokens(range(len(self)))) if token.isspace())

    @cached_property
    def _of_words(self) -> bool:
        """Whether this is our tokenizer of words, for which white space is none."""
        splitter = json.loads(self.inner.to_str())["pre_tokenizer"]
        return splitter == json.loads(SPLITTERS["word"].__getstate__())

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts, in several threads."""
        texts = [valid_text(text) for text in texts]
        return [
            encoding.ids for encoding in without_panic(self.inner.encode_batch, texts, add_special_tokens=False)
        ]

    def encode_pieces(self, texts: Sequence[str]) -> Iterator[tuple[list[int], list[str]]]:
        """The ids of each text, of many in several threads, and the part of the text that each id stands for
        (`pieces`)."""
        texts = [valid_text(text) for text in texts]
        if len(texts) == 1:
            encodings = [without_panic(self.inner.encode, texts[0], add_special_tokens=False)]
        else:
            encodings = without_panic(self.inner.encode_batch, texts, add_special_tokens=False)
        for text, encoding in zip(texts, encodings, strict=True):
            yield encoding.ids, [text[begin:end].strip() for begin, end in encoding.offsets]

    def encode_places(self, texts: Sequence[str]) -> list[tuple[list[int], list[tuple[int, int]]]]:
        """The ids of each text, and where the characters that each id stands for begin and end in the text."""
        texts = [valid_text(text) for text in texts]
        encodings = without_panic(self.inner.encode_batch, texts, add_special_tokens=False)
        return [(encoding.ids, encoding.offsets) for encoding in encodings]

    def encode_words(self, text: str) -> tuple[list[int], list[int]]:
        """Ids, and for each id the index in text.split() of the word in which it begins.

        Spaces belong to the word after them, so a token of spaces at the end has none: -1."""
        encoding = without_panic(self.inner.encode, valid_text(text), add_special_tokens=False)
        words = words_of_characters(text)
        return encoding.ids, [words[begin] for begin, _ in encoding.offsets]

    def pieces(self, text: str) -> list[str]:
        """The part of the text that each of its tokens stands for, without the spaces around it."""
        encoding = without_panic(self.inner.encode, valid_text(text), add_special_tokens=False)
        return [text[begin:end].strip() for begin, end in encoding.offsets]

    def unknown_in(self, text: str, ids: Sequence[int]) -> tuple[str, ...]:
        """The parts of a text that are not in the vocabulary, each once: those that become <unk>, or characters
        that get no token at all. `ids`: its own, so that it is encoded again only where something is lost."""
        if self._leaves_out:
            return tuple(each for each in dict.fromkeys(text) if not each.isspace() and not self.encode(each))
        if self.special.unknown not in ids:
            return ()
        encoding = without_panic(self.inner.encode, valid_text(text), add_special_tokens=False)
        places = zip(encoding.ids, encoding.offsets, strict=True)
        parts = dict.fromkeys(text[begin:end] for i, (begin, end) in places if i == self.special.unknown)
        return tuple(part for part in parts if not (self._of_words and part.isspace()))

    @cached_property
    def _leaves_out(self) -> bool:
        """Whether characters may get no token, not even <unk>: in BPE without all bytes."""
        model = self.inner.model
        if not isinstance(model, models.BPE) or model.unk_token is not None:
            return False
        return not self.byte_level or None in map(model.token_to_id, ByteLevel.alphabet())

    def decode(self, ids: Iterable[int], unknown: Sequence[str] | None = None) -> str:
        """The text without special tokens. With `unknown`, the n-th <unk> becomes unknown[n], spaced as a word."""
        ids = [int(i) for i in ids]
        if unknown is None:
            self._check(ids)  # `tokenizers` would skip ids that do not exist
            said = [i for i in ids if i not in self.silent and i != self.special.unknown]
            return without_panic(self.inner.decode, said)
        return b"".join(self._added(ids, self._pieces(ids), unknown)).decode("utf-8", "replace")

    def word_of(self, ids: Iterable[int], unknown: Sequence[str] | None = None) -> list[int]:
        """For each id the index in decode(ids, unknown).split() of the word in which it begins; see `encode_words`.

        Special tokens have none: -1. <unk> counts as a word even without `unknown`, although `decode` then leaves
        it out."""
        ids = [int(i) for i in ids]
        if unknown is None:
            unknown = ["x"] * ids.count(self.special.unknown)
        return words_of_parts(self._added(ids, self._pieces(ids), unknown))

    def tokens(self, ids: Iterable[int]) -> list[str]:
        r"""A readable label for each id. Bytes that are not a whole character are written like \xf0\x9f."""
        pieces = self._pieces(ids)
        if self.byte_level:
            return [bytes_of(piece).decode("utf-8", "backslashreplace") for piece in pieces]
        return pieces

    def begins(self, ids: Iterable[int]) -> list[bool]:
        """Whether each id begins a word. Only WordPiece marks the ids that continue a word: "##ing"."""
        prefix = getattr(self.inner.model, "continuing_subword_prefix", None)
        return [not (prefix and piece.startswith(prefix)) for piece in self._pieces(ids)]

    def _added(self, ids: list[int], pieces: list[str], unknown: Sequence[str]) -> list[bytes]:
        """What each piece adds to the text, in bytes, because a piece of BPE may end within a character."""
        count = ids.count(self.special.unknown)
        if count != len(unknown):
            raise ValueError(f"each of {count} <unk> needs one word to stand in for it, got {len(unknown)}")
        left, added = iter(unknown), []
        before: list[str] = []
        for i, piece in zip(ids, pieces, strict=True):
            if i in self.silent or self.inner.id_to_token(i) is None:
                added.append(b"")
                continue
            word = valid_text(next(left)) if i == self.special.unknown else None
            if self.byte_level:
                added.append(bytes_of(piece) if word is None else word.encode())
                continue
            # Whether a space is added depends only on the two pieces beside it. "x" stands for any word.
            after = piece if word is None else "x"
            new = self.join([*before, after])[len(self.join(before)) :]
            added.append((new if word is None else new.removesuffix("x") + word).encode())
            before = [after]
        return added

    def _pieces(self, ids: Iterable[int]) -> list[str]:
        ids = list(ids)
        self._check(ids)
        return [self.inner.id_to_token(int(i)) or f"<{i}>" for i in ids]

    def _check(self, ids: Sequence[int]) -> None:
        """ValueError unless there are such ids."""
        for i in ids:
            if not 0 <= i < self.size:
                raise ValueError(f"ids must lie in 0 to {self.size - 1}, got {i}; is this the run's tokenizer?")


def _cut_of(inner: tokenizers.Tokenizer) -> re.Pattern[str] | None:
    """None for tokenizers of other libraries that split or normalise the text in another way."""
    described = json.loads(inner.to_str())
    if any(not token["special"] for token in described["added_tokens"]):  # these are looked for in the text first
        return None
    normal, splitter = (described[name] or {} for name in ("normalizer", "pre_tokenizer"))
    steps = {step["type"] for step in normal.get("normalizers", [normal] if normal else [])}
    for kind, own in SPLITTERS.items():
        harmless = {"NFC", "NFKC", "Lowercase"} | HARMLESS.get(kind, set())
        # Whether offsets are trimmed does not change the ids.
        if splitter | {"trim_offsets": 0} == json.loads(own.__getstate__()) | {"trim_offsets": 0}:
            return CUTS[kind] if steps <= harmless else None
    return None


def valid_text(text: str) -> str:
    """The text itself; an error if it is not valid Unicode."""
    if not isinstance(text, str):
        raise ValueError(f"a text must be a string, got {type(text).__name__}")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"character {error.start + 1} of {text[:40]!r} is half a surrogate pair; the input is not valid UTF-8"
        ) from None
    return text


def _checked_texts(texts: Iterable[str]) -> Iterator[str]:
    """The texts, at least one of which must not be empty."""
    empty = True
    for text in texts:
        empty = empty and not text
        yield valid_text(text)
    if empty:
        raise DataError("there is no text to train a tokenizer on")


def words_of_characters(text: str) -> list[int]:
    """For each character the index in text.split() of its word; for spaces that of the next word, at the end -1.

    There is one more item than characters, for tokens that begin at the end."""
    places, word = [-1] * (len(text) + 1), len(text.split())
    for i in range(len(text) - 1, -1, -1):
        if text[i].isspace():
            places[i] = places[i + 1]
        else:
            if i + 1 == len(text) or text[i + 1].isspace():
                word -= 1
            places[i] = word
    return places


def words_of_parts(parts: list[bytes]) -> list[int]:
    """For each part of a text the index in text.split() of the word in which it begins; for an empty part -1."""
    # surrogateescape keeps each byte of an incomplete character, so that bytes can be counted.
    text = b"".join(parts).decode("utf-8", "surrogateescape")
    words = [
        word
        for character, word in zip(text, words_of_characters(text), strict=False)
        for _ in character.encode("utf-8", "surrogateescape")
    ]
    places, begin = [], 0
    for part in parts:
        places.append(words[begin] if part else -1)
        begin += len(part)
    return places
