"""Train the vocabulary of a tokenizer: characters, words, byte-level BPE (WordPiece: wordpiece.py)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

from regard.data.text.special_tokens import BERT, MARIAN, UNKNOWN_NAME, Numbering
from regard.data.text.wordpiece import SIZE, train_on, train_whole_words, train_word_pieces

KINDS = ("character", "word", "space", "bpe", "wordpiece")
KINDS_OF_BERT = ("wordpiece", "word")
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
ALPHABET = 256  # byte-level BPE has every byte in its vocabulary from the start
BPE_SIZE = 8000
NO_LIMIT = 10**9


def check_training(kind: str, size: int | None, normalise: str, numbering: Numbering) -> None:
    least = len(numbering.first) + len(numbering.last) + (ALPHABET if kind == "bpe" else 1)
    if size is not None and size < least:
        what = f"all {ALPHABET} bytes" if kind == "bpe" else "at least one more"
        raise ValueError(
            f"size must be at least {least} for {kind} tokens, got {size}: the special tokens and {what} are in it"
        )
    if normalise not in NORMAL_FORMS:
        raise ValueError(f'normalise must be "", "nfc" or "nfkc", got {normalise!r}')
    if numbering is BERT and normalise:
        raise ValueError(f'BERT has a normal form of its own; normalise must be "", got {normalise!r}')


def train_vocabulary(
    texts: Iterable[str],
    *,
    kind: str,
    size: int | None,
    min_count: int = 1,
    lowercase: bool,
    normalise: str,
    numbering: Numbering,
    tags: Sequence[str] = (),
) -> tokenizers.Tokenizer:
    """See Tokenizer.train."""
    if numbering is BERT and kind == "word":
        return train_whole_words(texts, size=size or NO_LIMIT, min_count=min_count, lowercase=lowercase)
    if kind == "wordpiece":
        return train_word_pieces(texts, size=size or SIZE, min_count=min_count, lowercase=lowercase)
    steps = NORMAL_FORMS[normalise] + ([normalizers.Lowercase()] if lowercase else [])
    names = (*numbering.first, *tags, *numbering.last)
    if kind == "space":
        steps = [*steps, _unknown_special(names)]
    limit = size or (BPE_SIZE if kind == "bpe" else NO_LIMIT)
    inner, trainer = _bpe(limit, min_count, names) if kind == "bpe" else _whole(kind, limit, min_count, names)
    if steps:
        inner.normalizer = normalizers.Sequence(steps)
    if numbering is MARIAN:  # for other libraries, which encode with special tokens; we never do
        inner.post_processor = processors.TemplateProcessing(
            single="$A </s>", pair="$A $B </s>", special_tokens=[("</s>", 0)]
        )
    train_on(inner, texts, trainer)
    return _renumber(inner, replace(numbering, first=(*numbering.first, *tags)), limit)


def _bpe(size: int, min_count: int, names: Sequence[str]) -> tuple[tokenizers.Tokenizer, trainers.BpeTrainer]:
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer = SPLITTERS["bpe"]
    inner.decoder = decoders.Sequence([_leave_out(names), decoders.ByteLevel()])
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=max(2, min_count),
        special_tokens=list(names),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    return inner, trainer


def _whole(
    kind: str, size: int, min_count: int, names: Sequence[str]
) -> tuple[tokenizers.Tokenizer, trainers.WordLevelTrainer]:
    """Single characters; split at white space; or words, other single characters and meaningful spaces.

    Two words are always separated by a space, so kind "word" has no token for a single space between words.
    Decoding puts it back: it adds a space before every word, then removes it where no word came before."""
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
    # One more than asked for, because "<unk>" may be counted among the words too; `_renumber` truncates.
    trainer = trainers.WordLevelTrainer(
        vocab_size=size + 1, min_frequency=min_count, special_tokens=list(names), show_progress=False
    )
    return inner, trainer


def _renumber(inner: tokenizers.Tokenizer, numbering: Numbering, size: int) -> tokenizers.Tokenizer:
    """The same tokenizer with its ids in the order of the numbering, and at most `size` of them.

    Training registers the special tokens as added tokens; the docstring of Tokenizer says why they must not be."""
    described = json.loads(inner.to_str())
    ids, names = described["model"]["vocab"], {*numbering.first, *numbering.last}
    pieces = [piece for piece in sorted(ids, key=ids.__getitem__) if piece not in names][: size - len(names)]
    order = [*numbering.first, *pieces, *numbering.last]
    described["model"]["vocab"] = {piece: place for place, piece in enumerate(order)}
    return tokenizers.Tokenizer.from_str(json.dumps(described | {"added_tokens": []}))


def _leave_out(names: Sequence[str]) -> decoders.Decoder:
    return decoders.Replace(Regex(rf"\A(?:{_any_of(names)})\z"), "")


def _unknown_special(names: Sequence[str]) -> normalizers.Normalizer:
    """A word that spells a special token becomes <unk>. Only what is between the brackets is replaced, so that the
    offsets still cover the whole word."""
    inside = _any_of([name[1:-1] for name in names if name != UNKNOWN_NAME])
    return normalizers.Replace(Regex(rf"(?<=\A<|\s<)(?:{inside})(?=>(?!\S))"), UNKNOWN_NAME[1:-1])


def _any_of(names: Sequence[str]) -> str:
    return "|".join(name.replace("|", r"\|") for name in names)
