"""`regard translate`: its options, pictures, alignments and unknown words."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from regard.decode.settings import Decoding
from regard.tasks.core.results import scored_lines
from regard.tasks.core.table import load

TEXTS = ["a b c", "q w e r t y", "z y"]


def listed() -> list[str]:
    return sorted(path.name for path in Path().iterdir())


@pytest.fixture(scope="session")
def answers(lively: str) -> list[str]:
    """What the command should print for TEXTS."""
    found = [answer.text for answer in load(lively).translate(TEXTS)]
    assert len({*found, ""}) == 4
    return found


def test_translate_prints_an_answer_a_line(call: Any, lively: str, answers: list[str]) -> None:
    done = call("translate", lively, *TEXTS)
    assert done == (0, "".join(f"{answer}\n" for answer in answers), "")


def test_translate_writes_json_for_machines(call: Any, lively: str) -> None:
    done = call("translate", lively, *TEXTS, "", "é", "--json", "--beam", "4", "--n-best", "3")
    unknown = "1 text has characters that this model does not know and cannot read: 'é'\n"
    assert (done.code, done.err) == (0, unknown)
    rows = [json.loads(line) for line in done.out.splitlines()]
    for row, answer in zip(rows, load(lively).translate([*TEXTS, "", "é"], beam=4, n_best=3), strict=True):
        others = [{"text": text, "score": score} for text, score in answer.others]
        own = {"source": answer.source, "text": answer.text, "score": answer.score, "others": others}
        assert row == {"input": answer.source, **own} | ({"unknown": ["é"]} if "é" in answer.source else {})
        assert len(others) == 2
    assert '"é"' in done.out


def test_translate_prints_the_best_with_their_scores(call: Any, lively: str) -> None:
    done = call("translate", lively, TEXTS[0], "--n-best", "3")  # and so with a beam of 3
    answer = load(lively).translate(TEXTS[0], beam=3, n_best=3)
    texts = [answer.text, *(text for text, _ in answer.others)]
    wanted = [f"{rank:.4f}\t{text}" for rank, text in zip(answer.ranks, texts, strict=True)]
    assert done.out.splitlines() == wanted
    assert list(answer.ranks) == sorted(answer.ranks, reverse=True)
    assert len(wanted) == 3
    assert scored_lines([("sure", -1e-9), ("not", -1.0)]) == "0.0000\tsure\n-1.0000\tnot"
    told = " ".join(call("translate", "--help").out.split())
    assert "the score is log p / length^penalty + coverage; JSON has log p" in told


def test_translate_draws_by_its_seed(call: Any, lively: str) -> None:
    drawn = [call("translate", lively, TEXTS[1], "--temperature", "20", "--seed", seed).out for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_what_the_command_does_not_say_the_runs_recipe_does(call: Any, lively: str, tmp_path: Path) -> None:
    folder = shutil.copytree(lively, tmp_path / "run")
    recipe = (folder / "recipe.toml").read_text()
    (folder / "recipe.toml").write_text(recipe.replace("[decode]", "[decode]\nbeam = 3\nn_best = 2"))
    assert len(call("translate", folder, TEXTS[0]).out.splitlines()) == 2
    assert len(call("translate", folder, TEXTS[0], "--n-best", "1").out.splitlines()) == 1


@pytest.mark.parametrize(
    ("suffix", "begins"), [(".png", b"\x89PNG"), (".svg", b"<svg"), (".html", b"<!doctype html")]
)
def test_translate_draws_a_picture(call: Any, lively: str, answers: list[str], suffix: str, begins: bytes) -> None:
    done = call("translate", lively, TEXTS[0], "--show", f"seen{suffix}")
    assert (done.code, done.out) == (0, f"{answers[0]}\n")
    assert done.err == f"wrote seen{suffix}\n"
    assert Path(f"seen{suffix}").read_bytes().lower().startswith(begins.lower())


def test_pictures_of_several_texts_are_numbered(call: Any, lively: str) -> None:
    done = call("translate", lively, TEXTS[0], "", TEXTS[2], "--show", "seen.svg")
    assert done.err == "wrote seen-1.svg\nwrote seen-3.svg\n", "nothing was looked at for the blank one"
    assert sorted(path.name for path in Path().iterdir()) == ["seen-1.svg", "seen-3.svg"]


def test_a_long_name_is_told_on_one_line(call: Any, lively: str, tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 20) / ("name" * 20)
    folder.mkdir(parents=True)
    assert call("translate", lively, "a", "--show", folder / "x.svg").err == f"wrote {folder / 'x.svg'}\n"


def test_translate_draws_in_the_terminal(call: Any, lively: str, answers: list[str]) -> None:
    done = call("translate", lively, TEXTS[0], "--show", "-")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"{answers[0]}\n")
    assert load(lively).translate(TEXTS[0]).attention.terminal(colour=False) in done.out
    mixed = call("translate", lively, TEXTS[0], "--show", "-", "--json")
    assert (mixed.code, mixed.out) == (2, "")
    assert "let --show name a file" in " ".join(mixed.err.split())


def test_the_scale_and_pieces_are_options(call: Any, lively: str) -> None:
    done = call("translate", lively, TEXTS[0], "--show", "seen.svg", "--scale", "0.004", "--pieces")
    assert done.code == 0
    assert "≥ 0.004" in Path("seen.svg").read_text()
    for given in (("--scale", "0.2"), ("--pieces",)):
        alone = call("translate", lively, TEXTS[0], *given)
        assert alone.code == 2
        assert f"{given[0]} says what to draw; say where with --show FILE" in " ".join(alone.err.split())
    for wrong in ("0", "-1", "nan", "own"):
        refused = call("translate", lively, TEXTS[0], "--show", "-", f"--scale={wrong}")
        assert (refused.code, refused.out) == (2, "")
        assert '--scale must be a number above 0, "shared" or "each"' in " ".join(refused.err.split())


def test_words_and_pieces_of_a_shipped_translator(call: Any) -> None:
    text = "Ich habe meinen Schlüssel im Auto vergessen."
    assert call("translate", "de-en", text, "--show", "words.svg").code == 0
    assert "␣" not in Path("words.svg").read_text()
    said = "second layer of the decoder, looking at the source, mean of 4 heads"
    assert all(f">{line}</text>" in Path("words.svg").read_text() for line in (said, "decoder.1.cross"))
    assert call("translate", "de-en", text, "--show", "pieces.svg", "--pieces").code == 0
    assert ">␣habe</text>" in Path("pieces.svg").read_text()


def test_a_transformer_trains_translates_and_shows_its_heads(call: Any, texts: Path, transformer: str) -> None:
    done = call("train", texts / "transformer.toml", "--out", "run")
    assert (done.code, done.out) == (0, "run\n")
    assert Path("run/model.safetensors").read_bytes() == Path(transformer, "model.safetensors").read_bytes()
    done = call("translate", "run", "a b c", "--show", "x.html", "--sites", "decoder.*.cross")
    assert (done.code, done.err) == (0, "wrote x.html\n")
    page = Path("x.html").read_text()
    assert "decoder.0.cross" in page
    assert "decoder.1.cross" in page
    assert "encoder.0.attend" not in page
    for words in (("--show", "-"), ("--show", "-", "--sites", "*"), ("--beam", 3, "--n-best", 2)):
        assert call("translate", "run", "a b c", *words).code == 0
    done = call("translate", "run", "a b c", "--show", "y.html", "--sites", "blocks.*")
    assert done.code == 2
    assert (
        "no attention has a name like 'blocks.*'; there are encoder.0.attend, encoder.1.attend, decoder.0"
        in done.err
    )


# ---- how long, and how much of the source


def test_the_least_and_the_most_tokens(call: Any, lively: str) -> None:
    """Tokens are characters here."""
    least = call("translate", lively, *TEXTS, "--min-length", "9", "--max-length", "10")
    assert (least.code, least.err) == (0, "")
    assert {len(line) for line in least.out.splitlines()} <= {9, 10}
    most = call("translate", lively, *TEXTS, "--max-length", "3", "--beam", "2")
    assert len(most.out.splitlines()) == 3
    assert max(len(line) for line in most.out.splitlines()) <= 3


def test_the_least_holds_beyond_the_usual_most(call: Any, lively: str) -> None:
    """Unless told, an answer ends at twice the source + 20 tokens: 28 here."""
    done = call("translate", lively, TEXTS[2], "--max-length", "0", "--min-length", "60")
    assert done.code == 0
    assert len(done.out.rstrip("\n")) >= 60


def test_coverage_chooses_another_answer(call: Any, lively: str) -> None:
    """The same answers of the beam, in another order: looking everywhere may outweigh the score."""
    words = ["translate", lively, TEXTS[1], "--beam", "8", "--n-best", "8", "--max-length", "6", "--json"]
    [plain, covered] = [json.loads(call(*words, "--coverage", value).out) for value in ("0", "50")]
    texts = [[row["text"], *(other["text"] for other in row["others"])] for row in (plain, covered)]
    assert sorted(texts[0]) == sorted(texts[1])
    assert texts[0] != texts[1]
    answer = load(lively).translate(TEXTS[1], Decoding(beam=8, n_best=8, max_length=6, coverage=50.0))
    assert covered["text"] == answer.text
    lines = call(*words[:-1], "--coverage", "50").out.splitlines()  # of the scores by which they are ordered
    assert lines == [f"{rank:.4f}\t{text}" for rank, text in zip(answer.ranks, texts[1], strict=True)]
    assert list(answer.ranks) == sorted(answer.ranks, reverse=True)
    assert len(answer.ranks) == 8


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--min-length 5 --max-length 5", "min_length must be below max_length = 5"),
        ("--min-length -1", "--min-length"),
        ("--max-length 99999999", "max_length must lie in [0, 1,048,576), got 99999999"),
        ("--coverage -1 --beam 3", "--coverage"),
        ("--coverage nan --beam 3", "coverage"),
        ("--coverage 1", "coverage chooses among the answers of a beam; set beam above 1"),
        ("--n-best 0", "--n-best"),
        ("--n-best 3 --temperature 1", "sampling gives one answer"),
        ("--dictionary nosuch.tsv", "there is no file nosuch.tsv"),
        ("--dictionary .", ". is a directory"),
        ("--alignments .", "--alignments"),
        ("--alignments no/such/links", "there is no folder no/such"),
        ("--output x --alignments x", "--alignments"),
        ("--show no/such/x.svg", "no/such"),
        ("--show x.pdf", "x.pdf"),
        (
            "--show x.svg --sites nosuch.*",
            "no site has a name like 'nosuch.*'; there are encoder.l0, encoder.l0_reverse, attend, cell",
        ),
        ("--show x.pdf --json", "x.pdf"),
    ],
)
def test_what_is_asked_wrongly_leaves_nothing(
    call: Any, lively: str, words: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REGARD_DATA", raising=False)
    done = call("translate", lively, "a b", *words.split())
    assert (done.code, done.out) == (2, "")
    assert said in " ".join(done.err.split())
    assert "Traceback" not in done.err
    assert listed() == []


@pytest.mark.parametrize("words", ["--coverage 1 --beam 3", "--replace-unknown", "--alignments x", "--show x.svg"])
def test_a_run_that_looks_at_nothing_is_asked_wrongly_where_it_looks(call: Any, vector: str, words: str) -> None:
    assert call("translate", vector, "a b").code == 0
    done = call("translate", vector, "a b", "--output", "out.txt", *words.split())
    assert (done.code, done.out) == (2, "")
    assert "Seq2seq" in done.err
    assert done.err.count("\n") == 1
    assert listed() == []


# ---- unknown words


def test_unknown_words_are_copied_from_the_source(call: Any, worded: str) -> None:
    kept = call("translate", worded, *TEXTS)
    known = set(kept.out.split())
    copied = call("translate", worded, *TEXTS, "--replace-unknown")
    assert (copied.code, copied.err) == (0, kept.err)
    assert kept.err.startswith("3 texts have characters that this model does not know and cannot read: 'a', ")
    lines = copied.out.splitlines()
    assert len(lines) == 3
    for text, line in zip(TEXTS, lines, strict=True):
        assert line.split(), "this run writes unknown words"
        assert set(line.split()) <= set(text.split()) | known
    assert call("translate", worded, *TEXTS, "--keep-unknown") == kept


def test_a_dictionary_says_what_an_unknown_word_becomes(call: Any, worded: str) -> None:
    copied, said = call("translate", worded, *TEXTS, "--replace-unknown")[1:]
    letters = sorted(set(" ".join(TEXTS).split()))
    unknown = [letter for letter in letters if letter not in load(worded).tokenizer.inner.get_vocab()]
    assert unknown
    Path("words.tsv").write_text("".join(f"{letter}\t{letter * 2}é\n" for letter in letters))
    looked_up = call("translate", worded, *TEXTS, "--dictionary", "words.tsv")
    assert (looked_up.code, looked_up.err) == (0, said)
    assert "é" in looked_up.out
    back = {f"{letter * 2}é": letter for letter in letters}
    assert [back.get(word, word) for word in looked_up.out.split()] == copied.split()
    Path("one.tsv").write_text("nothing\trien\n")  # what it does not know is copied
    assert call("translate", worded, *TEXTS, "--dictionary", "one.tsv").out == copied


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"a\tb\nc\n", "error: d.tsv, line 2: 1 column, but a line needs exactly two"),
        (b"a\tb\tc\n", "error: d.tsv, line 1: 3 columns"),
        (b"a\tb\n\n", "error: d.tsv, line 2: the line is empty"),
        (b"\xff\tb\n", "error: d.tsv, line 1: byte 1 (0xff) is not UTF-8"),
        (b"", "error: d.tsv is empty"),
    ],
)
def test_a_wrong_dictionary_names_file_and_line(call: Any, worded: str, data: bytes, said: str) -> None:
    Path("d.tsv").write_bytes(data)
    done = call("translate", worded, "a b", "--dictionary", "d.tsv", "--output", "out.txt")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(said)
    assert listed() == ["d.tsv"]


# ---- alignments and pictures


def test_alignments_have_a_line_for_each_text(call: Any, lively: str) -> None:
    texts = ["ab cd", "", "x"]
    done = call("translate", lively, *texts, "--alignments", "links.txt", "--n-best", "3")
    assert (done.code, done.err) == (0, "")
    assert len(done.out.splitlines()) == 9, "three lines for each, whether it is blank or not"
    links = Path("links.txt").read_text().splitlines()
    answers = load(lively).translate(texts, beam=3, n_best=3)
    assert links == [" ".join(f"{i}-{j}" for i, j in sorted(answer.alignment)) for answer in answers]
    assert (bool(links[0]), links[1]) == (True, "")
    for text, answer, line in zip(texts, answers, links, strict=True):
        for link in line.split():
            source, target = map(int, link.split("-"))
            assert source < len(text.split())
            assert target < len(answer.text.split())


def test_a_picture_is_drawn_of_an_answer_of_unknown_words_too(call: Any, worded: str) -> None:
    """Unknown words are left out of the text, but they looked at something."""
    assert call("translate", worded, TEXTS[0]).out == "\n"
    done = call("translate", worded, TEXTS[0], "--show", "seen.svg")
    assert done.err.startswith("wrote seen.svg\n1 text has characters that this model does not know")
    assert listed() == ["seen.svg"]
