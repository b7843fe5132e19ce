"""Devlin 2019 against its equations, written out place by place in float64, its losses, and its sizes."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.attention import trace
from regard.data.text.masking import MaskedBatch
from regard.data.text.question_windows import QuestionBatch
from regard.data.text.text_encoding import LabelledBatch
from regard.models.bert import HEADS, Bert, BertConfig

WORDS, DIM, LOOKS, LAYERS, LONGEST = 11, 6, 2, 2, 12
TEXT, PARTS = torch.tensor([2, 5, 7, 3, 9, 3]), torch.tensor([0, 0, 0, 0, 1, 1])
LENGTHS = [7, 4, 9, 3]  # of the four texts
CLASSES: dict[str, Any] = {"head": "classify", "labels": ("bad", "fair", "good")}
VARIANTS: dict[str, dict[str, Any]] = {
    "none": {"head": "none"},
    "no pooler": {"head": "none", "pooler": False},
    "masked": {"head": "masked"},
    "untied": {"tied": False},
    "classify": CLASSES,
    "beside a linear part": {**CLASSES, "bigrams": 7},
    "narrow": {"ff": 5, "heads": 1, "layers": 3, "segments": 4},
    "tanh": {"activation": "tanh", "eps": 1e-2},
}
LEARNS = ("masked", "classify")


def each(*variants: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("variant", variants)


def build(variant: str = "pretrain", **changes: Any) -> Bert:
    """Biases begin at 0 and weights near it: here they lie far enough off that each part matters."""
    torch.manual_seed(0)
    sizes = {
        "dim": DIM,
        "layers": LAYERS,
        "heads": LOOKS,
        "max_positions": LONGEST,
        "dropout": 0.0,
        "attention_dropout": 0.0,
    }
    model = Bert(BertConfig(WORDS, **sizes | VARIANTS.get(variant, {}) | changes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


def texts() -> tuple[Tensor, Tensor, Tensor]:
    """Tokens and segments (4, 9) with garbage where they are padded at the right, and their mask."""
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(5, WORDS, (4, max(LENGTHS)), generator=generator)
    segments = (torch.arange(max(LENGTHS)) > torch.tensor([[3], [1], [5], [2]])).long()
    return tokens, segments, torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]


def masked(follows: bool = True) -> MaskedBatch:
    """Two or three words of each text, masked or not."""
    tokens, segments, mask = texts()
    chosen = torch.zeros_like(mask)
    for row, places in enumerate([(1, 4, 6), (2, 3), (1, 2, 8), (1, 2)]):
        chosen[row, list(places)] = True
    shown = torch.where(chosen & (torch.arange(9) % 2 == 0), 4, tokens)
    return MaskedBatch(shown, segments, mask, chosen, tokens, torch.tensor([0, 1, 1, 0]) if follows else None)


def labelled() -> LabelledBatch:
    return LabelledBatch(*texts(), torch.tensor([2, 0, 1, 2]))


def some(model: Bert) -> MaskedBatch | LabelledBatch:
    """A batch for that head."""
    return labelled() if model.config.head == "classify" else masked(model.config.head == "pretrain")


def near(ours: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(ours, wanted, rtol=1e-5, atol=1e-5)


# ---- the equations


class ByHand:
    """The model's weights and the paper's sums: one vector a place, one head after the other."""

    def __init__(self, model: Bert):
        self.known, self.config = model.state_dict(), model.config

    def linear(self, name: str, x: Tensor) -> Tensor:
        return self.known[f"{name}.weight"] @ x + self.known[f"{name}.bias"]

    def norm(self, name: str, x: Tensor) -> Tensor:
        spread = ((x - x.mean()) ** 2).mean() + self.config.eps
        return (x - x.mean()) / spread.sqrt() * self.known[f"{name}.weight"] + self.known[f"{name}.bias"]

    def act(self, x: Tensor) -> Tensor:
        if self.config.activation == "tanh":
            return x.tanh()
        return torch.stack([one * 0.5 * (1 + math.erf(one / math.sqrt(2))) for one in x])

    def look(self, name: str, x: Tensor, row: list[Tensor]) -> tuple[Tensor, Tensor]:
        size, reads, weights = DIM // self.config.heads, [], []
        for head in range(self.config.heads):
            part = slice(head * size, (head + 1) * size)
            query = self.linear(f"{name}.query", x)[part]
            scores = [query @ self.linear(f"{name}.key", y)[part] / math.sqrt(size) for y in row]
            weights.append(torch.stack(scores).softmax(0))
            reads.append(weights[-1] @ torch.stack([self.linear(f"{name}.value", y)[part] for y in row]))
        return self.linear(f"{name}.out", torch.cat(reads)), torch.stack(weights)

    def states(self, tokens: Tensor, segments: Tensor) -> tuple[Tensor, Tensor]:
        """The states (T, dim), and the weights (H, T, T) of the last layer."""
        names = ("embed.weight", "segments.weight", "positions.table.weight")
        words, parts, places = (self.known[name] for name in names)
        sums = [words[t] + parts[s] + places[i] for i, (t, s) in enumerate(zip(tokens, segments, strict=True))]
        row = [self.norm("norm", x) for x in sums]
        weights: list[Tensor] = []
        for layer in range(self.config.layers):
            block, after, weights = f"blocks.{layer}", [], []
            for x in row:
                read, weight = self.look(f"{block}.attend", x, row)
                weights.append(weight)
                x = self.norm(f"{block}.attend_norm", x + read)
                inner = self.act(self.linear(f"{block}.feed.inner", x))
                after.append(self.norm(f"{block}.feed_norm", x + self.linear(f"{block}.feed.outer", inner)))
            row = after
        return torch.stack(row), torch.stack(weights, 1)


@each("pretrain", "untied", "narrow", "tanh")
@torch.no_grad()
def test_states_weights_and_heads_are_those_of_the_paper(variant: str) -> None:
    model = build(variant).double()
    by_hand = ByHand(model)
    assert model.alignment == f"blocks.{model.config.layers - 1}.attend"
    with trace(model, model.alignment) as seen:
        states = model(TEXT[None], PARTS[None])
    wanted, weights = by_hand.states(TEXT, PARTS)
    exactly: Any = {"rtol": 1e-9, "atol": 1e-10}
    torch.testing.assert_close(states[0], wanted, **exactly)
    torch.testing.assert_close(seen[model.alignment][0].double(), weights, rtol=1e-5, atol=1e-6)
    pooled = by_hand.linear("pooler", wanted[0]).tanh()
    torch.testing.assert_close(model.pooled(states)[0], pooled, **exactly)
    torch.testing.assert_close(model.next_logits(states)[0], by_hand.linear("next", pooled), **exactly)
    table = by_hand.known["embed.weight" if model.config.tied else "out.weight"]
    ready = [by_hand.norm("masked_norm", by_hand.act(by_hand.linear("masked", x))) for x in wanted]
    logits = torch.stack([table @ x + by_hand.known["out.bias"] for x in ready])
    torch.testing.assert_close(model.masked_logits(states)[0], logits, **exactly)


@torch.no_grad()
def test_classes_are_told_from_the_pooled_state() -> None:
    model = build("classify").double()
    by_hand = ByHand(model)
    wanted = by_hand.linear("classify", by_hand.linear("pooler", by_hand.states(TEXT, PARTS)[0][0]).tanh())
    text = LabelledBatch(TEXT[None], PARTS[None], torch.ones(1, len(TEXT), dtype=torch.bool), torch.tensor([0]))
    torch.testing.assert_close(model.class_logits(text)[0], wanted)
    assert wanted.shape == (3,)


# ---- rows and padding


@torch.no_grad()
def test_every_place_sees_every_other_its_segment_and_its_position() -> None:
    model = build()
    tokens, segments, _ = texts()
    states = model(tokens, segments)
    for place in (0, 4, 8):
        for x in (tokens, segments):
            changed = x.clone()
            changed[:, place] = 5 + (x[:, place] - 4) % 6 if x is tokens else 1 - x[:, place]
            other = model(changed, segments) if x is tokens else model(tokens, changed)
            assert ((other - states).abs().amax(-1) > 1e-6).all()
    order = torch.randperm(9)
    assert not torch.allclose(model(tokens[:, order], segments[:, order]), states[:, order], atol=1e-3)
    assert torch.equal(model(tokens), model(tokens, torch.zeros_like(tokens)))  # without segments: all the first


def test_it_ends_with_its_positions() -> None:
    model = build()
    model(torch.full((1, LONGEST), 5))
    with pytest.raises(ValueError, match=r"position 12 is beyond the last of the 12 .* shorten the text"):
        model(torch.full((1, LONGEST + 1), 5))


@each("pretrain", "classify")
@torch.no_grad()
def test_it_runs_in_half_precision(variant: str) -> None:
    states = build(variant)(*texts())
    half = build(variant).bfloat16()
    assert half(*texts()).dtype == torch.bfloat16
    mask = texts()[2]
    torch.testing.assert_close(half(*texts()).float()[mask], states[mask], rtol=0.1, atol=0.1)
    with torch.autocast("cpu", torch.bfloat16):
        loss = build(variant).loss(some(build(variant)))
    wanted = build(variant).loss(some(build(variant)))
    torch.testing.assert_close(loss.total, wanted.total, rtol=0.05, atol=0.05)


# ---- losses


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("follows", [True, False])
@each("pretrain", "untied")
@torch.no_grad()
def test_the_loss_is_that_of_the_masked_words_and_of_the_next_sentence(
    variant: str, follows: bool, label_smoothing: float
) -> None:
    model, batch = build(variant), masked(follows)
    states = model(batch.tokens, batch.segments, batch.mask)
    logits = model.masked_logits(states).log_softmax(-1)
    known, even, words = torch.zeros(4), 0.0, 0
    for row, place in batch.predicted.nonzero().tolist():
        known[row] += logits[row, place, batch.targets[row, place]]
        even += float(logits[row, place].mean())
        words += 1
    wanted = -((1 - label_smoothing) * known.sum() + label_smoothing * even) / words
    if batch.follows is not None:
        sure = model.next_logits(states).log_softmax(-1)
        right = sum(sure[row, answer] for row, answer in enumerate(batch.follows.tolist())) / 4
        wanted = wanted - (1 - label_smoothing) * right - label_smoothing * sure.mean()
    loss = model.loss(batch, label_smoothing=label_smoothing)
    assert loss.tokens == words == 10
    near(loss.total / loss.tokens, wanted)
    near(loss.likelihood, known)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@torch.no_grad()
def test_the_loss_of_a_classifier_is_that_of_its_classes(label_smoothing: float) -> None:
    model, batch = build("classify"), labelled()
    sure = model.class_logits(batch).log_softmax(-1)
    known = torch.stack([sure[row, answer] for row, answer in enumerate(batch.labels.tolist())])
    loss = model.loss(batch, label_smoothing=label_smoothing)
    near(loss.total, -((1 - label_smoothing) * known.sum() + label_smoothing * sure.mean(1).sum()))
    near(loss.likelihood, known)
    assert loss.tokens == 4


@pytest.mark.parametrize("place", ["dropout", "attention_dropout"])
@torch.no_grad()
def test_dropout_acts_while_training_only(place: str) -> None:
    model = build("pretrain", **{place: 0.5})
    assert torch.equal(model(*texts()), build()(*texts()))
    model.train()
    tokens, segments, mask = texts()
    for rows in ((tokens, segments, mask), (tokens, segments)):
        assert not torch.equal(model(*rows), model(*rows))


@torch.no_grad()
def test_dropout_comes_behind_the_first_norm_and_before_the_classes() -> None:
    model = build("classify", dropout=0.5).train()
    entered: list[Tensor] = []
    model.blocks[0].register_forward_pre_hook(lambda _, args: entered.append(args[0]))
    model(*texts())
    assert 0.3 < (entered[0] == 0).float().mean() < 0.7
    model.eval()
    model.dropout.train()  # the dropout of the embeddings and of the pooled state, and no other
    passed: list[Tensor] = []
    model.classify.register_forward_pre_hook(lambda _, args: passed.append(args[0]))
    model.class_logits(labelled())
    dropped = passed[0] == 0
    assert dropped.any()
    assert not dropped.all()


# ---- one model from another


def test_a_classifier_begins_as_what_was_pretrained() -> None:
    first, model = build("pretrain"), build("classify")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    assert model.adopt(first) == ["classify.weight", "classify.bias"]
    near(model.pooled(model(*texts())), first.pooled(first(*texts())))
    first.embed.weight.data.zero_()  # it was copied
    assert model.embed.weight.any()


def test_what_is_of_another_shape_stays_new() -> None:
    model = build("untied")
    before = model.positions.table.weight.clone()
    assert model.adopt(build(max_positions=9)) == ["positions.table.weight"]
    assert torch.equal(model.positions.table.weight, before)
    assert torch.equal(model.out.weight, model.embed.weight)  # of a tied one both tables are the same
    assert model.out.weight is not model.embed.weight
    left = build("pretrain").adopt(build("masked"))
    assert left == ["pooler.weight", "pooler.bias", "next.weight", "next.bias"]


# ---- what it is made of


def test_first_weights() -> None:
    """Normal with deviation 0.02, nothing beyond 0.04; that leaves a deviation of 0.88 of it."""
    torch.manual_seed(0)
    model = Bert(BertConfig(200, dim=128, layers=3, heads=4, max_positions=500, segments=100))
    for label, parameter in model.state_dict().items():
        if "norm" in label:
            assert torch.equal(parameter, torch.full_like(parameter, float(label.endswith("weight")))), label
        elif label.endswith("bias"):
            assert not parameter.any(), label
        else:
            assert parameter.abs().max() <= 0.04, label
            if parameter.numel() > 1000:
                assert abs(float(parameter.std()) / (0.8796 * 0.02) - 1) < 0.03, label
    many = model.state_dict()["blocks.0.feed.inner.weight"].flatten() / 0.02
    for level in (0.5, 1.0, 1.5):  # the share within so many deviations, of what lies within two
        assert abs(float((many.abs() < level).float().mean()) - math.erf(level / 2**0.5) / math.erf(2**0.5)) < 0.01
    assert model.out.weight is model.embed.weight
    assert build("untied").out.weight is not build("untied").embed.weight


def count(name: str, **changes: Any) -> int:
    with torch.device("meta"):
        model = Bert(BertConfig(30522, **Bert.SIZES[name] | changes))
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(("name", "wanted"), [("base", 109_482_240), ("large", 335_141_888)])
def test_sizes_are_those_of_the_released_models(name: str, wanted: int) -> None:
    assert count(name, head="none") == wanted


@pytest.mark.parametrize(
    ("name", "millions"), [("tiny", 4.4), ("mini", 11.3), ("small", 29.1), ("medium", 41.7), ("base", 110.1)]
)
def test_small_sizes_are_those_of_turc(name: str, millions: float) -> None:
    """Table 1 of theirs, with both heads of pretraining."""
    assert round(count(name) / 1e6, 1) == millions


# ---- what there is not


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"heads": 4}, "got dim 6 and 4 heads"),
        ({"activation": "maxout"}, "activation must be one of 'relu', .*, got 'maxout'"),
        ({"eps": 0.0}, r"eps must lie in \(0, 1\)"),
        ({"eps": float("nan")}, "eps must be a number, got nan"),
        ({"max_positions": 2}, "max_positions must be at least 3, got 2"),
        ({"segments": 0}, "segments must be at least 1, got 0"),
        ({"dropout": 1.0}, r"dropout must lie in \[0, 1\)"),
        (
            {"head": "answer"},
            "head must be one of 'none', 'masked', 'pretrain', 'next', 'classify', 'span', got 'answer'",
        ),
        ({"labels": ("a", "b")}, "labels are for head = 'classify', and head is 'pretrain'"),
        ({"head": "classify", "labels": ("a",)}, "labels must name two classes or more, got 'a' alone"),
        (
            {"head": "classify", "pooler": False},
            "head 'classify' reads the pooled state: pooler must be true",
        ),
        ({"pooler": False}, "head 'pretrain' reads the pooled state"),
    ],
    ids=str,
)
def test_a_config_checks_itself(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        build(**changes)


def test_the_head_says_what_it_is_for() -> None:
    assert [BertConfig(5, head=head).task for head in HEADS] == [
        "embed",
        "fill",
        "fill",
        "follows",
        "classify",
        "ask",
    ]
    assert (BertConfig(5, head="classify").classes, BertConfig(5, **CLASSES).classes) == (1, 3)


def test_the_head_next_reads_whole_texts() -> None:
    """-log p of what follows, of texts without masks."""
    model, batch = build("next", head="next"), masked()
    pooled = model.pooled(model.states(batch.targets, batch.segments, batch.mask))
    logs = (pooled @ model.next.weight.T + model.next.bias).log_softmax(-1)
    loss = model.loss(batch)
    assert batch.follows is not None
    right = logs[torch.arange(4), batch.follows]
    torch.testing.assert_close(loss.total, -right.sum())
    torch.testing.assert_close(loss.likelihood, right)
    assert int(loss.tokens) == 4


def test_the_head_span_chooses_among_the_second_text_and_cls() -> None:
    """b_i = w_b . x_i and e_j = w_e . x_j; the loss is the mean of both cross-entropies."""
    model = build("span", head="span")
    tokens, segments, mask = texts()
    batch = QuestionBatch(tokens, segments, mask, torch.tensor([4, 0, 6, 0]), torch.tensor([5, 0, 7, 0]))
    logits = model.span_logits(batch)
    scores = model.states(tokens, segments, mask) @ model.span.weight.T + model.span.bias
    total = 0.0
    for row, length in enumerate(LENGTHS):
        places = [0, *(at for at in range(length - 1) if segments[row, at] == 1)]
        assert logits[row, :, 0].isfinite().nonzero().flatten().tolist() == places
        torch.testing.assert_close(logits[row, places], scores[row, places])
        for side, right in ((0, batch.begins), (1, batch.ends)):
            assert right is not None
            own = scores[row, places, side]
            total += float((own.logsumexp(0) - scores[row, right[row], side]).detach()) / 2
    loss = model.loss(batch)
    assert float(loss.total.detach()) == pytest.approx(total, rel=1e-5)
    assert int(loss.tokens) == 4
    loss.total.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters() if parameter.grad is not None)


def test_a_head_that_is_not_there_is_named() -> None:
    states = torch.zeros(2, 3, DIM)
    with pytest.raises(ValueError, match="predicts words has the head masked or pretrain, this one has classify"):
        build("classify").masked_logits(states)
    with pytest.raises(ValueError, match="predicts words has the head masked or pretrain, this one has none"):
        build("none").loss(masked())
    with pytest.raises(ValueError, match="predicts the next sentence has the head pretrain or next, this"):
        build("masked").loss(masked())
    with pytest.raises(
        ValueError,
        match=r"classifies has the head classify, this one has pretrain; train one with model\.head = 'classify'",
    ):
        build("pretrain").loss(labelled())
    for variant in ("masked", "no pooler"):
        with pytest.raises(ValueError, match=r"has no pooler; read its states"):
            build(variant).pooled(states)
