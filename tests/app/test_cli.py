"""What every command shares: exit codes, messages, help, and the list of systems."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import regard
from regard.app.cli import main as cli
from regard.errors import Interrupted, OutOfMemory
from regard.models import MODELS
from regard.tasks.core.recipe import read
from regard.tasks.core.recipe_files import recipes


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "Usage: regard"),
        ("trian x", "No such command 'trian'"),
        ("translate", "Missing argument 'RUN'"),
        ("translate nosuch a", "error: there is no run 'nosuch': it is neither a folder nor one of those shipped"),
        ("translate RUN a --beam 0", "--beam"),
        ("translate RUN a --beam many", "--beam"),
        ("translate RUN a --beam 100000", "beam must lie in [1, 1,000), got 100000"),
        ("translate RUN a --top-p 0", r"top_p must lie in (0, 1], got 0.0"),
        ("translate RUN a --temperature nan", "temperature"),
        ("translate RUN a --temperature 1 --n-best 2", "sampling gives one answer"),
        ("translate RUN a --length-penalty inf", "--length-penalty"),
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
        ("evaluate .", "error: . is a folder without config.json, so it is not a run; `regard train` makes one"),
        ("train nosuch", "error: there is no recipe 'nosuch'"),
        ("train bahdanau-pairs", "error: [data]: set either data.made to a generated set"),
        (
            "train bahdanau-pairs --set data.train=nosuch.tsv",
            "error: there is no file nosuch.tsv; give its path, or set",
        ),
        ("train bahdanau-dates --set model.scroe=dot", "unknown key of [model]: 'scroe'; did you mean 'score'?"),
        ("compare", "Missing argument 'RECIPE'"),
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
    assert done.code == 1
    assert "\n  latin.txt, line 2: byte 3 (0xef) is not UTF-8; convert the file to UTF-8" in done.err


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
        (
            MemoryError(),
            1,
            "error: this needs more memory than there is; ask for less at once, or take a smaller model\n",
        ),
        (
            OutOfMemory("answering needs more memory; lower --beam"),
            1,
            "error: answering needs more memory; lower --beam\n",
        ),
        (ValueError("too long"), 1, "error: too long\n"),
        (OSError(28, "No space left on device", "x/y"), 1, "error: x/y: No space left on device\n"),
        (OSError("the disk is full"), 1, "error: the disk is full\n"),
        (KeyboardInterrupt(), 130, "stopped\n"),
        (Interrupted("saved"), 130, "saved\n"),
        (Interrupted("saved", 15), 143, "saved\n"),
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
    assert not re.search(r"<[a-z]+(\[[a-z]+\])?>", done.out), "a value is named by a word, and a flag takes none"


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
        assert all(word in done.out for word in model.paper.split(",")[0].split())  # a narrow column breaks lines
    for name in recipes():
        assert f" {name} " in done.out


def test_models_lists_every_system_with_its_recipes(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    done = call("models")
    assert (done.code, done.err) == (0, "")
    for word in (*MODELS, *recipes(), "Vaswani et al. 2017", "Radford et al. 2019"):
        assert word in done.out
    assert {read_model(name) for name in recipes()} == set(MODELS)


def read_model(name: str) -> str:
    own = name.endswith(("-pairs", "-summaries", "-text", "-labelled", "-images", "-captions", "-questions"))
    return read(name, ["data.train=x"] if own else [])[0].model


def test_version_and_help_in_other_words(call: Any) -> None:
    done = call("--version")
    assert (done.code, done.out, done.err) == (0, f"regard {regard.__version__}\n", "")
    assert call("help") == call("--help")
    assert call("help", "translate") == call("translate", "--help")
    assert call("help", "trasnlate").code == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("trasnlate dates x", "Did you mean 'translate'?"),
        ("train", "Name a recipe, as bahdanau-dates, or a TOML file; `regard models` lists the recipes."),
        ("evaluate", "Name the folder of a run, or a shipped run, as dates; `regard models` lists those."),
        ("train bahdanau-dates --steps 3", "changed with --set, as in --set train.steps=..."),
        ("train bahdanau-dates --set trian.steps=3", "unknown section: 'trian'; did you mean 'train'?"),
        ("translate dates x --bean 3", "--beam"),
    ],
)
def test_what_was_probably_meant_is_said(call: Any, words: str, said: str) -> None:
    done = call(*words.split())
    assert (done.code, done.out) == (2, "")
    assert said in " ".join(done.err.split())


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - {"models", "demo"}))
def test_help_teaches_by_examples(call: Any, name: str) -> None:
    assert re.search(rf"^ +regard {name} \S+", call(name, "--help").out, re.MULTILINE)
