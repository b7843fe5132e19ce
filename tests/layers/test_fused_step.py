"""The kernels of a fused step against the plain step in float64: on a GPU, or by Triton's interpreter
(TRITON_INTERPRET=1)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.attention import MultiHead, trace
from regard.attention.memory import BufferedMemory, Memory
from regard.layers import fused_step
from regard.layers.block import ACTIVATIONS, Block
from regard.layers.positions import Learned, Sinusoidal
from regard.layers.state import Room, State, copy_all
from regard.models.gpt2 import GPT2, GPT2Config

INTERPRETED = fused_step.fused_step_cuda is not None and os.environ.get("TRITON_INTERPRET") == "1"
DEVICES = [
    pytest.param("cpu", marks=pytest.mark.skipif(not INTERPRETED, reason="needs Triton and TRITON_INTERPRET=1")),
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")),
]
# N, dim, heads, places, place
SMALL = [(1, 16, 2, 16, 0), (1, 48, 1, 150, 140), (3, 96, 2, 20, 19), (17, 32, 1, 70, 30)]
THOROUGH = pytest.mark.thorough
LARGE = [
    (1, 768, 12, 1100, 1099),
    (1, 1600, 25, 512, 100),
    (2, 1024, 16, 300, 3),
    (8, 768, 12, 512, 160),
    (17, 64, 1, 200, 150),
    (33, 1280, 20, 64, 63),
    (64, 768, 12, 1024, 700),
    (64, 48, 3, 16, 15),
    (128, 768, 12, 256, 200),
]
TOLERANCE = {torch.float32: 2e-6, torch.float16: 4e-3, torch.bfloat16: 3e-2}  # of the largest logit
pytestmark = pytest.mark.filterwarnings("ignore:divide by zero")  # of the interpreter


class Stack(nn.Module):
    """Blocks, norm and output layer, of numbers that the dtype can hold. cross: with cross-attention."""

    def __init__(
        self, dim: int, heads: int, dtype: torch.dtype, activation: str = "gelu_new", *, norm: str = "pre",
        cross: bool = False,
    ):  # fmt: skip
        super().__init__()
        options: dict[str, Any] = {"activation": activation, "norm": norm, "causal": True, "cross": cross}
        self.blocks = nn.ModuleList(Block(dim, heads, 2 * dim, **options) for _ in range(2))
        self.norm = nn.LayerNorm(dim) if norm == "pre" else None
        self.out = nn.Linear(dim, 37, bias=cross)
        for weight in self.parameters():
            nn.init.normal_(weight, std=0.3 if weight.dim() == 1 else dim**-0.5)
        self.to(dtype).eval().requires_grad_(False)

    def plain(self, x: Tensor, pasts: Sequence[BufferedMemory], sources: Sequence[Memory] = ()) -> Tensor:
        x = x[:, None]
        for number, (block, past) in enumerate(zip(self.blocks, pasts, strict=True)):
            x, _ = block.step(x, past, source=sources[number] if sources else None)
        return self.out((x if self.norm is None else self.norm(x))[:, 0])

    def fused(self, x: Tensor, pasts: Sequence[BufferedMemory], sources: Sequence[Memory] = ()) -> Tensor:
        return fused_step.step(x, self.blocks, pasts, self.norm, self.out, sources)


def memories(sizes: tuple[int, ...], dtype: torch.dtype, layers: int = 2) -> list[BufferedMemory]:
    """Rows are padded on the left, each more than the one before it."""
    rows, dim, heads, places, place = sizes
    starts = torch.arange(rows) * place // rows
    mask = torch.arange(places) >= starts[:, None]
    shape = rows, heads, places, dim // heads
    at = torch.tensor(place)
    return [BufferedMemory(*torch.randn(2, *shape).to(dtype).unbind(), mask, at) for _ in range(layers)]


def moved(pasts: list[BufferedMemory], device: str, dtype: torch.dtype) -> list[BufferedMemory]:
    """Copies. What no query may see is NaN."""
    hidden = ~pasts[0].memory.mask
    sides = [
        [x.masked_fill(hidden[:, None, :, None], torch.nan) for x in (past.keys, past.values)] for past in pasts
    ]
    mask, place = pasts[0].mask.to(device), pasts[0].place.to(device)
    return [BufferedMemory(*(x.to(device, dtype) for x in both), mask, place) for both in sides]


def looked_at(batch: int, heads: int, dim: int, dtype: torch.dtype) -> list[Memory]:
    """Sources of seven places, each row with fewer than the one before it."""
    mask = torch.arange(7) < 7 - torch.arange(batch)[:, None] % 7
    return [Memory(*torch.randn(2, batch, heads, 7, dim // heads).to(dtype).unbind(), mask) for _ in range(2)]


def compare(
    sizes: tuple[int, ...], device: str, dtype: torch.dtype, activation: str = "gelu_new", *, norm: str = "pre",
    beams: int = 0,
) -> None:  # fmt: skip
    """beams: so many rows share a source; 0: there is none."""
    torch.manual_seed(0)
    rows, dim, heads, _, place = sizes
    stack = Stack(dim, heads, dtype, activation, norm=norm, cross=beams > 0)
    pasts, sources = memories(sizes, dtype), looked_at(rows // beams, heads, dim, dtype) if beams else []
    x, own = torch.randn(rows, dim).to(dtype), moved(pasts, device, dtype)
    there = [Memory(*(y.to(device) for y in (z.keys, z.values, z.mask) if y is not None)) for z in sources]
    found = stack.to(device).fused(x.to(device), own, there).cpu()
    exact = [replace(past, keys=past.keys.double(), values=past.values.double()) for past in pasts]
    right = [replace(source, keys=source.keys.double(), values=source.values.double()) for source in sources]
    wanted = stack.cpu().double().plain(x.double(), exact, right)
    near = TOLERANCE[dtype] * float(wanted.abs().max())
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), wanted, rtol=0, atol=near)
    for past, other in zip(own, exact, strict=True):
        for written, same in ((past.keys, other.keys), (past.values, other.values)):
            torch.testing.assert_close(written[:, :, place].cpu().double(), same[:, :, place], rtol=0, atol=near)
            assert written[:, :, place + 1 :].isnan().all()


@pytest.mark.parametrize(
    ("norm", "beams"),
    [pytest.param("post", 0, marks=THOROUGH), ("post", 1), pytest.param("pre", 3, marks=THOROUGH)],
)
@pytest.mark.parametrize("device", DEVICES)
def test_the_same_logits_with_post_norm_and_a_source(norm: str, beams: int, device: str) -> None:
    compare((6, 48, 3, 20, 5), device, torch.float32, "relu", norm=norm, beams=beams)


@pytest.mark.parametrize("share", [0, 16])
@pytest.mark.parametrize("device", DEVICES)
def test_inputs_may_be_shared_by_programs(share: int, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = fused_step.loop_step_cuda
    tiles = [loop.Tile(rows, 16, 16, 2, 4, share) for rows in (8, 32, 8, 16, 8)]
    plan = loop.Plan(*tiles, loop.Few(16, 1, 1, 16 if share else 1))
    monkeypatch.setattr(loop, "PLANS", {1024: plan})
    compare((10, 48, 3, 20, 18), device, torch.float32, norm="post", beams=2)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("rows", "beams"), [(1, 1), (64, 1), (5, 5), (320, 5)])
@pytest.mark.parametrize("device", DEVICES[1:])
def test_the_same_logits_of_translators(rows: int, beams: int, device: str, dtype: torch.dtype) -> None:
    compare((rows, 256, 4, 64, 20), device, dtype, "relu", norm="post", beams=beams)


@pytest.mark.parametrize("sizes", [SMALL[0], *(pytest.param(sizes, marks=THOROUGH) for sizes in SMALL[1:])])
@pytest.mark.parametrize("device", DEVICES)
def test_the_same_logits(sizes: tuple[int, ...], device: str) -> None:
    compare(sizes, device, torch.float32)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("sizes", LARGE)
@pytest.mark.parametrize("device", DEVICES[1:])
def test_the_same_logits_of_large_stacks(sizes: tuple[int, ...], device: str, dtype: torch.dtype) -> None:
    compare(sizes, device, dtype)


@pytest.mark.parametrize(("rows", "dtype"), [pytest.param(1, torch.bfloat16, marks=THOROUGH), (3, torch.float16)])
@pytest.mark.parametrize("device", DEVICES)
def test_half_precision(rows: int, dtype: torch.dtype, device: str) -> None:
    if device == "cpu" and dtype == torch.bfloat16:
        pytest.skip("the interpreter has no bfloat16 of its own")
    compare((rows, 32, 2, 16, 9), device, dtype)


@THOROUGH
@pytest.mark.parametrize("activation", sorted({"relu", "gelu", "quick_gelu", "silu", "tanh"}))
@pytest.mark.parametrize("device", DEVICES)
def test_activations(activation: str, device: str) -> None:
    compare((1, 16, 1, 16, 3), device, torch.float32, activation)


@THOROUGH
@pytest.mark.parametrize("device", DEVICES)
def test_the_same_input_gives_the_same_bits(device: str) -> None:
    torch.manual_seed(0)
    sizes = (3, 32, 2, 16, 9)
    stack, pasts, x = Stack(32, 2, torch.float32).to(device), memories(sizes, torch.float32), torch.randn(3, 32)
    runs = [stack.fused(x.to(device), moved(pasts, device, torch.float32)) for _ in range(2)]
    assert torch.equal(*runs)


@pytest.mark.parametrize("device", DEVICES)
def test_a_row_that_may_look_nowhere_reads_zeros(device: str) -> None:
    torch.manual_seed(0)
    stack, pasts = Stack(32, 2, torch.float32), memories((2, 32, 2, 16, 9), torch.float32)
    pasts[0].mask[1] = False
    x = torch.randn(2, 32)
    wanted = stack.plain(x, pasts)
    found = stack.to(device).fused(x.to(device), moved(pasts, device, torch.float32)).cpu()
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("scale", [1.0, 48**0.5])
@pytest.mark.parametrize("device", DEVICES)
def test_tokens_are_embedded_to_the_same_bits(device: str, scale: float, dtype: torch.dtype) -> None:
    if device == "cpu" and dtype == torch.bfloat16:
        pytest.skip("the interpreter cuts bfloat16 off")
    torch.manual_seed(0)
    positions: Any = Sinusoidal(48) if scale > 1 else Learned(48, max_positions=9)
    table, positions = nn.Embedding(11, 48).to(device, dtype), positions.to(device, dtype)
    tokens, places = torch.tensor([3, 10, 3], device=device), torch.tensor([0, 8, 5], device=device)
    with torch.no_grad():
        wanted = table(tokens) * scale + positions(places).to(dtype)
        rows = positions.rows(8, places.device)
        x, after = fused_step.fused_step_cuda.embed(tokens, places, table.weight, rows, scale)
    assert torch.equal(x, wanted)
    assert after.tolist() == [1, 9, 6]


def test_every_activation_has_a_kernel() -> None:
    for name in ACTIVATIONS:
        assert fused_step.activation_of(Block(16, 1, 16, activation=name)) in (
            "relu", "gelu", "gelu_tanh", "quick_gelu", "silu", "tanh",
        )  # fmt: skip


@torch.no_grad()
def test_why_it_does_not_fit() -> None:
    def reason(
        block: nn.Module, rows: int = 2, dtype: torch.dtype = torch.float32, sources: Sequence[Memory] = ()
    ) -> str:
        pasts = memories((rows, 32, 2, 16, 9), torch.float32, 1)
        return fused_step.misfit([block], torch.zeros(rows, 32, dtype=dtype), pasts, sources)

    def block(norm: str = "pre", causal: bool = True, **options: Any) -> Block:
        return Block(32, 2, 64, norm=norm, causal=causal, **options).eval()

    good = block()
    assert reason(good) == ""
    assert "rows" in reason(good, fused_step.MOST_ROWS + 1)
    assert reason(block("post")) == ""
    assert "float16" in reason(good, dtype=torch.float16)
    assert "training" in reason(block().train())
    assert "cross" in reason(block(cross=True))
    source = Memory(torch.zeros(1, 2, 5, 16), torch.zeros(1, 2, 5, 16))
    assert reason(block(cross=True), sources=[source]) == ""
    assert "without cross" in reason(good, sources=[source])
    assert "beams" in reason(block(cross=True), 32, sources=[source])
    two = Memory(torch.zeros(2, 2, 5, 16), torch.zeros(2, 2, 5, 16))
    assert "other rows" in reason(block(cross=True), 3, sources=[two])
    assert "causal" in reason(block(causal=False))
    for changed in ({"norm": "none"}, {"norm": "batch"}, {"residual": False}):
        assert "has no feed-forward layer, residual connections or layer norms" in reason(block(**changed))
    assert "has no feed-forward layer" in reason(Block(32, 2, 0, causal=True).eval())
    assert "another kind of attention" in reason(block(score="dot"))
    other = block()
    other.attend = MultiHead(32, 2, head_dim=8, causal=True).eval()
    assert "another kind of attention" in reason(other)
    assert "CUDA" in fused_step.fits([good], torch.zeros(2, 32), memories((2, 32, 2, 16, 9), torch.float32, 1))
    with trace(good):
        assert "traced" in reason(good)
    hooked = block()
    hooked.feed.register_forward_hook(lambda *asked: None)
    assert "hooks" in reason(hooked)
    other = block()
    other.attend = MultiHead(32, 2, causal=True, strict=True).eval()
    assert "causal" in reason(other)
    with torch.enable_grad():
        assert "gradients" in reason(good)


def begun(tied: bool, device: str) -> tuple[GPT2, State]:
    """A model that has read two texts, one padded, and its state with pasts in buffers."""
    torch.manual_seed(0)
    model = GPT2(GPT2Config(19, dim=32, heads=2, layers=2, max_positions=20, tied=tied)).eval().to(device)
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.3)
    mask = torch.tensor([[True] * 4, [False] * 2 + [True] * 2], device=device)
    state = model.start(torch.randint(19, (2, 4), device=device), mask)
    place = torch.tensor(4, device=device)
    static = state.fixed(2, Room(16, 16, place), 1)
    copy_all(static.loading(state))
    return model, static


def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    fused_step._tell.cache_clear()
    reasons: list[str] = []
    monkeypatch.setattr(fused_step.log, "debug", lambda text, *parts: reasons.append(text % parts))
    return reasons


@pytest.mark.parametrize("tied", [True, pytest.param(False, marks=THOROUGH)])
@pytest.mark.parametrize("device", DEVICES)
@torch.no_grad()
def test_gpt2_steps_by_the_kernels(device: str, tied: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if device == "cpu":
        monkeypatch.setattr(fused_step, "fits", fused_step.misfit)
    reasons, tokens = told(monkeypatch), torch.tensor([[3, 7], [5, 1]], device=device)
    model, state = begun(tied, device)
    found = [model.step(tokens[0], state)]
    state.rows[0][0].place.add_(1)
    found.append(model.step(tokens[1], found[0][1]))
    assert not reasons
    model, state = begun(tied, device)
    with trace(model, "blocks.1.attend"):
        wanted = [model.step(tokens[0], state)]
        state.rows[0][0].place.add_(1)
        wanted.append(model.step(tokens[1], wanted[0][1]))
    assert reasons == ["the fused step is not used: attention is traced"]
    for (mine, after), (right, other) in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, right, rtol=0, atol=1e-4)
        for one, two in zip(after.tensors(), other.tensors(), strict=True):
            torch.testing.assert_close(one, two, rtol=0, atol=1e-4)
        assert all(past.written for past in after.rows[0])


@torch.no_grad()
def test_gpt2_on_the_cpu_steps_by_its_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    reasons, tokens = told(monkeypatch), torch.tensor([3, 7])
    model, state = begun(True, "cpu")
    plain = State((), (tuple(past.growing(4, True) for past in state.rows[0]), state.rows[1]))
    logits, after = model.step(tokens, state)
    wanted, grown = model.step(tokens, plain)
    torch.testing.assert_close(logits, wanted, rtol=0, atol=1e-5)
    for past, longer in zip(after.rows[0], grown.rows[0], strict=True):
        torch.testing.assert_close(past.keys[:, :, :5], longer.memory.keys, rtol=0, atol=1e-5)
    model.step(tokens, state)
    assert reasons == ["the fused step is not used: it needs a CUDA GPU, and x is on cpu"]
