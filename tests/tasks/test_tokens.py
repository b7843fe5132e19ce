"""Vocabularies: one for both sides or one for each, lower-casing and normal forms, from recipe to answer."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.data.text.tokenizer import Tokenizer
from regard.errors import DataError, RecipeError, RunError
from regard.tasks.core.recipe import build_job
from regard.tasks.core.settings import Tokens
from regard.tasks.core.table import load
from regard.tasks.translate.prepare import pair_data


def test_each_side_has_its_vocabulary(lexicon: Any) -> None:
    translator = lexicon.translator
    config = json.loads((lexicon.folder / "config.json").read_text())
    source, target = (Tokenizer.load(lexicon.folder / name) for name in ("source_tokenizer.json", "tokenizer.json"))
    assert (config["source_vocabulary"], config["vocabulary"]) == (len(source), len(target)) == (12, 12)
    assert "<unk>" not in source.tokens(source.encode("one two three four five six seven eight"))
    assert set(target.encode("one two")) == {target.special.unknown}
    assert translator.model.source_embed is not translator.model.target_embed
    assert translator.translate("one two three").text == "eins zwei drei"
    assert translator.translate("eight seven six five four").text == "acht sieben sechs fünf vier"
    assert translator.translate("two").attention.columns == ("two", "</s>")
    assert translator.translate("two").attention.rows == ("zwei", "</s>")


def test_sides_of_unequal_size_and_loaded_again(words: str, tmp_path: Path, train: Any) -> None:
    """Characters: 8 English number words have other letters than the German ones."""
    train(words, tmp_path, "tokens.kind=character", "tokens.size=40", "train.steps=2", "model.max_positions=80")
    loaded, again = load(tmp_path), load(tmp_path)
    source, target = len(loaded.source_tokenizer), len(loaded.tokenizer)
    weights = loaded.model.state_dict()
    assert (len(weights["source_embed.weight"]), len(weights["target_embed.weight"])) == (source, target)
    assert source != target
    texts = ["one two", "three", "zzz ü"]
    assert loaded.translate(texts) == again.translate(texts)


def test_with_one_vocabulary_there_is_one_file(words: str, tmp_path: Path, train: Any) -> None:
    """Also where an earlier try, given up before its first checkpoint, had two."""
    train(words, tmp_path, "train.steps=1")
    assert (tmp_path / "source_tokenizer.json").is_file()
    shutil.rmtree(tmp_path / "training")
    (tmp_path / "model.safetensors").unlink()
    train(words, tmp_path, "train.steps=1", "tokens.joint=true", "tokens.size=20")
    assert not (tmp_path / "source_tokenizer.json").exists()
    loaded = load(tmp_path)
    assert loaded.source_tokenizer is loaded.tokenizer
    assert loaded.tokenizer.special.unknown not in loaded.tokenizer.encode("one eins two zwei")


def size(count: int) -> Tokenizer:
    return Tokenizer.train([" ".join(f"w{i}" for i in range(count - 4))], kind="word")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: path.write_text("[]"), "source_tokenizer.json is JSON but describes no tokenizer"),
        (lambda path: path.write_text("{"), "source_tokenizer.json is not JSON"),
        (
            lambda path: size(13).save(path),
            r"source_tokenizer.json has 13 entries, .* and config.json says 12; they are not from the same run",
        ),
        (lambda path: size(11).save(path), r"source_tokenizer.json has 11 entries"),
    ],
)
def test_a_source_tokenizer_of_another_run_is_refused(damage: Any, said: str, lexicon: Any, tmp_path: Path) -> None:
    folder = shutil.copytree(lexicon.folder, tmp_path / "run")
    damage(folder / "source_tokenizer.json")
    with pytest.raises(RunError, match=said):
        load(folder)


def test_a_config_that_hides_the_source_vocabulary_is_refused(lexicon: Any, tmp_path: Path) -> None:
    folder = shutil.copytree(lexicon.folder, tmp_path / "run")
    config = json.loads((folder / "config.json").read_text())
    for count, said in (
        (7, r"source_tokenizer\.json has 12 entries, .* and config\.json says 7; they are not from the same run"),
        (-1, "source_vocabulary must be at least 0"),
    ):
        (folder / "config.json").write_text(json.dumps(config | {"source_vocabulary": count}))
        with pytest.raises(RunError, match=said):
            load(folder)


@pytest.mark.parametrize("joint", ["true", "false"])
def test_resumed_it_keeps_its_vocabularies(joint: str, words: str, tmp_path: Path, train: Any) -> None:
    changes = [f"tokens.joint={joint}", "train.eval_every=2"]
    train(words, tmp_path, *changes, "train.steps=2")
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*tokenizer.json")}
    train(words, tmp_path, *changes, "train.steps=4", resume=True)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*tokenizer.json")} == before
    assert len(before) == (1 if joint == "true" else 2)


def test_resuming_without_the_source_tokenizer_is_refused(
    lexicon: Any, words: str, tmp_path: Path, train: Any
) -> None:
    folder = shutil.copytree(lexicon.folder, tmp_path / "run")
    (folder / "source_tokenizer.json").unlink()
    with pytest.raises((RunError, DataError), match=r"source_tokenizer\.json"):
        train(words, folder, "train.steps=151", resume=True)


def test_resumed_with_one_vocabulary_a_second_file_changes_nothing(
    lexicon: Any, words: str, tmp_path: Path, train: Any
) -> None:
    train(words, tmp_path, "tokens.joint=true", "train.eval_every=1", "train.steps=1")
    other = shutil.copytree(tmp_path, tmp_path / "other")
    shutil.copy(lexicon.folder / "source_tokenizer.json", other)
    reports = [
        train(words, folder, "tokens.joint=true", "train.eval_every=1", "train.steps=3", resume=True)
        for folder in (tmp_path, other)
    ]
    assert reports[0] == reports[1]


# ---- lower case and normal forms


def test_lower_case_is_a_setting(words: str, lexicon: Any, tmp_path: Path, train: Any) -> None:
    train(words, tmp_path, "tokens.lowercase=true", "train.steps=2")
    lower = load(tmp_path)
    loud, quiet = (lower.translate(text) for text in ("ONE Two Three", "one two three"))
    assert (loud.source, loud.text, loud.score) == ("ONE Two Three", quiet.text, quiet.score)
    assert loud.attention.columns == ("one", "two", "three", "</s>")
    assert loud.alignment == quiet.alignment
    assert lexicon.translator.translate("ONE two").attention.columns == ("<unk>", "two", "</s>")


@pytest.mark.parametrize(("form", "equal"), [("", False), ("nfc", False), ("nfkc", True)])
def test_nfkc_is_a_setting(form: str, equal: bool, words: str, tmp_path: Path, train: Any) -> None:
    train(words, tmp_path, f'tokens.normalise="{form}"', "train.steps=2")
    translator = load(tmp_path)
    wide, plain = (translator.translate(text) for text in ("ｏｎｅ\u3000ｔｗｏ", "one two"))
    assert (wide.attention.columns == plain.attention.columns) is equal
    assert (wide.score == plain.score) is equal
    known = set(range(len(translator.tokenizer))) - {translator.tokenizer.special.unknown}
    composed, parted = (translator.tokenizer.encode(text) for text in ("fünf", "fu\u0308nf"))
    assert set(composed) <= known
    assert (composed == parted) is bool(form), "nfc and nfkc both compose"


def test_lower_case_reaches_training_pairs(words: str, tmp_path: Path, train: Any) -> None:
    """Text in capitals trains the same model as text without."""
    folder = Path(words).parent
    for name in ("train", "valid"):
        (tmp_path / f"{name}.tsv").write_text((folder / f"{name}.tsv").read_text().upper())
    train(words, tmp_path / "quiet", "train.steps=2", "tokens.lowercase=true")
    files = [f"data.{name}={tmp_path}/{name}.tsv" for name in ("train", "valid")]
    train(words, tmp_path / "loud", "train.steps=2", "tokens.lowercase=true", *files)
    loud, quiet = (load(tmp_path / name).model.state_dict() for name in ("loud", "quiet"))
    assert all(torch.equal(loud[name], quiet[name]) for name in quiet)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"kind": "letters"},
            "kind must be one of 'character', 'word', 'space', 'bpe', 'wordpiece', got 'letters'",
        ),
        ({"normalise": "NFKC"}, "normalise must be one of '', 'nfc', 'nfkc', got 'NFKC'"),
    ],
)
def test_token_settings_check_themselves(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Tokens(**settings)


@pytest.mark.parametrize("joint", ["true", "false"])
def test_a_target_may_begin_with_the_token_that_ends_one(
    joint: str, words: str, tmp_path: Path, train: Any
) -> None:
    train(words, tmp_path, "tokens.start=<eos>", f"tokens.joint={joint}", "tokens.size=30", "train.steps=2")
    loaded = load(tmp_path)
    for tokenizer in (loaded.tokenizer, loaded.source_tokenizer):
        assert tokenizer.tokens(range(3)) == ["<pad>", "<eos>", "<unk>"]
        assert (tokenizer.special.pad, tokenizer.special.start, tokenizer.special.end) == (0, 1, 1)
        assert tokenizer.encode("<eos>") != [1], "what a user types is text"
    answer = loaded.translate("one two", max_length=5)
    assert answer.attention.columns == ("one", "two", "<eos>")
    batch = pair_data([("one two", "eins zwei")], loaded, 100).batch(np.arange(1))
    eins, zwei = loaded.tokenizer.encode("eins zwei")
    assert batch.target.tolist() == [[1, eins, zwei, 1]]


STEP = {"steps": 1}


def test_only_models_that_write_behind_a_start_token_choose_it() -> None:
    def refused(model: str, data: dict[str, Any], **tokens: Any) -> str:
        with pytest.raises(RecipeError) as error:
            build_job(
                {"model": {"name": model}, "data": data, "train": STEP, "tokens": {"start": "<eos>", **tokens}}
            )
        return str(error.value)

    said = refused("transformer", {"made": "dates"})
    assert said.startswith("tokens.start is not for this transformer, which has start tokens of its own; with tok")
    assert "is not for this gpt2" in refused("gpt2", {"train": "a.txt"})
    assert "start must be one of '', '<s>', '<eos>', got '<go>'" in refused(
        "luong", {"made": "dates"}, start="<go>"
    )
    own = {
        "model": {"name": "transformer"},
        "data": {"made": "dates"},
        "train": STEP,
        "tokens": {"start": "<eos>", "joint": False},
    }
    assert build_job(own).tokens.start == "<eos>"
