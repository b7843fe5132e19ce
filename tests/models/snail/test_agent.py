"""SNAIL as an agent: steps and whole trials, what it can know, and that it learns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from regard.attention import trace
from regard.data.made.environments import Seeds, TrainingSeeds, mean_rewards
from regard.learn.ppo import passes
from regard.learn.reinforce import objective
from regard.learn.settings import Training
from regard.learn.stepper import Stepper
from regard.models.snail.agent import SNAILAgent, SNAILAgentConfig, choose
from regard.models.snail.policy_gradient import advantages, normalised

VARIANTS = {
    "mdps": {"environment": "mdps", "states": 3, "horizon": 2, "episodes": 3},
    "without convolutions": {"temporal": False},
}
TINY: dict[str, Any] = {"dim": 8, "tc_filters": 4, "keys": 8, "values": 8, "pulls": 7, "actions": 3}


def agent(**changes: Any) -> SNAILAgent:
    """With a policy that is not uniform."""
    torch.manual_seed(0)
    model = SNAILAgent(SNAILAgentConfig(**TINY | changes))
    with torch.no_grad():
        model.policy.weight.mul_(100)
    return model.eval()


@pytest.mark.parametrize("variant", VARIANTS)
def test_steps_are_as_a_whole_trial(variant: str) -> None:
    model = agent(**VARIANTS[variant])
    played, memory = model.play(torch.arange(5)), model.blocks.begin()
    with torch.no_grad():
        whole = model(played.inputs)
        for now in range(whole.shape[1]):
            logits, memory = model.step(played.inputs[:, now], memory)
            torch.testing.assert_close(logits, whole[:, now], rtol=1e-5, atol=1e-5)


def test_a_trial_follows_from_its_seed() -> None:
    model = agent()
    both, alone = model.play(torch.tensor([3, 8])), model.play(torch.tensor([8]))
    for ours, wanted in zip(both, alone, strict=True):
        torch.testing.assert_close(ours[1:], wanted)
    torch.manual_seed(5)
    assert torch.equal(model.play(torch.tensor([8])).actions, alone.actions)
    greedy = model.play(torch.arange(50), greedy=True)
    assert torch.equal(model(greedy.inputs).argmax(-1), greedy.actions)


def test_actions_are_drawn_from_the_policy() -> None:
    logits = torch.tensor([[0.1, 0.2, 0.7]]).log().expand(1000, -1)
    found = choose(logits, torch.linspace(0.0005, 0.9995, 1000)).bincount(minlength=3)
    assert found.tolist() == pytest.approx([100, 200, 700], abs=1)
    assert choose(torch.zeros(1, 3), torch.tensor([0.9999999])).item() == 2


def test_the_loss_differentiates_what_was_chosen_and_not_the_trial() -> None:
    model = agent()
    loss = model.loss(Seeds(torch.arange(6)))
    played = model.play(torch.arange(6))
    assert loss.tokens.item() == 42
    assert torch.equal(loss.likelihood, played.rewards.sum(1))
    known = model(played.inputs).log_softmax(-1)
    assert loss.sampled is not None
    torch.testing.assert_close(loss.sampled.log_probability, known.gather(-1, played.actions[..., None])[..., 0])
    assert not loss.sampled.reward.requires_grad
    assert loss.total.requires_grad


def test_a_step_looks_back_only() -> None:
    model = agent()
    inputs = model.play(torch.arange(2)).inputs
    with trace(model, model.alignment) as seen:
        model(inputs)
    weights = seen[model.alignment]
    assert weights.shape == (2, 7, 7)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 7))
    assert not weights.triu(1).any()


@pytest.mark.parametrize("variant", VARIANTS)
def test_actions_are_judged_by_what_the_environment_knows(variant: str) -> None:
    model = agent(**VARIANTS[variant])
    seeds = Seeds(torch.arange(6))
    kind, played, done = model.environments, model.play(seeds.seeds), model.experience(seeds)
    world = kind.draw(seeds.seeds)
    means = mean_rewards(world, played.states, played.actions)
    torch.testing.assert_close(done.returns, means.flip(1).cumsum(1).flip(1))
    judged = [done.advantages]  # at first by the values of a random player
    with torch.no_grad():
        model.value.bias.fill_(1)
    judged.append(model.experience(seeds).advantages)  # by those of one who knows the environment
    for found, values in zip(judged, done.prospects.unbind(-1), strict=True):
        torch.testing.assert_close(found, normalised(advantages(means, values, model.config.gae_lambda)))


def test_an_error_of_the_values_counts_alike_in_short_and_long_trials() -> None:
    """Where each step of a trial earned 0.5 more than its value says, whatever the length."""
    errors = []
    for pulls in (5, 50):
        model = agent(pulls=pulls, value_weight=1.0)
        done = model.experience(Seeds(torch.arange(4)))
        left = torch.arange(pulls, 0, -1.0)
        loss = model.loss(replace(done, returns=done.prospects[..., 0] + 0.5 * left))
        errors.append((loss.total / loss.tokens).item())
        assert errors[-1] == pytest.approx(0.25 * left.mean().item() / pulls)
    assert errors[0] == pytest.approx(errors[1], rel=0.2)


@torch.no_grad()
def test_values_of_long_trials_follow_the_mean_share_of_a_tenth() -> None:
    model, seeds = agent(pulls=40), torch.arange(6)
    model.value.weight.normal_()
    done = model.experience(Seeds(seeds))
    played = model.play(seeds)
    means = mean_rewards(model.environments.draw(seeds), played.states, played.actions)
    shares = model.value(model.states(done.inputs))[..., 0]
    smooth = torch.stack([shares[:, max(0, t - 3) : t + 1].mean(1) for t in range(40)], 1)
    random, best = done.prospects.unbind(-1)
    gains = normalised(advantages(means, random + smooth * (best - random), model.config.gae_lambda))
    torch.testing.assert_close(done.advantages, gains)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_captured_step_is_as_an_eager_one() -> None:
    data, losses = TrainingSeeds(8, 0), []
    for capture in (False, True):
        ppo = {"ppo_passes": 2, "ppo_parts": 2, "entropy_schedule": "linear"}
        settings = Training(steps=8, learning_rate=1e-2, capture=capture, device="cuda", **ppo)
        model = agent().train()
        stepper = Stepper(model, settings, passes=passes(model, settings))
        steps = [stepper.step(step, [data.batch((0, step))], 1e-2) for step in range(1, 9)]
        losses.append(torch.stack([numbers["loss"] for numbers in steps]))
    torch.testing.assert_close(losses[0], losses[1])


def test_it_learns_to_pull_the_arm_that_paid() -> None:
    """Two arms, four pulls: on these environments random earns 1.99, UCB1 2.16 and the Gittins index 2.25."""
    torch.manual_seed(2)
    config = SNAILAgentConfig(actions=2, pulls=4, dim=16, tc_filters=8, tc_layers=1, keys=8, values=8)
    model, data = SNAILAgent(config), TrainingSeeds(128, 2)
    settings = Training(steps=80, learning_rate=1e-2, entropy_weight=0.0, device="cpu")
    stepper = Stepper(model, settings)
    for step in range(1, 81):
        stepper.step(step, [data.batch((0, step))], 1e-2)
    assert model.play(torch.arange(4000)).rewards.sum(1).mean().item() > 2.1


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"states": 1000, "actions": 1000}, "states x actions x states must be at most 1,000,000, got 1000 states"),
        ({"horizon": 1000, "episodes": 1000}, "horizon x episodes must be at most 10,000 steps, got 1000 x 1000"),
    ],
)
def test_an_mdp_that_would_fill_the_memory_is_refused(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SNAILAgentConfig(environment="mdps", **sizes)
    SNAILAgentConfig(environment="bandits", **sizes)


def test_several_updates_learn_from_the_same_trials() -> None:
    """Two passes of two parts are four steps with the parts of one experience."""
    seeds, models = Seeds(torch.arange(100, 108)), [agent().train(), agent().train()]
    settings = Training(steps=1, entropy_weight=0.02, device="cpu", ppo_passes=2, ppo_parts=2)
    numbers = Stepper(models[0], settings, passes=passes(models[0], settings)).step(1, [seeds], 1e-2)
    parts = models[1].experience(seeds).parts(2)
    assert [len(part.actions) for part in parts] == [4, 4]
    single = Stepper(models[1], replace(settings, ppo_passes=1, ppo_parts=1))
    steps = [single.step(1, [part], 1e-2) for part in (*parts, *parts)]
    assert int(numbers["tokens"]) == sum(int(step["tokens"]) for step in steps[:2])
    torch.testing.assert_close(numbers["loss"], torch.stack([step["loss"] for step in steps]).mean())
    for ours, wanted in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(ours, wanted)
    with pytest.raises(ValueError, match="a step of 4 updates needs `passes`"):
        Stepper(models[0], settings)


def test_the_first_update_follows_the_policy_gradient() -> None:
    """Where the policy is still the one that acted, the clipped ratio has the gradient of log p."""
    model, settings, gradients = agent().train(), Training(steps=1, device="cpu"), []
    done = model.experience(Seeds(torch.arange(6)))
    for before in (done.log_probability, None):
        model.zero_grad()
        loss = model.loss(done)
        assert loss.sampled is not None
        objective(replace(loss, sampled=replace(loss.sampled, before=before)), settings).backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
    torch.testing.assert_close(gradients[0], gradients[1])
