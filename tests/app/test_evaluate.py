"""`regard evaluate`: one run or several, files of every form, and files that are wrong."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from regard.data.made.pairs import reverse
from regard.tasks.core.table import load, load_as
from regard.tasks.translate import prepare
from regard.tasks.translate.evaluate import evaluate
from regard.tasks.translate.run import Translator

PAIRS = reverse("test", 6)
SOURCES, TARGETS = ["".join(f"{pair[side]}\n" for pair in PAIRS) for side in (0, 1)]
SCORED = ["bleu", "tokenised_bleu", "chrf"]
MEASURED = {"exact_match": 2, **dict.fromkeys(SCORED, 2), "perplexity": 4, "loss": 4}  # digits in the table


def tsv(path: str = "pairs.tsv") -> str:
    Path(path).write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    return path


def table(run: str, pairs: list[tuple[str, str]], **options: Any) -> dict[str, Any]:
    """What the command should say of a run."""
    return evaluated(run, tuple(pairs), **options)


@cache
def evaluated(run: str, pairs: tuple[tuple[str, str], ...], **options: Any) -> dict[str, Any]:
    translator = load_as(run, Translator, "translate")
    examples = [(source, (target,)) for source, target in pairs]
    data = prepare.TestPairs(prepare.pair_data(pairs, translator, 4096), examples)
    return evaluate(translator, data, options=options).to_dict()


# ---- one run


def test_a_run_is_evaluated_on_the_test_split(call: Any, lively: str) -> None:
    done = call("evaluate", lively, "--json")
    assert (done.code, done.err) == (0, "")
    result = json.loads(done.out)
    assert result == {
        "run": lively,
        "data": "20 generated examples (reverse)",
        **table(lively, reverse("test", 20)),
    }
    assert [name for name in result if name in MEASURED] == list(MEASURED)
    assert result["pairs"] == 20 == sum(bucket["sentences"] for bucket in result["bleu_by_length"])
    plain = call("evaluate", lively)
    assert (plain.code, plain.err) == (0, "")
    lines = dict(re.split(r":? +", line, maxsplit=1) for line in plain.out.splitlines()[: 1 + len(MEASURED)])
    assert lines == {"pairs": "20"} | {name: f"{result[name]:.{digits}f}" for name, digits in MEASURED.items()}
    assert plain.out.count("bleu, ") == len(result["bleu_by_length"])
    for name in SCORED:
        assert f"\n{name}: {result[f'{name}_signature']}" in plain.out


def test_perfect_answers_get_full_marks(call: Any, lively: str) -> None:
    """Whatever the run answers, taken as the references."""
    texts = [source for source, _ in PAIRS]
    answers = [answer.text for answer in load(lively).translate(texts)]
    Path("own.tsv").write_text("".join(f"{text}\t{answer}\n" for text, answer in zip(texts, answers, strict=True)))
    result = json.loads(call("evaluate", lively, "--data", "own.tsv", "--json").out)
    assert result["exact_match"] == result["chrf"] == 100
    # One of several references is enough.
    rows = zip(texts, TARGETS.splitlines(), answers, strict=True)
    Path("two.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    assert json.loads(call("evaluate", lively, "--data", "two.tsv", "--json").out)["exact_match"] == 100


@pytest.mark.parametrize("form", ["tsv", "tsv.gz", "csv", "jsonl", "files", "references"])
def test_the_same_pairs_in_another_form_are_evaluated_the_same(call: Any, lively: str, form: str) -> None:
    words = [tsv()]
    if form == "tsv.gz":
        Path("pairs.tsv.gz").write_bytes(gzip.compress(Path("pairs.tsv").read_bytes()))
        words = ["pairs.tsv.gz"]
    elif form == "csv":
        Path("p.csv").write_text("id,iso,raw\n" + "".join(f'1,"{b}",{a}\n' for a, b in PAIRS))
        words = ["p.csv", "--columns", "raw,iso"]
    elif form == "jsonl":
        Path("p.jsonl").write_text("".join(json.dumps({"en": a, "de": [b]}) + "\n" for a, b in PAIRS))
        words = ["p.jsonl", "--columns", "en,de"]
    elif form == "files":
        Path("p.en").write_text(SOURCES)
        Path("p.de").write_text(TARGETS)
        words = ["p.{en,de}"]
    elif form == "references":  # the same one twice adds nothing
        for name, text in (("p.en", SOURCES), ("p.a", TARGETS), ("p.b", TARGETS)):
            Path(name).write_text(text)
        words = ["p.{en,a,b}"]
    done = call("evaluate", lively, "--data", *words, "--beam", "3", "--json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    wanted = {"run": lively, "data": words[0], **table(lively, PAIRS, beam=3)}
    assert {name: found[name] for name in MEASURED} == {name: wanted[name] for name in MEASURED}
    assert "nrefs:2" in found["bleu_signature"] if form == "references" else found == wanted


def test_columns_choose_and_may_be_turned_round(call: Any, lively: str) -> None:
    turned = json.loads(call("evaluate", lively, "--data", tsv(), "--columns", "2,1", "--json").out)
    assert turned["perplexity"] == table(lively, [(b, a) for a, b in PAIRS])["perplexity"]


def test_the_beam_is_the_commands_else_the_recipes(call: Any, lively: str, tmp_path: Path) -> None:
    folder = shutil.copytree(lively, tmp_path / "run")
    recipe = (folder / "recipe.toml").read_text()
    (folder / "recipe.toml").write_text(recipe.replace("[decode]", "[decode]\nbeam = 3\nn_best = 2"))
    for words, beam in (([], 3), (["--beam", "5"], 5)):
        found = json.loads(call("evaluate", folder, "--data", tsv(), *words, "--json").out)
        assert found == {"run": str(folder), "data": "pairs.tsv", **table(lively, PAIRS, beam=beam)}
    assert table(lively, PAIRS, beam=3) != table(lively, PAIRS, beam=5)


# ---- several


def test_several_runs_stand_side_by_side(call: Any, run: str, lively: str, vector: str) -> None:
    done = call("evaluate", lively, run, vector, "--data", tsv())
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].split() == ["run", lively, run, vector]
    assert lines[1].split() == ["pairs", "6", "6", "6"]
    tables = [table(one, PAIRS) for one in (lively, run, vector)]
    for line, (name, digits) in zip(lines[2:], MEASURED.items(), strict=False):
        assert line.split() == [name, *(f"{one[name]:.{digits}f}" for one in tables)]
    assert all(f"\n{name}: {tables[0][f'{name}_signature']}\n" in done.out for name in SCORED)
    for other in (run, vector):
        at = lines.index(f"{other} against {lively}, paired bootstrap of 1,000 test sets:")
        for line, name in zip(lines[at + 1 :], SCORED, strict=False):
            number = r"[+-]\d+\.\d\d"
            assert re.fullmatch(rf"  {name}: {number}, 95 % within {number} to {number}, p = [01]\.\d\d\d", line)


def test_several_runs_in_json_say_how_they_differ_from_the_first(call: Any, run: str, lively: str) -> None:
    done = call("evaluate", run, lively, "--data", tsv(), "--json")
    assert (done.code, done.err, done.out.count("\n")) == (0, "", 1)
    first, second = json.loads(done.out)
    against = second.pop("against_first")
    assert first == {"run": run, "data": "pairs.tsv", **table(run, PAIRS)}
    assert second == {"run": lively, "data": "pairs.tsv", **table(lively, PAIRS)}
    assert list(against) == SCORED
    for name, one in against.items():
        assert one["difference"] == pytest.approx(second[name] - first[name])
        low, high = one["interval"]
        assert low <= one["difference"] <= high
        assert 0 < one["p"] <= 1
    turned = json.loads(call("evaluate", lively, run, "--data", tsv(), "--json").out)
    assert turned[1]["against_first"]["chrf"]["difference"] == -against["chrf"]["difference"] != 0


def test_runs_of_different_sets_need_a_file(call: Any, run: str, tmp_path: Path) -> None:
    other = shutil.copytree(run, tmp_path / "other")
    recipe = (other / "recipe.toml").read_text()
    (other / "recipe.toml").write_text(recipe.replace('made = "reverse"', 'made = "sort"'))
    done = call("evaluate", run, other)
    assert (done.code, done.out) == (2, "")
    both = f"{other} would be tested on 20 generated examples (sort) and {run} on 20 generated examples (reverse)"
    assert f"{both}; name data for both" in done.err
    assert call("evaluate", run, other, "--data", tsv()).code == 0


def test_a_run_trained_on_files_is_evaluated_on_those_of_its_recipe(call: Any, run: str, tmp_path: Path) -> None:
    """Without --data: the test file, else the validation file; a file that is gone is named with its run."""
    other = shutil.copytree(run, tmp_path / "other")
    recipe = (other / "recipe.toml").read_text()
    names = 'train = "my.tsv"\nvalid = "pairs.tsv"\ntest = "test.tsv"'
    (other / "recipe.toml").write_text(recipe.replace('made = "reverse"', names))
    done = call("evaluate", other)
    assert (done.code, done.out) == (2, "")
    told, error = done.err.splitlines()
    assert told == "evaluating on test.tsv, as the recipe says"
    assert error.startswith("error: the test data of the recipe: there is no file test.tsv")
    assert error.endswith(
        "relative to the current folder, as in training); or name other data: --data FILE, in Python "
        "evaluate(FILE) or evaluate(rows)"
    )
    tsv("test.tsv")
    done = call("evaluate", other, "--json")
    assert done.err == "evaluating on test.tsv, as the recipe says\n"
    assert json.loads(done.out) == {"run": str(other), "data": "test.tsv", **table(run, PAIRS)}
    assert call("evaluate", other).out.endswith("\n\nevaluated on test.tsv\n")
    tsv("pairs.tsv")
    (other / "recipe.toml").write_text(recipe.replace('made = "reverse"', names.rpartition("\n")[0]))
    why = "pairs.tsv (validation data, by which the weights were chosen)"
    assert json.loads(call("evaluate", other, "--json").out)["data"] == why
    (other / "recipe.toml").write_text(recipe.replace('made = "reverse"', names))
    done = call("evaluate", run, other)
    assert (done.code, done.out) == (2, "")
    assert (
        f"{other} would be tested on test.tsv and {run} on 20 generated examples (reverse); name data for both"
        in done.err
    )


def test_a_run_is_not_set_against_itself(call: Any, run: str, vector: str) -> None:
    done = call("evaluate", run, vector, run)
    assert (done.code, done.out) == (2, "")
    assert f"{run} is named twice" in done.err
    assert vector not in done.err


# ---- the picture


@pytest.mark.parametrize(("name", "begins"), [("lengths.svg", b"<?xml"), ("lengths.PNG", b"\x89PNG")])
def test_bleu_by_length_is_drawn(call: Any, run: str, lively: str, name: str, begins: bytes) -> None:
    done = call("evaluate", run, lively, "--data", tsv(), "--show", name)
    assert (done.code, done.err) == (0, f"wrote {name}\n")
    assert "pairs" in done.out
    assert Path(name).read_bytes().startswith(begins)
    assert sorted(path.name for path in Path().iterdir()) == [name, "pairs.tsv"]


@pytest.mark.parametrize("folder", ["runs", "a-folder-with-a-name/that-is-rather-long/and-another-one"])
def test_each_curve_is_told_by_the_name_of_its_run(call: Any, run: str, lively: str, folder: str) -> None:
    Path(folder).mkdir(parents=True)
    for name, one in (("first", run), ("second", lively)):
        (Path(folder) / name).symlink_to(one)
    call("evaluate", f"{folder}/first", f"{folder}/second", "--data", tsv(), "--show", "lengths.svg")
    picture = Path("lengths.svg").read_text()
    assert re.search(r">[^<>]*first<", picture)
    assert re.search(r">[^<>]*second<", picture)


@pytest.mark.parametrize("show", ["lengths.gif", "lengths", ".svg", "-", "no/such/lengths.svg"])
def test_what_cannot_be_drawn_is_refused_before_any_work(call: Any, show: str) -> None:
    done = call("evaluate", "nosuch", "--show", show)
    assert (done.code, done.out) == (2, "")
    assert show in done.err, "the picture is looked at before the run"
    assert "no run 'nosuch'" not in done.err


def test_curves_are_not_drawn_as_a_page(call: Any, run: str) -> None:
    done = call("evaluate", run, "--data", "nosuch.tsv", "--show", "lengths.html")
    assert (done.code, done.out) == (2, "")
    assert "end the name in .svg or .png" in done.err


# ---- wrong data


GOOD = b"a b c\tc b a\n"
WRONG = {
    "not UTF-8": ("x.tsv", GOOD + b"na\xefve\tb\n", "x.tsv, line 2: byte 3 (0xef) is not UTF-8"),
    "UTF-16": ("x.tsv", "a b\tb a\n".encode("utf-16"), "x.tsv, line 1"),
    "NUL": ("x.tsv", GOOD * 2 + b"a\0b\tc\n", "x.tsv, line 3: holds a NUL byte"),
    "an empty line": ("x.tsv", GOOD + b"\n" + GOOD, "x.tsv, line 2: the line is empty"),
    "no target": ("x.tsv", GOOD + b"a b\t \n", "x.tsv, line 2: the target is empty"),
    "no tab": ("x.tsv", GOOD + b"a b c\n", "x.tsv, line 2: 1 column, but a line needs "),
    "no line": ("x.tsv", b"", "x.tsv is empty"),
    "a line of 10 MB": ("x.tsv", GOOD + b"a" * 10_000_000 + b"\tb\n", "x.tsv, line 2: is longer than 1,048,576"),
    "a cut gz": ("x.tsv.gz", gzip.compress(GOOD * 500)[:-20], "x.tsv.gz, line "),
    "no gz": ("x.tsv.gz", GOOD, "x.tsv.gz, line 1: here the .gz file is damaged"),
    "CSV without the column": (
        "x.csv",
        b"source,tgt\na,b\n",
        "x.csv, line 1: no column 'target'; the header names",
    ),
    "CSV with a short row": (
        "x.csv",
        b"source,target\na,b\nc\n",
        "x.csv, line 3: 1 column, but the first line has 2",
    ),
    "CSV with an open quote": ("x.csv", b'source,target\na,"b\n', "x.csv, line 2"),
    "JSONL without the key": ("x.jsonl", b'{"source": "a"}\n', "x.jsonl, line 1: no key 'target'"),
    "JSONL that is none": ("x.jsonl", b'{"source": "a", "target": "b"}\nhello\n', "x.jsonl, line 2: is not JSON"),
    "JSONL with a number": (
        "x.jsonl",
        b'{"source": "a", "target": 5}\n',
        "x.jsonl, line 1: 'target' must be text, got 5",
    ),
    "JSONL with a NUL": ("x.jsonl", b'{"source": "a\\u0000", "target": "b"}\n', "x.jsonl, line 1: holds a NUL"),
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("command", ["evaluate", "align"])
def test_wrong_data_names_file_and_line(call: Any, run: str, command: str, what: str) -> None:
    name, data, said = WRONG[what]
    Path(name).write_bytes(data)
    done = call(command, run, "--data", name)
    assert done.code == 2
    assert done.err.startswith(f"error: {said}"), done.err
    assert done.err.count("\n") == 1
    assert len(done.err) < 500
    if command == "evaluate":
        assert done.out == ""


@pytest.mark.parametrize("command", ["evaluate", "align"])
def test_files_of_unequal_length(call: Any, run: str, command: str) -> None:
    Path("x.en").write_text("a b\nc d\ne f\n")
    Path("x.de").write_text("b a\nd c\n")
    done = call(command, run, "--data", "x.{en,de}")
    assert done.code == 2
    assert done.err.startswith("error: x.de ends after line 2, but x.en goes on")
    Path("x.de").write_text("b a\n\nf e\n")
    done = call(command, run, "--data", "x.{en,de}")
    assert done.code == 2
    assert done.err.startswith("error: x.de, line 2: the line is empty")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--data x.{en,de}", "x.{en,de}: there is no file x.en"),
        ("--data x.{en}", "the braces must hold two names or more"),
        ("--data x.{en,de", "must have one pair of braces"),
        ("--data .", ". is a directory; name a file in it"),
        (
            "--data pairs.tsv --columns en",
            "columns must be SOURCE,TARGET, got 'en'",
        ),
        ("--data pairs.tsv --columns en,de", "columns of a file with tabs are numbers from 1, got 'en'"),
        ("--data pairs.tsv --columns 1,1", "source and target are both column '1'"),
        ("--data pairs.tsv --columns 1,3", "pairs.tsv, line 1: 2 columns, but a line needs at least 3"),
        ("--columns en", "columns must be SOURCE,TARGET"),
        (
            "--columns a,b",
            "columns a,b are named, and there are none in 20 generated examples (reverse); leave them out",
        ),
        (
            "--data {pairs,pairs}.tsv --columns 1,2",
            "columns 1,2 are named, and there are none in {pairs,pairs}.tsv",
        ),
    ],
)
def test_data_asked_for_wrongly(
    call: Any, run: str, words: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REGARD_DATA", raising=False)
    tsv()
    done = call("evaluate", run, *words.split())
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1


def test_data_is_found_where_the_environment_says(
    call: Any, lively: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "sets").mkdir()
    tsv(str(tmp_path / "sets" / "far.tsv"))
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "sets"))
    assert json.loads(call("evaluate", lively, "--data", "far.tsv", "--json").out)["pairs"] == 6


def test_a_run_that_is_not_there_is_told_before_another_is_evaluated(call: Any, lively: str) -> None:
    done = call("evaluate", lively, "nosuch", "--data", "nosuch.tsv")
    assert (done.code, done.out) == (2, "")
    assert "there is no run 'nosuch'" in done.err


def test_a_source_too_long_is_named_by_its_pair(call: Any, lively: str) -> None:
    Path("pairs.tsv").write_text("a b\tb a\n" + "x" * 50 + "\tx\n")
    done = call("evaluate", lively, "--data", "pairs.tsv")
    assert (done.code, done.out) == (2, "")
    assert "pairs.tsv, pair 2: " in done.err
    assert "has 51 tokens with the end token and this model takes 40" in done.err


def test_no_content_of_a_file_that_only_a_recipe_names_is_shown(call: Any, run: str, tmp_path: Path) -> None:
    """A stranger's recipe may name any file."""
    other = shutil.copytree(run, tmp_path / "other")
    recipe = (other / "recipe.toml").read_text()

    def name(file: str) -> None:
        (other / "recipe.toml").write_text(recipe.replace('made = "reverse"', f'train = "a"\ntest = "{file}"'))

    for content in ("secret:x:0:0\n", "secret\tword\tand more\n" + "secret" * 20 + "\tx\n", "secret\t\n"):
        Path("passwd").write_text(content)
        name("passwd")
        done = call("evaluate", other)
        assert (done.code, done.out) == (2, "")
        assert "error: the test data of the recipe, passwd, is not what this run can be evaluated on" in done.err
        assert "secret" not in done.err
        assert call("evaluate", other, "--data", "passwd").err.startswith("error: passwd, "), "you named it"
    name("/dev/null")
    done = call("evaluate", other)
    assert (done.code, done.out) == (2, "")
    assert "the test data of the recipe, /dev/null, is no plain file" in done.err
