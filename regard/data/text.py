"""Text to numbers and back: one tokenizer.json holds all of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from regard.data.files import write_file
from regard.data.pairs import DataError, read_bytes

SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")
PAD, START, END, UNKNOWN = range(4)

KINDS = ("character", "word", "bpe")
NORMAL_FORMS: dict[str, list[normalizers.Normalizer]] = {
    "": [],
    "nfc": [normalizers.NFC()],
    "nfkc": [normalizers.NFKC()],
}
ALPHABET = 256  # byte-level BPE knows every byte from the start
BPE_SIZE = 8000
NO_LIMIT = 10**9


class Tokenizer:
    """Characters, words or byte-level BPE, trained by `tokenizers`.

    The special tokens stand in the vocabulary but are not registered as added tokens, which `tokenizers`
    would look for in the text: "<s>" typed by a user is three characters, never the token. No piece that
    splitting makes can spell one either, since letters and brackets are always parted."""

    pad, start, end, unknown = PAD, START, END, UNKNOWN

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        self.inner = inner
        # A file written by others may register the special tokens; in user text they are still text.
        inner.encode_special_tokens = True

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        *,
        kind: str,
        size: int | None = None,
        lowercase: bool = False,
        normalise: str = "",
    ) -> Tokenizer:
        """`size` counts all ids, the four special ones too; the most frequent pieces are kept.

        Without it characters and words are all kept, and BPE stops at 8,000. `normalise` is "", "nfc" or "nfkc";
        it comes before lower-casing. The texts are read once, one after the other."""
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
        least = len(SPECIAL) + (ALPHABET if kind == "bpe" else 1)
        if size is not None and size < least:
            raise ValueError(f"size must be at least {least} for {kind} tokens, got {size}")
        if isinstance(texts, str):
            raise ValueError("texts must be many texts, got a single one; put it in a list")
        if normalise not in NORMAL_FORMS:
            raise ValueError(f'normalise must be "", "nfc" or "nfkc", got {normalise!r}')
        steps = NORMAL_FORMS[normalise] + ([normalizers.Lowercase()] if lowercase else [])
        inner, trainer = _bpe(size or BPE_SIZE) if kind == "bpe" else _whole(kind, size or NO_LIMIT)
        if steps:
            inner.normalizer = normalizers.Sequence(steps)
        inner.train_from_iterator(_some(texts), trainer)
        # Training registers the special tokens as added ones; the class docstring says why they must not be.
        return cls(tokenizers.Tokenizer.from_str(json.dumps(json.loads(inner.to_str()) | {"added_tokens": []})))

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        raw = read_bytes(path)
        try:
            json.loads(raw)
        except ValueError as error:
            raise DataError(f"{path} is not JSON ({error}); it must be a tokenizer.json saved whole") from None
        try:
            inner = tokenizers.Tokenizer.from_str(raw.decode("utf-8"))
        except Exception as error:  # `tokenizers` raises no narrower class
            raise DataError(f"{path} is JSON but describes no tokenizer: {error}") from None
        found = [inner.id_to_token(i) for i in range(len(SPECIAL))]
        if found != list(SPECIAL):
            raise DataError(f"{path}: ids 0 to 3 must be {', '.join(SPECIAL)}, but they are {found}")
        return cls(inner)

    def save(self, path: str | Path) -> None:
        """All or nothing: a reader sees the old file or the new one, never half of one."""
        write_file(Path(path), self.inner.to_str(pretty=True).encode("utf-8"))

    def __len__(self) -> int:
        return self.inner.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """Ids without special tokens; what is not in the vocabulary becomes <unk>."""
        return self.inner.encode(_checked(text), add_special_tokens=False).ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        texts = [_checked(text) for text in texts]
        return [found.ids for found in self.inner.encode_batch(texts, add_special_tokens=False)]

    def encode_words(self, text: str) -> tuple[list[int], list[int]]:
        """Ids, and for each the place in text.split() of the word it begins in.

        Spaces belong to the word after them, so a token of spaces at the end has none: -1."""
        found = self.inner.encode(_checked(text), add_special_tokens=False)
        words = _words(text)
        return found.ids, [words[begin] for begin, _ in found.offsets]

    def pieces(self, text: str) -> list[str]:
        """The stretch of the text that each of its tokens stands for, spaces round it left out."""
        found = self.inner.encode(_checked(text), add_special_tokens=False)
        return [text[begin:end].strip() for begin, end in found.offsets]

    def decode(self, ids: Iterable[int], unknown: Sequence[str] | None = None) -> str:
        """The text, special tokens left out; but the n-th <unk> becomes unknown[n], if there is such a list.

        Among words it is spaced as one of them."""
        ids = [int(i) for i in ids]
        pieces = self._pieces(ids)  # `tokenizers` would pass over unknown ids in silence
        if unknown is None:
            return self.inner.decode(ids)
        return b"".join(self._spoken(pieces, unknown)).decode("utf-8", "replace")

    def word_of(self, ids: Iterable[int], unknown: Sequence[str] | None = None) -> list[int]:
        """For each id the place in decode(ids, unknown).split() of the word it begins in, as in `encode_words`.

        Special tokens have none, -1. But <unk> stands for a word also if `unknown` does not say which, though
        `decode` then leaves it out."""
        pieces = self._pieces(ids)
        if unknown is None:
            unknown = ["x"] * pieces.count(SPECIAL[UNKNOWN])
        spoken = self._spoken(pieces, unknown)
        # Half a character is kept as it is, so that each byte of the text is still one of the text's.
        text = b"".join(spoken).decode("utf-8", "surrogateescape")
        words = [
            word
            for character, word in zip(text, _words(text), strict=False)
            for _ in character.encode("utf-8", "surrogateescape")
        ]
        found, begin = [], 0
        for part in spoken:
            found.append(words[begin] if part else -1)
            begin += len(part)
        return found

    def tokens(self, ids: Iterable[int]) -> list[str]:
        r"""A readable label for each id. Bytes that are no whole character are written like \xf0\x9f."""
        pieces = self._pieces(ids)
        if not isinstance(self.inner.model, models.BPE):
            return pieces
        return [
            piece if piece in SPECIAL else _bytes(piece).decode("utf-8", "backslashreplace") for piece in pieces
        ]

    def _spoken(self, pieces: list[str], unknown: Sequence[str]) -> list[bytes]:
        """What each piece adds to the text, in bytes, since one of BPE may hold half a character."""
        count = pieces.count(SPECIAL[UNKNOWN])
        if count != len(unknown):
            raise ValueError(f"each of {count} <unk> needs one word to stand in for it, got {len(unknown)}")
        left, before, spoken = iter(unknown), "", []
        for piece in pieces:
            if piece in SPECIAL[:UNKNOWN]:
                spoken.append(b"")
                continue
            word = _checked(next(left)) if piece == SPECIAL[UNKNOWN] else None
            if isinstance(self.inner.model, models.BPE):
                spoken.append(_bytes(piece) if word is None else word.encode())
                continue
            # Whether there is a space hangs on the two pieces beside it alone. Any letter stands for a word.
            after = piece if word is None else "x"
            space = self.inner.decoder.decode([before, after])[len(before) : -len(after)]
            spoken.append((space + (piece if word is None else word)).encode())
            before = after
        return spoken

    def _pieces(self, ids: Iterable[int]) -> list[str]:
        pieces = []
        for i in ids:
            piece = self.inner.id_to_token(int(i)) if i >= 0 else None
            if piece is None:
                raise ValueError(f"ids must lie in 0 to {len(self) - 1}, got {i}; is this the run's tokenizer?")
            pieces.append(piece)
        return pieces


def _bpe(size: int) -> tuple[tokenizers.Tokenizer, trainers.BpeTrainer]:
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.Sequence([_leave_out_special(), decoders.ByteLevel()])
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    return inner, trainer


def _whole(kind: str, size: int) -> tuple[tokenizers.Tokenizer, trainers.WordLevelTrainer]:
    """Characters; or words, single other characters, and single spaces where they say something.

    Two words never touch, so the one space between them is left out, and decoding puts it back: it sets a
    space before every word, then takes it away again where no word came before."""
    inner = tokenizers.Tokenizer(models.WordLevel(unk_token=SPECIAL[UNKNOWN]))
    if kind == "character":
        inner.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
        inner.decoder = decoders.Sequence([_leave_out_special(), decoders.Fuse()])
    else:
        inner.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(r"(?<=\w) (?=\w)"), "removed"),
                pre_tokenizers.Split(Regex(r"\w+|[\s\S]"), "isolated"),
            ]
        )
        space_words = decoders.Replace(Regex(r"\A(?=\w)"), " ")
        unspace = decoders.Replace(Regex(r"(?<!\w) (?=\w)"), "")
        inner.decoder = decoders.Sequence([_leave_out_special(), space_words, decoders.Fuse(), unspace])
    trainer = trainers.WordLevelTrainer(
        vocab_size=size, min_frequency=0, special_tokens=list(SPECIAL), show_progress=False
    )
    return inner, trainer


def _leave_out_special() -> decoders.Decoder:
    return decoders.Replace(Regex(rf"\A(?:{'|'.join(SPECIAL)})\z"), "")


def _checked(text: str) -> str:
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
        yield _checked(text)
    if empty:
        raise ValueError("there is no text to train a tokenizer on")


def _words(text: str) -> list[int]:
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


def _byte_of() -> dict[str, int]:
    """Byte-level BPE writes each byte as one visible character: itself, or one from U+0100 on."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = sorted(set(range(256)) - set(visible))
    return {chr(byte): byte for byte in visible} | {chr(0x100 + i): byte for i, byte in enumerate(hidden)}


BYTE_OF = _byte_of()


def _bytes(piece: str) -> bytes:
    return bytes(BYTE_OF[character] for character in piece)
