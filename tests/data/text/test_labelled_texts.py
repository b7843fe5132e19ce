"""Labelled texts from files of many forms, and their batches."""

import gzip
import json
import lzma

import pytest
import tokenizers
import torch

from regard.data.text.labelled_texts import LabelledData, classes, read_labelled
from regard.data.text.special_tokens import Special
from regard.data.text.text_encoding import PairEncoding, encode_pair
from regard.data.text.tokenizer import Tokenizer
from regard.errors import DataError

SPECIAL = Special(pad=0, start=2, end=3, unknown=1, mask=4)
TOKENIZER = Tokenizer.train(["abc abd bcd cab dab abcd badcab"] * 50, kind="wordpiece", size=40, numbering="bert")


def read(tmp_path, name, content, **options):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(read_labelled(tmp_path / name, **options))


GOOD = ("good film", "", "1")
BAD = ("bad, film", "", "0")


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("a.tsv", "good film\t1\nbad, film\t0\n", {}),
        ("a.tsv", "\ufeffgood film\t1\r\nbad, film\t0", {}),
        ("a.tsv", "sentence\tlabel\ngood film\t1\nbad, film\t0\n", {}),
        ("a.tsv", "Label\tid\tText\n1\t7\tgood film\n0\t8\tbad, film\n", {}),
        ("a.tsv", "y\tid\tx\n1\t7\tgood film\n0\t8\tbad, film\n", {"text": "x", "label": "y"}),
        ("a.tsv", "y\tid\ttext\n1\t7\tgood film\n0\t8\tbad, film\n", {"label": "y"}),
        ("a.tsv", "1\t7\t9\tgood film\n0\t8\t2\tbad, film\tmore\n", {"text": "4", "label": "1"}),
        ("a.csv", 'text,label\ngood film,1\n"bad, film",0\n', {}),
        ("a.csv", 'review,sentiment\ngood film,1\n"bad, film",0\n', {}),
        ("a.csv", '1,x\n1,good film\n0,"bad, film"\n', {"text": "x", "label": "1"}),
        ("a.jsonl", '{"text": "good film", "label": 1}\n{"label": "0", "text": "bad, film", "x": []}\n', {}),
        ("a.json", '{"text": "good film", "label": 1}\n{"label": "0", "text": "bad, film"}\n', {}),
        ("a.ndjson", '{"t": "good film", "class": 1}\n{"class": 0, "t": "bad, film"}\n', {"text": "t"}),
        ("a.txt", "1 good film\n0 bad, film\n", {}),
        ("stsa.train", "1 good film\n0\tbad, film\n", {}),
        ("a.txt", "good film\t1\nbad, film\t0\n", {}),
        ("reviews", "good film\t1\nbad, film\t0\n", {}),
        ("a.txt", "label\ttext\n1\tgood film\n0\tbad, film\n", {}),
        ("a.txt", "good film\tx\t1\nbad, film\tx\t0\n", {"text": "1", "label": "3"}),
    ],
)
def test_forms_of_files(tmp_path, name, content, options):
    assert read(tmp_path, name, content, **options) == [GOOD, BAD]
    assert read(tmp_path, name + ".gz", gzip.compress(content.encode()), **options) == [GOOD, BAD]
    assert read(tmp_path, name + ".xz", lzma.compress(content.encode()), **options) == [GOOD, BAD]


@pytest.mark.parametrize(
    ("header", "options"),
    [
        ("text1 text2 label", {}),
        ("sentence1 sentence2 label", {}),
        ("premise hypothesis label", {}),
        ("question1 question2 category", {}),
        ("question sentence label", {}),
        ("a b c", {"text": "a", "second": "b", "label": "c"}),
        ("sentence1 sentence2 label", {"second": "sentence2"}),
    ],
)
def test_pairs_of_texts(tmp_path, header, options):
    first, second, label = header.split()
    wanted = [("how, much", "a lot", "yes"), ("why", "", "no")]
    assert (
        read(tmp_path, "a.tsv", f"{first}\t{second}\t{label}\nhow, much\ta lot\tyes\nwhy\t\tno\n", **options)
        == wanted
    )
    assert (
        read(tmp_path, "a.csv", f'{label},{second},{first}\nyes,a lot,"how, much"\nno,,why\n', **options) == wanted
    )
    records = [{first: text, second: other, label: name} for text, other, name in wanted]
    assert read(tmp_path, "a.jsonl", "\n".join(map(json.dumps, records)), **options) == wanted


def test_a_second_text_is_not_taken_unasked_where_others_are_named(tmp_path):
    content = "sentence1\tsentence2\tlabel\na\tb\t1\n"
    assert read(tmp_path, "a.tsv", content, text="sentence1") == [("a", "", "1")]
    assert read(tmp_path, "a.tsv", content, text="sentence2", second="sentence1") == [("b", "a", "1")]
    assert read(tmp_path, "b.tsv", "1\tx\ta\tb\n", text="3", second="4", label="1") == [("a", "b", "1")]


def test_what_may_be_a_header_is_told(tmp_path, capsys):
    content = "review_body\tstars\ngood film\t1\nbad, film\t0\nbest film\t 1\n"
    for options in ({}, {"text": "1", "label": "2"}):
        assert len(read(tmp_path, "a.tsv", content, **options)) == 4
        said = capsys.readouterr().err
        assert said.startswith(f"{tmp_path}/a.tsv, line 1: no other line has its label; if it is a header, ")
        assert said.endswith("name the columns: data.text='review_body', data.label='stars'\n")
    assert read(tmp_path, "a.tsv", content, text="review_body", label="stars")[:2] == [GOOD, BAD]
    read(tmp_path, "b.tsv", "good film\t1\nbad, film\t0\nbest film\t 1\n")
    read(tmp_path, "c.tsv", "good film\t1\nbad, film\t0\n")
    assert capsys.readouterr().err == ""


def test_several_files_are_read_one_after_the_other(tmp_path):
    (tmp_path / "1.tsv").write_text("a\tx\n")
    (tmp_path / "2.tsv").write_text("b\ty\n")
    assert list(read_labelled(str(tmp_path / "{1,2}.tsv"))) == [("a", "", "x"), ("b", "", "y")]


def test_labels_are_trimmed_and_texts_are_not(tmp_path):
    assert read(tmp_path, "a.tsv", " a film \t 1 \n") == [(" a film ", "", "1")]
    assert read(tmp_path, "a.jsonl", '{"text": "a", "label": true}') == [("a", "", "true")]


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("a.tsv", "", {}, r"a\.tsv has no labelled text"),
        ("a.tsv", "text\tlabel\n", {}, r"a\.tsv has no labelled text"),
        ("a.csv", "", {}, "has no labelled text"),
        ("a.txt", "", {}, "has no labelled text"),
        ("a.tsv", "a\tb\tc\n", {}, "line 1: 3 columns and no header .* by numbers from 1"),
        ("a.tsv", "a\n", {}, "line 1: 1 column and no header"),
        ("a.tsv", "a\t1\nb\n", {}, "line 2: 1 column, but the first line has 2"),
        ("a.tsv", "a\t1\n\nb\t1\n", {}, "line 2: the line is empty"),
        ("a.tsv", "a\t1\n \t1\n", {}, "line 2: the text is empty; fill it in or remove the line"),
        ("a.tsv", "a\t1\nb\t \n", {}, "line 2: the label is empty"),
        ("a.tsv", "a\t1\n", {"text": "1"}, "give both text and label, got '1'"),
        ("a.tsv", "a\t1\n", {"text": "1", "label": "3"}, "line 1: 2 columns, but a line needs at least 3"),
        ("a.tsv", "x\ty\na\t1\n", {"text": "z", "label": "y"}, "line 1: no column 'z'; the header names 'x', 'y'"),
        (
            *("a.tsv", "good film\t1\na\t1\n", {"text": "text", "label": "label"}),
            "line 1: no column 'text'; the header names 'good film', '1'; is it no header",
        ),
        ("a.tsv", "x\tx\na\t1\n", {"text": "x", "label": "x"}, "the same column; got x, x"),
        ("a.tsv", "x\tx\ty\na\t1\t2\n", {"text": "x", "label": "y"}, "more than one column 'x'"),
        ("a.tsv", "x\ty\na\t1\n", {"text": "x"}, "say which column is the label; .* there are 'x', 'y'"),
        (
            "a.csv",
            "x,label\na,1\n",
            {},
            "say which column is the text; none has a usual name, there are 'x', 'label'",
        ),
        ("a.csv", "text,label\na,1,2\n", {}, "line 2: 3 columns, but the first line has 2"),
        ("a.csv", 'text,label\n"a,1\n', {}, "is not CSV"),
        ("a.jsonl", "[1]\n", {}, "line 1: holds a list, but must hold an object"),
        ("a.jsonl", "{\n", {}, "line 1: is not JSON"),
        ("a.json", '[\n{"text": "a", "label": 1}\n]\n', {}, "line 1: is not JSON .*; each line must be one object"),
        (
            "a.jsonl",
            '{"text": "a", "label": 1}\n{"text": "a"}\n',
            {},
            "line 2: no key 'label'; the object has 'text'",
        ),
        ("a.jsonl", '{"text": 1, "label": 1}\n', {}, "'text' must be text, got 1"),
        ("a.jsonl", '{"text": "a", "label": 1.5}\n', {}, "'label' must be text, got 1.5"),
        ("a.jsonl", '{"text": "a", "label": null}\n', {}, "'label' must be text, got None"),
        ("a.jsonl", '{"text": "\\ud800", "label": 1}\n', {}, "half a surrogate pair"),
        ("a.txt", "1 a\n0\n", {}, "line 2: holds one word, but must be a label, a space and the text"),
        ("a.txt", b"1 a\n0 caf\xe9\n", {}, r"line 2: byte 6 \(0xe9\) is not UTF-8"),
        ("a.tsv.gz", b"no gzip", {}, "damaged"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path, name, content, options, message):
    with pytest.raises(DataError, match=message):
        read(tmp_path, name, content, **options)


def test_json_of_any_depth_is_refused(tmp_path):
    with pytest.raises(DataError, match="line 1: is not JSON"):
        read(tmp_path, "a.jsonl", "[" * 100_000)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"there is no file .*nowhere\.tsv"):
        list(read_labelled(tmp_path / "nowhere.tsv"))


def test_classes_are_in_order():
    assert classes(["b", "a", "b"]) == ("a", "b")
    assert classes(["10", "9", "-1", "9"]) == ("-1", "9", "10")
    assert classes(["10", "9", "x"]) == ("10", "9", "x")
    assert classes(["1", "01"]) == ("01", "1")
    with pytest.raises(DataError, match=r"at least two classes, got 'a'; is the label in another column"):
        classes(["a", "a"])
    with pytest.raises(DataError, match="got none"):
        classes([])


def test_a_pair_in_its_frame():
    assert encode_pair([7, 8], None, SPECIAL, 10) == ([2, 7, 8, 3], [0, 0, 0, 0])
    assert encode_pair([7, 8], [9], SPECIAL, 10) == ([2, 7, 8, 3, 9, 3], [0, 0, 0, 0, 1, 1])
    assert encode_pair([], [], SPECIAL, 10) == ([2, 3, 3], [0, 0, 1])
    assert encode_pair([7, 8, 9, 10], None, SPECIAL, 5) == ([2, 7, 8, 9, 3], [0] * 5)
    with pytest.raises(ValueError, match="truncate must be at least 5, got 4"):
        encode_pair([7], None, SPECIAL, 4)


@pytest.mark.parametrize("truncate", [5, 6, 9, 12])
def test_pairs_are_cut_as_transformers_cuts_them(truncate):
    """By `tokenizers`, which does it there: of the longer first."""
    peer = tokenizers.Tokenizer.from_str(TOKENIZER.inner.to_str())
    peer.enable_truncation(truncate, strategy="longest_first")
    letters = ["a", "b", "c", "d"]
    for first in range(10):
        for second in range(10):
            texts = [" ".join(letters[i % 4] for i in range(count)) for count in (first, second)]
            theirs = peer.encode(*texts)
            ours = encode_pair(*(TOKENIZER.encode(text) for text in texts), SPECIAL, truncate)
            assert ours == (theirs.ids, theirs.type_ids)
        assert encode_pair(TOKENIZER.encode(texts[0]), None, SPECIAL, truncate)[0] == peer.encode(texts[0]).ids


ROWS = [([5 + i % 20] * (1 + i % 30), [6] * (i % 7) if i % 2 else None, i % 3) for i in range(200)]


def make(rows=ROWS, *, truncate=24, batch_tokens=256, seed=1):
    """The tokens are given as they are, and not as texts."""
    encoded = (
        (
            encode_pair(first, second, SPECIAL, truncate),
            len(first) + 2 + (0 if second is None else len(second) + 1) > truncate,
            label,
        )
        for first, second, label in rows
    )
    encoding = PairEncoding(segments=2, max_positions=512)
    return LabelledData(encoded, encoding=encoding, special=SPECIAL, batch_tokens=batch_tokens, seed=seed)


def test_batches_hold_every_row_once_framed_and_labelled():
    data = make(iter(ROWS))
    assert len(data) == 200
    seen = []
    for item in data.order(0):
        batch = data.batch(item)
        assert batch.tokens.numel() <= 256
        assert batch.tokens.dtype == batch.segments.dtype == batch.labels.dtype == torch.int64
        assert batch.mask.dtype == torch.bool
        assert (batch.tokens[~batch.mask] == 0).all()
        assert (batch.segments[~batch.mask] == 0).all()
        for place, row in enumerate(item):
            first, second, label = ROWS[row]
            ids, segments = encode_pair(first, second, SPECIAL, 24)
            mask = batch.mask[place]
            assert batch.tokens[place][mask].tolist() == ids
            assert batch.segments[place][mask].tolist() == segments
            assert int(batch.labels[place]) == label
            seen.append(row)
    assert sorted(seen) == list(range(200))


def test_what_is_cut_is_counted():
    long = sum(len(first) + 2 + (0 if second is None else len(second) + 1) > 24 for first, second, _ in ROWS)
    assert make().truncated == long > 10
    assert make(truncate=64).truncated == 0
    assert max(int(make().rows.lengths().max()), 24) == 24


def test_the_order_follows_from_seed_and_epoch():
    def order(seed, epoch):
        return [rows.tolist() for rows in make(seed=seed).order(epoch)]

    assert order(1, 2) == order(1, 2)
    assert order(1, 2) != order(1, 3)
    assert order(1, 2) != order(2, 2)


def test_a_batch_moves_whole():
    batch = make().batch(make().order(0)[0]).to("meta")
    assert {x.device.type for x in vars(batch).values() if x is not None} == {"meta"}


def test_data_says_what_is_wrong():
    with pytest.raises(ValueError, match="at least one labelled text, got none"):
        make([])
    with pytest.raises(ValueError, match="truncate must be at least 5"):
        make(truncate=3)
    with pytest.raises(ValueError, match="batch_tokens must be at least 1"):
        make(batch_tokens=0)


def class_folders(folder):
    for name, text in (("pos/2.txt", "Good.\n\nVery good.\n"), ("pos/10.TXT", "good"), ("neg/1.txt", "bad")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "neg/2.txt.gz").write_bytes(gzip.compress(b"worse"))
    for other in ("urls_pos.txt", "pos/.2.txt", "pos/labels.csv"):
        (folder / other).write_text("no text of a class")


def test_a_folder_has_a_folder_of_texts_for_each_class(tmp_path):
    class_folders(tmp_path)
    bad, good = (
        [("bad", "", "neg"), ("worse", "", "neg")],
        [("good", "", "pos"), ("Good.\n\nVery good.", "", "pos")],
    )
    assert list(read_labelled(tmp_path)) == bad + good
    assert list(read_labelled(tmp_path, text="review", label="stars")) == bad + good, "it has no columns"
    assert list(read_labelled(f"{tmp_path}/{{pos,neg}}")) == good + bad
    assert list(read_labelled(tmp_path / "pos")) == good


def test_what_is_wrong_with_a_folder_of_texts_is_said(tmp_path):
    class_folders(tmp_path)
    with pytest.raises(DataError, match=r"neg/1\.txt: the label 'neg' is no class of this model; there are 'pos'"):
        list(read_labelled(tmp_path, labels=["pos"]))
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"empty holds no text files \(\.txt\); a folder of labelled texts has"):
        list(read_labelled(tmp_path))
    with pytest.raises(DataError, match=r"empty holds no text files"):
        list(read_labelled(tmp_path / "empty"))
    (tmp_path / "empty/a.txt").write_text(" \n")
    with pytest.raises(DataError, match=r"empty/a\.txt: the text is empty"):
        list(read_labelled(tmp_path))
    (tmp_path / "empty/a.txt").write_bytes(b"\xff")
    with pytest.raises(DataError, match=r"empty/a\.txt, line 1: the byte 0xff is not UTF-8"):
        list(read_labelled(tmp_path))


def test_files_of_a_pattern_have_the_same_columns(tmp_path):
    (tmp_path / "1.csv").write_text("text,label\nfine,good\n")
    (tmp_path / "2.csv").write_text("label,text\nbad,dull\n")
    assert list(read_labelled(tmp_path / "*.csv")) == [("fine", "", "good"), ("dull", "", "bad")]
    (tmp_path / "3.csv").write_text("review,label\nlong,bad\n")
    with pytest.raises(DataError, match=r"3\.csv, line 1: no column 'text'; the header names 'review', 'label'"):
        list(read_labelled(tmp_path / "*.csv"))


def test_labelled_texts_in_parquet(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    parquet.write_table(pyarrow.table({"sentence": ["fine", "dull"], "label": [1, 0]}), tmp_path / "1.parquet")
    assert list(read_labelled(tmp_path / "1.parquet")) == [("fine", "", "1"), ("dull", "", "0")]
