import csv
import gzip
import json
import lzma
import tracemalloc

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.base import lines
from regard.data.text.documents import read_documents
from regard.errors import DataError

PACK = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: zstandard.ZstdCompressor().compress(data),
}


def read(path, **options):
    return ["".join(document) for document in read_documents(path, **options)]


def write(folder, name, text):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("file", ["one\ntwo\n\n \nthree\n\n\nfour ü\n"]),
        ("line", ["one", "two", "", " ", "three", "", "", "four ü"]),
        ("blank", ["one\ntwo", "three", "four ü"]),
    ],
)
def test_plain_text(tmp_path, suffix, kind, expected):
    text = "one\ntwo\n\n \nthree\n\n\nfour ü\n".encode()
    assert read(write(tmp_path, "a.txt" + suffix, PACK[suffix](text)), documents=kind) == expected
    crlf = b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n")
    assert read(write(tmp_path, "b.txt" + suffix, PACK[suffix](crlf)), documents=kind) == expected


def test_articles_begin_at_their_headings(tmp_path):
    """What stands before the first is a document, too; headings of sections have more signs."""
    text = "before\n = Lobsters = \n\n = = Claws = = \nThey have two .\n = Crabs = \n1 = 1 = one\n"
    articles = [" = Lobsters = \n\n = = Claws = = \nThey have two .", " = Crabs = \n1 = 1 = one"]
    assert read(write(tmp_path, "wiki.txt", text), documents="heading") == ["before", *articles]


def test_no_line_break_is_added_or_needed(tmp_path):
    path = write(tmp_path, "a.txt", "\n\none\u2028 line\x85 only")
    assert read(path) == ["\n\none\u2028 line\x85 only"]
    assert read(path, documents="blank") == ["one\u2028 line\x85 only"]


@settings(deadline=None, max_examples=50)
@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\ufeff"), min_size=1))
def test_pieces_of_any_size_make_the_same_text(tmp_path_factory, text):
    path = write(tmp_path_factory.mktemp("text"), "a", text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "CHUNK", 3)
        [document] = read_documents(path)
        chunks = list(document)
    assert "".join(chunks) == text
    assert all(chunks)


@pytest.mark.parametrize("kind", ["file", "blank"])
def test_a_large_document_is_never_held(tmp_path, kind):
    line = b"so much text that it goes on and on for pages\n"
    path = write(tmp_path, "a.txt.gz", gzip.compress(line * 80_000, 1))  # 3.7 MB
    tracemalloc.start()
    try:
        [size] = [sum(len(chunk) for chunk in document) for document in read_documents(path, documents=kind)]
        assert tracemalloc.get_traced_memory()[1] < 1.8e6
    finally:
        tracemalloc.stop()
    assert size == len(line) * 80_000 - (kind == "blank")


def test_a_document_left_unread_is_passed_over(tmp_path):
    path = write(tmp_path, "a.txt", "one\ntwo\n\nthree\n" + "x" * (2 * lines.CHUNK))
    assert len(list(read_documents(path))) == 1
    found = read_documents(path, documents="blank")
    next(found)
    assert next(next(found)) == "three"


def test_rows_are_documents(tmp_path, monkeypatch):
    texts = ["one, and\ntwo", "three", "four\n\nfive" + "x" * 300_000]
    rows = [{"n": i, "text": text, "title": "t"} for i, text in enumerate(texts)]
    written = "".join(json.dumps(row) + "\n" for row in rows)
    for name in ("a.jsonl", "a.ndjson"):
        assert read(write(tmp_path, name, written), documents="blank") == texts
    path = write(tmp_path, "a.jsonl.xz", lzma.compress(written.encode()))
    assert read(path) == texts
    assert read(path, column="title") == ["t"] * 3
    with open(tmp_path / "a.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, ["n", "text", "title"])
        writer.writeheader()
        writer.writerows(rows)
    before = csv.field_size_limit()
    try:
        assert read(tmp_path / "a.csv", documents="line") == texts
    finally:
        csv.field_size_limit(before)
    assert read(write(tmp_path, "b.jsonl", '{"text": ""}\n')) == [""]
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    assert read("{b,a}.jsonl") == ["", *texts]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"", "is empty; it needs at least one document"),
        ("a.txt", b"\xef\xbb\xbf", "is empty"),
        ("a.txt", b"one\ntwo\xff\n", r"a\.txt, line 2: the byte 0xff is not UTF-8"),
        ("a.txt", b"one\n\ntwo\xe2\x82", r"line 3: the byte 0xe2 is not UTF-8"),
        ("a.txt", b"one\ntwo\0", "line 2: holds a NUL byte"),
        ("a.txt.gz", gzip.compress(b"one\n", mtime=0)[:-3], r"the \.gz file is damaged or truncated"),
        ("a.txt.gz", b"one", "damaged"),
        ("a.csv", b"id,body\n1,x\n", "line 1: no column 'text'; the header names 'id', 'body'"),
        ("a.csv", b"text,text\n1,x\n", "more than one column 'text'"),
        ("a.csv", b"id,text\n1,x\n2\n", "line 3: 1 column, but the first line has 2"),
        ("a.csv", b"text\n", "is empty"),
        ("a.jsonl", b'{"text": "x"}\n{"body": "x"}', "line 2: no key 'text'; the object has 'body'"),
        ("a.jsonl", b'{"text": 3}', "line 1: 'text' must be text, got 3"),
        ("a.jsonl", b'["x"]', "holds a list, but must hold an object with 'text'"),
        ("a.jsonl", b"x", "line 1: is not JSON"),
        ("a.jsonl", b'{"text": "\\ud800"}', "half a surrogate pair"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, name, content, message):
    path = write(tmp_path, name, content)
    with pytest.raises(DataError, match=message):
        read(path)


def test_the_line_is_named_beyond_the_first_piece(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "CHUNK", 5)
    with pytest.raises(DataError, match="line 4: the byte 0xfc"):
        read(write(tmp_path, "a.txt", b"one\r\ntwo\r\nthree\r\nf\xfcnf\n"))


def test_blank_lines_alone_are_no_document(tmp_path):
    path = write(tmp_path, "a.txt", "\n \n")
    with pytest.raises(DataError, match="needs at least one document"):
        read(path, documents="blank")
    assert read(path, documents="line") == ["", " "]


def test_settings_are_checked_at_once(tmp_path):
    with pytest.raises(ValueError, match="documents must be one of file, line, blank, heading, got 'page'"):
        read_documents(write(tmp_path, "a.txt", "x"), documents="page")
    with pytest.raises(DataError, match="there is no file"):
        read_documents(tmp_path / "none.txt")


def test_a_pattern_and_parquet(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    write(tmp_path, "2.txt", "two")
    write(tmp_path, "1.txt", "one")
    assert read(tmp_path / "*.txt") == ["one", "two"]
    parquet.write_table(pyarrow.table({"text": ["a\nb", "c"], "id": [1, 2]}), tmp_path / "1.parquet")
    assert read(tmp_path / "*.parquet") == ["a\nb", "c"]
    with pytest.raises(DataError, match=r"1\.parquet: no column 'body'; the header names 'text', 'id'"):
        read(tmp_path / "1.parquet", column="body")
