"""What every captioner is asked beside the grid of tests: stepping, beams, searches, its loss, its eye."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from searches import write
from small_models import TARGETS, WORDS, batch, build, built, each, fresh, images, near, needs_bfloat16_lstm, rows
from torch import Tensor

from regard.learn.reinforce import objective
from regard.learn.settings import Training
from regard.models.captioner import EYE
from regard.models.protocols import Captioner, Translator
from regard.models.senet import SENet
from regard.models.show_attend_tell import ShowAttendTell, ShowAttendTellConfig
from regard.runs.folder import SkipInit

both = pytest.mark.parametrize("name", ["show_and_tell", "show_attend_tell"])


def captions(model: Captioner) -> tuple[Tensor, Tensor]:
    """Images (4, C, H, W) and targets (4, 5), shifted right."""
    inputs = rows(model).inputs
    return inputs["images"], inputs["target"]


@both
def test_it_is_a_captioner_and_no_translator(name: str) -> None:
    model = built(name)
    assert isinstance(model, Captioner)
    assert not isinstance(model, Translator)


@each(Captioner)
@torch.no_grad()
def test_stepping_is_all_at_once(name: str, variant: str) -> None:
    model = built(name, variant)
    given, target = captions(model)
    state, steps = model.start(given), []
    for tokens in target.unbind(1):
        logits, state = model.step(tokens, state)
        steps.append(logits)
    near(torch.stack(steps, 1), model(given, target))


@each(Captioner)
@torch.no_grad()
def test_beams_go_apart_over_one_memory(name: str, variant: str) -> None:
    model = built(name, variant)
    given, target = captions(model)
    begun = model.start(given)
    state = begun.spread(3)
    targets = torch.stack([target, target.flip(1), target.roll(3, 1)], 1)  # (B, 3, T)
    wanted = torch.stack([model(given, targets[:, beam]) for beam in range(3)], 1)  # (B, 3, T, V)
    for time in range(3):
        logits, state = model.step(targets[:, :, time].flatten(), state)
        near(logits.view(4, 3, WORDS), wanted[:, :, time])
        assert state.memory is begun.memory, "the memory must not be copied"
    swap, keep = torch.tensor([2, 0, 1]), torch.tensor([3, 1])
    state = state.reorder((torch.arange(4)[:, None] * 3 + swap).flatten()).drop(keep)
    logits, _ = model.step(targets[keep][:, swap, 3].flatten(), state)
    near(logits.view(2, 3, WORDS), wanted[keep][:, swap, 3])


@each(Captioner)
@torch.no_grad()
def test_every_search_drives_it(name: str, variant: str) -> None:
    """The same answers alone as in a batch; the sum of log-probabilities is that of the teacher-forced logits."""
    model = built(name, variant)
    given, _ = captions(model)
    mask = torch.ones(len(given), 1, dtype=torch.bool)
    options: dict[str, Any] = {"start": 1, "end": 2, "max_length": 6}
    found = {
        "greedy": write(model, given, mask, **options),
        "beam": write(model, given, mask, beam=3, **options),
        "sample": write(model, given, mask, temperature=1.0, seed=3, **options),
    }
    for answers in found.values():
        for row, answer in enumerate(answers):
            ids = [1, *answer.tokens, *([2] if answer.finished else [])]
            logs = model(given[row : row + 1], torch.tensor([ids[:-1]])).log_softmax(-1)[0]
            near(torch.tensor(answer.score), logs.gather(1, torch.tensor(ids[1:])[:, None]).sum())
    alone = [write(model, given[row : row + 1], mask[:1], **options)[0].tokens for row in range(4)]
    assert [answer.tokens for answer in found["greedy"]] == alone


@each(Captioner)
@torch.no_grad()
def test_the_loss_is_that_of_the_logits(name: str, variant: str) -> None:
    model = built(name, variant)
    given = batch(model)
    logits = model(given.images, given.target[:, :-1]).log_softmax(-1)
    mask = given.target_mask[:, 1:]
    known = logits.gather(-1, given.target[:, 1:, None]).squeeze(-1) * mask
    loss = model.loss(given)
    near(loss.total, -known.sum())
    near(loss.likelihood, known.sum(1))
    assert loss.tokens == mask.sum() == sum(TARGETS) - 4
    smooth = model.loss(given, label_smoothing=0.1)
    near(smooth.total, -(0.9 * known.sum() + 0.1 * (logits.mean(-1) * mask).sum()))


@both
@torch.no_grad()
def test_r_drop_runs_every_row_twice(name: str) -> None:
    model = build(name)
    given = batch(model)
    near(model.loss(given, r_drop=1.0).total, 2 * model.loss(given).total)  # in eval mode the two are equal
    seen: list[int] = []
    model.eye.stem.register_forward_hook(lambda _, __, out: seen.append(len(out)))
    model.loss(given, r_drop=1.0)
    assert seen == [4], "the eye is run once for both"
    other = build(name, dropout=0.5).train()
    assert other.loss(given, r_drop=0.0).total < other.loss(given, r_drop=1.0).total


@both
@torch.no_grad()
def test_every_pixel_of_the_image_matters(name: str) -> None:
    model = built(name)
    given, target = captions(model)
    wanted = model(given, target)
    for place in ((0, 0), (5, 7), (11, 11)):
        changed = given.clone()
        changed[0, :, *place] += 1
        moved = (model(changed, target) - wanted).abs().amax((1, 2))
        assert moved[0] > 1e-6
        assert not moved[1:].any()


@pytest.mark.parametrize("stage", [0, 1, 2, -1, -2, -3])
@pytest.mark.parametrize("stem", ["small", "large"])
@pytest.mark.parametrize("size", [(9, 7), (32, 20), (33, 1)])
@torch.no_grad()
def test_the_grid_is_that_of_its_stage(stage: int, stem: str, size: tuple[int, int]) -> None:
    """Stages above it are not built."""
    eye = {"depths": (1, 1, 1), "widths": (4, 6, 8), "stem": stem, "shortcut": "project"}
    model = ShowAttendTell(ShowAttendTellConfig(9, embed=4, decoder=4, stage=stage, **eye)).eval()
    given = torch.randn(2, 3, *size)
    whole = SENet(model.config.eye.__class__(**eye)).features(given, stage)
    assert model.grid(given) == tuple(whole.shape[2:])
    assert model.encode(given)[0].values.shape == (2, whole[0, 0].numel(), whole.shape[1])
    assert len(model.eye.stages) == stage % 3 + 1


@both
def test_a_frozen_eye_stays_as_it_is(name: str) -> None:
    model = build(name, frozen=True).train()
    assert not model.eye.training
    assert model.out.training
    before = {key: x.clone() for key, x in model.eye.state_dict().items()}
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=0.1)
    model.loss(batch(model)).total.backward()
    optimiser.step()
    assert all(torch.equal(x, before[key]) for key, x in model.eye.state_dict().items())
    assert all(parameter.grad is not None for parameter in trained)
    assert not model.features(images(model)).requires_grad


@both
def test_an_eye_that_is_not_frozen_learns_its_statistics(name: str) -> None:
    model = build(name).train()
    before = model.eye.stem[0].norm.running_mean.clone()
    model.loss(batch(model))
    assert not torch.equal(model.eye.stem[0].norm.running_mean, before)


@both
def test_it_adopts_a_senet_as_its_eye_and_a_captioner_as_a_whole(name: str) -> None:
    model, other = build(name), build(name)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    shape = {key: getattr(model.config, key) for key in EYE}
    senet = SENet(SENet.Config(labels=("cat", "dog"), image_size=32, **shape))
    new = model.adopt(senet)
    assert new
    assert not [key for key in new if key.startswith("eye.")]
    theirs = senet.state_dict()
    assert all(torch.equal(x, theirs[key]) for key, x in model.eye.state_dict().items())
    assert not model.out.bias.any()
    assert model.adopt(other) == []
    near(model(*captions(model)), other(*captions(other)))
    with pytest.raises(ValueError, match="a captioner can start from one of its kind or a senet, got Linear"):
        model.adopt(torch.nn.Linear(1, 1))


@both
def test_settings_of_the_eye_are_checked(name: str) -> None:
    kind = type(built(name)).Config
    with pytest.raises(ValueError, match=r"stage must lie in \[-3, 2\] for 3 stages, got 3"):
        kind(9, stage=3)
    with pytest.raises(ValueError, match="depths and widths must have a number for each stage"):
        kind(9, depths=(1, 1))
    with pytest.raises(ValueError, match="depths and widths must have a number for each stage"):
        kind(9, depths=(), widths=())


@each(Captioner)
@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1, "r_drop": 1.0}])
def test_a_training_step_can_be_captured(
    name: str, variant: str, options: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tensors without values refuse whatever a GPU would have to wait for: shapes that depend on values, `item`."""
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda _: False)  # which does not know the device "meta"
    settings = Training(steps=1, reinforce_reward="row", reinforce_baseline="moving")
    given = batch(built(name, variant)).to("meta")
    with torch.device("meta"):
        with SkipInit():
            model = fresh(name, variant, dropout=0.1).train()
        objective(model.loss(given, **options), settings, torch.zeros(())).backward()
    assert model.out.weight.grad.shape == model.out.weight.shape


@each(Captioner)
def test_it_learns_in_bfloat16(name: str, variant: str) -> None:
    model = build(name, variant).train()
    needs_bfloat16_lstm(model)
    given, settings = batch(model), Training(steps=1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model.loss(given)
    assert loss.total.dtype == torch.float32
    objective(loss, settings).backward()
    for label, parameter in model.named_parameters():
        assert parameter.grad is not None, label
        assert parameter.grad.isfinite().all(), label
    with torch.no_grad():
        exact = model.eval().loss(given).total
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert abs(model.loss(given).total / exact - 1) < 0.3  # rounded, a hard look may go elsewhere
