"""Text to numbers and back: one tokenizer.json holds all of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

from regard.data.byte_level import bytes_of
from regard.data.files import write_file
from regard.data.pairs import DataError, read_bytes
from regard.data.wordpiece import NAMES, SIZE, train_word_pieces


@dataclass(frozen=True)
class Special:
    """Ids that stand for no text. `unknown` is -1 where every text can be spelt, `mask` where none is hidden."""

    pad: int
    start: int
    end: int
    unknown: int
    mask: int = -1


SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")
PAD, START, END, UNKNOWN = range(4)
REGARD = Special(PAD, START, END, UNKNOWN)
UNKNOWN_NAME = SPECIAL[UNKNOWN]


@dataclass(frozen=True)
class Layout:
    """The special tokens before and behind the pieces of text in a vocabulary, and what they are for."""

    first: tuple[str, ...]
    last: tuple[str, ...] = ()
    pad: str = "<pad>"
    start: str = "<s>"
    end: str = "</s>"
    unknown: str = UNKNOWN_NAME
    mask: str = ""

    def ids(self, inner: tokenizers.Tokenizer) -> Special | None:
        """None if the vocabulary is not laid out so."""
        size = inner.get_vocab_size()
        found = {name: place for place, name in enumerate(self.first)}
        found |= {name: size - place for place, name in enumerate(reversed(self.last), 1)}
        if any(inner.id_to_token(place) != name for name, place in found.items()):
            return None
        return Special(*(found.get(name, -1) for name in (self.pad, self.start, self.end, self.unknown, self.mask)))


TEXT_END = "<|endoftext|>"
MARIAN = Layout(("</s>", UNKNOWN_NAME), ("<pad>",), start="<pad>")
GPT2 = Layout((TEXT_END, UNKNOWN_NAME), pad=TEXT_END, start=TEXT_END, end=TEXT_END)
GPT2_BYTES = Layout((TEXT_END,), pad=TEXT_END, start=TEXT_END, end=TEXT_END)  # bytes leave nothing unknown
BERT = Layout(NAMES, pad="[PAD]", start="[CLS]", end="[SEP]", unknown="[UNK]", mask="[MASK]")
LAYOUTS = {"regard": Layout(SPECIAL), "marian": MARIAN, "gpt2": GPT2, "bert": BERT}

KINDS = ("character", "word", "space", "bpe", "wordpiece")
NORMAL_FORMS: dict[str, list[normalizers.Normalizer]] = {
    "": [],
    "nfc": [normalizers.NFC()],
    "nfkc": [normalizers.NFKC()],
}
SPLITTERS = {
    "character": pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated"),
    "word": pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"(?<=\w) (?=\w)"), "removed"),
            pre_tokenizers.Split(Regex(r"\w+|[\s\S]"), "isolated"),
        ]
    ),
    "space": pre_tokenizers.Split(Regex(r"\s+"), "removed"),
    "bpe": pre_tokenizers.ByteLevel(add_prefix_space=False),
    "wordpiece": pre_tokenizers.BertPreTokenizer(),
}
# The text up to the last place where it may be cut. What comes behind begins in ASCII, which no normal form
# joins to what came before. Words ask on both sides of a space whether it stands between two of them.
CUTS = {
    "character": re.compile(r"[\s\S]*(?=[\x00-\x7f])"),
    "word": re.compile(r"[\s\S]*(?=[\n.,;:!?])"),
    "space": re.compile(r"[\s\S]*(?<=\S)(?=[ \t\n\r])"),
    "bpe": re.compile(r"[\s\S]*(?<=\S)(?=[ \t\n\r])"),
    "wordpiece": re.compile(r"[\s\S]*(?=[ \t\n\r])"),
}
HARMLESS = {"space": {"Replace"}, "wordpiece": {"BertNormalizer"}}  # normalisers, beside those that all may have
PART = 1 << 16  # characters that are encoded at a time
ALPHABET = 256  # byte-level BPE knows every byte from the start
BPE_SIZE = 8000
NO_LIMIT = 10**9


class Tokenizer:
    """Characters, words, what white space parts, byte-level BPE or WordPiece, trained by `tokenizers`.

    The special tokens stand in the vocabulary but are not registered as added tokens, which `tokenizers`
    would look for in the text: "<s>" typed by a user is three characters, never the token. No piece that
    splitting makes can spell one either, since letters and brackets are always parted. Only "space" parts
    nothing: there the word "<unk>" is the unknown token, as in data sets that come with it, and so is a word
    that spells one of the others."""

    def __init__(self, inner: tokenizers.Tokenizer, special: Special, *, size: int | None = None) -> None:
        """`size` is how many ids a model knows, where that is more than have a piece; the others say nothing."""
        self.inner, self.special = inner, special
        self.size = inner.get_vocab_size() if size is None else size
        # A file written by others may register the special tokens; in user text they are still text.
        inner.encode_special_tokens = True
        inner.no_truncation()
        inner.no_padding()
        registered = {i for i, token in inner.get_added_tokens_decoder().items() if token.special}
        self.silent = (registered - {special.unknown}) | {special.pad, special.start, special.end, special.mask}
        self.byte_level = inner.decoder is not None and b'"ByteLevel"' in inner.decoder.__getstate__()
        self.join = inner.decoder.decode if inner.decoder is not None else " ".join

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        *,
        kind: str,
        size: int | None = None,
        lowercase: bool = False,
        normalise: str = "",
        layout: str = "regard",
    ) -> Tokenizer:
        """`size` counts all ids, the special ones too; the most frequent pieces are kept.

        Without it characters and words are all kept, BPE stops at 8,000, WordPiece at 30,000. `normalise` is "",
        "nfc" or "nfkc" before lower-casing; WordPiece has BERT's normal form. The texts are read once, in order."""
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
        if layout not in LAYOUTS:
            raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}, got {layout!r}")
        laid = GPT2_BYTES if (layout, kind) == ("gpt2", "bpe") else LAYOUTS[layout]
        least = len(laid.first) + len(laid.last) + (ALPHABET if kind == "bpe" else 1)
        if size is not None and size < least:
            raise ValueError(f"size must be at least {least} for {kind} tokens, got {size}")
        if isinstance(texts, str):
            raise ValueError("texts must be many texts, got a single one; put it in a list")
        if normalise not in NORMAL_FORMS:
            raise ValueError(f'normalise must be "", "nfc" or "nfkc", got {normalise!r}')
        if (kind == "wordpiece") != (layout == "bert"):
            raise ValueError(f"wordpiece tokens and the layout bert go together, got {kind!r} and {layout!r}")
        if kind == "wordpiece" and normalise:
            raise ValueError(f'wordpiece has a normal form of its own; normalise must be "", got {normalise!r}')
        if kind == "wordpiece":
            inner = train_word_pieces(_some(texts), size=size or SIZE, lowercase=lowercase)
        else:
            steps = NORMAL_FORMS[normalise] + ([normalizers.Lowercase()] if lowercase else [])
            inner = _train(_some(texts), kind, size, steps, laid)
        special = laid.ids(inner)
        assert special is not None
        return cls(inner, special)

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        inner = read_tokenizer(read_bytes(path), path)
        for layout in (*LAYOUTS.values(), GPT2_BYTES):
            if special := layout.ids(inner):
                return cls(inner, special)
        found = [inner.id_to_token(i) for i in range(len(SPECIAL))]
        raise DataError(
            f"{path}: ids 0 to 3 must be {', '.join(SPECIAL)}, or the first be </s>, <unk> and the last <pad>, "
            f"or the first be {TEXT_END}, or {', '.join(NAMES)}; but the first are {found}"
        )

    def save(self, path: str | Path) -> None:
        """All or nothing: a reader sees the old file or the new one, never half of one."""
        write_file(Path(path), self.inner.to_str(pretty=True).encode("utf-8"))

    def __len__(self) -> int:
        return self.size

    def encode(self, text: str) -> list[int]:
        """Ids without special tokens; what is not in the vocabulary becomes <unk>."""
        return self.inner.encode(checked(text), add_special_tokens=False).ids

    def encode_stream(self, chunks: Iterable[str]) -> Iterator[list[int]]:
        """The ids of encode("".join(chunks)), some at a time, so that a long text is never held whole.

        It is encoded in parts, cut where no token reaches across; a text without such a place is held."""
        held, length = [""], 0
        for chunk in filter(None, chunks):
            length += len(chunk)
            before = held[-1][-1:]
            found = self.cut.match(before + chunk, len(before)) if length >= PART and self.cut else None
            if not found:
                held.append(chunk)
                continue
            place = found.end() - len(before)
            yield self.encode("".join(held) + chunk[:place])
            held, length = [chunk[place:]], len(chunk) - place
        if length:
            yield self.encode("".join(held))

    @cached_property
    def cut(self) -> re.Pattern[str] | None:
        """Finds where a long text may be cut; None: nowhere."""
        return _cut(self.inner)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        texts = [checked(text) for text in texts]
        return [found.ids for found in self.inner.encode_batch(texts, add_special_tokens=False)]

    def encode_words(self, text: str) -> tuple[list[int], list[int]]:
        """Ids, and for each the place in text.split() of the word it begins in.

        Spaces belong to the word after them, so a token of spaces at the end has none: -1."""
        found = self.inner.encode(checked(text), add_special_tokens=False)
        words = words_of(text)
        return found.ids, [words[begin] for begin, _ in found.offsets]

    def pieces(self, text: str) -> list[str]:
        """The stretch of the text that each of its tokens stands for, spaces round it left out."""
        found = self.inner.encode(checked(text), add_special_tokens=False)
        return [text[begin:end].strip() for begin, end in found.offsets]

    def decode(self, ids: Iterable[int], unknown: Sequence[str] | None = None) -> str:
        """The text, special tokens left out; but the n-th <unk> becomes unknown[n], if there is such a list.

        Among words it is spaced as one of them."""
        ids = [int(i) for i in ids]
        pieces = self._pieces(ids)  # `tokenizers` would pass over unknown ids in silence
        if unknown is None:
            return self.inner.decode([i for i in ids if i not in self.silent and i != self.special.unknown])
        return b"".join(self._spoken(ids, pieces, unknown)).decode("utf-8", "replace")

    def word_of(self, ids: Iterable[int], unknown: Sequence[str] | None = None) -> list[int]:
        """For each id the place in decode(ids, unknown).split() of the word it begins in, as in `encode_words`.

        Special tokens have none, -1. But <unk> stands for a word also if `unknown` does not say which, though
        `decode` then leaves it out."""
        ids = [int(i) for i in ids]
        if unknown is None:
            unknown = ["x"] * ids.count(self.special.unknown)
        return places(self._spoken(ids, self._pieces(ids), unknown))

    def tokens(self, ids: Iterable[int]) -> list[str]:
        r"""A readable label for each id. Bytes that are no whole character are written like \xf0\x9f."""
        pieces = self._pieces(ids)
        if self.byte_level:
            return [bytes_of(piece).decode("utf-8", "backslashreplace") for piece in pieces]
        return pieces

    def begins(self, ids: Iterable[int]) -> list[bool]:
        """Whether each id begins a word. WordPiece alone says which go on with one: "##ing"."""
        prefix = getattr(self.inner.model, "continuing_subword_prefix", None)
        return [not (prefix and piece.startswith(prefix)) for piece in self._pieces(ids)]

    def _spoken(self, ids: list[int], pieces: list[str], unknown: Sequence[str]) -> list[bytes]:
        """What each piece adds to the text, in bytes, since one of BPE may hold half a character."""
        count = ids.count(self.special.unknown)
        if count != len(unknown):
            raise ValueError(f"each of {count} <unk> needs one word to stand in for it, got {len(unknown)}")
        left, spoken = iter(unknown), []
        before: list[str] = []
        for i, piece in zip(ids, pieces, strict=True):
            if i in self.silent or self.inner.id_to_token(i) is None:
                spoken.append(b"")
                continue
            word = checked(next(left)) if i == self.special.unknown else None
            if self.byte_level:
                spoken.append(bytes_of(piece) if word is None else word.encode())
                continue
            # Whether there is a space hangs on the two pieces beside it alone. Any letter stands for a word.
            after = piece if word is None else "x"
            added = self.join([*before, after])[len(self.join(before)) :]
            spoken.append((added if word is None else added.removesuffix("x") + word).encode())
            before = [after]
        return spoken

    def _pieces(self, ids: Iterable[int]) -> list[str]:
        pieces = []
        for i in ids:
            if not 0 <= i < self.size:
                raise ValueError(f"ids must lie in 0 to {self.size - 1}, got {i}; is this the run's tokenizer?")
            pieces.append(self.inner.id_to_token(int(i)) or f"<{i}>")
        return pieces


def read_tokenizer(raw: bytes, path: str | Path) -> tokenizers.Tokenizer:
    try:
        json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON ({error}); it must be a tokenizer.json saved whole") from None
    try:
        return tokenizers.Tokenizer.from_str(raw.decode("utf-8"))
    except BaseException as error:  # `tokenizers` raises no narrower class, and its panics are no Exception
        if isinstance(error, KeyboardInterrupt | SystemExit | MemoryError):
            raise
        raise DataError(f"{path} is JSON but describes no tokenizer: {error}") from None


def _train(
    texts: Iterable[str], kind: str, size: int | None, steps: list[normalizers.Normalizer], layout: Layout
) -> tokenizers.Tokenizer:
    names = (*layout.first, *layout.last)
    if kind == "space":
        steps = [*steps, _unknown_special(names)]
    limit = size or (BPE_SIZE if kind == "bpe" else NO_LIMIT)
    inner, trainer = _bpe(limit, names) if kind == "bpe" else _whole(kind, limit, names)
    if steps:
        inner.normalizer = normalizers.Sequence(steps)
    if layout is MARIAN:  # for those who encode with special tokens, as we never do
        inner.post_processor = processors.TemplateProcessing(
            single="$A </s>", pair="$A $B </s>", special_tokens=[("</s>", 0)]
        )
    inner.train_from_iterator(texts, trainer)
    return _lay_out(inner, layout, limit)


def _bpe(size: int, names: Sequence[str]) -> tuple[tokenizers.Tokenizer, trainers.BpeTrainer]:
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer = SPLITTERS["bpe"]
    inner.decoder = decoders.Sequence([_leave_out(names), decoders.ByteLevel()])
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=list(names),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    return inner, trainer


def _whole(kind: str, size: int, names: Sequence[str]) -> tuple[tokenizers.Tokenizer, trainers.WordLevelTrainer]:
    """Characters; what white space parts; or words, single other characters, and single spaces where they say
    something.

    Two words never touch, so the one space between them is left out, and decoding puts it back: it sets a
    space before every word, then takes it away again where no word came before."""
    inner = tokenizers.Tokenizer(models.WordLevel(unk_token=UNKNOWN_NAME))
    inner.pre_tokenizer = SPLITTERS[kind]
    if kind == "character":
        steps: list[decoders.Decoder] = [decoders.Fuse()]
    elif kind == "space":
        steps = [decoders.Replace(Regex(r"\A(?=\S)"), " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    else:
        space_words = decoders.Replace(Regex(r"\A(?=\w)"), " ")
        unspace = decoders.Replace(Regex(r"(?<!\w) (?=\w)"), "")
        steps = [space_words, decoders.Fuse(), unspace]
    inner.decoder = decoders.Sequence([_leave_out(names), *steps])
    # One more than asked for, since "<unk>" may be counted among the words too; `_lay_out` cuts.
    trainer = trainers.WordLevelTrainer(
        vocab_size=size + 1, min_frequency=0, special_tokens=list(names), show_progress=False
    )
    return inner, trainer


def _lay_out(inner: tokenizers.Tokenizer, layout: Layout, size: int) -> tokenizers.Tokenizer:
    """The same with its ids as the layout has them, and at most `size` of them.

    Training registers the special tokens as added ones; the class docstring says why they must not be."""
    described = json.loads(inner.to_str())
    ids, names = described["model"]["vocab"], {*layout.first, *layout.last}
    pieces = [piece for piece in sorted(ids, key=ids.__getitem__) if piece not in names][: size - len(names)]
    order = [*layout.first, *pieces, *layout.last]
    described["model"]["vocab"] = {piece: place for place, piece in enumerate(order)}
    return tokenizers.Tokenizer.from_str(json.dumps(described | {"added_tokens": []}))


def _cut(inner: tokenizers.Tokenizer) -> re.Pattern[str] | None:
    """None where others split or change the text in ways of their own."""
    described = json.loads(inner.to_str())
    if any(not token["special"] for token in described["added_tokens"]):  # looked for in the text before all else
        return None
    normal, splitter = (described[name] or {} for name in ("normalizer", "pre_tokenizer"))
    steps = {step["type"] for step in normal.get("normalizers", [normal] if normal else [])}
    for kind, known in SPLITTERS.items():
        harmless = {"NFC", "NFKC", "Lowercase"} | HARMLESS.get(kind, set())
        # Offsets, trimmed or not, have no say in the ids.
        if splitter | {"trim_offsets": 0} == json.loads(known.__getstate__()) | {"trim_offsets": 0}:
            return CUTS[kind] if steps <= harmless else None
    return None


def _leave_out(names: Sequence[str]) -> decoders.Decoder:
    return decoders.Replace(Regex(rf"\A(?:{_any_of(names)})\z"), "")


def _unknown_special(names: Sequence[str]) -> normalizers.Normalizer:
    """A word that spells a special token becomes <unk>: between its brackets, so that it is still found whole."""
    inside = _any_of([name[1:-1] for name in names if name != UNKNOWN_NAME])
    return normalizers.Replace(Regex(rf"(?<=\A<|\s<)(?:{inside})(?=>(?!\S))"), UNKNOWN_NAME[1:-1])


def _any_of(names: Sequence[str]) -> str:
    return "|".join(name.replace("|", r"\|") for name in names)


def checked(text: str) -> str:
    if not isinstance(text, str):
        raise ValueError(f"a text must be a string, got {type(text).__name__}")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"character {error.start + 1} of {text[:40]!r} is half a surrogate pair; the input is not valid UTF-8"
        ) from None
    return text


def _some(texts: Iterable[str]) -> Iterator[str]:
    """The texts as they come, of which one at least must not be empty."""
    empty = True
    for text in texts:
        empty = empty and not text
        yield checked(text)
    if empty:
        raise ValueError("there is no text to train a tokenizer on")


def words_of(text: str) -> list[int]:
    """For each character the place in text.split() of its word; for spaces that of the next, at the end -1.

    There is one place more than characters, for tokens that begin at the end."""
    places, word = [-1] * (len(text) + 1), len(text.split())
    for i in range(len(text) - 1, -1, -1):
        if text[i].isspace():
            places[i] = places[i + 1]
        else:
            if i + 1 == len(text) or text[i + 1].isspace():
                word -= 1
            places[i] = word
    return places


def places(spoken: list[bytes]) -> list[int]:
    """For each part of a text the place in text.split() of the word it begins in; for empty ones -1."""
    # Half a character is kept as it is, so that each byte of the text is still one of the text's.
    text = b"".join(spoken).decode("utf-8", "surrogateescape")
    words = [
        word
        for character, word in zip(text, words_of(text), strict=False)
        for _ in character.encode("utf-8", "surrogateescape")
    ]
    found, begin = [], 0
    for part in spoken:
        found.append(words[begin] if part else -1)
        begin += len(part)
    return found
