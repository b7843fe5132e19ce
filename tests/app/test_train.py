"""`regard train`: where the run goes, and what is refused or resumed."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from own_data import ROWS
from own_data import recipe as own_recipe

from regard.app.cli import main
from regard.data.made.pairs import reverse
from regard.learn.progress import say
from regard.tasks.core.recipe import dump
from regard.tasks.core.table import TASKS

no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")


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
    assert again.err.startswith("error: r already holds a training: use --resume (in Python: resume=True) to go on")
    assert again.err.count("\n") == 1
    other = call("train", recipe, "--set", "train.steps=2", "--set", "model.embed=9", "--out", "r", "--resume")
    assert (other.code, other.out) == (2, "")
    assert "r was begun with other settings: model.embed was 8, now it is 9." in other.err
    same = call("train", recipe, "--set", "train.steps=2", "--out", "r", "--resume")
    assert (same.code, same.out) == (0, "r\n")
    assert "r is already trained: 2 steps." in same.err
    more = call("train", recipe, "--set", "train.steps=3", "--out", "r", "--resume")
    assert (more.code, more.out) == (0, "r\n")
    assert "Resuming after step 2" in more.err


def test_train_overwrites_a_run_and_refuses_changed_data(call: Any) -> None:
    Path("own.toml").write_text(dump({**own_recipe("classify"), "data": {"train": "texts"}}))
    for at, (text, label) in enumerate(ROWS["classify"]):
        Path("texts", label).mkdir(parents=True, exist_ok=True)
        Path("texts", label, f"{at}.txt").write_text(text)
    assert call("train", "own.toml", "--out", "r").code == 0
    assert "--overwrite" in call("train", "own.toml", "--out", "r").err
    assert call("train", "own.toml", "--out", "r", "--overwrite").code == 0
    assert "`regard train own.toml --out r`" in Path("r/README.md").read_text()
    assert json.loads(call("evaluate", "r", "--data", "texts", "--json").out)["count"] == 60
    Path("texts/a/0.txt").write_text("the mat")
    more = ["train", "own.toml", "--out", "r", "--set", "train.steps=3", "--resume"]
    refused = call(*more)
    assert (refused.code, refused.out) == (2, "")
    assert "error: the data is not what the training in r was begun with: texts/a: " in refused.err
    accepted = call(*more, "--accept-changed-data")
    assert (accepted.code, accepted.out) == (0, "r\n")
    assert "Going on with changed data: texts/a: " in accepted.err


@pytest.mark.parametrize(("number", "code", "said"), [(2, 130, "stopped\n"), (15, 143, "stopped by SIGTERM\n")])
def test_a_signal_before_the_first_step_says_that_nothing_is_lost(
    call: Any, recipe: str, signals_heard: None, monkeypatch: pytest.MonkeyPatch, number: int, code: int, said: str
) -> None:
    def survey(*args: Any) -> None:
        try:
            signal.raise_signal(number)
        finally:
            if number == signal.SIGTERM:  # `timeout` sends it twice
                signal.raise_signal(number)

    def say_slowly(text: str) -> None:
        say(text)
        time.sleep(0.03)  # the signal's exception is raised again every 0.01 s until it has arrived

    monkeypatch.setattr(TASKS["translate"].desk, "survey", survey)
    monkeypatch.setattr(main, "say", say_slowly)
    done = call("train", recipe, "--out", "here/deep")
    lost = "here/deep holds no step yet: nothing was trained that could be lost\n"
    assert (done.code, done.out) == (code, "")
    assert done.err in (said + lost, lost + said)
    assert not Path("here").exists()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_train_on_pairs_of_ones_own(call: Any, recipe: str) -> None:
    Path("my pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in reverse("train", 60)), encoding="utf-8")
    done = call("train", recipe, "--set", "data.made=", "--set", "data.train=my pairs.tsv", "--out", "r")
    assert done.code == 0
    assert "`my pairs.tsv`" in Path("r/README.md").read_text()
    held = json.loads(call("evaluate", "r", "--json").out)["pairs"]
    assert 0 < held < 60, "one source in twenty was held out, and is what it is evaluated on"
    assert json.loads(call("evaluate", "r", "--data", "my pairs.tsv", "--json").out)["pairs"] == 60


@pytest.mark.parametrize(
    ("recipe_name", "change", "said"),
    [
        pytest.param(
            "bahdanau-dates", "train.device=cuda", "error: device 'cuda' is not here; use auto or cpu", marks=no_gpu
        ),
        pytest.param(
            "bahdanau-dates",
            "train.precision=float16",
            "error: precision float16 needs a CUDA GPU; on cpu use",
            marks=no_gpu,
        ),
        (
            "luong-pairs",
            "tokens.size=5",
            "error: [tokens]: size must be at least 260 for bpe tokens, got 5: the special",
        ),
        ("gpt2-text", "tokens.size=5", "error: [tokens]: size must be at least 257 for bpe tokens"),
        ("bert-text", "tokens.size=5", "error: [tokens]: size must be at least 6 for wordpiece tokens"),
        ("bahdanau-dates", "tokens.size=-1", "error: [tokens]: size must be at least 5 for character tokens"),
        ("bert-text", "tokens.normalise=nfc", "error: [tokens]: BERT has a normal form of its own"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_read(
    call: Any, recipe_name: str, change: str, said: str
) -> None:
    own = [] if recipe_name.endswith("-dates") else ["--set", "data.train=nosuch"]
    done = call("train", recipe_name, *own, "--set", change)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(said), done.err
    assert not list(Path().iterdir())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("luong-pairs --set data.train=p.tsv --set model.max_positions=3", "set model.max_positions="),
        ("gpt2-text --set data.train=p.tsv --set data.length=500", "data.length is 500 and the model takes 64"),
        ("gpt2-text --set data.train=p.tsv --set data.stride=500", "stride must be at most the length of a window"),
        (
            "bahdanau-dates --set data.train_count=9 --out p.tsv",
            "p.tsv is a file, and a run is a folder; take another --out",
        ),
    ],
)
def test_settings_that_do_not_fit_the_data_are_asked_wrongly(call: Any, words: str, said: str) -> None:
    Path("p.tsv").write_text("".join(f"{number} words are here\tno. {number}\n" for number in range(60)))
    small = ("model.dim=8", "model.embed=8") if words.startswith("luong") else ()
    done = call("train", *words.split(), *(word for one in small for word in ("--set", one)))
    assert (done.code, done.out) == (2, "")
    assert said in done.err
