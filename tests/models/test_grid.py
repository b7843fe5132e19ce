"""Every model of MODELS through the same tests, in the variants that small_models.py chooses. What a model is asked
depends on the protocol that it satisfies; `test_translators` and `test_language_models` ask what belongs to one
protocol alone."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import (
    BATCHES,
    LENGTHS,
    batch,
    build,
    built,
    each,
    fresh,
    is_dropout,
    near,
    other,
    own,
    reads_plain_texts,
    representatives,
    rows,
    settings,
    small,
    variants,
    writes,
    wrong_values,
)
from small_models import artifacts as artifacts_of
from torch import nn

from regard.data.text.text_encoding import LabelledBatch
from regard.learn.reinforce import objective
from regard.learn.settings import Training
from regard.models import MODELS, task_of
from regard.models.protocols import (
    Classifier,
    DocumentClassifier,
    Encoder,
    Generator,
    LanguageModel,
    Player,
    Translator,
)
from regard.runs import folder
from regard.tasks.core.table import load

LEARNING_RATES = {  # with which they learn soonest; 0.04 for the others
    "transformer": 0.01, "gpt2": 0.02, "bert": 0.02, "elmo": 0.02, "snail_agent": 0.02,
    "rnnlm": 0.08, "lstmn": 0.08,
}  # fmt: skip
EARNED = 0.4  # of what the best player earns beyond a random one
LEARNED = 0.2  # nats a token; of four rows that cannot be told apart the first tokens alone would cost more


def has_loss(config: Any) -> bool:
    """A bare encoder has none."""
    return getattr(config, "head", "") != "none"


def has_classes(config: Any) -> bool:
    return bool(getattr(config, "labels", ()))


@each(Translator, Encoder, LanguageModel, DocumentClassifier, crossed=True)
@torch.no_grad()
def test_padding_changes_nothing(name: str, variant: str) -> None:
    model = built(name, variant)
    whole = rows(model)
    answers = whole.answers(model)
    for padded in (whole.wider(), whole.other_padding()):
        for ours, wanted in zip(padded.answers(model), answers, strict=True):
            near(ours, wanted)
    if whole.answered:
        assert model(**whole.wider().inputs).isfinite().all()


@each()
@torch.no_grad()
def test_a_row_alone_is_as_in_a_batch(name: str, variant: str) -> None:
    model = built(name, variant)
    whole = rows(model)
    for row, wanted in enumerate(whole.answers(model)):
        near(whole.alone(row).answers(model)[0], wanted)


@each(Classifier, only=has_classes)
@torch.no_grad()
def test_classes_of_a_row_alone_are_as_in_a_batch(name: str, variant: str) -> None:
    model = built(name, variant)
    whole = batch(model)
    logits = model.class_logits(whole)
    assert logits.shape == (4, len(model.config.labels))
    for row in range(4):
        if reads_plain_texts(model):
            near(rows(model).alone(row).answers(model)[0], logits[row])
            continue
        alone = whole.each(lambda x, row=row: x[row : row + 1])
        if isinstance(whole, LabelledBatch):
            texts = (x[:, : LENGTHS[row]] for x in (alone.tokens, alone.segments, alone.mask))
            alone = LabelledBatch(*texts, alone.labels)
        near(model.class_logits(alone), logits[row : row + 1])


@each(Generator, only=writes)
@torch.no_grad()
def test_changing_the_future_leaves_the_past(name: str, variant: str) -> None:
    model = built(name, variant)
    whole = rows(model)
    key, answers = whole.answered, model(**whole.inputs)
    for place in (1, 2, 4):
        changed = whole.inputs[key].clone()
        changed[:, place:] = other(changed[:, place:])
        changed_answers = model(**whole.inputs | {key: changed})
        near(changed_answers[:, :place], answers[:, :place])
        real = torch.tensor(whole.lengths[key]) > place
        moved = (changed_answers - answers)[real, place].abs().amax(-1)
        assert (moved > 1e-4).all(), "a token must matter to the next one"


@each(crossed=True, only=has_loss)
def test_every_parameter_gets_a_gradient(name: str, variant: str) -> None:
    """Hard attention learns where to look from the reward alone."""
    model = build(name, variant).train()
    objective(model.loss(batch(model)), Training(steps=1)).backward()
    for label, parameter in model.named_parameters():
        assert parameter.grad is not None, f"{label} has no gradient"
        assert parameter.grad.isfinite().all(), label
        assert parameter.grad.any(), f"the gradient of {label} is 0"


@each(learns=True, only=has_loss)
def test_overfits_one_batch(name: str, variant: str) -> None:
    model = fresh(name, variant, size=16).train()
    examples, training = batch(model), Training(steps=1)
    learning_rate = LEARNING_RATES.get(name, 0.04)
    optimiser = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.8, 0.95), fused=True)
    assert not learned(model, examples), "there is nothing to learn"
    for step in range(300):
        loss = model.loss(examples)
        may_have = step % 4 == 0 if isinstance(model, Player) else loss.total < LEARNED * loss.tokens
        if may_have and learned(model, examples):
            break
        optimiser.zero_grad()
        objective(loss, training).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    assert learned(model, examples)


def learned(model: Any, examples: Any) -> bool:
    """In eval mode, where the running statistics of convolutions lag behind. The loss of a player does not tell how
    good it is: what it may expect to earn does, from that of a random player, 0, to the best, 1."""
    if isinstance(model, Player):
        done = model.experience(examples)
        random, best = done.prospects[:, 0].mean(0)
        return bool((done.returns[:, 0].mean() - random) / (best - random) > EARNED)
    final = model.eval().loss(examples)
    model.train()
    return bool(final.total < LEARNED * final.tokens)


@each()
@torch.no_grad()
def test_saved_and_loaded_it_answers_the_same(name: str, variant: str, tmp_path: Path) -> None:
    model = built(name, variant)
    folder.begin(tmp_path, model, artifacts_of(model), "")
    folder.save_weights(tmp_path, model)
    drawn = torch.get_rng_state()
    loaded: Any = load(tmp_path).model
    assert torch.equal(torch.get_rng_state(), drawn), "weights that the file has were drawn first"
    assert type(loaded) is type(model)
    assert filled(loaded.config) == filled(model.config)
    assert not loaded.training
    model.to(next(loaded.parameters()).device)
    for ours, wanted in zip(rows(model).answers(loaded), rows(model).answers(model), strict=True):
        assert torch.equal(ours, wanted)
    if has_loss(model.config):
        examples = batch(model).to(next(loaded.parameters()).device)
        assert torch.equal(loaded.loss(examples).total, model.loss(examples).total)
    assert shared(loaded) == shared(model)


def shared(model: nn.Module) -> list[int]:
    """For each tensor the first one that is the same: which ones are tied."""
    ids = [id(x) for x in model.state_dict(keep_vars=True).values()]
    return [ids.index(number) for number in ids]


def filled(config: Any) -> dict[str, Any]:
    """The settings, with those that are 0 and follow another as that one is."""
    table = dataclasses.asdict(config)
    return {key: value or table.get(key.removeprefix("decoder_"), value) for key, value in table.items()}


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_dropout_acts_while_training_only(name: str) -> None:
    for field in filter(is_dropout, vars(small(name))):
        model = build(name, **{field: 0.5})
        wanted = built(name).loss(batch(model)).total
        assert torch.equal(model.loss(batch(model)).total, wanted), field
        model.train()
        assert len({float(model.loss(batch(model)).total) for _ in range(4)}) > 1, field


@pytest.mark.parametrize("name", MODELS)
def test_a_config_checks_itself(name: str) -> None:
    kind = MODELS[name].Config
    sizes = {"vocabulary": 5} if "vocabulary" in vars(small(name)) else {}
    for field, value, told in wrong_values(kind):
        with pytest.raises(ValueError, match=told):
            kind(**sizes | {field: value})


@pytest.mark.parametrize("name", MODELS)
def test_every_part_goes_through_every_test(name: str) -> None:
    """What `representatives` leaves out has no setting of its own."""
    parts = [settings(name, variant) for variant in representatives(name)]
    assert set().union(*parts) == set().union(*(settings(name, variant) for variant in variants(name)))


def test_the_variants_of_every_model_are_found() -> None:
    named = {path for path in Path(__file__).parent.rglob("test_*.py") if "\nVARIANTS" in path.read_text()}
    tests: list[Any] = [own(name) for name in MODELS]
    assert named == {Path(test.__file__) for test in tests if hasattr(test, "VARIANTS")}


def test_every_task_has_a_batch() -> None:
    assert {task_of(name, small(name)) for name in MODELS} <= BATCHES.keys()
