"""Marian's tokenizer: SentencePiece splits a text into pieces, and vocab.json gives them their ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.data.text.special_tokens import Special
from regard.data.text.tokenizer import valid_text, words_of_characters, words_of_parts
from regard.errors import RunError

SPACE = "▁"


def read_model(raw: bytes, path: Path) -> Any:
    """A SentencePiece model; the package is imported only here."""
    try:
        import sentencepiece
    except ModuleNotFoundError:
        raise RunError(f"{path} can only be read with sentencepiece: pip install 'regard[sentencepiece]'") from None
    model = sentencepiece.SentencePieceProcessor()
    try:
        model.LoadFromSerializedProto(raw)
    except (RuntimeError, ValueError) as error:
        raise RunError(f"{path} is not a SentencePiece model: {error}") from None
    return model


class SentencePieceTokenizer:
    """Encodes with the source's model and decodes with the target's; used like a Tokenizer.

    A text may begin with a language code, >>fr<<, which is one token. Pieces without an id become <unk>."""

    def __init__(self, source: Any, target: Any, ids: Mapping[str, int], special: Special, *, size: int) -> None:
        self.source, self.target, self.special, self.size = source, target, special, size
        self.names = {i: piece for piece, i in ids.items()}
        self.silent = {special.pad, special.start, special.end}
        # In user text the names of special tokens are plain text.
        self.ids = {piece: i for piece, i in ids.items() if i not in self.silent}

    def __repr__(self) -> str:
        return f"<SentencePieceTokenizer: {len(self):,} tokens>"

    def __len__(self) -> int:
        return self.size

    def encode(self, text: str) -> list[int]:
        code, rest = _language(valid_text(text))
        return self._numbers([*code, *self.source.encode(rest, out_type=str)])

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def encode_words(self, text: str) -> tuple[list[int], list[int]]:
        """Ids, and for each the place in text.split() of the word it begins in; for spaces at the end -1."""
        pieces, offsets = self._offsets(text)
        words = words_of_characters(text)
        return self._numbers(pieces), [words[begin] for begin, _ in offsets]

    def pieces(self, text: str) -> list[str]:
        """The part of the text behind each token, without the spaces around it."""
        return [text[begin:end].strip() for begin, end in self._offsets(text)[1]]

    def unknown_in(self, text: str, ids: Sequence[int]) -> tuple[str, ...]:
        """The parts of the text that became <unk>, each once."""
        if self.special.unknown not in ids:
            return ()
        pieces = zip(ids, self.pieces(text), strict=True)
        return tuple(dict.fromkeys(piece for i, piece in pieces if i == self.special.unknown))

    def decode(self, ids: Iterable[int], unknown: Sequence[str] | None = None) -> str:
        """The text, special tokens left out; but the n-th <unk> becomes unknown[n], if there is such a list."""
        ids = [int(i) for i in ids]
        names = self.tokens(ids)
        if unknown is None:
            left_out = self.silent | {self.special.unknown}
            said = [self.names[i] for i in ids if i in self.names and i not in left_out]
            # The model leaves pieces that it does not know as they are.
            return self.target.decode_pieces(said).replace(SPACE, " ").strip()
        return b"".join(self._spoken(ids, names, unknown)).decode("utf-8", "replace").strip()

    def word_of(self, ids: Iterable[int], unknown: Sequence[str] | None = None) -> list[int]:
        """For each id the place in decode(ids, unknown).split() of the word it begins in; special tokens: -1."""
        ids = [int(i) for i in ids]
        if unknown is None:
            unknown = ["x"] * ids.count(self.special.unknown)
        return words_of_parts(self._spoken(ids, self.tokens(ids), unknown))

    def tokens(self, ids: Iterable[int]) -> list[str]:
        names = []
        for i in ids:
            if not 0 <= i < self.size:
                raise ValueError(f"ids must lie in 0 to {self.size - 1}, got {i}; is this the run's tokenizer?")
            names.append(self.names.get(int(i), f"<{i}>"))
        return names

    def _numbers(self, pieces: Iterable[str]) -> list[int]:
        return [self.ids.get(piece, self.special.unknown) for piece in pieces]

    def _offsets(self, text: str) -> tuple[list[str], list[tuple[int, int]]]:
        code, rest = _language(valid_text(text))
        encoded = self.source.encode(rest, return_type="offset_mapping")
        before = len(text) - len(rest)
        offsets = [(before + begin, before + end) for begin, end in encoded["offsets"]]
        return [*code, *encoded["pieces"]], [(0, before)] * len(code) + offsets

    def _spoken(self, ids: list[int], names: list[str], unknown: Sequence[str]) -> list[bytes]:
        """What each piece adds to the text, in bytes, since some models have pieces of a single byte."""
        count = ids.count(self.special.unknown)
        if count != len(unknown):
            raise ValueError(f"there must be one word for each of {count} <unk>, got {len(unknown)}")
        left, spoken = iter(unknown), []
        for i, name in zip(ids, names, strict=True):
            number = self.target.piece_to_id(name)
            if i in self.silent or i not in self.names or self.target.is_control(number):
                spoken.append(b"")
            elif i == self.special.unknown:
                spoken.append(valid_text(next(left)).encode())
            elif self.target.is_byte(number):
                spoken.append(bytes([int(name[1:-1], 16)]))  # <0xE2>
            else:
                spoken.append(name.replace(SPACE, " ").encode())
        return spoken


def _language(text: str) -> tuple[list[str], str]:
    """A code such as >>fr<< at the beginning, and the rest of the text."""
    end = text.find("<<") + 2
    return ([text[:end]], text[end:]) if text.startswith(">>") and end > 1 else ([], text)
