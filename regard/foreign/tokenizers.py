"""Tokenizers of models trained with other libraries, from the files in their folders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from regard.base.files import LARGEST_TOKENIZER
from regard.data.artifacts import MissingTokenizer
from regard.data.text.special_tokens import TEXT_END, UNKNOWN_NAME, Special
from regard.data.text.tokenizer import Tokenizer
from regard.data.text.tokenizer_file import read_tokenizer, without_panic
from regard.data.text.wordpiece import NAMES, word_pieces
from regard.errors import RunError
from regard.foreign.added_tokens import SPECIAL_MAP, add_tokens, refuse_tokens
from regard.foreign.contents import Contents, Json, run_errors
from regard.foreign.hf_files import TOKENIZER_CONFIG
from regard.foreign.sentencepiece import SentencePieceTokenizer, read_model
from regard.foreign.vocabulary_files import check_complete, check_ids, read_ids, read_merges, read_pieces

WHOLE = "tokenizer.json"
BERT_NAMES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
BERT_CLASSES = (None, "BertTokenizer", "BertTokenizerFast")
GPT2_CLASSES = (None, "GPT2Tokenizer", "GPT2TokenizerFast")
MARIAN_NAMES = ("</s>", UNKNOWN_NAME, "<pad>")
# Settings of normalisation: their names in tokenizer_config.json and in `tokenizers`.
LETTERS = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
FIRST, SECOND = (1 << 32) - 2, (1 << 32) - 1  # stand for a text and the second of a pair


def open_text(
    contents: Contents, *, vocabulary: int, special: Special, closes: bool = False
) -> Tokenizer | SentencePieceTokenizer:
    """tokenizer.json, else vocab.json and merges.txt (GPT-2), else source.spm, target.spm and vocab.json (Marian).

    `vocabulary`: how many ids the model has; the files may have fewer, but not more. Without an unknown token in
    `special`, the files' own is taken. `closes`: the model closes every text with the end token. In user text the
    names of special tokens are plain text."""
    folder = contents.path
    for name, number in vars(special).items():
        if not (-1 if name in ("unknown", "mask") else 0) <= number < vocabulary:
            raise RunError(f"{folder}: the id of {name} must lie in 0 to {vocabulary - 1}, got {number}")
    if contents.has(WHOLE):
        path, inner = folder / WHOLE, read_whole(contents, vocabulary)
        if not closes:
            _follow_prefix_space(inner, contents)
    elif contents.has("vocab.json") and contents.has("merges.txt"):
        path, inner = folder / "vocab.json", _byte_pairs(contents, vocabulary)
    elif all(map(contents.has, ("vocab.json", "source.spm", "target.spm"))):
        return _open_marian(contents, vocabulary, special)
    else:
        return MissingTokenizer(
            f"{folder} holds no tokenizer; it needs tokenizer.json, or vocab.json and merges.txt, "
            f"or vocab.json, source.spm and target.spm"
        )
    check_complete([*inner.get_vocab().values(), special.pad, special.start, special.end], vocabulary, path)
    before = _before(inner, path, vocabulary, special.end if closes else None)
    unknown = getattr(inner.model, "unk_token", None) or UNKNOWN_NAME
    if special.unknown < 0:
        special = replace(special, unknown=-1 if (i := inner.token_to_id(unknown)) is None else i)
    if special.unknown in (special.pad, special.start, special.end):  # GPT-2 lists <|endoftext|> as unknown, too
        special = replace(special, unknown=-1)
    return Tokenizer(inner, special, size=vocabulary, before=before)


def open_bert(contents: Contents, *, vocabulary: int, pad: int, pairs: bool = True) -> Tokenizer:
    """tokenizer.json, else vocab.txt. The names of special tokens come from tokenizer_config.json, else from
    special_tokens_map.json; normalisation is as tokenizer_config.json says, also against tokenizer.json.

    `mask` is -1 where the vocabulary has none. `pairs`: the model reads pairs of texts. In user text the names of
    special tokens are plain text."""
    folder, settings = contents.path, contents.json(TOKENIZER_CONFIG)
    if not 0 <= pad < vocabulary:
        raise RunError(f"{folder}: the id of pad must lie in 0 to {vocabulary - 1}, got {pad}")
    names = tuple(_name(contents, key, usual) for key, usual in zip(BERT_NAMES, NAMES, strict=True))
    _, unknown, start, end, mask = names
    inner = None
    if contents.has(WHOLE):
        path, inner = folder / WHOLE, read_whole(contents, vocabulary)
        ids, unknown = inner.get_vocab(), getattr(inner.model, "unk_token", None) or ""
    elif contents.has("vocab.txt"):
        path, ids = folder / "vocab.txt", read_pieces(contents, vocabulary)
    else:
        return MissingTokenizer(f"{folder} holds no tokenizer of BERT's; it needs tokenizer.json or vocab.txt")
    for name in (start, end, unknown):
        if name and name not in ids:
            raise RunError(
                f"{path} has no token {name[:40]!r}; if it has another name, set that in "
                f"{folder / TOKENIZER_CONFIG}"
            )
    if inner is None:
        _check_class(settings, folder)
        inner = word_pieces(ids, lowercase=True, names=names)
    if isinstance(inner.normalizer, normalizers.BertNormalizer):
        _change_letters(inner.normalizer, settings, folder)
    if path.name != WHOLE:  # after the letters, as the names of added tokens are normalised, too
        add_tokens(inner, contents, vocabulary, NAMES)
        ids = inner.get_vocab()
    check_complete([*ids.values(), pad], vocabulary, path)
    special = Special(pad, ids[start], ids[end], ids.get(unknown, -1), ids.get(mask, -1))
    _check_bert_template(inner, special, contents, pairs)
    return Tokenizer(inner, special, size=vocabulary)


# ---- what stands around a text


def around(inner: tokenizers.Tokenizer, pair: bool = False) -> tuple[list[int], list[int]]:
    """The ids and segments that the post-processor makes of a text (FIRST), or of a pair (FIRST, SECOND)."""
    probe = tokenizers.Tokenizer(models.WordLevel({"a": FIRST, "b": SECOND}, "a"))
    if inner.post_processor is not None:
        probe.post_processor = inner.post_processor
    encoding = without_panic(probe.encode, "a", "b" if pair else None)
    return encoding.ids, encoding.type_ids


def _before(inner: tokenizers.Tokenizer, path: Path, vocabulary: int, end: int | None) -> tuple[int, ...]:
    """The ids that stand before every text, as the post-processor says. `end`: the model puts this one after it."""
    ids, _ = around(inner)
    added = [i for i in ids if i != FIRST]
    before = ids[: ids.index(FIRST)] if FIRST in ids else ids
    if len(added) + 1 != len(ids) or not all(i < vocabulary for i in added):
        raise RunError(
            f"{path}: its post-processor must add ids of the model to a text, got {ids[:8]} for one token"
        )
    if end is None and len(before) < len(added):
        where, remedy = f"{path}: its post-processor", "remove post_processor there"
        if path.name != WHOLE:
            where, remedy = f"{path.parent / TOKENIZER_CONFIG}: add_eos_token", "set it to false"
        raise RunError(
            f"{where} puts the ids {added[len(before) :][:8]} after a text, which cannot be continued then; "
            f"{remedy}"
        )
    if end is not None and ids not in ([FIRST], [FIRST, end]):
        raise RunError(
            f"{path}: its post-processor adds the ids {added[:8]} to a text, and only the end token after it, "
            f"{end}, is supported"
        )
    return tuple(before)


def _check_bert_template(inner: tokenizers.Tokenizer, special: Special, contents: Contents, pairs: bool) -> None:
    if inner.post_processor is None and contents.json(TOKENIZER_CONFIG).get("tokenizer_class") in BERT_CLASSES:
        return  # transformers takes BERT's own
    start, end = special.start, special.end
    wanted = {False: ([start, FIRST, end], [0] * 3)}
    if pairs:
        wanted[True] = [start, FIRST, end, SECOND, end], [0] * 3 + [1] * 2
    for pair, (ids, segments) in wanted.items():
        if around(inner, pair) != (ids, segments):
            text = "[CLS] A [SEP] B [SEP], the second text in segment 1" if pair else "[CLS] A [SEP]"
            raise RunError(
                f"{contents.path / WHOLE}: its post-processor makes something else of "
                f"{'a pair' if pair else 'a text'} than {text}, which is not supported; save the tokenizer as a "
                "BertTokenizer"
            )


# ---- GPT-2


def _byte_pairs(contents: Contents, vocabulary: int) -> tokenizers.Tokenizer:
    """vocab.json and merges.txt, with the settings of tokenizer_config.json."""
    ids = read_ids(contents, vocabulary)
    inner = tokenizers.Tokenizer(models.BPE(ids, read_merges(contents, ids)))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=_switch(contents, "add_prefix_space"))
    inner.decoder = decoders.ByteLevel()
    add_tokens(inner, contents, vocabulary, [TEXT_END])
    before, after = (
        [_name(contents, key, TEXT_END)] if _switch(contents, f"add_{key}") else []
        for key in ("bos_token", "eos_token")
    )
    for name in (*before, *after):
        if inner.token_to_id(name) is None:
            raise RunError(
                f"{contents.path / TOKENIZER_CONFIG} adds {name[:40]!r} to texts, which has no id in vocab.json"
            )
    if before or after:
        added = [(name, inner.token_to_id(name)) for name in dict.fromkeys((*before, *after))]
        inner.post_processor = without_panic(
            processors.TemplateProcessing, single=[*before, "$A", *after], special_tokens=added
        )
    return inner


def _follow_prefix_space(inner: tokenizers.Tokenizer, contents: Contents) -> None:
    """A GPT-2 tokenizer of transformers goes by tokenizer_config.json, whatever tokenizer.json says."""
    named = contents.json(TOKENIZER_CONFIG).get("tokenizer_class")
    if named in GPT2_CLASSES and isinstance(inner.pre_tokenizer, pre_tokenizers.ByteLevel):
        inner.pre_tokenizer.add_prefix_space = _switch(contents, "add_prefix_space")


def _switch(contents: Contents, key: str) -> bool:
    """A setting of tokenizer_config.json that is off unless it is there."""
    value = contents.json(TOKENIZER_CONFIG).get(key, False)
    if type(value) is not bool:
        raise RunError(f"{contents.path / TOKENIZER_CONFIG}: {key} must be true or false, got {value!r:.40}")
    return value


# ---- Marian


def _open_marian(contents: Contents, vocabulary: int, special: Special) -> SentencePieceTokenizer:
    folder = contents.path
    if contents.has("target_vocab.json"):
        raise RunError(f"{folder} has target_vocab.json: separate vocabularies are not supported")
    ids = read_ids(contents, vocabulary)
    if UNKNOWN_NAME not in ids:
        raise RunError(f"{folder / 'vocab.json'} must have an id for {UNKNOWN_NAME}, and has none")
    source, target = (
        read_model(contents.read(side, LARGEST_TOKENIZER), folder / side) for side in ("source.spm", "target.spm")
    )
    check_complete([*ids.values(), special.pad, special.start, special.end], vocabulary, folder / "vocab.json")
    refuse_tokens(contents, ids, vocabulary, MARIAN_NAMES)
    return SentencePieceTokenizer(source, target, ids, replace(special, unknown=ids[UNKNOWN_NAME]), size=vocabulary)


# ---- BERT


def _check_class(settings: Json, folder: Path) -> None:
    """Other tokenizers have a vocab.txt too, but split words in other ways."""
    kind = settings.get("tokenizer_class")
    if kind not in BERT_CLASSES:
        raise RunError(
            f"{folder}: vocab.txt belongs to a {kind!r:.40}; without tokenizer.json only a BertTokenizer can be "
            "read; save the tokenizer again, with tokenizer.json"
        )


def _change_letters(normal: normalizers.BertNormalizer, settings: Json, folder: Path) -> None:
    for key, name in LETTERS.items():
        if key not in settings:
            continue
        value = settings[key]
        if type(value) is not bool and not (value is None and name == "strip_accents"):
            raise RunError(f"{folder}: {key} in tokenizer_config.json must be true or false, got {value!r:.40}")
        setattr(normal, name, value)


# ---- what they share


def _name(contents: Contents, key: str, usual: str) -> str:
    """A special token's name: a string, or an object with it as "content"."""
    token = (contents.json(SPECIAL_MAP) | contents.json(TOKENIZER_CONFIG)).get(key)
    name = token.get("content") if isinstance(token, dict) else usual if token is None else token
    if not isinstance(name, str) or not name:
        raise RunError(f"{contents.path}: {key} must be the name of a token, got {token!r:.40}")
    return name


def read_whole(contents: Contents, vocabulary: int) -> tokenizers.Tokenizer:
    path = contents.path / WHOLE
    raw = contents.read(WHOLE, LARGEST_TOKENIZER)
    with run_errors():
        inner = read_tokenizer(raw, path)
    check_ids(inner.get_vocab(), vocabulary, path)
    return inner
