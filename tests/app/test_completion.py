"""Tab in a shell: asked as the shells ask, by environment variables."""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from regard.app.cli.completion import joined
from regard.app.cli.model_settings import model_names, model_settings, task_name
from regard.models import MODELS, blank
from regard.runs.shipped import shipped
from regard.tasks.core.recipe import in_toml, parse_change
from regard.tasks.core.recipe_files import recipes

ROOT = Path(__file__).parents[2]


@pytest.fixture
def bash(call: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What bash is offered for the last of the words, which it has split at =."""

    def complete(*words: str) -> list[str]:
        monkeypatch.setenv("_REGARD_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", "\n".join(["regard", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        done = call()
        assert (done.code, done.err) == (0, "")
        return [line for line in done.out.splitlines() if line]

    return complete


def test_commands_and_options(bash: Any) -> None:
    assert bash("tra") == ["train", "translate"]
    assert bash("translate", "--no") == ["--no-repeat-ngram"]
    assert "--version" in bash("--")


def test_recipes(bash: Any) -> None:
    assert bash("train", "luong-") == ["luong-dates", "luong-pairs"]
    assert set(bash("train", "")) == set(recipes())
    Path("own").mkdir()
    for name in ("own/mine.toml", "own/other.txt", "luong-mine.toml"):
        Path(name).touch()
    assert bash("train", "own/") == ["own/mine.toml"]
    assert bash("compare", "bahdanau-dates", "luong-") == ["luong-dates", "luong-pairs", "luong-mine.toml"]


def test_settings_of_the_recipe_that_was_typed(bash: Any) -> None:
    assert bash("train", "luong-pairs", "--set", "train.l") == [
        "train.learning_rate=",
        "train.label_smoothing=",
        "train.log=",
    ]
    offered = bash("train", "luong-pairs", "--set", "")
    assert {"data.train=", "tokens.kind=", "model.dim=", "train.steps=", "decode.beam="} <= set(offered)
    assert not {"model.encoder=", "model.vocabulary=", "data.truncate="} & set(offered)
    assert "model.encoder=" in bash("train", "bahdanau-pairs", "--set", "model.")
    assert "data.truncate=" in bash("train", "bert-labelled", "--set", "data.")
    assert "data.mask_probability=" in bash("train", "bert-text", "--set", "data.")
    assert "data.num_ops=" in bash("train", "vit-images", "--set", "data.")
    assert bash("train", "luong-pairs", "--set", "train.steps=9", "--set", "tokens.ki")[0] == "tokens.kind="
    assert bash("compare", "luong-pairs,model.dim=8", "--vary", "model.bi")[0] == "model.bidirectional="


def test_a_single_setting_comes_with_its_values_so_that_no_space_follows(bash: Any) -> None:
    assert bash("train", "luong-pairs", "--set", "train.learn") == [
        "train.learning_rate=",
        "train.learning_rate=0.005",
    ]
    ways = [f"model.weigh={way}" for way in ("soft", "hard", "local-m", "local-p")]
    assert bash("train", "luong-pairs", "--set", "model.wei") == ["model.weigh=", *ways]


def test_values_are_completed_after_the_equals_sign(bash: Any) -> None:
    """bash takes the = for a word of its own and replaces only what comes after it."""
    scores = ["dot", "scaled_dot", "general", "additive", "cosine", "location"]
    assert bash("train", "luong-pairs", "--set", "model.score", "=") == scores
    assert bash("train", "luong-pairs", "--set", "model.score", "=", "d") == ["dot"]
    assert bash("train", "luong-pairs", "--set", "model.score=d") == [
        "model.score=dot"
    ]  # = is no break in this one
    assert bash("train", "luong-pairs", "--set", "train.steps", "=") == ["1600"]
    assert bash("train", "luong-pairs", "--set", "model.tied", "=", "f") == ["false"]
    assert bash("train", "transformer-pairs", "--set", "model.size", "=", "b") == ["base", "big"]
    assert bash("train", "luong-pairs", "--set", "train.schedule", "=", "c") == ["constant", "cosine"]
    assert bash("train", "luong-pairs", "--set", "nosuch", "=", "c") == []


def test_a_list_is_offered_as_it_is_set(bash: Any) -> None:
    assert bash("train", "senet-images", "--set", "model.depths", "=") == ["[3,3,3]"]
    Path("own.toml").write_text('[model]\nname = "senet"\ndepths = [2, 2]\n[train]\nbetas = [0.9, 0.98]\n')
    assert bash("train", "own.toml", "--set", "model.depths", "=") == ["[2,2]"]
    assert bash("train", "own.toml", "--set", "train.betas", "=") == ["[0.9,0.98]"]


def test_words_that_bash_split() -> None:
    words = ["regard", "train", "a", "--set", "b", "=", "c", "--set", "d", "="]
    assert joined(words, 9) == (["regard", "train", "a", "--set", "b=c", "--set", "d="], 6, "d=")
    assert joined(words, 6) == (["regard", "train", "a", "--set", "b=c"], 4, "b=")
    assert joined(words, 4) == (["regard", "train", "a", "--set", "b"], 4, "")
    assert joined(["regard"], 0) == (["regard"], 0, "")


def test_runs(bash: Any) -> None:
    for name in ("runs/mine", "runs/deep/down", "runs/a b", "dated", "empty"):
        Path(name).mkdir(parents=True)
        if name != "empty":
            Path(name, "config.json").touch()
    assert bash("translate", "d") == ["dates", "dates-luong", "dates-seq2seq", "de-en", "dated"]
    assert bash("translate", "runs/") == [
        "runs/mine",
        "runs/deep/down",
    ]  # one that needs quotes is left to the shell
    assert bash("evaluate", "dates", "run") == ["runs/mine"]
    assert bash("train", "gpt2-text", "--from", "shak") == ["shakespeare", "shakespeare-rnnlm"]
    assert set(bash("export", "")) == {*shipped(), "dated", "runs/mine"}
    assert bash("translate", "e") == []


def test_words_with_few_choices(bash: Any) -> None:
    assert bash("export", "dates", "--dtype", "b") == ["bfloat16"]
    assert bash("compare", "bahdanau-dates", "--metric", "exact_") == ["exact_match"]
    assert bash("embed", "x", "--pool", "m") == ["mean"]
    assert bash("sweep", "luong-pairs", "--by", "va") == ["valid_loss"]


@pytest.mark.parametrize(
    "words",
    [
        ("train", "nosuch", "--set", "model."),
        ("train", "broken.toml", "--set", "model."),
        ("train", "model.toml", "--set", "model."),
        ("train", "--set", "=", "="),
        ("translate", "../../../../../../nosuch/"),
        ("translate", "secret/"),
        ("nosuch", "x"),
        ("train", "'", "--set", "train."),
        ("translate", "\udcff"),
        ("",),
    ],
)
def test_nothing_raises(bash: Any, words: tuple[str, ...]) -> None:
    Path("broken.toml").write_bytes(b"[data\xff")
    Path("model.toml").write_text("model = 3\n")
    Path("secret").mkdir(mode=0o000)
    assert all("Traceback" not in line for line in bash(*words))


@pytest.mark.parametrize(
    ("shell", "typed", "said"),
    [
        ("zsh", "regard train luong-p", '"luong-pairs":"'),
        ("zsh", "regard train luong-pairs --set model.score=d", '"model.score=dot"'),
        ("fish", "regard train luong-p", "luong-pairs\tYour own pairs"),
        ("fish", "regard train luong-pairs --set model.score=d", "model.score=dot"),
    ],
)
def test_other_shells(call: Any, monkeypatch: pytest.MonkeyPatch, shell: str, typed: str, said: str) -> None:
    monkeypatch.setenv("_REGARD_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", typed)
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    done = call()
    assert (done.code, done.err) == (0, "")
    assert said in done.out


BASH = """
eval "$(_REGARD_COMPLETE=source_bash regard)"
complete -p regard
COMP_WORDS=(regard train luong-pairs --set model.score = d) COMP_CWORD=6
_regard_completion regard
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """`regard` as a program, with a torch that cannot be imported, which shows that nobody wants it."""
    (tmp_path / "torch.py").write_text("raise SystemExit('torch was imported')")
    (tmp_path / "regard").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m regard "$@"\n')
    (tmp_path / "regard").chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}


def test_in_bash_itself_without_torch(environment: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", "--norc", "-c", BASH], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    registered, *offered = done.stdout.splitlines()
    assert "-F _regard_completion" in registered
    assert offered == ["dot"]


def at_keyboard(shell: str, environment: dict[str, str], *typed: tuple[str, str]) -> None:
    """A shell in a terminal of its own: each text is typed, and what the shell is to write then is waited for."""
    process, terminal = pty.fork()
    if not process:
        os.execvpe(shell, [shell, "-i"], environment)
    try:
        for keys, wanted in (("echo rea''dy\n", "ready"), *typed):
            os.write(terminal, keys.encode())
            seen, end = "", time.monotonic() + 60
            while wanted not in seen and time.monotonic() < end:
                if select.select([terminal], [], [], 0.2)[0]:
                    seen += os.read(terminal, 1 << 16).decode(errors="replace")
            assert wanted in seen, f"{shell}: {keys!r} gave {seen!r}"
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(terminal)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_installed_and_used_in_a_shell(environment: dict[str, str], tmp_path: Path, shell: str) -> None:
    """From the first Tab on."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    home = tmp_path / "home"
    home.mkdir()
    (home / ".zshrc").write_text("")  # else zsh greets its new user with questions
    (home / ".local/share/fish/generated_completions").mkdir(parents=True)  # else fish makes them of all manuals
    folders = {name: "" for name in environment if name.startswith("XDG_")}
    environment = {
        **environment,
        **folders,
        "HOME": str(home),
        "ZDOTDIR": str(home),
        "TERM": "xterm",
        "SHELL": shell,
    }
    at_keyboard(shell, environment, ("regard --install-completion\n", "will take effect"))
    recipe, setting, run = (
        ("regard train luong-p\t", "airs"),
        ("--set model.score=d\t", "ot"),
        ("look dates-s\t", "eq2seq"),
    )
    at_keyboard(shell, environment, recipe, setting, ("\x15regard ", "regard"), run)


# ---- the settings of models, read from their files


@pytest.mark.parametrize("name", MODELS)
def test_settings_read_from_the_text_are_those_of_the_class(name: str) -> None:
    assert model_names() == tuple(MODELS)
    config = MODELS[name].Config
    assert task_name(name) == MODELS[name].task
    fields = {field.name: field for field in config.__dataclass_fields__.values()}
    found = model_settings(name)
    from_data = {"vocabulary", "source_vocabulary", "labels"}
    sizes = getattr(MODELS[name], "SIZES", {})
    assert set(found) == (set(fields) - from_data) | {"name"} | ({"size"} if sizes else set())
    assert found["name"].default == name
    if sizes:
        auto = ["auto"] * hasattr(MODELS[name], "AUTO_SIZES")
        assert found["size"].choices == (*sizes, *auto)
    usual = config(**blank(name))
    for key in set(found) - {"name", "size"}:
        choices = (
            ("true", "false") if isinstance(getattr(usual, key), bool) else fields[key].metadata.get("choices", ())
        )
        assert found[key].choices == tuple(choices), key
        if found[key].default:
            assert parse_change(f"model.{key}={found[key].default}").value == in_toml(key, fields[key].default), key
