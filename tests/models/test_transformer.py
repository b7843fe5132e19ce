"""Vaswani 2017 against its equations, written out place by place in float64, and the facts of its tables."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention import KEY_SCORES, trace
from regard.data.batches.batch import PairBatch
from regard.errors import RecipeError
from regard.layers.norm import NORMS
from regard.layers.positions import POSITIONS
from regard.models.transformer import Transformer, TransformerConfig
from regard.runs.folder import shapes
from regard.tasks.core.recipe import build_job

WORDS, DIM, HEADS = 9, 6, 2
UNEQUAL = {"layers": 1, "decoder_layers": 3, "heads": 4, "decoder_heads": 2, "ff": 10, "decoder_ff": 14}
VARIANTS: dict[str, dict[str, Any]] = {
    "pre": {"norm": "pre"},
    "untied": {"tied": False},
    "two vocabularies": {"source_vocabulary": 13},
    "two vocabularies, untied": {"source_vocabulary": 13, "tied": False},
    "unequal": UNEQUAL,
    "unequal pre": UNEQUAL | {"norm": "pre", "positions": "learned", "tied": False},
    "gelu": {"activation": "gelu"},
    "unscaled": {"scaled": False},
    "no norm": {"norm": "none", "layers": 1},  # without norms numbers grow from layer to layer
    "batch norm": {"norm": "batch", "layers": 1},
    "no feed-forward": {"ff": 0},
    **{f"{score} score": {"score": score} for score in KEY_SCORES if score != "scaled_dot"},
    "rank": {"score": "general", "rank": 2},
    "plain cosine": {"score": "cosine", "beta": 1.0},
    **{f"{kind} positions": {"positions": kind} for kind in POSITIONS if kind != "sinusoidal"},
}
LEARNS = ("pre", "unequal", "learned positions")
SOURCE, TARGET = torch.tensor([5, 3, 7, 4, 0]), torch.tensor([8, 7, 6, 4])


def build(**changes: Any) -> Transformer:
    torch.manual_seed(0)
    sizes = {"dim": DIM, "layers": 2, "heads": HEADS, "ff": 10, "dropout": 0.0, "max_positions": 20}
    return Transformer(TransformerConfig(WORDS, **sizes | changes)).eval()


def stirred(model: Transformer) -> Transformer:
    """In float64, with norms and biases off their first 1 and 0."""
    with torch.no_grad():
        for label, parameter in (*model.named_parameters(), *model.named_buffers()):
            if "embed" not in label and parameter.is_floating_point():
                parameter.add_(0.3 * torch.rand_like(parameter))
    return model.double()


def angle(position: int, pair: int) -> float:
    return position / 10000 ** (2 * pair / DIM)


def wave(position: int) -> Tensor:
    pairs = [(math.sin(angle(position, i)), math.cos(angle(position, i))) for i in range(DIM // 2)]
    return torch.tensor(pairs, dtype=torch.float64).flatten()


class ByHand:
    """The model's weights and the paper's sums: one vector a place, one head after the other."""

    def __init__(self, model: Transformer):
        self.known, self.config = model.state_dict(), model.config

    def linear(self, name: str, x: Tensor) -> Tensor:
        return self.known[f"{name}.weight"] @ x + self.known[f"{name}.bias"]

    def norm(self, name: str, x: Tensor) -> Tensor:
        if self.config.norm == "none":
            return x
        if self.config.norm == "batch":  # in eval mode
            mean, spread = (self.known[f"{name}.norm.running_{kind}"] for kind in ("mean", "var"))
            scaled = (x - mean) / (spread + 1e-5).sqrt()
            return scaled * self.known[f"{name}.norm.weight"] + self.known[f"{name}.norm.bias"]
        spread = ((x - x.mean()) ** 2).mean() + 1e-5
        return (x - x.mean()) / spread.sqrt() * self.known[f"{name}.weight"] + self.known[f"{name}.bias"]

    def look(self, name: str, x: Tensor, states: list[Tensor]) -> tuple[Tensor, Tensor]:
        size, reads, weights = DIM // HEADS, [], []
        for head in range(HEADS):
            part = slice(head * size, (head + 1) * size)
            query = self.linear(f"{name}.query", x)[part]
            keys = [self.linear(f"{name}.key", state)[part] for state in states]
            scores = [self.score(f"{name}.score", query, key) for key in keys]
            weight = torch.stack(scores).softmax(0)
            values = [self.linear(f"{name}.value", state)[part] for state in states]
            reads.append(sum(a * value for a, value in zip(weight, values, strict=True)))
            weights.append(weight)
        return self.linear(f"{name}.out", torch.cat(reads)), torch.stack(weights)

    def score(self, name: str, query: Tensor, key: Tensor) -> Tensor:
        kind, known = self.config.score, self.known
        if kind == "additive":
            inner = known[f"{name}.query_weight.weight"] @ query + known[f"{name}.key_weight.weight"] @ key
            return known[f"{name}.v"] @ inner.tanh()
        if kind == "cosine":
            beta = self.config.beta or (1 + known[f"{name}.free"].exp()).log()
            return beta * (query @ key) / ((query @ query) * (key @ key)).sqrt()
        if kind == "general":
            query = known[f"{name}.query_weight.weight"] @ query if self.config.rank else query
            return query @ known[f"{name}.weight.weight"] @ key
        return query @ key / (math.sqrt(len(query)) if kind == "scaled_dot" else 1)

    def part(self, norm: str, x: Tensor, part: Any) -> Tensor:
        left = x if self.config.residual else 0
        if self.config.norm == "pre":
            return left + part(self.norm(norm, x))
        return self.norm(norm, left + part(x))

    def layer(self, name: str, row: list[Tensor], source: list[Tensor] | None) -> list[Tensor]:
        known = [self.norm(f"{name}.attend_norm", x) for x in row] if self.config.norm == "pre" else row
        found = []
        for place, x in enumerate(row):
            seen = known if source is None else known[: place + 1]
            x = self.part(f"{name}.attend_norm", x, lambda x, seen=seen: self.look(f"{name}.attend", x, seen)[0])
            if source is not None:
                x = self.part(f"{name}.cross_norm", x, lambda x: self.look(f"{name}.cross", x, source)[0])
            if self.config.ff:
                x = self.part(f"{name}.feed_norm", x, lambda x: self.feed(f"{name}.feed", x))
            found.append(x)
        return found

    def feed(self, name: str, x: Tensor) -> Tensor:
        return self.linear(f"{name}.outer", self.linear(f"{name}.inner", x).clamp_min(0))

    def embed(self, name: str, tokens: Tensor) -> list[Tensor]:
        table = self.known[f"{name}.weight"]
        return [math.sqrt(DIM) * table[token] + wave(place) for place, token in enumerate(tokens)]

    def logits(self, source: Tensor, target: Tensor) -> Tensor:
        states, row = self.embed("source_embed", source), self.embed("target_embed", target)
        for layer in range(self.config.layers):
            states = self.layer(f"encoder.{layer}", states, None)
        pre = self.config.norm == "pre"
        states = [self.norm("encoder_norm", x) for x in states] if pre else states
        for layer in range(self.config.layers):
            row = self.layer(f"decoder.{layer}", row, states)
        row = [self.norm("decoder_norm", x) for x in row] if pre else row
        return torch.stack([self.linear("out", x) for x in row])


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("tied", [True, False])
@torch.no_grad()
def test_logits_are_those_of_the_paper(norm: str, tied: bool) -> None:
    model = stirred(build(norm=norm, tied=tied))
    wanted = ByHand(model).logits(SOURCE, TARGET)
    torch.testing.assert_close(model(SOURCE[None], TARGET[None])[0], wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "changes",
    [
        *({"score": score} for score in KEY_SCORES),
        {"score": "general", "rank": 2},
        {"score": "cosine", "beta": 1.0},
        *({"norm": norm, "residual": residual} for norm in NORMS for residual in (True, False)),
        {"ff": 0},
        {"ff": 0, "norm": "pre", "residual": False, "score": "dot"},
    ],
    ids=str,
)
@torch.no_grad()
def test_with_parts_changed_or_left_out_too(changes: dict[str, Any]) -> None:
    model = stirred(build(**changes))
    wanted = ByHand(model).logits(SOURCE, TARGET)
    torch.testing.assert_close(model(SOURCE[None], TARGET[None])[0], wanted, rtol=1e-6, atol=1e-6)


@torch.no_grad()
def test_without_residual_connections_it_steps_as_it_trains() -> None:
    """Not among VARIANTS: where a source has one token, the target's tokens are then lost in cross-attention."""
    model = stirred(build(residual=False)).float()
    state, wanted = model.start(SOURCE[None], torch.ones(1, 5, dtype=torch.bool)), model(SOURCE[None], TARGET[None])
    for place, token in enumerate(TARGET):
        logits, state = model.step(token[None], state)
        torch.testing.assert_close(logits, wanted[:, place], rtol=1e-4, atol=1e-4)


def test_what_is_left_out_has_no_weights() -> None:
    whole, bare = (sum(p.numel() for p in model.parameters()) for model in (build(), build(ff=0, norm="none")))
    layer = 2 * 10 * DIM + 10 + DIM  # W_1, b_1, W_2, b_2
    assert whole - bare == 4 * layer + (2 * 2 + 2 * 3) * 2 * DIM, "four layers, ten norms"
    assert build(score="cosine", beta=1.0).state_dict().keys() == build().state_dict().keys()


def test_a_batch_norm_counts_real_tokens_only() -> None:
    model = build(norm="batch").train()
    whole = batch()
    wider = PairBatch(*(F.pad(x, (0, 3), value=x.dtype != torch.bool) for x in vars(whole).values()))
    losses = [copy.deepcopy(model).loss(x).total for x in (whole, wider)]
    torch.testing.assert_close(*losses)
    alone = whole.each(lambda x: x[:1])
    assert not torch.allclose(model(alone.source, alone.target), model(whole.source, whole.target)[:1], atol=1e-3)
    averages = {name: x for name, x in model.state_dict().items() if name.endswith("running_mean")}
    assert len(averages) == 10
    assert all(x.any() for x in averages.values())


@torch.no_grad()
def test_without_positions_a_source_is_a_bag_of_words() -> None:
    order = torch.tensor([3, 0, 4, 2, 1])
    bag, row = build(positions="none"), build()
    torch.testing.assert_close(bag(SOURCE[order][None], TARGET[None]), bag(SOURCE[None], TARGET[None]))
    assert not torch.allclose(row(SOURCE[order][None], TARGET[None]), row(SOURCE[None], TARGET[None]), atol=1e-2)
    encoded, turned = (bag.encode(x[None], torch.ones(1, 5, dtype=torch.bool))[0] for x in (SOURCE, SOURCE[order]))
    for memory, other in zip(encoded, turned, strict=True):
        torch.testing.assert_close(other.values, memory.values[:, :, order])


@torch.no_grad()
def test_without_positions_the_decoder_still_knows_an_order() -> None:
    """What a place may see of the target grows from place to place."""
    model = build(positions="none")
    turned = TARGET[torch.tensor([0, 2, 1, 3])]
    one, other = model(SOURCE[None], TARGET[None])[0], model(SOURCE[None], turned[None])[0]
    assert not torch.allclose(one[1], other[2], atol=1e-3)


def batch() -> PairBatch:
    """In Marian's numbering: </s> is 0, and <pad>, the last, is also the start."""
    source = torch.tensor([[5, 3, 7, 4, 0], [6, 2, 0, 8, 8]])
    target = torch.tensor([[8, 7, 6, 4, 0], [8, 3, 0, 8, 8]])
    real = torch.arange(5) < torch.tensor([[5], [3]])
    return PairBatch(source, real, target, real)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_the_embedding_of_padding_is_and_stays_0(tied: bool, label_smoothing: float) -> None:
    """It is the start token too, and with a tied table label smoothing would move it as a row of the output."""
    model = build(tied=tied).train()
    tables = {model.source_embed.weight, model.target_embed.weight}
    assert len(tables) == (1 if tied else 2)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    for _ in range(5):
        optimiser.zero_grad()
        model.loss(batch(), label_smoothing=label_smoothing).total.backward()
        assert all(table.grad is not None and table.grad[3].any() for table in tables)
        optimiser.step()
    for table in tables:
        assert not table[-1].any()
        assert table[:-1].any(1).all()


def test_two_vocabularies_have_no_row_of_0() -> None:
    model = build(source_vocabulary=WORDS + 1)
    assert model.source_embed.weight.any(1).all()
    assert model.target_embed.weight.any(1).all()
    assert model.out.weight is model.target_embed.weight


@torch.no_grad()
def test_traced_weights_are_those_of_the_last_layer_but_one() -> None:
    model = stirred(build())
    assert model.alignment == "decoder.0.cross"
    assert build(decoder_layers=5).alignment == "decoder.3.cross"
    assert build(layers=1).alignment == "decoder.0.cross"
    with trace(model, model.alignment) as seen:
        model(SOURCE[None], TARGET[None])
    weights = seen[model.alignment]
    assert weights.shape == (1, HEADS, len(TARGET), len(SOURCE))
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, HEADS, len(TARGET)).to(weights.dtype))
    by_hand = ByHand(model)
    states = by_hand.embed("source_embed", SOURCE)
    for layer in range(2):
        states = by_hand.layer(f"encoder.{layer}", states, None)
    first = by_hand.embed("target_embed", TARGET[:1])[0]
    asks = by_hand.part("decoder.0.attend_norm", first, lambda x: by_hand.look("decoder.0.attend", x, [x])[0])
    wanted = by_hand.look("decoder.0.cross", asks, states)[1]
    torch.testing.assert_close(weights[0, :, 0].double(), wanted, rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_learned_positions_end_and_sines_do_not() -> None:
    long = torch.full((1, 21), 5)
    assert build()(SOURCE[None], long).isfinite().all()
    long_source = torch.full((1, 50), 5)
    logits = build()(long_source, TARGET[None])
    torch.testing.assert_close(logits, build(max_positions=64)(long_source, TARGET[None]), rtol=0, atol=0)
    for kind in POSITIONS:
        model = build(positions=kind)
        ends = kind == "learned"
        assert (model.max_target_positions == model.max_source_positions == 20) == ends
        assert (model.max_source_positions >= 1 << 30) == (not ends)
        assert ends or model(long_source, long).isfinite().all()
    model = build(positions="learned")
    model(SOURCE[None], long[:, :20])
    with pytest.raises(ValueError, match="a source of 50 tokens is longer than the 20 this model takes"):
        model(long_source, TARGET[None])
    with pytest.raises(ValueError, match="position 20 is beyond the last of the 20 positions of this model"):
        model(SOURCE[None], long)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("positions", POSITIONS)
@torch.no_grad()
def test_it_runs_in_half_precision(positions: str, norm: str) -> None:
    logits = build(positions=positions, norm=norm)(SOURCE[None], TARGET[None])
    half = build(positions=positions, norm=norm).bfloat16()(SOURCE[None], TARGET[None])
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), logits, rtol=0.1, atol=0.1)


def test_what_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="got dim 6 and 4 heads"):
        build(heads=4)
    with pytest.raises(ValueError, match="got dim 6 and 4 heads"):
        build(decoder_heads=4)
    with pytest.raises(ValueError, match=r"positions must be one of 'sinusoidal', 'learned', .*, got 'rotary'"):
        build(positions="rotary")
    with pytest.raises(ValueError, match=r"dim must be even .*, got 5"):
        build(dim=5, heads=1)
    with pytest.raises(ValueError, match=r"norm must be one of 'post', 'pre', 'none', 'batch', got 'sandwich'"):
        build(norm="sandwich")
    with pytest.raises(ValueError, match=r"activation must be one of 'relu', .*, got 'maxout'"):
        build(activation="maxout")
    with pytest.raises(ValueError, match=r"score must be one of 'dot', 'scaled_dot', .*'cosine', got 'location'"):
        build(score="location")
    with pytest.raises(ValueError, match="rank is of the matrix of score = general, and this score is scaled_dot"):
        build(rank=2)
    with pytest.raises(ValueError, match="beta is the factor of score = cosine, and this score is general"):
        build(score="general", beta=1.0)
    with pytest.raises(ValueError, match=r"the rank of a matrix of 3 x 3 lies in \[1, 3\], got 4"):
        build(score="general", rank=4)


# ---- table 3


def sized(name: str, **more: Any) -> TransformerConfig:
    """What a recipe with model.size makes of it, with the paper's 37,000 joint tokens."""
    model = {"name": "transformer", "size": name, **more}
    job = build_job({"model": model, "data": {"made": "dates"}, "train": {"steps": 1}})
    return replace(job.config, vocabulary=37000)


@pytest.mark.parametrize(("name", "millions"), [("base", 65), ("big", 213)])
def test_sizes_are_those_of_the_paper(name: str, millions: int) -> None:
    """To within 3 %: of the vocabulary the paper says no more than about 37,000."""
    count = sum(tensor.numel() for tensor in shapes("transformer", sized(name)).values())
    assert abs(count / 1e6 / millions - 1) < 0.03
    wanted = {"base": (512, 6, 8, 2048), "big": (1024, 6, 16, 4096)}
    config = sized(name)
    assert (config.dim, config.layers, config.heads, config.ff) == wanted[name]


def test_what_is_said_beside_a_size_wins() -> None:
    config = sized("tiny", layers=2)
    assert (config.dim, config.layers, config.heads, config.ff) == (128, 2, 4, 256)
    with pytest.raises(RecipeError, match="must be one of mini, tiny, small, base, big, auto, got 'xl'"):
        sized("xl")
