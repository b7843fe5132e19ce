"""`regard train`: where the run goes, and what is refused or resumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from regard.data.made import reverse


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
    held = json.loads(call("evaluate", "r", "--json").out)["pairs"]
    assert 0 < held < 200, "one source in twenty was held out, and is what it is evaluated on"
    assert json.loads(call("evaluate", "r", "--data", "my pairs.tsv", "--json").out)["pairs"] == 200
