"""One source, several kinds of targets: a tag says which, as the token that the target begins with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard.attention import trace
from regard.data.text.pairs import read_tagged
from regard.data.text.tokenizer import Tokenizer
from regard.errors import BadInput, DataError
from regard.tasks.translate.prepare import pair_data

WORDS = {"one": ("eins", "un"), "two": ("zwei", "deux"), "three": ("drei", "trois"), "four": ("vier", "quatre")}
TAGS = ("de", "fr")
ROWS = [
    (f"{first} {second}", f"{WORDS[first][side]} {WORDS[second][side]}", TAGS[side])
    for first in WORDS
    for second in WORDS
    for side in (0, 1)
]
RECIPE: dict[str, Any] = {
    "data": {"train": "", "valid": "", "target_tag": "3", "batch_tokens": 200, "eval_pairs": 32},
    "tokens": {"kind": "word", "size": 60},
    "model": {
        "name": "bahdanau", "embed": 32, "encoder": 32, "decoder": 32, "readout": 32, "max_positions": 9,
        "dropout": 0.0,
    },
    "train": {"steps": 120, "learning_rate": 1e-2, "eval_every": 60, "precision": "float32"},
}  # fmt: skip


def write(path: Path, rows: Any = ROWS) -> str:
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tags")
    file = write(folder / "pairs.tsv")
    regard.train(RECIPE, out=folder / "run", set={"data.train": file, "data.valid": file})
    return folder / "run"


def test_one_run_writes_each_language(run: Path) -> None:
    model = regard.load(run)
    for tag in TAGS:
        rows = [row for row in ROWS if row[2] == tag]
        answers = model.translate([source for source, *_ in rows], to=tag)
        assert [answer.text for answer in answers] == [target for _, target, _ in rows]
        beams = model.translate([source for source, *_ in rows], to=tag, beam=3)
        assert [answer.text for answer in beams] == [target for _, target, _ in rows]
    answer = model.translate("one two", to="fr")
    assert answer.attention.columns == ("one", "two", "</s>")
    assert answer.attention.rows == ("un", "deux", "</s>")
    assert [*model.align([("one two", "un deux")], to="fr")] == [answer.alignment]


def test_the_first_token_is_that_of_the_tag(run: Path) -> None:
    model = regard.load(run)
    assert model.tokenizer.tags == {"de": 4, "fr": 5}
    assert model.tokenizer.tokens([4, 5]) == ["<2de>", "<2fr>"]
    assert not {4, 5} & set(model.tokenizer.encode("<2fr> <2de>")), "what a user types is text"
    un, deux = model.tokenizer.encode("un deux")
    data = pair_data([("one two", "<2fr>un deux"), ("one", "<2de>eins")], model, 100)
    batch = data.batch(np.arange(2))
    assert batch.target[0].tolist() == [5, un, deux, 2]
    assert batch.target[1, 0] == 4
    assert data.target_lengths.tolist() == [4, 3]
    fed = []
    embed = model.model.target_embed
    hook = embed.register_forward_hook(lambda module, given, out: fed.append(given[0].flatten()[0].item()))
    with trace(model.model):
        model.translate("one", to="fr")
    hook.remove()
    assert fed[0] == 5


def test_it_is_judged_by_language(run: Path, tmp_path: Path) -> None:
    model = regard.load(run)
    judged = model.evaluate().details["by_target_tag"]
    assert {tag: (part["pairs"], part["exact_match"]) for tag, part in judged.items()} == {
        "de": (16, 100.0),
        "fr": (16, 100.0),
    }
    wrong = [(source, target if tag == "de" else "vier", tag) for source, target, tag in ROWS]
    found = model.evaluate(write(tmp_path / "wrong.tsv", wrong))
    assert found.details["by_target_tag"]["fr"]["exact_match"] == 0.0
    assert found.details["by_target_tag"]["de"]["exact_match"] == 100.0
    assert found.metrics["exact_match"] == 50.0
    assert found.rows["exact_match, to fr (16 pairs)"] == 0.0


def test_what_does_not_fit_is_refused(run: Path, tmp_path: Path) -> None:
    model = regard.load(run)
    with pytest.raises(BadInput, match=r"this run writes de or fr; say which: to='de' \(--to\)"):
        model.translate("one")
    with pytest.raises(BadInput, match="this run writes de or fr"):
        [*model.align([("one", "un")])]
    with pytest.raises(BadInput, match="this run has no target tag 'es'; there are de, fr"):
        model.translate("one", to="es")
    with pytest.raises(BadInput, match="takes no tag, got 'fr'"):
        regard.load("dates").translate("3 May 1979", to="fr")
    with pytest.raises(BadInput, match="no target tag 'es'"):
        model.evaluate(write(tmp_path / "es.tsv", [("one", "uno", "es")]))
    with pytest.raises(DataError, match="a target tag is a word without spaces and <>, as in fr; got 'f r'"):
        regard.train(RECIPE, out=tmp_path / "x", set={"data.train": write(tmp_path / "a.tsv", [("a", "b", "f r")])})


def test_tags_of_every_form(tmp_path: Path) -> None:
    wanted = [("one", "eins", "de"), ("one", "un", "fr")]
    assert [*read_tagged(write(tmp_path / "a.tsv", wanted), tag="3")] == wanted
    turned = [(tag, target, source) for source, target, tag in wanted]
    assert [*read_tagged(write(tmp_path / "b.tsv", turned), source="3", tag="1")] == wanted
    lines = [json.dumps(dict(zip(("source", "target", "lang"), row, strict=True))) + "\n" for row in wanted]
    (tmp_path / "c.jsonl").write_text("".join(lines))
    assert [*read_tagged(tmp_path / "c.jsonl", tag="lang")] == wanted
    (tmp_path / "d.csv").write_text("lang,source,target\nde,one,eins\nfr,one,un\n")
    assert [*read_tagged(tmp_path / "d.csv", tag="lang")] == wanted
    for name, text in (("en", "one"), ("de", "eins"), ("fr", "un")):
        (tmp_path / f"train.{name}").write_text(text + "\n")
    aligned = [row for tag in TAGS for row in read_tagged(f"{tmp_path}/train.{{en,{tag}}}", tag="language")]
    assert aligned == wanted
    with pytest.raises(DataError, match="columns of a file with tabs are numbers from 1; got 'lang'"):
        [*read_tagged(tmp_path / "a.tsv", tag="lang")]


@pytest.mark.parametrize("numbering", ["regard", "marian", "<eos>"])
@pytest.mark.parametrize("kind", ["word", "space", "bpe"])
def test_tags_have_tokens_in_every_vocabulary(kind: str, numbering: str, tmp_path: Path) -> None:
    texts = ["one two <2fr> three"] * 3
    tokenizer = Tokenizer.train(texts, kind=kind, numbering=numbering, tags=["fr", "de"])
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    assert loaded.special == tokenizer.special
    assert loaded.tags == tokenizer.tags
    assert [*loaded.tags] == ["fr", "de"]
    assert not {*loaded.tags.values()} & {*loaded.encode(texts[0])}
    french = loaded.beginning_with("fr")
    assert (french.special.start, french.special.end) == (loaded.tags["fr"], loaded.special.end)
    assert loaded.decode([loaded.tags["fr"], *loaded.encode("one two")]) == "one two"
