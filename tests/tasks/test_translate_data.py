"""Where pairs come from: files in many forms, what is held out, what is dropped, and more than fits in memory."""

from __future__ import annotations

import json
import random
import zlib
from pathlib import Path
from typing import Any

import pytest

from regard.data.batches.blocks import BlockData
from regard.errors import DataError
from regard.tasks.core.recipe import read
from regard.tasks.core.table import load
from regard.tasks.translate import prepare
from regard.tasks.translate.settings import PairSettings


def write(path: Path, pairs: list[tuple[str, str]]) -> str:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    return str(path)


def test_one_source_in_twenty_is_held_out_with_all_its_pairs(tmp_path: Path) -> None:
    pairs = [(f"source {i % 300}", f"target {i}") for i in range(600)]  # each source has two targets
    data = PairSettings(train=write(tmp_path / "all.tsv", pairs))
    kept, held = list(data.pairs("train")), list(data.pairs("valid"))
    assert sorted(kept + held) == sorted(pairs)
    assert not {source for source, _ in kept} & {source for source, _ in held}
    assert 5 <= len({source for source, _ in held}) <= 30  # 15 of 300 are expected
    assert list(data.pairs("test")) == held
    shuffled = PairSettings(train=write(tmp_path / "other.tsv", pairs[::-1]))
    assert sorted(shuffled.pairs("valid")) == sorted(held), "held out by its text and not by its place"


def test_named_files_are_taken_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sets").mkdir()
    pairs = {name: [(f"{name} {i}", "x") for i in range(40)] for name in ("train", "valid", "test")}
    for name, rows in pairs.items():
        write(tmp_path / "sets" / f"{name}.tsv", rows)
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    data = PairSettings(train="sets/train.tsv", valid="sets/valid.tsv", test="sets/test.tsv")
    assert {name: list(data.pairs(name)) for name in pairs} == pairs
    assert list(PairSettings(train="sets/train.tsv", valid="sets/valid.tsv").pairs("test")) == pairs["valid"]


def test_a_file_too_small_to_hold_some_out_says_so(tmp_path: Path) -> None:
    data = PairSettings(train=write(tmp_path / "few.tsv", [("a", "b")]))
    with pytest.raises(DataError, match=r"too few pairs to hold some out for validation; set data.valid"):
        [list(data.pairs(split)) for split in ("train", "valid")]


# ---- several files, other forms


def test_several_files_are_read_one_after_the_other(tmp_path: Path) -> None:
    first = write(tmp_path / "first.tsv", [("a", "b"), ("c", "d")])
    (tmp_path / "second.en").write_text("e\ng\n")
    (tmp_path / "second.de").write_text("f\nh\n")
    valid = write(tmp_path / "valid.tsv", [("x", "y")])
    data = PairSettings(train=(first, f"{tmp_path}/second.{{en,de}}"), valid=valid)
    assert list(data.pairs("train")) == [("a", "b"), ("c", "d"), ("e", "f"), ("g", "h")]
    assert list(data.pairs("valid")) == list(data.pairs("test")) == [("x", "y")]
    assert data.name == "first.tsv, second.{en,de}"


def test_a_recipe_may_list_files(recipe: str, tmp_path: Path) -> None:
    for name in ("first", "second"):
        write(tmp_path / f"{name}.tsv", [(name, "x")])
    files = f'data.train=["{tmp_path}/first.tsv", "{tmp_path}/second.tsv"]'
    job, text = read(recipe, ["data.made=", files, f"data.valid={tmp_path}/first.tsv"])
    assert list(job.data.pairs("train")) == [("first", "x"), ("second", "x")]
    (tmp_path / "again.toml").write_text(text)
    assert read(str(tmp_path / "again.toml"))[0] == job


@pytest.mark.parametrize("form", ["csv", "jsonl", "tsv"])
def test_columns_are_named(form: str, tmp_path: Path) -> None:
    rows = [{"id": "7", "deutsch": "ja, gut", "english": "yes, well"}, {"id": "8", "deutsch": "ä", "english": "b"}]
    path = tmp_path / f"pairs.{form}"
    if form == "csv":
        lines = ["id,deutsch,english", '7,"ja, gut","yes, well"', "8,ä,b"]
    elif form == "jsonl":
        lines = [json.dumps(row) for row in rows]
    else:
        lines = ["\t".join(row.values()) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    source, target = ("3", "2") if form == "tsv" else ("english", "deutsch")
    data = PairSettings(train=str(path), valid=str(path), source=source, target=target)
    wanted = [("yes, well", "ja, gut"), ("b", "ä")]
    assert list(data.pairs("train")) == list(data.pairs("test")) == wanted
    assert data.examples("valid") == [(source, (target,)) for source, target in wanted]
    with pytest.raises(DataError, match=r"nothing|9"):
        list(
            PairSettings(train=str(path), source="9" if form == "tsv" else "nothing", target=target).pairs("train")
        )


def test_the_file_with_a_fault_is_named_among_several(tmp_path: Path) -> None:
    good, bad = write(tmp_path / "good.tsv", [("a", "b")] * 3), tmp_path / "bad.tsv"
    bad.write_text("a\tb\nno tab\n")
    with pytest.raises(DataError, match=r"bad\.tsv, line 2: 1 column, "):
        list(PairSettings(train=(good, str(bad)), valid=good).pairs("train"))


# ---- what is held out


def test_a_source_is_held_out_of_all_files(tmp_path: Path) -> None:
    first = [(f"source {i}", f"first {i}") for i in range(400)]
    second = [(f"source {i}", f"second {i}") for i in range(200, 600)]
    files = write(tmp_path / "first.tsv", first), write(tmp_path / "second.tsv", second)
    data, turned = PairSettings(train=files), PairSettings(train=files[::-1])
    kept, held = list(data.pairs("train")), list(data.pairs("valid"))
    assert sorted(kept + held) == sorted(first + second)
    assert not {source for source, _ in kept} & {source for source, _ in held}
    assert {target.split()[0] for _, target in held} == {"first", "second"}
    assert turned.held_out == data.held_out == {source for source, _ in held}
    assert data.examples("test") == [(source, (target,)) for source, target in held]


def test_at_most_2000_sources_are_held_out(tmp_path: Path) -> None:
    pairs = [(f"source {i % 50_000}", f"target {i}") for i in range(50_100)]  # some sources have two targets
    data = PairSettings(train=write(tmp_path / "all.tsv", pairs))
    kept, held = list(data.pairs("train")), list(data.pairs("valid"))
    assert len(data.held_out) == len({source for source, _ in held}) == 2000
    assert sorted(kept + held) == sorted(pairs)
    assert not data.held_out & {source for source, _ in kept}


def test_of_many_sources_the_same_are_held_out_in_any_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.tasks.translate.settings.MOST_VALID", 20)
    pairs = [(f"source {i}", f"target {i}") for i in range(1500)]
    data, turned = (PairSettings(train=write(tmp_path / "all.tsv", rows)).held_out for rows in (pairs, pairs[::-1]))
    assert data == turned, "held out by its text and not by its place"
    assert len(data) == 20


# ---- what is dropped


def test_what_the_length_filter_drops_is_said(
    recipe: str, tmp_path: Path, train: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = [("abcd", "abc"), ("ab", "abcdefgh"), ("a" * 30, "b"), ("ab", "ab")]
    files = write(tmp_path / "train.tsv", pairs), write(tmp_path / "valid.tsv", [("a" * 35, "b")])
    changes = ["data.made=", f"data.train={files[0]}", f"data.valid={files[1]}", "train.steps=1"]
    train(recipe, tmp_path / "run", *changes, "data.drop_longer=8", "data.max_ratio=3")
    seen = capsys.readouterr()
    for part in (
        "Dropped 2 of 4 pairs",
        "1 for a side more than 3 times as long as the other",
        "1 for a side of more than 8 tokens",
        "the first was pair 2, with 2 tokens to 8.",
    ):
        assert part in seen.err
    assert not seen.out
    assert "2 training pairs" in (tmp_path / "run/README.md").read_text()
    train(recipe, tmp_path / "all", *changes)
    assert "Dropped" not in capsys.readouterr().err


@pytest.mark.parametrize("setting", ["drop_longer", "max_ratio"])
def test_a_filter_that_drops_all_says_so(setting: str, recipe: str, tmp_path: Path, train: Any) -> None:
    files = write(tmp_path / "train.tsv", [("abc", "abcdef")] * 50), write(tmp_path / "valid.tsv", [("a", "b")])
    changes = ["data.made=", f"data.train={files[0]}", f"data.valid={files[1]}", f"data.{setting}=1"]
    with pytest.raises(ValueError, match=rf"50 of 50 pairs(.|\n)*data\.{setting}|data\.{setting}(.|\n)*50"):
        train(recipe, tmp_path / "run", *changes)


def test_a_pair_held_out_is_filtered_like_the_others(words: str, tmp_path: Path, train: Any) -> None:
    """One endless line in the twentieth that is held out must not keep a corpus from being learned."""
    endless = next(text for n in range(100, 200) if zlib.crc32((text := "one " * n).encode()) % 20 == 0)
    pairs = [(f"one two {number}", "eins zwei") for number in range(60)]
    file = write(tmp_path / "all.tsv", [(endless, "eins"), *pairs])
    changes = [f"data.train={file}", "data.valid=", "train.steps=2"]
    with pytest.raises(ValueError, match=r"tokens and model.max_positions is 40; .*data.drop_longer=39"):
        train(words, tmp_path / "run", *changes)
    train(words, tmp_path / "run", *changes, "data.drop_longer=39")
    assert load(tmp_path / "run").translate("one two").source == "one two"


def test_validation_pairs_may_have_several_references(words: str, tmp_path: Path, train: Any) -> None:
    path = tmp_path / "valid.tsv"
    path.write_text("one two\teins zwei\tzwei eins\nthree\tdrei\tdrei drei\n")
    report = train(words, tmp_path / "run", f"data.valid={path}", "train.steps=1")
    assert report.best["valid_loss"] > 0


def test_test_pairs_may_have_several_references(words: str, tmp_path: Path) -> None:
    path = tmp_path / "test.jsonl"
    path.write_text('{"source": "a", "target": ["b", "c"]}\n{"source": "d", "target": "e"}\n')
    data = read(words, [f"data.test={path}"])[0].data
    assert data.examples("test") == [("a", ("b", "c")), ("d", ("e",))]
    assert all(len(references) == 1 for _, references in data.examples("valid"))


# ---- more than fits in memory


def large(folder: Path, count: int) -> list[str]:
    """Changes to the recipe: a file of this many pairs."""
    draw = random.Random(0)
    names = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
    texts = [" ".join(draw.choices(names, k=12)) for _ in range(count)]
    path = write(folder / "large.tsv", [(text, text) for text in texts])
    return [
        f"data.train={path}",
        "data.memory_mib=1",
        "train.steps=4",
        "train.eval_every=2",
        "data.batch_tokens=256",
    ]


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> list[BlockData]:
    """As if a hundred times less fitted in memory; the blocks that were made."""
    gather, gathered = prepare.gather, []

    def gather_less(*args: Any, budget: int, **options: Any) -> Any:
        gathered.append(gather(*args, budget=budget // 100, **options))
        return gathered[-1]

    monkeypatch.setattr(prepare, "gather", gather_less)
    return gathered


def losses(folder: Path) -> list[float]:
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [row["loss"] for row in rows if "loss" in row]


def test_more_than_fits_in_memory_is_learnt_from_blocks(
    words: str, tmp_path: Path, train: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = large(tmp_path, 9000)
    assert (tmp_path / "large.tsv").stat().st_size > 1 << 20, "more than data.memory_mib"
    gathered: list[Any] = []
    gather = prepare.gather

    def watch(*args: Any, **options: Any) -> Any:
        gathered.append(gather(*args, **options))
        assert list((tmp_path / "run/.blocks").iterdir()), "they lie in the run while it trains"
        return gathered[-1]

    monkeypatch.setattr(prepare, "gather", watch)
    assert train(words, tmp_path / "run", *changes).step == 4
    [data] = gathered
    assert isinstance(data, BlockData)
    assert (len(data), data.blocks > 1) == (9000, True)
    assert not [path for path in (tmp_path / "run").iterdir() if "blocks" in path.name]
    assert "9,000 training pairs" in (tmp_path / "run/README.md").read_text()
    assert isinstance(load(tmp_path / "run").translate("one two").text, str)


def test_resumed_with_blocks_it_is_as_never_stopped(
    words: str, little_memory: list[BlockData], tmp_path: Path, train: Any, interrupt: Any
) -> None:
    changes = large(tmp_path, 400)
    whole = train(words, tmp_path / "whole", *changes)
    interrupt(words, tmp_path / "run", *changes)
    assert len(losses(tmp_path / "run")) == 2
    assert train(words, tmp_path / "run", *changes, resume=True) == whole
    assert all(data.blocks > 1 for data in little_memory)
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("run", "whole")]
    assert weights[0] == weights[1]
    assert not (tmp_path / "run/.blocks").exists()


def test_a_training_that_is_refused_leaves_no_blocks(
    words: str, little_memory: list[BlockData], tmp_path: Path, train: Any
) -> None:
    with pytest.raises(ValueError, match=r"the longest source has 13 tokens and model.max_positions is 8"):
        train(words, tmp_path / "run", *large(tmp_path, 400), "model.max_positions=8")
    assert little_memory[0].blocks > 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "set either data.made to a generated set .* or data.train"),
        ({"train": ()}, "set either"),
        ({"train": ["", ""]}, "set either"),
        ({"made": "copy", "train": "x.tsv"}, "set either"),
        ({"train": ["x.tsv", 3]}, r"train must be a file or a list of files, got \['x.tsv', 3\]"),
        ({"train": {"x.tsv": 1}}, "train must be a file or a list of files"),
        ({"train": 3}, "train must be a file or a list of files, got 3"),
        ({"made": "dats"}, "unknown generated set 'dats'; there are dates, copy, reverse, sort, recall"),
        ({"made": "recall", "distance": 1}, "distance must be at least 2, got 1"),
        ({"made": "copy", "batch_tokens": 0}, "batch_tokens must be at least 1, got 0"),
        ({"made": "copy", "valid_count": -1}, "valid_count must be at least 1, got -1"),
        ({"made": "copy", "memory_mib": 0}, "memory_mib must be at least 1, got 0"),
        ({"made": "copy", "eval_pairs": 0}, "eval_pairs must be at least 1, got 0"),
        ({"made": "copy", "drop_longer": -1}, "drop_longer must be at least 0, got -1"),
        ({"made": "copy", "max_ratio": 0.5}, r"max_ratio must be at least 1, or 0 \(keep all\), got 0.5"),
        ({"made": "copy", "max_ratio": float("nan")}, "max_ratio must be a number, got nan"),
        ({"made": "copy", "max_ratio": float("inf")}, "max_ratio must be a number, got inf"),
        ({"made": "copy", "max_ratio": -2.0}, "max_ratio must be at least 1"),
    ],
)
def test_data_settings_check_themselves(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        PairSettings(**settings)
