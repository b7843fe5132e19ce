import pytest

from regard.data.pairs import DataError, read_pairs


def write(folder, content):
    path = folder / "pairs.tsv"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    "content",
    [
        "a b\tá\nc\t日本\n".encode(),
        "a b\tá\nc\t日本".encode(),
        "\ufeffa b\tá\r\nc\t日本\r\n".encode(),
    ],
)
def test_pairs_with_and_without_mark_crlf_and_last_newline(tmp_path, content):
    assert read_pairs(write(tmp_path, content)) == [("a b", "á"), ("c", "日本")]


def test_text_is_kept_as_it_stands(tmp_path):
    content = " a  \tb\u2028c\x85d\ufeff\n"
    assert read_pairs(write(tmp_path, content.encode())) == [(" a  ", "b\u2028c\x85d\ufeff")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"caf\xe9\tcoffee", r"byte 4 \(0xe9\) is not UTF-8"),
        (b"alone", "1 column, but a line needs exactly two"),
        (b"", "1 column, but"),
        (b"a\tb\tc", "3 columns, but"),
        (b"\tb", "the source is empty"),
        (b"a\t  ", "the target is empty"),
        (b"a\0\tb", "NUL"),
    ],
)
def test_errors_name_file_line_and_fault(tmp_path, line, message):
    for ending in (b"\n", b"\r\n"):
        path = write(tmp_path, ending.join([b"one\teins", line, b"three\tdrei", b""]))
        with pytest.raises(DataError, match=rf"pairs\.tsv, line 2: .*{message}"):
            read_pairs(path)


def test_errors_for_the_file_as_a_whole(tmp_path):
    for content in (b"", b"\xef\xbb\xbf"):
        with pytest.raises(DataError, match=r"pairs\.tsv is empty"):
            read_pairs(write(tmp_path, content))
    with pytest.raises(DataError, match=r"missing\.tsv does not exist"):
        read_pairs(tmp_path / "missing.tsv")
    with pytest.raises(DataError, match="is a directory"):
        read_pairs(str(tmp_path))
    with pytest.raises(DataError, match="cannot be read"):
        read_pairs(tmp_path / "pairs.tsv" / "within")
