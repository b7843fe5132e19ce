"""Special tokens (padding, start, end, unknown, mask) and where a vocabulary has them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regard.data.text.wordpiece import NAMES
from regard.errors import DataError

if TYPE_CHECKING:
    import tokenizers


@dataclass(frozen=True)
class Special:
    """Ids of the special tokens. `unknown` is -1 where every text can be encoded, `mask` where there is no mask."""

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
class Numbering:
    """The special tokens at the beginning and the end of a vocabulary, and what each is for."""

    first: tuple[str, ...]
    last: tuple[str, ...] = ()
    pad: str = "<pad>"
    start: str = "<s>"
    end: str = "</s>"
    unknown: str = UNKNOWN_NAME
    mask: str = ""

    def ids(self, inner: tokenizers.Tokenizer) -> Special | None:
        """None if the vocabulary has another numbering."""
        size = inner.get_vocab_size()
        places = {name: place for place, name in enumerate(self.first)}
        places |= {name: size - place for place, name in enumerate(reversed(self.last), 1)}
        if any(inner.id_to_token(place) != name for name, place in places.items()):
            return None
        return Special(
            *(places.get(name, -1) for name in (self.pad, self.start, self.end, self.unknown, self.mask))
        )


TAG = re.compile(r"<2([^<>\s]+)>")  # the token that a target to this language begins with ("<2fr>", Johnson 2017)


def tag_token(tag: str) -> str:
    """The token of a tag, which no text can spell."""
    token = f"<2{tag}>"
    if not TAG.fullmatch(token):
        raise DataError(f"a target tag is a word without spaces and <>, as in fr; got {tag!r:.40}")
    return token


TEXT_END = "<|endoftext|>"
MARIAN = Numbering(("</s>", UNKNOWN_NAME), ("<pad>",), start="<pad>")
GPT2 = Numbering((TEXT_END, UNKNOWN_NAME), pad=TEXT_END, start=TEXT_END, end=TEXT_END)
GPT2_BYTES = Numbering((TEXT_END,), pad=TEXT_END, start=TEXT_END, end=TEXT_END)  # in bytes nothing is unknown
EOS = "<eos>"
ENDS_FIRST = Numbering(
    ("<pad>", EOS, UNKNOWN_NAME), start=EOS, end=EOS
)  # a text begins with the token that ends one
BERT = Numbering(NAMES, pad="[PAD]", start="[CLS]", end="[SEP]", unknown="[UNK]", mask="[MASK]")
NUMBERINGS = {"regard": Numbering(SPECIAL), "marian": MARIAN, "gpt2": GPT2, "bert": BERT, EOS: ENDS_FIRST}


def numbering_for(name: str, kind: str) -> Numbering:
    """The numbering of a vocabulary of this kind of tokens."""
    return GPT2_BYTES if (name, kind) == ("gpt2", "bpe") else NUMBERINGS[name]
