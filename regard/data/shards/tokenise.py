"""Tokenise one shard, here or as a process of its own: `python -m regard.data.shards.tokenise` reads a job in JSON
from each line of stdin and answers with a line. No torch here, so that such a process starts quickly."""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import tokenizers

from regard.base.files import drafted_folder
from regard.data.shards.token_files import CHUNK, ShardWriter, id_type
from regard.data.text.special_tokens import Special
from regard.data.text.tokenizer import Tokenizer
from regard.errors import BadInput, DataError

T = TypeVar("T")
TOGETHER = 1000  # rows that are encoded at once
Job = Mapping[str, Any]
Options = Mapping[str, Any]
KNOWN: dict[str, Tokenizer] = {}  # by their files


def tokenise(job: Job) -> None:
    """`paths` of a shard become the folder `to`, as the `kind` says with its `options` and `tokenizers`."""
    to = Path(job["to"])
    columns, encode = KINDS[job["kind"]]
    own = [_tokenizer(each) for each in job["tokenizers"]]
    try:
        with drafted_folder(to) as draft, ShardWriter(draft, columns(own)) as writer:
            about = encode([Path(path) for path in job["paths"]], job["options"], own, writer)
            writer.finish(**about)
    except OSError:
        if not to.is_dir():  # else another process was quicker, with the same content
            raise


def _tokenizer(described: Mapping[str, Any]) -> Tokenizer:
    file = described["file"]
    if file not in KNOWN:
        inner = tokenizers.Tokenizer.from_file(file)
        KNOWN[file] = Tokenizer(inner, Special(**described["special"]), size=described["size"])
    return KNOWN[file]


def _parts(items: Iterable[T]) -> Iterator[list[T]]:
    left = iter(items)
    while part := list(islice(left, TOGETHER)):
        yield part


# ---- kinds of data: what is written of a shard


def _text(paths: Sequence[Path], options: Options, own: Sequence[Tokenizer], writer: ShardWriter) -> dict[str, Any]:
    """Documents, each followed by the end token, without rows."""
    from regard.data.text.documents import read_documents

    count = 0
    for document in read_documents(paths[0], **options):
        for ids in own[0].encode_stream(document):
            writer.add("ids", ids)
        writer.add("ids", [own[0].special.end])
        count += 1
    return {"documents": count}


def _pairs(
    paths: Sequence[Path], options: Options, own: Sequence[Tokenizer], writer: ShardWriter
) -> dict[str, Any]:
    from regard.data.text.pairs import read_group

    for part in _parts(read_group(list(paths), **options)):
        sources, targets = (own[side].encode_batch([pair[side] for pair in part]) for side in (0, 1))
        for source, target in zip(sources, targets, strict=True):
            writer.row(source=source, target=target)
            writer.end_chunk()
    return {}


def _labelled(
    paths: Sequence[Path], options: Options, own: Sequence[Tokenizer], writer: ShardWriter
) -> dict[str, Any]:
    """Texts as the model's encoding makes rows of them; of the parts of a row, their lengths."""
    import numpy as np

    from regard.data.text.labelled_texts import read_labelled

    encoding, labels = _encoding(options["encoding"]), options["labels"]
    numbers = {label: number for number, label in enumerate(labels)}
    truncated = longest = 0
    for part in _parts(read_labelled(paths[0], **options["columns"], labels=labels)):
        if any(second for _, second, _ in part) and not encoding.pairs:
            text = next(text for text, second, _ in part if second)
            raise DataError(f"{paths[0]}: {text[:40]!r} has a second text, and this model takes single ones")
        rows = encoding.rows([(text, second) for text, second, _ in part], own[0], options["truncate"])
        for ((ids, parts), shortened), (*_, label) in zip(rows, part, strict=True):
            lengths = np.bincount(parts).tolist() if parts else []
            writer.row(ids=ids, parts=lengths, label=[numbers[label]])
            writer.end_chunk()
            truncated, longest = truncated + shortened, max(longest, len(ids))
    return {"truncated": truncated, "longest": longest}


def _encoding(described: Mapping[str, Any]) -> Any:
    """A model's TextEncoding, as `described_encoding` describes it."""
    module, name = described["class"].split(":")
    encoding = object.__new__(getattr(importlib.import_module(module), name))
    vars(encoding).update(described["settings"])
    return encoding


def described_encoding(encoding: Any) -> dict[str, Any]:
    kind = type(encoding)
    return {"class": f"{kind.__module__}:{kind.__qualname__}", "settings": vars(encoding)}


def _sentences(
    paths: Sequence[Path], options: Options, own: Sequence[Tokenizer], writer: ShardWriter
) -> dict[str, Any]:
    """Sentences, and whether each begins a document. Chunks end with documents, but for long ones, which are then
    several documents."""
    from regard.data.text.documents import read_documents, read_sentences

    count = 0
    for sentences in read_sentences(read_documents(paths[0], **options)):
        before, begins = writer.rows, True
        for part in _parts(sentences):
            for ids in filter(None, own[0].encode_batch(part)):
                writer.row(ids=ids, begins=[begins])
                begins = writer.end_chunk(8 * CHUNK)
        count += writer.rows > before
        writer.end_chunk()
    return {"documents": count}


def _words(
    paths: Sequence[Path], options: Options, own: Sequence[Tokenizer], writer: ShardWriter
) -> dict[str, Any]:
    """Sentences in words: their ids, and the words as they are written, with NUL between them."""
    from regard.data.text.documents import read_documents, read_sentences

    sentences = (each for document in read_sentences(read_documents(paths[0], **options)) for each in document)
    for part in _parts(sentences):
        for ids, pieces in own[0].encode_pieces(part):
            if words := [(word_id, piece) for word_id, piece in zip(ids, pieces, strict=True) if piece]:
                spelled = "\0".join(piece for _, piece in words).encode()
                writer.row(ids=[word_id for word_id, _ in words], spelled=spelled)
                writer.end_chunk()
    return {}


Encode = Callable[[Sequence[Path], Options, Sequence[Tokenizer], ShardWriter], dict[str, Any]]
Columns = Callable[[Sequence[Tokenizer]], dict[str, str]]
KINDS: dict[str, tuple[Columns, Encode]] = {
    "text": (lambda own: {"ids": id_type(len(own[0]))}, _text),
    "pairs": (lambda own: {"source": id_type(len(own[0])), "target": id_type(len(own[1]))}, _pairs),
    "labelled": (lambda own: {"ids": "I", "parts": "I", "label": "I"}, _labelled),
    "sentences": (lambda own: {"ids": id_type(len(own[0])), "begins": "B"}, _sentences),
    "words": (lambda own: {"ids": id_type(len(own[0])), "spelled": "B"}, _words),
}


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the process that started this one, which ends it
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the draft is removed
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever is printed is no answer
    for line in sys.stdin:
        error, bad = "", False
        try:
            tokenise(json.loads(line))
        except (BadInput, OSError) as problem:
            error, bad = str(problem), isinstance(problem, BadInput)
        print(json.dumps({"error": error, "bad_input": bad}), file=answers, flush=True)


if __name__ == "__main__":
    main()
