"""`regard align`: links between words, and how far they are from gold ones."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.runs.folder import save_weights
from regard.tasks.core.table import load

PAIRS = [("a b c d", "d c b a"), ("q w", "w q e"), ("x", "x y"), ("o p q r s", "s")]


@pytest.fixture
def data(call: Any) -> str:
    """Pairs in the folder that `call` stands in."""
    Path("pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    return "pairs.tsv"


@pytest.fixture(scope="session")
def links(lively: str) -> list[str]:
    """What the command should print: for each target word the source word it looked at most."""
    found = [" ".join(f"{i}-{j}" for i, j in sorted(one)) for one in load(lively).align(PAIRS)]
    assert any(one.split() for one in found)
    return found


def shifted(line: str, by: int) -> str:
    return re.sub(r"\d+", lambda number: str(int(number[0]) + by), line)


def test_a_line_of_links_for_each_pair(call: Any, lively: str, data: str, links: list[str]) -> None:
    done = call("align", lively, "--data", data)
    assert (done.code, done.out.splitlines()) == (0, links)
    assert "4 pairs" in done.err
    assert "`attend`" in done.err, "which attention it was is told"
    assert "error rate" not in done.err
    for (source, target), line in zip(PAIRS, done.out.splitlines(), strict=True):
        ends = [tuple(map(int, link.split("-"))) for link in line.split()]
        assert all(i < len(source.split()) and j < len(target.split()) for i, j in ends)
        assert len({j for _, j in ends}) == len(ends), "a target word has one link at most"


def test_pieces_of_a_word_are_taken_together(call: Any, lively: str) -> None:
    """Characters are the tokens, so that words of several letters are words of several tokens."""
    Path("pairs.tsv").write_text("abc  def\tghij kl\n")
    line = call("align", lively, "--data", "pairs.tsv").out
    assert set(line.split()) <= {"0-0", "0-1", "1-0", "1-1"}


def test_links_go_to_a_file(call: Any, lively: str, data: str, links: list[str]) -> None:
    done = call("align", lively, "--data", data, "--output", "links.txt")
    assert (done.code, done.out) == (0, "")
    assert Path("links.txt").read_text().splitlines() == links
    assert sorted(path.name for path in Path().iterdir()) == ["links.txt", "pairs.tsv"]


def test_its_own_links_are_without_error(call: Any, lively: str, data: str, links: list[str]) -> None:
    for base in (0, 1):
        Path("gold").write_text("".join(f"{shifted(line, base)}\n" for line in links))
        done = call("align", lively, "--data", data, "--gold", "gold", "--base", base)
        assert (done.code, done.out.splitlines()) == (0, links)
        assert "alignment error rate 0.0 %, precision 100.0 %, recall 100.0 %" in done.err
    asked = call("align", lively, "--data", data, "--gold", "gold")
    assert "alignment error rate 0.0 %" in asked.err, "gold files count from 1 unless told"


def test_the_error_rate_by_hand(call: Any, lively: str, data: str, links: list[str]) -> None:
    """All A links are possible and one is sure, beside a sure one that is not found: |S| = 2."""
    count = sum(len(line.split()) for line in links)
    at = next(row for row, line in enumerate(links) if line)
    lines = [shifted(line, 1).replace("-", "p") for line in links]
    lines[at] = f"{lines[at]} {shifted(links[at].split()[0], 1)} 99-99"
    Path("gold").write_text("\n".join(lines) + "\n")
    done = call("align", lively, "--data", data, "--gold", "gold")
    rate = 100 * (1 - (1 + count) / (count + 2))
    assert f"alignment error rate {rate:.1f} %, precision 100.0 %, recall 50.0 %" in done.err


@pytest.mark.parametrize(
    ("gold", "said"),
    [
        (
            b"1-1\n2-2\n1-x\n\n",
            "talp.txt, line 3: a link must look like 3-4 (sure), 3p4 or 3?4 (possible), got '1-x'",
        ),
        (b"1-1\n2-2\n0-1\n\n", "talp.txt, line 3: link 0-1 names a word before the first"),
        (b"1-1\n\xff\n\n\n", "talp.txt, line 2: byte 1 (0xff) is not UTF-8"),
        (b"1-1\n1\x00-1\n\n\n", "talp.txt, line 2: holds a NUL byte"),
        (b"1-1\n2-2\n", "talp.txt"),  # two lines for four pairs
        (b"1-1\n" * 5, "talp.txt"),
        (b"1p1\n" * 4, "talp.txt"),  # none is sure
        (b"", "talp.txt"),
    ],
)
def test_a_wrong_gold_file_is_named_and_nothing_is_left(
    call: Any, lively: str, data: str, gold: bytes, said: str
) -> None:
    Path("talp.txt").write_bytes(gold)
    done = call("align", lively, "--data", data, "--gold", "talp.txt", "--output", "links.txt")
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("error: ") == 1
    assert sorted(path.name for path in Path().iterdir()) == ["pairs.tsv", "talp.txt"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "Missing option '--data'"),
        ("--data nosuch.tsv", "error: there is no file nosuch.tsv"),
        ("--data pairs.tsv --gold nosuch", "error: there is no file nosuch"),
        ("--data pairs.tsv --gold .", "error: . is a directory"),
        ("--data pairs.tsv --gold pairs.tsv --base 2", "--base"),
        ("--data pairs.tsv --columns 1", "error: columns must be two names"),
        ("--data pairs.tsv --output .", "error: . is a folder; let --output name a file"),
        ("--data pairs.tsv --output no/such/x", "error: there is no folder no/such to write x in; make it first"),
    ],
)
def test_what_is_asked_wrongly(
    call: Any, lively: str, data: str, words: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REGARD_DATA", raising=False)
    done = call("align", lively, *words.split())
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert [path.name for path in Path().iterdir()] == ["pairs.tsv"]


def test_the_help_does_not_promise_pairs_that_nobody_named(call: Any) -> None:
    assert "without it" not in call("align", "--help").out


def test_a_run_without_attention_aligns_nothing(call: Any, vector: str, data: str) -> None:
    done = call("align", vector, "--data", data, "--output", "links.txt")
    assert (done.code, done.out) == (2, "")
    assert "has no attention" in done.err
    assert done.err.count("\n") == 1
    assert [path.name for path in Path().iterdir()] == ["pairs.tsv"]


def test_nothing_is_left_when_a_line_far_down_is_wrong(call: Any, lively: str) -> None:
    Path("pairs.tsv").write_text("a b\tb a\n" * 100 + "alone\n")
    Path("links.txt").write_text("from before")
    done = call("align", lively, "--data", "pairs.tsv", "--output", "links.txt")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: pairs.tsv, line 101: 1 column")
    assert Path("links.txt").read_text() == "from before"
    assert sorted(path.name for path in Path().iterdir()) == ["links.txt", "pairs.tsv"]


def test_gold_links_are_looked_for_where_data_are(
    call: Any, lively: str, data: str, links: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sets").mkdir()
    (tmp_path / "sets" / "gold.talp").write_text("".join(f"{shifted(line, 1)}\n" for line in links))
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "sets"))
    done = call("align", lively, "--data", data, "--gold", "gold.talp")
    assert done.code == 0
    assert "alignment error rate 0.0 %" in done.err


def test_words_are_aligned_by_the_head_that_is_named(call: Any, transformer: str) -> None:
    """With drawn weights heads differ."""
    run = shutil.copytree(transformer, "run", ignore=shutil.ignore_patterns("training"))
    model = load(run).model.cpu()
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter))
    save_weights(Path(run), model)
    Path("pairs.tsv").write_text("a b c d e f\tf e d c b a\nq w e r t y u\ty t r e w q a\n")
    found = set()
    for words in (
        ("--site", "decoder.1.cross", "--head", 0),
        ("--site", "decoder.1.cross", "--head", 1),
        (),
        ("--head", 0),
    ):
        done = call("align", run, "--data", "pairs.tsv", *words)
        assert done.code == 0, done.err
        assert len(done.out.splitlines()) == 2
        found.add(done.out)
    assert len(found) == 4
    assert "by the attention `decoder.0.cross`" in done.err
    assert "head 0" in done.err
    for words, said in (
        (("--head", 2), "decoder.0.cross has heads 0 to 1, got 2"),
        (("--site", "decoder.7.cross"), "no attention from target to source is named 'decoder.7.cross'; there is"),
        (("--site", "encoder.0.attend"), "there is decoder.0.cross, decoder.1.cross"),
        (("--site", "decoder.*.cross"), "no attention from target to source is named 'decoder.*.cross'"),
    ):
        done = call("align", run, "--data", "pairs.tsv", *words)
        assert (done.code, done.out) == (2, "")
        assert said in done.err
