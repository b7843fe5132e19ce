"""`regard play`, and how `evaluate` and `train` treat environments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.data.artifacts import Artifacts
from regard.errors import BadInput
from regard.models.snail.agent import SNAILAgent, SNAILAgentConfig
from regard.runs.folder import begin, save_weights
from regard.show import ShadedText
from regard.tasks.play import evaluate as evaluating
from regard.tasks.play.run import Agent

TINY: dict[str, Any] = {"dim": 4, "tc_filters": 4, "keys": 4, "values": 4, "actions": 3, "pulls": 6}
MDP: dict[str, Any] = {"environment": "mdps", "states": 3, "horizon": 2, "episodes": 3}
RECIPE = "[data]\ntest_count = 20\n"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """With drawn weights."""
    found = {}
    for name, changes in (("bandit", {}), ("mdp", MDP)):
        torch.manual_seed(1)
        model, folder = SNAILAgent(SNAILAgentConfig(**TINY | changes)), tmp_path_factory.mktemp(name)
        begin(folder, model, Artifacts(), RECIPE)
        save_weights(folder, model)
        found[name] = str(folder)
    return found


def test_a_bandit_is_played(runs: dict[str, str], call: Any) -> None:
    done = call("play", runs["bandit"], "0", "7")
    lines = [line.split("\t") for line in done.out.splitlines()]
    assert [line[0] for line in lines] == ["0", "7"]
    for _, reward, best, pulls in lines:
        assert len(pulls.split()) == 6
        assert pulls.count("+") == int(reward)
        assert 0 < float(best) < 6
    assert call("play", runs["bandit"]).out.splitlines() == done.out.splitlines()[:1], "0 unless a number is given"


def test_an_mdp_is_played(runs: dict[str, str], call: Any) -> None:
    ((number, reward, _, episodes),) = [
        line.split("\t") for line in call("play", runs["mdp"], "2").out.splitlines()
    ]
    assert number == "2"
    assert sum(map(float, episodes.split())) == pytest.approx(float(reward), abs=0.2)
    found = json.loads(call("play", runs["mdp"], "2", "--json").out)
    assert len(found["steps"]) == 6
    assert [step["state"] for step in found["steps"]][::2] == [0, 0, 0], "each episode begins in state 0"
    assert len(found["means"]) == 3
    assert found["steps"][0]["looked_at"] is None
    for number, step in enumerate(found["steps"]):
        assert step["looked_at"] is None or step["looked_at"] < number
        assert 0 < step["weight"] <= 1
    assert found["reward"] == pytest.approx(float(reward), abs=1e-3)


@pytest.mark.parametrize("name", ["bandit", "mdp"])
def test_where_it_looked_is_drawn(runs: dict[str, str], call: Any, name: str, tmp_path: Path) -> None:
    drawn = call("play", runs[name], "3", "--show", "-").out
    assert "environment 3" in drawn
    for suffix in ("svg", "html"):
        call("play", runs[name], "3", "--show", str(tmp_path / f"looks.{suffix}"))
        assert "start" in (tmp_path / f"looks.{suffix}").read_text()


def test_of_a_long_trial_the_last_step_is_drawn() -> None:
    torch.manual_seed(1)
    trial = Agent(SNAILAgent(SNAILAgentConfig(**TINY | MDP | {"episodes": 40}))).play(3)
    look, picture = trial.attention(), trial.picture()
    assert look.columns[1] == f"{look.rows[0]}{trial.rewards[0]:+.1f}"
    assert look.rows[79] == f"{trial.states[79]}:{trial.actions[79]}"
    assert isinstance(picture, ShadedText)
    np.testing.assert_array_equal(picture.received, look.weights[79])
    assert f"where '{look.rows[79]}' looks" in picture.terminal(colour=False, width=80)


def test_a_bad_number_is_named_and_the_others_are_answered(runs: dict[str, str], call: Any, tmp_path: Path) -> None:
    (tmp_path / "numbers.txt").write_text("1\n\nmany\n2\n")
    done = call("play", runs["bandit"], "--input", str(tmp_path / "numbers.txt"))
    assert done.code == 1
    assert [line.split("\t")[0] for line in done.out.splitlines()] == ["1", "many", "2"]
    assert "line 3: an environment must be a whole number of at least 0" in done.err
    for wrong in ("1.5", "-1", str(1 << 40)):
        code, _, told = call("play", runs["bandit"], "--", wrong)
        assert code == 2
        assert "must be a whole number" in told
    code, _, told = call("play", runs["bandit"], "1", "--input", str(tmp_path / "numbers.txt"))
    assert code == 2
    assert "give numbers or --input, not both" in told


def test_evaluated_beside_others(runs: dict[str, str], call: Any) -> None:
    found = json.loads(call("evaluate", runs["bandit"], "--json").out)
    assert found["environments"] == 20
    assert list(found["players"]) == ["random", "ucb1", "thompson", "gittins"]
    assert found["reward_low"] < found["reward"] < found["reward_high"]
    assert found["regret"] == pytest.approx(found["reward"] / found["share"] - found["reward"])
    text = call("evaluate", runs["mdp"], "--test-count", "10").out
    assert "psrl" in text
    assert "evaluated on 10 generated environments" in text
    code, _, told = call("evaluate", runs["mdp"], "--data", "x.tsv")
    assert code == 2
    assert "leave --data out" in told


def test_in_parts_it_is_the_same(runs: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the memory does not grow with the number of environments."""
    whole = {name: regard.load(run, task="play").evaluate(test_count=20) for name, run in runs.items()}
    monkeypatch.setattr(evaluating, "COMPARED", 1)
    monkeypatch.setattr(Agent, "at_once", 7)
    for name, run in runs.items():
        parts = regard.load(run, task="play").evaluate(test_count=20)
        assert parts.metrics == pytest.approx(whole[name].metrics)
        assert parts.counts == whole[name].counts
        assert parts.details["players"].keys() == whole[name].details["players"].keys()  # type: ignore[attr-defined]
    with pytest.raises(BadInput, match="test_count must be at most 1000000, got 1000000000"):
        regard.load(run, task="play").evaluate(test_count=10**9)


def test_from_python(runs: dict[str, str]) -> None:
    agent = regard.load(runs["bandit"], device="cpu", task="play")
    trial = agent.play(3)
    assert trial == agent.play([1, 3])[1] == agent.play(np.int64(3))
    assert trial.reward == sum(trial.rewards)
    look = trial.attention()
    assert look.weights.shape == (6, 6)
    assert look.rows[0] == str(trial.actions[0])
    assert look.columns[:2] == ("start", f"{trial.actions[0]}{'+' if trial.rewards[0] else '-'}")
    assert agent.evaluate(test_count=5).counts["environments"] == 5
    with pytest.raises(BadInput, match=r"environments\[1\]: an environment must be a whole number"):
        agent.play([0, -2])
    with pytest.raises(BadInput, match="got True"):
        agent.play(True)
    assert "bandits of 3 arms, 6 pulls" in agent.kind
