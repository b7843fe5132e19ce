"""The rows of claims.toml, and what the reader refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from claim_rows import ROW, row
from typer.main import get_command

from benchmarks.__main__ import load
from regard.app.cli import main as cli
from regard.claims.claim import claims, find_claims, read_claims
from regard.claims.reproduce import _job
from regard.errors import BadInput, RecipeError
from regard.runs.shipped import shipped

COMMANDS = dict(get_command(cli.app).commands)  # type: ignore[attr-defined]


def toml(folder: Path, text: str) -> Path:
    path = folder / "claims.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", claims())
def test_commands_are_commands(name: str, tmp_path: Path) -> None:
    """Every option is known, every recipe is there and takes these settings, every run is shipped or trained."""
    claim = claims()[name]
    for seed in claim.seeds:
        *trainings, evaluation = claim.steps(seed, tmp_path)
        if claim.is_speed:
            assert set(evaluation[2:]) - {"--device", "cpu", "cuda"} <= set(load())
            continue
        for words in trainings:
            _job(words, None)
        for command, *words in (*trainings, evaluation):
            COMMANDS[command].make_context(command, [*words])
        assert evaluation[1] in shipped() or Path(evaluation[1]).parent == tmp_path


def test_runs_of_one_name_are_trained_alike() -> None:
    trained: dict[str, str] = {}
    for claim in claims().values():
        for command in claim.commands[:-1]:
            assert trained.setdefault(command.split()[-1], command) == command


def test_pages_are_there() -> None:
    results = Path(__file__).parents[2] / "results"
    assert not [name for name, claim in claims().items() if not (results / claim.page).is_file()]


def test_steps_have_the_seed_and_the_folder() -> None:
    folder = Path("my runs; echo")
    assert row().steps(4, folder) == [
        ["train", "copy-ntm", "--set", "train.seed=4", "--out", "my runs; echo/copy-4"],
        ["evaluate", "my runs; echo/copy-4", "--lengths", "40"],
    ]


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("accuracy", 90.5),
        ("100 - accuracy", 9.5),
        ("players.random.reward", 2.0),
        ("reward / players.random.reward", 3.5),
    ],
)
def test_metrics_are_found(metric: str, value: float) -> None:
    evaluation = {"accuracy": 90.5, "reward": 7, "players": {"random": {"reward": 2}}}
    assert row(metric=metric).measured(evaluation) == value


@pytest.mark.parametrize("metric", ["bleu", "accuracy.low", "100 - bleu", "players.ucb1.reward"])
def test_a_metric_that_is_not_there_is_named(metric: str) -> None:
    evaluation = {"accuracy": 90.5, "players": {"random": {"reward": 2}}}
    with pytest.raises(BadInput, match=f"the evaluation has no {metric.removeprefix('100 - ')}; it has accuracy"):
        row(metric=metric).measured(evaluation)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"value": 0.5, "values": ()}, r"value must lie in low to high, 0 to 0.4, got 0.5"),
        ({"values": (0.2,)}, "values must be one for each of 2 seeds, got 1"),
        ({"values": (0.3, 0.3)}, "value must be the mean of values, 0.3, got 0.25"),
        ({"seeds": (3, 3)}, "seeds must be one or more, each once"),
        ({"seeds": ()}, "seeds must be one or more"),
        ({"date": "19.11.2026"}, "date must be a day, as 2026-11-15"),
        ({"unit": "percent"}, "unit must be one of"),
        ({"commands": ()}, "the last command must be an evaluation"),
        ({"commands": ("regard evaluate 'dates",)}, "commands must be words as in a shell"),
        ({"commands": ROW["commands"][:1]}, "the last command must be an evaluation"),
        ({"commands": ("rm -r {out}", ROW["commands"][1])}, "a command before the last must be `regard train"),
        ({"commands": ("regard train x --out elsewhere", "regard evaluate dates")}, "must be `regard train"),
        ({"commands": ROW["commands"][1:]}, "is trained by none of the commands"),
        ({"commands": ("regard evaluate dates",)}, "several seeds need a training with {seed}"),
        ({"commands": ("python -m benchmarks ntm",)}, "must be the only command, without seeds"),
        ({"learned_below": 1}, "the share of seeds that learn has no values of its own"),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        row(**changes)


def test_the_file_is_strict(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"unknown key of \[a\]: 'valu'; did you mean 'value'"):
        read_claims(toml(tmp_path, "[a]\nvalu = 3\n"))
    with pytest.raises(RecipeError, match=r"a\.what must be set"):
        read_claims(toml(tmp_path, "[a]\nvalue = 3\n"))
    with pytest.raises(RecipeError, match="not valid TOML"):
        read_claims(toml(tmp_path, "[a]\n[a]\n"))


def test_an_unknown_claim_is_named() -> None:
    with pytest.raises(RecipeError, match=r"no claim 'date'; did you mean 'dates'\?"):
        find_claims(["date"])


def test_the_share_of_seeds_that_learn() -> None:
    claim = row(learned_below=1, value=75, low=50, high=100, unit="%", seeds=(1, 2, 3, 4), values=())
    assert claim.over([0.0, 0.99, 1.0, 0.5]) == 75
    assert claim.recorded == "75 %: share of 4 seeds, one core, 2026-11-19"
