"""Pictures of held-out inputs while a training goes on, for loggers: of every task whose models look."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from own_data import ROWS, recipe
from safetensors.torch import load_file

import regard
from regard.errors import RunError
from regard.learn.loggers import loggers
from regard.learn.loggers.logger import LOGGERS
from regard.tasks.core import held_out

OTHERS = {"caption": {"model": {"name": "show_attend_tell", "image_size": 16, "depths": [1, 1], "widths": [4, 8]}}}
MADE = {
    "recall": ("copy-ntm", {"data.max_length": 3, "data.valid_count": 250, "model.places": 8, "model.width": 4}),
    "play": ("bandit-snail", {"data.batch_size": 4, "data.valid_count": 2, "model.pulls": 6}),
    "ask": ("facts-bert", {"model.size": "tiny", "data.train_count": 40, "data.valid_count": 3}),
}


class Pictures:
    seen: list[tuple[int, dict[str, np.ndarray]]]

    def start(self, begun: Any) -> Any:
        type(self).seen = []
        return list

    def numbers(self, step: int, numbers: Any) -> None:
        """Those are tested beside the loggers."""

    def pictures(self, step: int, pictures: dict[str, np.ndarray]) -> None:
        self.seen.append((step, pictures))


@pytest.fixture
def pictures(monkeypatch: pytest.MonkeyPatch) -> type[Pictures]:
    monkeypatch.setitem(LOGGERS, "trackio", LOGGERS["trackio"]._replace(package="json"))
    monkeypatch.setattr(held_out, "SHOWN", 2)
    monkeypatch.setattr(loggers, "logger_named", lambda name: Pictures())
    return Pictures


def check(seen: list[tuple[int, dict[str, np.ndarray]]]) -> None:
    [(step, drawn)] = seen
    assert step == 2
    assert list(drawn) == [f"attention/{place}" for place in range(len(drawn))]
    assert 1 <= len(drawn) <= 2
    for pixels in drawn.values():
        assert (pixels.dtype, pixels.ndim, pixels.shape[-1]) == (np.uint8, 3, 3)
        assert len(np.unique(pixels)) > 2


@pytest.mark.parametrize("task", ["translate", "classify", "generate", "fill", "recognise", "caption"])
def test_a_training_shows_where_the_model_looks(
    task: str, pictures: type[Pictures], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And takes the very same steps as without. Of made data several are shown."""
    monkeypatch.setattr(held_out, "SHOWN", 1)
    told = recipe(task) | OTHERS.get(task, {})
    told["train"]["steps"] = 3
    plain = regard.train(told, out=tmp_path / "plain", data={"train": ROWS[task]})
    told["train"] |= {"log": ["trackio"], "eval_every": 2}
    regard.train(told, out=tmp_path / "logged", data={"train": ROWS[task]})
    check(pictures.seen[:1])
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in ("plain", "logged"))
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert plain.report


@pytest.mark.parametrize("task", MADE)
def test_so_does_one_on_made_data(task: str, pictures: type[Pictures], tmp_path: Path) -> None:
    name, changes = MADE[task]
    few = {"train.steps": 2, "train.eval_every": 2, "train.device": "cpu", "train.log": "trackio"}
    regard.train(name, out=tmp_path, set={**changes, **few})
    check(pictures.seen)


def test_a_model_without_attention_shows_none(pictures: type[Pictures], tmp_path: Path, capfd: Any) -> None:
    told = recipe("classify")
    told["model"]["pool"] = "mean"
    told["train"]["log"] = ["trackio"]
    regard.train(told, out=tmp_path, data={"train": ROWS["classify"]})
    assert pictures.seen == []
    assert "pictures" not in capfd.readouterr().err


def test_a_run_that_is_replaced_takes_what_its_loggers_left_with_it(tmp_path: Path, pictures: Any) -> None:
    told = recipe("translate")
    told["train"]["log"] = ["trackio"]
    regard.train(told, out=tmp_path / "run", data={"train": ROWS["translate"]})
    (tmp_path / "run/loggers/trackio").mkdir()
    (tmp_path / "run/loggers/trackio/old").write_text("old")
    del told["train"]["log"]
    with pytest.raises(RunError, match="already holds"):
        regard.train(told, out=tmp_path / "run", data={"train": ROWS["translate"]})
    regard.train(told, out=tmp_path / "run", data={"train": ROWS["translate"]}, overwrite=True)
    assert not (tmp_path / "run/loggers").exists()
