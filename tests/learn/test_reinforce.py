import pytest
import torch

from regard.data.text.text_encoding import TokenBatch
from regard.layers.loss import Loss, Sampled
from regard.learn.reinforce import baseline, objective
from regard.learn.settings import Training
from regard.learn.stepper import Stepper

REWARDS = torch.tensor([-1.0, -3.0, -0.5, -2.0], dtype=torch.float64)  # log p(y | place)


def entropy_of(logits):
    return -(logits.log_softmax(-1).exp() * logits.log_softmax(-1)).sum(-1)


def test_expected_gradient_is_exact():
    """Over the places of one row, p(place) * gradient of the surrogate = gradient of E[log p(y | place)] + entropy;
    the place of the other row, which is the baseline, is fixed and changes nothing."""
    settings = Training(steps=1, reinforce_weight=0.7, entropy_weight=0.3)
    logits = torch.tensor([0.2, -0.4, 1.1, 0.0], dtype=torch.float64, requires_grad=True)
    scale = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)  # what follows the look learns too
    fixed = torch.tensor([-1.3], dtype=torch.float64)
    probabilities = logits.softmax(-1).detach()
    seen = [torch.zeros_like(logits), torch.zeros_like(scale)]
    for place, probability in enumerate(probabilities):
        likelihood = (scale * REWARDS[place])[None]
        reward = torch.stack([likelihood.detach(), fixed])  # (B=2, T=1)
        chosen = torch.stack([logits.log_softmax(-1)[place], torch.zeros((), dtype=torch.float64)])[:, None]
        entropy = torch.stack([entropy_of(logits), torch.zeros((), dtype=torch.float64)])[:, None]
        found = Sampled(reward, chosen, entropy, torch.ones(2, 1, dtype=torch.bool))
        value = objective(Loss(-likelihood.sum(), reward.sum(1), torch.tensor(1), found), settings)
        for total, part in zip(seen, torch.autograd.grad(value, [logits, scale]), strict=True):
            total += probability * part
    exact_look = 0.7 * (logits.softmax(-1) * scale.detach() * REWARDS).sum() + 0.3 * entropy_of(logits)
    assert torch.allclose(seen[0], -torch.autograd.grad(exact_look, logits)[0], atol=1e-12)
    assert torch.allclose(seen[1], -(probabilities * REWARDS).sum(), atol=1e-12)


def test_per_token_and_without_sampling():
    total = torch.tensor(12.0, requires_grad=True)
    loss = Loss(total=total, likelihood=torch.tensor([-12.0]), tokens=torch.tensor(4))
    assert objective(loss, Training(steps=1)).item() == 3.0


def test_each_place_is_rewarded_by_its_own_token():
    """Two looks of one row: only the first was followed by a likely token."""
    chosen = torch.zeros(2, 2, requires_grad=True)
    reward, mask = torch.tensor([[-1.0, -5.0], [-3.0, -5.0]]), torch.ones(2, 2, dtype=torch.bool)
    found = Sampled(reward, chosen, torch.zeros(2, 2), mask)
    objective(Loss(torch.tensor(0.0), reward.sum(1), torch.tensor(4), found), Training(steps=1)).backward()
    assert chosen.grad.tolist() == [[-0.5, 0], [0.5, 0]]  # -(r - b) / tokens, b = the other row's reward


def test_baseline_is_the_mean_of_the_other_rows_at_that_step():
    reward = torch.tensor([[-1.0, -2.0, -4.0], [-3.0, -6.0, 0.0], [-5.0, 0.0, 0.0]])
    mask = reward != 0
    found = baseline(reward, mask)
    assert found[:, 0].tolist() == [-4.0, -3.0, -2.0]
    assert found[:2, 1].tolist() == [-6.0, -2.0]
    assert found[0, 2] == pytest.approx(-21 / 6)  # no other row is as long: the mean of the batch
    assert baseline(reward[:, :0], mask[:, :0]).shape == (3, 0)


def test_the_papers_baseline_is_a_moving_average_of_whole_rows():
    """b = 0.9 b + 0.1 log p(y | s), the mean over a batch; its gradient sees the average of the batches before."""
    settings = Training(steps=1, reinforce_reward="row", reinforce_baseline="moving", entropy_weight=0)
    average = torch.tensor(-2.0)
    chosen = torch.zeros(2, 2, requires_grad=True)
    reward = torch.tensor([[-1.0, -5.0], [-3.0, 0.0]])
    mask = torch.tensor([[True, True], [True, False]])
    found = Sampled(reward, chosen, torch.zeros(2, 2), mask)
    loss = Loss(torch.tensor(0.0), reward.sum(1), torch.tensor(3), found)
    objective(loss, settings, average).backward()
    wanted = torch.tensor([[-6.0 + 2, -6.0 + 2], [-3.0 + 2, 0.0]]) / -3
    torch.testing.assert_close(chosen.grad, wanted)
    assert average.item() == pytest.approx(0.9 * -2 + 0.1 * -4.5)


def test_a_moving_average_of_tokens():
    average = torch.tensor(-2.0)
    reward, mask = torch.tensor([[-1.0, -5.0], [-3.0, 0.0]]), torch.tensor([[True, True], [True, False]])
    found = Sampled(reward, torch.zeros(2, 2), torch.zeros(2, 2), mask)
    settings = Training(steps=1, reinforce_baseline="moving")
    objective(Loss(torch.tensor(0.0), reward.sum(1), torch.tensor(3), found), settings, average)
    assert average.item() == pytest.approx(0.9 * -2 + 0.1 * -3)


def test_the_weight_of_the_entropy_may_fall():
    """With a reward of 0 only the entropy is left, so that the gradient is as large as its weight."""
    logits = torch.nn.Parameter(torch.tensor([[0.2, -0.4, 1.1]]))

    def loss(_):
        sampled = Sampled(torch.zeros(1, 1), torch.zeros(1, 1), entropy_of(logits)[None], torch.ones(1, 1).bool())
        return Loss(0.0 * logits.sum(), torch.zeros(1), torch.tensor(1), sampled)

    module = torch.nn.Module()
    module.logits = logits
    norms = {}
    for schedule in ("constant", "linear"):
        settings = Training(steps=4, entropy_weight=0.2, entropy_schedule=schedule, device="cpu")
        stepper = Stepper(module, settings, loss)
        batch = TokenBatch(torch.zeros(1, 1), torch.zeros(1, 1))
        norms[schedule] = [float(stepper.step(step, [batch], 0.0)["gradient_norm"]) for step in (1, 2, 4)]
    expected = norms["constant"][0]
    assert expected > 0.01
    assert norms["constant"] == pytest.approx([expected] * 3)
    assert norms["linear"] == pytest.approx([expected, 0.75 * expected, 0.25 * expected])
