"""The command line in this process: what goes where, and with which exit code."""

from __future__ import annotations

import json
import re
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from regard.app import cli, cli_write
from regard.app.recipe import recipes
from regard.data.made import reverse
from regard.models import MODELS
from regard.tasks import Decoding, load

TEXTS = ["a b c", "q w e r t y", "z y"]


@pytest.fixture(scope="session")
def answers(lively: str) -> list[str]:
    """What the command should print for TEXTS."""
    found = [answer.text for answer in load(lively).translate(TEXTS)]
    assert len({*found, ""}) == 4
    return found


# ---- train


def test_train_leaves_a_run_and_prints_where(call: Any, recipe: str) -> None:
    done = call("train", recipe, "--set", "train.steps=2", "--out", "here/deep")
    assert (done.code, done.out) == (0, "here/deep\n")
    assert "step 2/2" in done.err
    assert "here/deep: best at step 2 of 2  valid_loss " in done.err
    card = Path("here/deep/README.md").read_text()
    assert f"`regard train {recipe} --set train.steps=2 --out here/deep`" in card


def test_train_without_out_takes_the_recipes_name(call: Any, recipe: str) -> None:
    done = call("train", recipe, "--set", "train.steps=1", "--set", "data.train_count=50")
    assert (done.code, done.out) == (0, "runs/tiny\n")
    assert Path("runs/tiny/model.safetensors").is_file()


def test_train_again_and_resume(call: Any, recipe: str) -> None:
    """One run through: again is refused, another recipe too, the same one is already done, more steps go on."""
    assert call("train", recipe, "--set", "train.steps=2", "--out", "r").code == 0
    again = call("train", recipe, "--set", "train.steps=2", "--out", "r")
    assert (again.code, again.out) == (2, "")
    assert again.err == "error: r already holds a training: use --resume to go on, or another --out\n"
    other = call("train", recipe, "--set", "train.steps=2", "--set", "model.embed=9", "--out", "r", "--resume")
    assert (other.code, other.out) == (2, "")
    assert "r was begun with other settings: model.embed was 8, now it is 9." in other.err
    same = call("train", recipe, "--set", "train.steps=2", "--out", "r", "--resume")
    assert (same.code, same.out) == (0, "r\n")
    assert "r is already trained: 2 steps." in same.err
    more = call("train", recipe, "--set", "train.steps=3", "--out", "r", "--resume")
    assert (more.code, more.out) == (0, "r\n")
    assert "Resuming after step 2" in more.err


def test_train_on_pairs_of_ones_own(call: Any, recipe: str) -> None:
    Path("my pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in reverse("train", 200)), encoding="utf-8")
    done = call("train", recipe, "--set", "data.made=", "--set", "data.train=my pairs.tsv", "--out", "r")
    assert done.code == 0
    assert "`my pairs.tsv`" in Path("r/README.md").read_text()
    unsaid = call("evaluate", "r")
    assert unsaid.code == 2
    assert "error: r was trained on files; say which pairs to judge it on: --data FILE" in unsaid.err
    assert call("evaluate", "r", "--data", "my pairs.tsv").code == 0


# ---- translate


def test_translate_prints_an_answer_a_line(call: Any, lively: str, answers: list[str]) -> None:
    done = call("translate", lively, *TEXTS)
    assert done == (0, "".join(f"{answer}\n" for answer in answers), "")


def test_translate_reads_a_file_and_writes_one(call: Any, lively: str, answers: list[str]) -> None:
    """With a byte order mark, CRLF, a blank line, and no newline at the end."""
    Path("in.txt").write_bytes(f"\ufeff{TEXTS[0]}\r\n\r\n{TEXTS[1]}\n{TEXTS[2]}".encode())
    done = call("translate", lively, "--input", "in.txt", "--output", "out.txt")
    assert done == (0, "", "")
    assert Path("out.txt").read_text() == f"{answers[0]}\n\n{answers[1]}\n{answers[2]}\n"
    assert sorted(path.name for path in Path().iterdir()) == ["in.txt", "out.txt"]


def test_translate_reads_stdin(
    call: Any, lively: str, answers: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "in.txt").write_text("\n".join(TEXTS))
    with open(tmp_path / "in.txt") as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert call("translate", lively).out.splitlines() == answers


def test_translate_waits_for_nobody_at_a_terminal(call: Any, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    done = call("translate", run)
    assert (done.code, done.out) == (2, "")
    assert "give texts as arguments, a file with --input, or lines on stdin" in done.err


def test_translate_writes_json_for_machines(call: Any, lively: str) -> None:
    done = call("translate", lively, *TEXTS, "", "é", "--json", "--beam", "4", "--best", "3")
    assert (done.code, done.err) == (0, "")
    rows = [json.loads(line) for line in done.out.splitlines()]
    for row, answer in zip(rows, load(lively).translate([*TEXTS, "", "é"], Decoding(beam=4, best=3)), strict=True):
        others = [{"text": text, "score": score} for text, score in answer.others]
        assert row == {"source": answer.source, "text": answer.text, "score": answer.score, "others": others}
        assert len(others) == (2 if answer.source else 0)
    assert '"é"' in done.out


def test_translate_prints_the_best_with_their_scores(call: Any, lively: str) -> None:
    done = call("translate", lively, TEXTS[0], "--best", "3")  # and so with a beam of 3
    answer = load(lively).translate(TEXTS[0], Decoding(beam=3, best=3))
    wanted = [f"{score:.4f}\t{text}" for text, score in ((answer.text, answer.score), *answer.others)]
    assert done.out.splitlines() == wanted
    assert len(wanted) == 3


def test_translate_draws_by_its_seed(call: Any, lively: str) -> None:
    drawn = [call("translate", lively, TEXTS[1], "--temperature", "20", "--seed", seed).out for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_what_the_command_does_not_say_the_runs_recipe_does(call: Any, lively: str, tmp_path: Path) -> None:
    folder = shutil.copytree(lively, tmp_path / "run")
    with open(folder / "recipe.toml", "a") as file:
        file.write("\n[decode]\nbeam = 3\nbest = 2\n")
    assert len(call("translate", folder, TEXTS[0]).out.splitlines()) == 2
    assert len(call("translate", folder, TEXTS[0], "--best", "1").out.splitlines()) == 1


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


# ---- output that fails


def test_a_line_too_long_is_named_before_any_work(call: Any, lively: str) -> None:
    Path("in.txt").write_text("a b\n" * 70 + "x" * 50 + "\n")
    Path("out.txt").write_text("from before")
    done = call("translate", lively, "--input", "in.txt", "--output", "out.txt")
    assert (done.code, done.out) == (2, "")
    assert "in.txt, line 71: " in done.err
    assert "has 51 tokens with the end token and this model takes 40" in done.err
    assert Path("out.txt").read_text() == "from before"
    assert sorted(path.name for path in Path().iterdir()) == ["in.txt", "out.txt"]


def test_no_output_is_left_after_ctrl_c(call: Any, lively: str, monkeypatch: pytest.MonkeyPatch) -> None:
    line = cli_write.as_line

    def press(*args: Any) -> str:
        signal.raise_signal(signal.SIGINT)
        return line(*args)

    monkeypatch.setattr(cli_write, "as_line", press)
    done = call("translate", lively, *TEXTS, "--output", "out.txt")
    assert done == (1, "", "stopped\n")
    assert not list(Path().iterdir())


def test_a_device_is_written_to_and_not_replaced(call: Any, lively: str, tmp_path: Path) -> None:
    link = tmp_path / "null"
    link.symlink_to("/dev/null")
    assert call("translate", lively, "a b", "--output", link) == (0, "", "")
    assert link.is_symlink()
    assert call("translate", lively, "a b", "--output", "/dev/null") == (0, "", "")
    assert Path("/dev/null").is_char_device()


# ---- asked wrongly


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "Usage: regard"),
        ("trian x", "No such command 'trian'"),
        ("translate", "Missing argument 'RUN'"),
        ("translate nosuch a", "error: there is no run 'nosuch': it is neither a folder nor one of those shipped"),
        ("translate RUN a --beam 0", "--beam"),
        ("translate RUN a --beam many", "--beam"),
        ("translate RUN a --beam 100000", "beam must be a whole number from 1 to 999"),
        ("translate RUN a --top-p 0", r"top_p must lie in (0, 1], got 0.0"),
        ("translate RUN a --temperature nan", "temperature"),
        ("translate RUN a --temperature 1 --best 2", "a draw gives one answer"),
        ("translate RUN a --length-penalty inf", "length_penalty must be finite"),
        ("translate RUN a --nosuch", "--nosuch"),
        ("translate RUN a --input b", "give texts or --input, not both"),
        (
            "translate RUN a --show x.gif",
            "cannot save 'x.gif' with the suffix '.gif': end the name in .png or .svg or",
        ),
        ("translate RUN --input nosuch.txt", "error: nosuch.txt does not exist"),
        ("translate RUN --input .", "error: . is a directory; name a file in it"),
        (
            "translate RUN a --output no/such/file",
            "error: there is no folder no/such to write file in; make it first",
        ),
        ("translate RUN a --output .", "error: . is a folder; let --output name a file"),
        ("evaluate RUN --data nosuch.tsv", "error: there is no file nosuch.tsv; give its path, or set REGARD_DATA"),
        ("evaluate .", "error: . is a folder without config.json, so it is no run; `regard train` makes one"),
        ("train nosuch", "error: there is no recipe 'nosuch'"),
        ("train bahdanau-pairs", "error: [data]: set either data.made to a generated set"),
        (
            "train bahdanau-pairs --set data.train=nosuch.tsv",
            "error: there is no file nosuch.tsv; give its path, or set",
        ),
        ("train bahdanau-dates --set model.scroe=dot", "unknown key of [model]: 'scroe'; did you mean 'score'?"),
        ("compare", "Missing argument 'RECIPE...'"),
        ("compare bahdanau-dates --seeds 0", "--seeds"),
        ("compare bahdanau-dates --vary model.score", "error: --vary wants section.key=value,value"),
    ],
)
def test_what_is_asked_wrongly_is_said_on_stderr(
    call: Any, run: str, words: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REGARD_DATA", raising=False)
    done = call(*words.replace("RUN", run).split())
    assert done.code == 2
    # Without arguments the help is the answer, wherever this typer prints it.
    assert said in " ".join((done.err if words else done.out + done.err).split())
    assert "Traceback" not in done.err
    if words:
        assert done.out == ""
    assert not list(Path().iterdir()), "nothing is left behind"


def test_empty_and_broken_input(call: Any, run: str) -> None:
    Path("empty.txt").write_bytes(b"")
    done = call("translate", run, "--input", "empty.txt")
    assert (done.code, done.err) == (2, "error: empty.txt is empty; it needs one text a line\n")
    Path("latin.txt").write_bytes(b"good\nna\xefve\n")
    done = call("translate", run, "--input", "latin.txt")
    assert done.code == 2
    assert "error: latin.txt, line 2: byte 3 (0xef) is not UTF-8; convert the file to UTF-8" in done.err


def test_debug_shows_where_and_nothing_else_does(call: Any) -> None:
    plain = call("translate", "nosuch", "a")
    assert (plain.code, "Traceback" in plain.err) == (2, False)
    debug = call("--debug", "translate", "nosuch", "a")
    assert (debug.code, debug.out) == (2, "")
    assert "Traceback (most recent call last)" in debug.err
    assert debug.err.endswith(plain.err)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyError("weird"), 1, "error: KeyError: 'weird' (`regard --debug ...` shows where)\n"),
        (MemoryError(), 1, "error: MemoryError\n"),
        (ValueError("too long"), 1, "error: too long\n"),
        (OSError(28, "No space left on device", "x/y"), 1, "error: x/y: No space left on device\n"),
        (OSError("the disk is full"), 1, "error: the disk is full\n"),
        (KeyboardInterrupt(), 1, "stopped\n"),
    ],
)
def test_what_fails_is_one_line(
    error: BaseException, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.explain(error) == code
    assert capsys.readouterr() == ("", said)


COMMANDS = get_command(cli.app).commands  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_an_answer_and_tells_every_option(call: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In full also on a narrow terminal."""
    monkeypatch.setenv("COLUMNS", "80")
    done = call(name, "--help")
    assert (done.code, done.err) == (0, "")
    assert f"Usage: regard {name}" in done.out
    assert call(name, "-h") == done
    for option in COMMANDS[name].params:
        assert option.help, f"{option.name} should say what it is"
        if option.param_type_name == "option":
            for word in (*option.opts, *option.secondary_opts):
                assert re.search(rf"(?<!\S){re.escape(word)}(?!\S)", done.out), f"--help should tell {word}"
    assert "Traceback" not in done.out


def test_the_first_help_names_every_command(call: Any) -> None:
    done = call("--help")
    assert (done.code, done.err) == (0, "")
    assert {"demo", "models", "train", "evaluate", "align", "translate", "compare"} <= set(COMMANDS)
    assert all(name in done.out for name in COMMANDS)
    assert "--debug" in done.out


def test_models_lists_every_system_paper_and_recipe(call: Any) -> None:
    done = call("models")
    assert (done.code, done.err) == (0, "")
    assert {"seq2seq", "bahdanau", "luong"} <= set(MODELS)
    begun = {line.split()[0] for line in done.out.splitlines()[1:] if line[:1].strip()}
    assert begun == set(MODELS), "each has a row of its own"
    for model in MODELS.values():
        assert model.paper.split(",")[0] in done.out
    for name in recipes():
        assert name in done.out
