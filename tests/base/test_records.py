"""Rows of TSV, CSV and JSONL, as every kind of data gets them."""

import csv
import gzip
import os
import threading
from pathlib import Path

import pytest

from regard.base.records import (
    Columns,
    by_header,
    by_keys,
    by_tabs,
    find_columns,
    first_ten,
    form_of,
    read_csv,
    read_jsonl,
    read_tsv,
    take_columns,
)
from regard.data.text.documents import read_documents
from regard.data.text.labelled_texts import read_labelled
from regard.data.text.pairs import read_pairs
from regard.errors import DataError


@pytest.fixture(autouse=True)
def field_limit():
    """The csv module has one limit for a whole process; leave it as it was."""
    before = csv.field_size_limit()
    yield
    csv.field_size_limit(before)


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.tsv", "tsv"),
        ("a.TSV.gz", "tsv"),
        ("a.b.csv.zst", "csv"),
        ("a.jsonl", "jsonl"),
        ("a.ndjson.xz", "jsonl"),
        ("a.json", "json"),
        ("a.txt", ""),
        ("a.gz", ""),
        ("tsv", ""),
    ],
)
def test_the_form_follows_from_the_name(name, form):
    assert form_of(Path("folder.csv") / name) == form


def test_rows_come_with_their_place(tmp_path):
    (tmp_path / "a.tsv").write_text("a\tb\nc\n")
    assert list(read_tsv(tmp_path / "a.tsv")) == [
        (f"{tmp_path}/a.tsv, line 1", ["a", "b"]),
        (f"{tmp_path}/a.tsv, line 2", ["c"]),
    ]
    (tmp_path / "a.csv").write_text('a,b\n"c\n\nd",e\nf,g\n')
    assert [(where.split("a.csv, ")[1], fields) for where, fields in read_csv(tmp_path / "a.csv")] == [
        ("line 1", ["a", "b"]),
        ("lines 2 to 4", ["c\n\nd", "e"]),
        ("line 5", ["f", "g"]),
    ]
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n{}\n')
    assert [record for _, record in read_jsonl(tmp_path / "a.jsonl", "'a'")] == [{"a": 1}, {}]


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl"])
def test_an_empty_line_is_named_in_every_form(tmp_path, name):
    path = tmp_path / name
    path.write_text("{}\n \n")
    reader = {"tsv": read_tsv, "csv": read_csv, "jsonl": lambda path: read_jsonl(path, "x")}[form_of(path)]
    with pytest.raises(DataError, match=rf"{name}, line 2: the line is empty; fill it in or remove the line"):
        list(reader(path))


def test_columns_are_found_and_taken():
    header = ("a.csv, line 1", ["x", "y", "z", "z"])
    assert find_columns(header, ["y", "x"]) == [1, 0]
    with pytest.raises(DataError, match="line 1: no column 'w'; the header names 'x', 'y', 'z', 'z'"):
        find_columns(header, ["x", "w"])
    with pytest.raises(DataError, match="more than one column 'z'"):
        find_columns(header, ["z"])
    rows = [("here", ["1", "2"]), ("there", ["3"])]
    taken = take_columns(iter(rows), [1, 0])
    assert next(taken) == ("here", ["2", "1"])
    with pytest.raises(DataError, match="there: 1 column, but a line needs at least 2"):
        next(taken)
    with pytest.raises(DataError, match="here: 2 columns, but the first line has 3"):
        next(take_columns(rows, [0], width=3))


USUAL = (("image", "file"), ("caption", "text"))


@pytest.mark.parametrize(
    ("names", "rows", "taken"),
    [
        (("", ""), ["a\tb", "c\td\te"], ["ab", "cd"]),  # no header
        (("", ""), ["text\tx\tfile", "b\t1\ta"], ["ab"]),  # usual names
        (("", "x"), ["x\tfile", "b\ta"], ["ab"]),
        (("3", "1"), ["b\t1\ta", "d\t2\tc"], ["ab", "cd"]),
        (("", "3"), ["a\t1\tb"], ["ab"]),  # the first is the first
        (("2", "1"), ["2\t1", "b\ta"], ["12", "ab"]),  # numbers are no names
    ],
)
def test_columns_of_a_tsv(names, rows, taken):
    table = ((f"line {number}", row.split("\t")) for number, row in enumerate(rows, 1))
    found = by_tabs(table, Columns(names, USUAL), ("image", "caption"))
    assert ["".join(fields) for _, fields in found] == taken


def test_columns_of_a_tsv_that_nothing_names():
    rows = [("a.tsv, line 1", ["a", "b", "c"])]
    with pytest.raises(
        DataError, match=r"line 1: 3 columns and no header with usual names \(image, caption\); say which column is"
    ):
        list(by_tabs(iter(rows), Columns(("", ""), USUAL), ("image", "caption")))
    with pytest.raises(DataError, match=r"no column 'x'; the header names .*; is it no header"):
        list(by_tabs(iter(rows), Columns(("x", ""), USUAL), ("image", "caption")))
    rows = [("line 1", ["a", "b"]), ("line 2", ["a", "b", "c"])]
    with pytest.raises(DataError, match="line 2: 3 columns, but the first line has 2"):
        list(by_tabs(iter(rows), Columns(("", ""), USUAL), ("image", "caption"), exact=True))


def test_columns_of_a_header_and_of_objects(tmp_path):
    rows = iter([("line 1", ["x", "caption", "file"]), ("line 2", ["1", "b", "a"])])
    assert list(by_header(rows, Columns(("", ""), USUAL))) == [("line 2", ["a", "b"])]
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": 1, "file": "a"}\n{"caption": [], "image": "b"}\n')
    found = [values for _, values in by_keys(path, Columns(("", ""), USUAL), "both")]
    assert found == [[("file", "a"), ("text", 1)], [("image", "b"), ("caption", [])]]
    path.write_text('{"text": 1, "file": "a"}\n{"text": 2}\n')
    with pytest.raises(DataError, match="line 2: no key 'file'; the object has 'text'"):
        list(by_keys(path, Columns(("", ""), USUAL), "both"))


def test_ten_names_are_shown():
    assert first_ten([]) == "none"
    assert first_ten("ab") == "'a', 'b'"
    assert first_ten("abcdefghijk") == "'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', ..."


def test_a_long_field_is_read_and_a_quote_left_open_is_found(tmp_path):
    """The csv module's own limit is 131,072 characters."""
    text = "x" * 200_000
    (tmp_path / "a.csv").write_text(f"source,target,text,label\n{text},b,{text},1\n")
    assert list(read_pairs(tmp_path / "a.csv")) == [(text, "b")]
    assert list(read_labelled(tmp_path / "a.csv")) == [(text, "", "1")]
    assert ["".join(one) for one in read_documents(tmp_path / "a.csv")] == [text]
    csv.field_size_limit(131_072)
    endless = b'source,target\n"a,b\n' + (b"y" * 999 + b"\n") * 17_000
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(endless, 1))
    with pytest.raises(DataError, match=r"lines 2 to \d+: is not CSV: field larger than field limit \(16777216\)"):
        list(read_pairs(tmp_path / "b.csv.gz"))


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("a\tb\n", read_pairs),
        ("a\tb\n", read_labelled),
        ("b a\n", read_labelled),
        ("a\tb\n", read_documents),
    ],
)
def test_a_pipe_is_read_once(tmp_path, text, read):
    """A file is opened only once, so that it may be a pipe."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_text(text))
    writer.start()
    [found] = read(path)
    assert "a" in "".join(found)
    writer.join()
