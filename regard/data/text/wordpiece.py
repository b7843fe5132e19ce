"""WordPiece, the tokens of BERT: words are split into pieces; all but the first of a word begin with ##."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

from regard.base.signals import aside

NAMES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PREFIX = "##"
SIZE = 30_000
CHARACTERS = 1000  # at most this many characters, the most frequent, have a piece of their own
# Marks the beginning of a word during training. BERT's normaliser removes this character from texts.
FIRST = "\x01"


class Abandoned(Exception):
    """Nobody waits for the vocabulary any more."""


def train_on(inner: tokenizers.Tokenizer, texts: Iterable[str], trainer: trainers.Trainer) -> None:
    """Train a vocabulary, in one call that may take minutes and that a signal could not cut."""
    left = False

    def fed() -> Iterator[str]:
        for text in texts:
            if left:
                raise Abandoned
            yield text

    try:
        aside(lambda: inner.train_from_iterator(fed(), trainer))
    finally:
        left = True


def word_pieces(
    ids: dict[str, int],
    *,
    lowercase: bool,
    strip_accents: bool | None = None,
    chinese: bool = True,
    names: tuple[str, ...] = NAMES,
) -> tokenizers.Tokenizer:
    """BERT's tokenizer with this vocabulary. Without `strip_accents`, accents are removed if `lowercase` is set.

    `names` are the special tokens in the order of NAMES."""
    _, unknown, start, end, _ = names
    inner = tokenizers.Tokenizer(models.WordPiece(ids, unk_token=unknown))
    inner.normalizer = normalizers.BertNormalizer(
        lowercase=lowercase, strip_accents=strip_accents, handle_chinese_chars=chinese
    )
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    silent = Regex(rf"\A ?(?:{'|'.join(map(re.escape, names))})\z")
    inner.decoder = decoders.Sequence(
        [decoders.WordPiece(PREFIX), decoders.Replace(silent, ""), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    inner.post_processor = (
        processors.TemplateProcessing(  # for other libraries, which encode with special tokens; we never do
            single=[start, "$A", end],
            pair=[start, "$A", end, "$B:1", f"{end}:1"],
            special_tokens=[(name, ids[name]) for name in (start, end)],
        )
    )
    return inner


def train_word_pieces(
    texts: Iterable[str], *, size: int, min_count: int = 1, lowercase: bool
) -> tokenizers.Tokenizer:
    """NAMES, then the most frequent characters, then pieces by byte-pair merges: at most `size`.

    `tokenizers` can train WordPiece too, but the ids of its pieces "##x" differ from run to run, and ties between
    equally frequent merges are broken by these ids. Therefore plain BPE is trained on words that begin with a mark:
    a piece with the mark begins a word."""
    counts: Counter[str] = Counter()

    def counted() -> Iterator[str]:
        for text in texts:
            counts.update(text)
            yield text

    whole = word_pieces({name: place for place, name in enumerate(NAMES)}, lowercase=lowercase)
    inner = tokenizers.Tokenizer(models.BPE())
    inner.normalizer = whole.normalizer
    mark = pre_tokenizers.Metaspace(replacement=FIRST, prepend_scheme="always", split=False)
    inner.pre_tokenizer = pre_tokenizers.Sequence([whole.pre_tokenizer, mark])
    # BPE also learns every single character, and those that begin a word once more; they are dropped below.
    trainer = trainers.BpeTrainer(
        vocab_size=size + 2 * CHARACTERS, min_frequency=max(2, min_count), show_progress=False
    )
    train_on(inner, counted(), trainer)
    learned = inner.get_vocab()
    merged = (
        piece.removeprefix(FIRST) if piece.startswith(FIRST) else PREFIX + piece
        for piece in sorted(learned, key=learned.__getitem__)
        if len(piece) > 1
    )
    order = list(dict.fromkeys([*NAMES, *_alphabet(counts, whole), *merged]))[:size]
    return word_pieces({piece: place for place, piece in enumerate(order)}, lowercase=lowercase)


def train_whole_words(texts: Iterable[str], *, size: int, min_count: int, lowercase: bool) -> tokenizers.Tokenizer:
    """A vocabulary of whole words for BERT's tokenizer, the most frequent first. It has no pieces, so that every
    other word is [UNK]."""
    whole = word_pieces({name: place for place, name in enumerate(NAMES)}, lowercase=lowercase)
    counts: Counter[str] = Counter()
    for text in texts:
        normal = whole.normalizer.normalize_str(text)
        counts.update(word for word, _ in whole.pre_tokenizer.pre_tokenize_str(normal))
    frequent = sorted((word for word, count in counts.items() if count >= min_count), key=lambda w: (-counts[w], w))
    order = list(dict.fromkeys([*NAMES, *frequent]))[:size]
    return word_pieces({word: place for place, word in enumerate(order)}, lowercase=lowercase)


def _alphabet(counts: Counter[str], whole: tokenizers.Tokenizer) -> Iterator[str]:
    """Each character as a word's first piece, and as a later piece where possible, the most frequent first."""

    def words(text: str) -> list[str]:
        return [word for word, _ in whole.pre_tokenizer.pre_tokenize_str(whole.normalizer.normalize_str(text))]

    normal: Counter[str] = Counter()
    for character, count in counts.items():
        for letter in "".join(words(character)):
            normal[letter] += count
    for character in sorted(normal, key=lambda letter: (-normal[letter], letter))[:CHARACTERS]:
        yield character
        if len(words("a" + character)) == 1:  # Chinese characters and punctuation are words by themselves
            yield PREFIX + character
