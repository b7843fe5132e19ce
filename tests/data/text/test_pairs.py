import gzip
import json
import lzma
import tracemalloc

import pytest
import zstandard

from regard.base.files import find_files
from regard.data.text.pairs import read_pairs, read_references
from regard.errors import DataError

PACK = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}


def write(folder, content, name="pairs.tsv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def jsonl(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.mark.parametrize(
    "content",
    [
        "a b\tá\nc\t日本\n".encode(),
        "a b\tá\nc\t日本".encode(),
        "\ufeffa b\tá\r\nc\t日本\r\n".encode(),
    ],
)
def test_pairs_with_and_without_mark_crlf_and_last_newline(tmp_path, content):
    assert list(read_pairs(write(tmp_path, content))) == [("a b", "á"), ("c", "日本")]


def test_text_is_kept_as_it_stands(tmp_path):
    content = " a  \tb\u2028c\x85d\ufeff\n"
    assert list(read_pairs(write(tmp_path, content))) == [(" a  ", "b\u2028c\x85d\ufeff")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"caf\xe9\tcoffee", r"byte 4 \(0xe9\) is not UTF-8"),
        (b"alone", "1 column, but a line needs exactly two"),
        (b"", "the line is empty"),
        (b"a\tb\tc", "3 columns, but a line needs exactly two"),
        (b"\tb", "the source is empty"),
        (b"a\t  ", "the target is empty"),
        (b"a\0\tb", "NUL"),
        (b"a\t" + b"b" * 10_000_000, "is longer than 1,048,576 bytes"),
    ],
)
def test_errors_name_file_line_and_fault(tmp_path, line, message):
    for ending in (b"\n", b"\r\n"):
        path = write(tmp_path, ending.join([b"one\teins", line, b"three\tdrei", b""]))
        pairs = read_pairs(path)
        assert next(pairs) == ("one", "eins")
        with pytest.raises(DataError, match=rf"pairs\.tsv, line 2: .*{message}"):
            next(pairs)


def test_errors_for_the_file_as_a_whole(tmp_path):
    for content in (b"", b"\xef\xbb\xbf"):
        with pytest.raises(DataError, match=r"pairs\.tsv is empty"):
            list(read_pairs(write(tmp_path, content)))
    with pytest.raises(DataError, match=r"there is no file .*missing\.tsv"):
        list(read_pairs(tmp_path / "missing.tsv"))
    with pytest.raises(DataError, match="is a directory"):
        list(read_pairs(str(tmp_path)))


# Names


def test_braces_name_aligned_files(tmp_path, monkeypatch):
    monkeypatch.delenv("REGARD_DATA", raising=False)
    (tmp_path / "a").mkdir()
    en = write(tmp_path, gzip.compress(b"one\ntwo\n"), "train.en.gz")
    de = write(tmp_path, gzip.compress(b"eins\nzwei\n"), "train.de.gz")
    fr = write(tmp_path / "a", "un\ndeux\n", "fr.txt")
    aligned = tmp_path / "train.{en,de}.gz"
    assert find_files(aligned) == [en, de]
    assert list(read_pairs(aligned)) == [("one", "eins"), ("two", "zwei")]
    everywhere = f"{{{en},{fr}}}"
    assert find_files(everywhere) == [en, fr]
    assert list(read_pairs(everywhere, source="x", target="y")) == [("one", "un"), ("two", "deux")]
    monkeypatch.chdir(tmp_path / "a")
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    assert find_files("train.{de,en}.gz") == [de, en]
    three = "{train.en.gz,train.de.gz,fr.txt}"
    assert list(read_references(three)) == [("one", "eins", "un"), ("two", "zwei", "deux")]
    with pytest.raises(DataError, match=r"3 files, but exactly two are needed"):
        next(read_pairs(three))


def test_a_file_with_braces_in_its_name_comes_first(tmp_path):
    for name, content in {"x.{en,de}": "a\tb\n", "x.en": "wrong", "x.de": "wrong"}.items():
        write(tmp_path, content, name)
    assert list(read_pairs(tmp_path / "x.{en,de}")) == [("a", "b")]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x.{en}", "two names or more"),
        ("x.{}", "two names or more"),
        ("{x,y}.{en,de}", "one pair of braces"),
        ("x.{en,de", "one pair of braces"),
        ("x.en,de}", "one pair of braces"),
        ("x.{en,{de,fr}}", "one pair of braces"),
        ("x.{en,de}", r"x\.\{en,de\}: there is no file x\.de"),
    ],
)
def test_names_that_say_nothing(tmp_path, monkeypatch, name, message):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "a", "x.en")
    with pytest.raises(DataError, match=message):
        next(read_pairs(name))


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        ("a\nb\nc\n", "A\nB\n", r"x\.de ends after line 2, but .*x\.en goes on"),
        ("a\nb", "A\nB\nC\nD", r"x\.en ends after line 2, but .*x\.de goes on"),
        ("", "A\n", r"x\.en ends after line 0, but"),
        ("", "", "is empty"),
        ("a\nb\n", "A\n \n", r"x\.de, line 2: the line is empty"),
        ("a\n\nc", "A\nB\nC\n", r"x\.en, line 2: the line is empty"),
        ("a\nb", b"A\n\xff", r"x\.de, line 2: byte 1 \(0xff\)"),
    ],
)
def test_errors_in_aligned_files(tmp_path, left, right, message):
    write(tmp_path, left, "x.en")
    write(tmp_path, right, "x.de")
    with pytest.raises(DataError, match=message):
        list(read_pairs(tmp_path / "x.{en,de}"))


# Columns


def test_tsv_columns(tmp_path):
    path = write(tmp_path, "1\tde\ten\tx\n2\tDE\tEN\n")
    assert list(read_pairs(path, source="3", target="2")) == [("en", "de"), ("EN", "DE")]
    assert list(read_pairs(path, target="3")) == [("1", "en"), ("2", "EN")]
    assert list(read_references(path)) == [("1", "de", "en", "x"), ("2", "DE", "EN")]
    assert list(read_references(path, source="3", target="2")) == [("en", "de"), ("EN", "DE")]
    pairs = read_pairs(path, source="1", target="4")
    assert next(pairs) == ("1", "x")
    with pytest.raises(DataError, match=r"pairs\.tsv, line 2: 3 columns, but a line needs at least 4"):
        next(pairs)
    with pytest.raises(DataError, match="line 1: 1 column, but a line needs at least 2"):
        next(read_references(write(tmp_path, "alone")))
    for wrong in ("0", "en", "-1", "1.5", "²"):
        with pytest.raises(DataError, match=rf"pairs\.tsv: columns .* are numbers from 1, got '{wrong}'"):
            next(read_pairs(path, target=wrong))
    with pytest.raises(DataError, match="both column '2'"):
        next(read_pairs(path, source="2"))


@pytest.mark.parametrize("suffix", PACK)
def test_csv(tmp_path, suffix):
    content = '\ufeffid,source,target\r\n1,"a, ""b""",A\r\n2,"two\r\nlines",B\r\n'
    path = write(tmp_path, PACK[suffix](content.encode()), f"pairs.CSV{suffix}")
    assert list(read_pairs(path)) == list(read_references(path)) == [('a, "b"', "A"), ("two\nlines", "B")]
    assert next(read_pairs(path, source="target", target="id")) == ("A", "1")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("de,en\na,b\n", r"line 1: no column 'source'; the header names 'de', 'en'"),
        ("source,target,target\na,b,c\n", "line 1: more than one column 'target'"),
        ("source,target\na,b\nc\n", "line 3: 1 column, but the first line has 2"),
        ("source,target\na,b\n\nc,d\n", "line 3: the line is empty"),
        ('source,target\n"a\n\n",b\nc,\n', "line 5: the target is empty"),
        ('source,target\n"a\nb",c,d\n', "lines 2 to 3: 3 columns"),
        ('source,target\na,b\n"a,b\nc,d\n', "lines 3 to 4: is not CSV: unexpected end of data"),
        ('source,target\n"a"b,c\n', "line 2: is not CSV: "),
        ("source,target\na,b\nc\0,d\n", "line 3: holds a NUL"),
        ("source,target\n", "is empty"),
        ("", "is empty"),
    ],
)
def test_errors_in_csv(tmp_path, content, message):
    with pytest.raises(DataError, match=rf"pairs\.csv,? {message}"):
        list(read_pairs(write(tmp_path, content, "pairs.csv")))


@pytest.mark.parametrize("suffix", [".jsonl", ".ndjson.xz"])
def test_jsonl(tmp_path, suffix):
    content = jsonl({"source": "a\nb", "target": "A"}, {"x": 1, "target": ["B"], "source": "b"}).encode()
    path = write(tmp_path, lzma.compress(content) if suffix.endswith("xz") else content, f"pairs{suffix}")
    assert list(read_pairs(path)) == [("a\nb", "A"), ("b", "B")]


def test_jsonl_with_several_references(tmp_path):
    path = write(tmp_path, jsonl({"de": "a", "en": ["A", "AA"]}, {"de": "b", "en": "B"}), "pairs.jsonl")
    assert list(read_references(path, source="de", target="en")) == [("a", "A", "AA"), ("b", "B")]
    with pytest.raises(
        DataError, match=r"pairs\.jsonl, line 1: 2 targets under 'en', but there must be exactly one"
    ):
        next(read_pairs(path, source="de", target="en"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('["a", "b"]', "holds a list, but must hold an object with source and target"),
        ("", "the line is empty"),
        ('{"source": "a"}', "no key 'target'; the object has 'source'"),
        ("{}", "no key 'source'; the object has none"),
        (json.dumps({str(i): 0 for i in range(50)}), r"no key 'source'; .* '9', \.\.\.$"),
        ('{"source": "a", "target": 3}', "'target' must be text, got 3"),
        ('{"source": null, "target": "b"}', "must be text, got None"),
        ('{"source": "a", "target": ["b", 3]}', "must be text, got 3"),
        ('{"source": "a", "target": []}', "the list under 'target' is empty"),
        ('{"source": "a", "target": ["b", " "]}', "the target is empty"),
        (r'{"source": "a\u0000", "target": "b"}', "NUL"),
        (r'{"source": "a", "target": "\ud83d"}', "half a surrogate"),
    ],
)
def test_errors_in_jsonl(tmp_path, line, message):
    content = jsonl({"source": "a", "target": "b"}) + line + "\n"
    with pytest.raises(DataError, match=rf"pairs\.jsonl, line 2: .*{message}"):
        list(read_references(write(tmp_path, content, "pairs.jsonl")))


def test_a_file_is_streamed(tmp_path):
    """Only the line at hand is in memory, and a fault further on is met only there."""
    path = write(tmp_path, gzip.compress(b"source\t%b\n" % (b"x" * 2000) * 5000 + b"bad"), "pairs.tsv.gz")
    pairs = read_pairs(path)
    tracemalloc.start()
    try:
        for _ in range(5000):
            assert next(pairs) == ("source", "x" * 2000)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    with pytest.raises(DataError, match="line 5001: 1 column"):
        next(pairs)


def test_a_pattern_is_its_files_one_after_the_other(tmp_path):
    for number in (2, 1):
        write(tmp_path, PACK[".zst"](f"a{number}\tb{number}\n".encode()), f"{number}.tsv.zst")
        write(tmp_path, f"c{number}\n", f"{number}.en")
        write(tmp_path, f"d{number}\n", f"{number}.de")
    assert list(read_pairs(tmp_path / "*.tsv.zst")) == [("a1", "b1"), ("a2", "b2")]
    assert list(read_pairs(f"{tmp_path}/*.{{en,de}}")) == [("c1", "d1"), ("c2", "d2")]
    write(tmp_path, "", "3.tsv")
    write(tmp_path, "x\ty\n", "4.tsv")
    with pytest.raises(DataError, match=r"3\.tsv is empty"):
        list(read_pairs(tmp_path / "*.tsv"))


def test_pairs_in_parquet(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    rows = {"source": ["a", "b", "c"], "target": ["x", "y", "z"], "other": [1, 2, 3]}
    parquet.write_table(pyarrow.table(rows), tmp_path / "1.parquet", row_group_size=2)
    assert list(read_pairs(tmp_path / "1.parquet")) == [("a", "x"), ("b", "y"), ("c", "z")]
    with pytest.raises(DataError, match=r"1\.parquet, row 1: 'other' must be text, got 1"):
        list(read_pairs(tmp_path / "1.parquet", source="other"))
    parquet.write_table(pyarrow.table({"en": ["a"], "target": ["x"]}), tmp_path / "2.parquet")
    with pytest.raises(DataError, match=r"2\.parquet: no column 'source'; the header names 'en', 'target'"):
        list(read_pairs(tmp_path / "*.parquet"))
    write(tmp_path, b"PAR1 no", "3.parquet")
    with pytest.raises(DataError, match=r"3\.parquet is damaged or not a parquet file"):
        list(read_pairs(tmp_path / "3.parquet"))


def test_parquet_without_its_package_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"pip install 'regard\[parquet\]'"):
        list(read_pairs(write(tmp_path, b"PAR1", "1.parquet")))
