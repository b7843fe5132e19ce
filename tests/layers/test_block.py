"""The block beside torch's own layers with the same weights, and in pieces: past, documents, beams, packed rows."""

from __future__ import annotations

import math
from itertools import pairwise, product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.attention import GrowingMemory, Packing
from regard.layers.block import ACTIVATIONS, Block, FeedForward, through

B, T, S, DIM, HEADS, FF = 3, 6, 5, 12, 3, 20
TORCHS = ("post", "pre")  # norms that torch's layers have
LENGTHS = torch.tensor([[S], [2], [4]])
ATTENTIONS = {"self_attn": "attend", "multihead_attn": "cross"}  # torch's names and ours


def build(**changes: Any) -> Block:
    """Norms and biases too lie off their first 1 and 0."""
    torch.manual_seed(0)
    block = Block(DIM, HEADS, FF, **changes).eval()
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return block


def copy_into(theirs: nn.Module, ours: Block) -> None:
    """Our weights under torch's names; every one of theirs is set."""
    weights = ours.state_dict()
    norms = ["attend_norm", "cross_norm", "feed_norm"] if ours.cross else ["attend_norm", "feed_norm"]
    names = {f"norm{number}": name for number, name in enumerate(norms, 1)}
    names |= {"linear1": "feed.inner", "linear2": "feed.outer"}
    names |= {f"{attention}.out_proj": f"{name}.out" for attention, name in ATTENTIONS.items()}
    for label, parameter in theirs.named_parameters():
        place, _, kind = label.rpartition(".")
        if kind.startswith("in_proj_"):
            prefix, kind = ATTENTIONS[place], kind.removeprefix("in_proj_")
            found = torch.cat([weights[f"{prefix}.{part}.{kind}"] for part in ("query", "key", "value")])
        else:
            found = weights[f"{names[place]}.{kind}"]
        parameter.data.copy_(found)


def same(ours: Tensor, theirs: Tensor, *inputs: Tensor) -> None:
    """In value and in the gradients of the inputs."""
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    upstream = torch.randn_like(ours)
    for one, other in zip(
        torch.autograd.grad(ours, inputs, upstream), torch.autograd.grad(theirs, inputs, upstream), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm", TORCHS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_is_torchs_encoder_layer(norm: str, activation: str, causal: bool, masked: bool) -> None:
    ours = build(norm=norm, activation=activation, causal=causal)
    theirs = nn.TransformerEncoderLayer(
        DIM, HEADS, FF, activation=activation, norm_first=norm == "pre", batch_first=True
    ).eval()
    copy_into(theirs, ours)
    x = torch.randn(B, S, DIM, requires_grad=True)
    mask = torch.arange(S) < LENGTHS if masked else None
    future = torch.ones(S, S, dtype=torch.bool).triu(1) if causal else None
    wanted = theirs(x, future, None if mask is None else ~mask)
    real = torch.ones(B, S, dtype=torch.bool) if mask is None else mask
    found = ours(x, mask=mask)
    same(found[real], wanted[real], x)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm", TORCHS)
@pytest.mark.parametrize("masked", [False, True])
def test_is_torchs_decoder_layer(norm: str, activation: str, masked: bool) -> None:
    ours = build(norm=norm, activation=activation, causal=True, cross=True)
    theirs = nn.TransformerDecoderLayer(
        DIM, HEADS, FF, activation=activation, norm_first=norm == "pre", batch_first=True
    ).eval()
    copy_into(theirs, ours)
    x, states = torch.randn(B, T, DIM, requires_grad=True), torch.randn(B, S, DIM, requires_grad=True)
    mask = torch.arange(S) < LENGTHS if masked else None
    future = torch.ones(T, T, dtype=torch.bool).triu(1)
    wanted = theirs(x, states, future, memory_key_padding_mask=None if mask is None else ~mask)
    assert ours.cross is not None
    same(ours(x, source=ours.cross.remember(states, mask=mask)), wanted, x, states)


def pieces(block: Block, x: Tensor, cuts: list[int], past: GrowingMemory | None = None, **options: Any) -> Tensor:
    """x through the block part by part, each part behind the past."""
    past, found = past or GrowingMemory(), []
    for part in x.split(cuts, 1):
        out, past = block.step(part, past, **options)
        found.append(out)
    assert past is not None
    assert past.size == x.shape[1]
    return torch.cat(found, 1)


@pytest.mark.parametrize("norm", TORCHS)
@pytest.mark.parametrize("cuts", [[1] * T, [3, 1, 2], [T], [1, 5]], ids=str)
@torch.no_grad()
def test_piece_by_piece_is_all_at_once(norm: str, cuts: list[int]) -> None:
    block = build(norm=norm, causal=True, cross=True)
    x, states = torch.randn(B, T, DIM), torch.randn(B, S, DIM)
    assert block.cross is not None
    source = block.cross.remember(states, mask=torch.arange(S) < LENGTHS)
    whole = block(x, source=source)
    torch.testing.assert_close(pieces(block, x, cuts, source=source), whole, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_padding_of_the_first_piece_stays_hidden() -> None:
    """A prompt padded at the left, then single steps without a mask."""
    block = build(causal=True)
    x, mask = torch.randn(B, T, DIM), torch.arange(T) >= torch.tensor([[0], [3], [2]])
    out, past = block.step(x[:, :4], GrowingMemory(), mask=mask[:, :4])
    found = [out]
    for step in (4, 5):
        out, past = block.step(x[:, step : step + 1], past)
        found.append(out)
    together = torch.cat(found, 1)
    for row, first in enumerate([0, 3, 2]):
        alone = block(x[row : row + 1, first:])
        torch.testing.assert_close(together[row, first:], alone[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("training", [False, True])
def test_documents_of_a_row_do_not_see_each_other(training: bool) -> None:
    """Also where dropout, of which nothing is felt here, takes the way beside the fused kernel."""
    block = build(causal=True, attention_dropout=1e-9 if training else 0.0).train(training)
    x = torch.randn(2, 7, DIM)
    since = torch.tensor([[0, 0, 0, 3, 3, 5, 5], [0, 1, 1, 1, 1, 1, 6]])
    packed = block(x, since=since)
    for row, begins in enumerate([[0, 3, 5, 7], [0, 1, 6, 7]]):
        for first, last in pairwise(begins):
            alone = block(x[row : row + 1, first:last])
            torch.testing.assert_close(packed[row, first:last], alone[0], rtol=1e-5, atol=1e-5)
    assert not torch.allclose(block(x)[0, 3:], packed[0, 3:], atol=1e-3), "without it they do"


@torch.no_grad()
def test_beams_ask_one_source_together() -> None:
    block = build(causal=True, cross=True)
    width = 4
    x, states = torch.randn(B * width, 1, DIM), torch.randn(B, S, DIM)
    mask = torch.arange(S) < LENGTHS
    assert block.cross is not None
    shared = block.cross.remember(states, mask=mask)
    copies = block.cross.remember(states.repeat_interleave(width, 0), mask=mask.repeat_interleave(width, 0))
    torch.testing.assert_close(block(x, source=shared), block(x, source=copies), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("place", ["dropout", "attention_dropout", "activation_dropout"])
def test_every_dropout_acts_while_training_only(place: str) -> None:
    block = build(**{place: 0.5})
    x = torch.randn(B, T, DIM)
    assert torch.equal(block(x), build()(x))
    block.train()
    torch.manual_seed(1)
    first, second = block(x), block(x)
    assert not torch.equal(first, second)
    torch.manual_seed(1)
    assert torch.equal(block(x), first)


def lengths_of(*lengths: int) -> Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


PADDED = {
    "right": lengths_of(4, 9, 1, 6),
    "left": lengths_of(4, 9, 1, 6).flip(1),
    "holes": lengths_of(9, 9, 9) & (torch.arange(27).view(3, 9) % 4 > 0),
    "an empty row": lengths_of(9, 0, 4),
    "one row": lengths_of(9, 4)[1:],
}


def stack(mask: Tensor, **changes: Any) -> tuple[nn.ModuleList, Tensor]:
    """Two unlike blocks, and a batch with NaN wherever it is padding."""
    blocks = nn.ModuleList([build(**changes), Block(DIM, HEADS, FF, **changes).eval()])
    return blocks, torch.randn(*mask.shape, DIM).masked_fill(~mask[..., None], torch.nan).requires_grad_()


def one_by_one(blocks: nn.ModuleList, x: Tensor, mask: Tensor) -> Tensor:
    """Every row through the blocks alone, without its padding."""
    found = torch.zeros(*mask.shape, DIM)
    for row, real in enumerate(mask):
        alone = x[row : row + 1, real]
        if real.any():
            for block in blocks:
                alone = block(alone)
            found = found.index_put((torch.tensor(row), real.nonzero()[:, 0]), alone[0])
    return found


@pytest.mark.parametrize("norm", TORCHS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", PADDED)
def test_through_is_every_row_alone(name: str, causal: bool, norm: str) -> None:
    mask = PADDED[name]
    blocks, x = stack(mask, norm=norm, causal=causal)
    found, wanted = through(blocks, x, mask), one_by_one(blocks, x, mask)
    assert not found[~mask].any()
    same(found, wanted, x, *blocks.parameters())


@pytest.mark.parametrize("name", PADDED)
def test_layers_see_real_tokens_only(name: str) -> None:
    """The work is that of the real tokens: what every linear layer and norm is given."""
    mask = PADDED[name]
    blocks, x = stack(mask)
    seen = []
    for part in blocks.modules():
        if isinstance(part, (nn.Linear, nn.LayerNorm)):
            part.register_forward_hook(lambda _, given, __: seen.append(given[0].shape[:-1].numel()))
    through(blocks, x, mask)
    assert seen == [int(mask.sum())] * 16  # six linear layers and two norms in each block


@pytest.mark.parametrize(("name", "masked"), [("none", False), ("all real", False), ("little", True)])
def test_where_packing_does_not_pay_the_batch_stays_as_it_is(name: str, masked: bool) -> None:
    """Less than a twentieth of padding goes along under the mask; without any there is no mask either."""
    mask = torch.ones(5, 8, dtype=torch.bool)
    mask[1, -1] = name != "little"
    blocks, _ = stack(mask)
    x, given = torch.randn(5, 8, DIM), []
    blocks[0].register_forward_pre_hook(lambda _, args, options: given.append(options), with_kwargs=True)
    found = through(blocks, x, None if name == "none" else mask)
    assert [options["mask"] is not None for options in given] == [masked]
    wanted = one_by_one(blocks, x, mask)
    torch.testing.assert_close(found[mask], wanted[mask], rtol=1e-5, atol=1e-5)


def test_a_compiled_graph_keeps_its_shape() -> None:
    """What compiles knows no packing: no break in the graph, and the same states."""
    mask = PADDED["right"]
    blocks, _ = stack(mask)
    x = torch.randn(*mask.shape, DIM)
    compiled = torch.compile(lambda x, mask: through(blocks, x, mask), backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, mask)[mask], through(blocks, x, mask)[mask], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("place", ["dropout", "attention_dropout", "activation_dropout"])
def test_dropout_acts_on_packed_rows_too(place: str) -> None:
    mask = PADDED["right"]
    blocks, x = stack(mask, **{place: 0.5})
    blocks.train()
    torch.manual_seed(1)
    first, second = through(blocks, x, mask), through(blocks, x, mask)
    assert first.isfinite().all()
    assert not torch.equal(first, second)
    torch.manual_seed(1)
    assert torch.equal(through(blocks, x, mask), first)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("norm", TORCHS)
def test_stochastic_depth_leaves_parts_out_row_by_row(norm: str, packed: bool) -> None:
    """Each row comes out as one of the four blocks that lack a part or not; those kept count 1 / (1 - p) more."""
    rate, count, rounds = 0.25, 60, 20
    mask = lengths_of(*[2] * (count - 1), 6) if packed else lengths_of(*[3] * count)
    block = build(norm=norm, drop_path=rate)
    x = torch.randn(*mask.shape, DIM)

    def add(x: Tensor, norm: nn.LayerNorm, part: Any, kept: bool) -> Tensor:
        factor = kept / (1 - rate)
        return x + factor * part(norm(x)) if block.pre else norm(x + factor * part(x))

    def look(x: Tensor) -> Tensor:
        return block.attend(x, block.attend.remember(x, mask=mask))

    ways = list(product((False, True), repeat=2))
    with torch.no_grad():
        middle = {one: add(x, block.attend_norm, look, one) for one in (False, True)}
        wanted = torch.stack([add(middle[one], block.feed_norm, block.feed, other) for one, other in ways])
        block.train()
        torch.manual_seed(0)
        found = torch.stack([through([block], x, mask) for _ in range(rounds)])
    far = (found[:, None] - wanted).abs().amax(-1).masked_fill(~mask, 0).amax(-1)  # (rounds, ways, rows)
    is_one = far < 1e-4
    assert (is_one.sum(1) == 1).all()
    for (one, other), times in zip(ways, is_one.sum((0, 2)).tolist(), strict=True):
        chance = (1 - rate if one else rate) * (1 - rate if other else rate)
        assert abs(times / (rounds * count) - chance) < 5 * (chance * (1 - chance) / (rounds * count)) ** 0.5


def test_stochastic_depth_is_for_training() -> None:
    x = torch.randn(B, T, DIM)
    assert torch.equal(build(drop_path=0.5)(x), build()(x))


def test_packed_rows_alone_are_what_a_packing_takes() -> None:
    mask = PADDED["right"]
    packing = Packing(mask)
    x = packing.pack(torch.randn(*mask.shape, DIM))
    with pytest.raises(ValueError, match="a block with cross=True takes no packed rows; unpack them"):
        build(cross=True)(x, packing=packing)
    with pytest.raises(ValueError, match="a packed memory takes no mask"):
        build()(x, packing=packing, mask=torch.ones(x.shape[:2], dtype=torch.bool))
    with pytest.raises(ValueError, match="a packed question takes no since"):
        build(causal=True)(x, packing=packing, since=torch.zeros(x.shape[:2], dtype=torch.long))


@pytest.mark.parametrize("norm", TORCHS)
def test_blocks_chain(norm: str) -> None:
    """In nn.Sequential, as any layer that gives back what it takes."""
    blocks = [build(norm=norm, causal=True), Block(DIM, HEADS, FF, norm=norm).eval()]
    x = torch.randn(B, T, DIM)
    assert torch.equal(nn.Sequential(*blocks, nn.LayerNorm(DIM))(x)[0], nn.LayerNorm(DIM)(through(blocks, x))[0])


def test_wrong_shapes_are_said_in_words() -> None:
    block, decoder = build(), build(causal=True, cross=True)
    x, states = torch.randn(B, T, DIM), torch.randn(2, S, DIM)
    for wrong in (x[..., 1:], x[0], x[None]):
        with pytest.raises(ValueError, match=r"takes x of shape \(batch, length, 12\), got \("):
            block(wrong)
    with pytest.raises(ValueError, match=r"a memory's mask is boolean.*\(3, 6\).*got torch.bool of shape \(3, 5\)"):
        block(x, mask=torch.ones(B, T - 1, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"since.*\(3, 6\).*, got \(3, 5\)"):
        build(causal=True)(x, since=torch.zeros(B, T - 1, dtype=torch.long))
    with pytest.raises(ValueError, match=r"needs source=.*block\.cross\.remember"):
        decoder(x)
    assert decoder.cross is not None
    source = decoder.cross.remember(states)
    with pytest.raises(ValueError, match="this one has no cross-attention"):
        block(x, source=source)
    with pytest.raises(ValueError, match="x has 3 rows and the source 2"):
        decoder(x, source=source)
    _, past = build(causal=True).step(x, GrowingMemory())
    with pytest.raises(ValueError, match=r"\(3, 3, .*, 4\).*got \(2, 3, 5, 4\)"):
        build(causal=True).step(states, past)


def test_the_feed_forward_layer_minds_its_own_place() -> None:
    torch.manual_seed(0)
    feed = FeedForward(DIM, FF, activation="relu", dropout=0.0)
    x = torch.randn(B, T, DIM)
    w1, b1, w2, b2 = feed.inner.weight, feed.inner.bias, feed.outer.weight, feed.outer.bias
    by_hand = torch.stack([w2 @ (w1 @ one + b1).clamp_min(0) + b2 for one in x.view(-1, DIM)]).view_as(x)
    torch.testing.assert_close(feed(x), by_hand, rtol=1e-5, atol=1e-6)


def phi(x: float) -> float:
    return 0.5 * (1 + math.erf(x / math.sqrt(2)))


def tanh_gelu(x: float) -> float:
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


FORMULAS = {
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: x * phi(x),
    "gelu_new": tanh_gelu,
    "gelu_pytorch_tanh": tanh_gelu,
    "quick_gelu": lambda x: x * sigmoid(1.702 * x),
    "silu": lambda x: x * sigmoid(x),
    "swish": lambda x: x * sigmoid(x),
    "tanh": math.tanh,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_are_their_formulas(name: str) -> None:
    points = [-8.0, -1.7, -0.3, 0.0, 0.4, 1.0, 3.3, 9.0]
    found = ACTIVATIONS[name](torch.tensor(points, dtype=torch.float64))
    wanted = torch.tensor([FORMULAS[name](x) for x in points], dtype=torch.float64)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)


def test_what_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="dim must be a multiple of heads, got dim 12 and 5 heads"):
        Block(DIM, 5, FF)
    with pytest.raises(ValueError, match="unknown activation 'mish'; there are relu, gelu"):
        build(activation="mish")
    with pytest.raises(ValueError, match=r"norm must be post .*, pre .*, none or batch, got 'sandwich'"):
        build(norm="sandwich")
    with pytest.raises(ValueError, match=r"drop_path must lie in \[0, 1\), got 1.0"):
        build(drop_path=1.0)
