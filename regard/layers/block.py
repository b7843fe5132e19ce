"""The Transformer block: self-attention, optional cross-attention, feed-forward.

It serves encoders (not causal), decoders (causal, with cross-attention) and language models (causal, without).
`norm` is "post" as in Vaswani 2017 or "pre" as in Radford 2019; "none" and "batch" are there to be compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.attention import GrowingMemory, Memory, MultiHead, Packing, Question, Score, build_score
from regard.attention.kernels.fused import HALF
from regard.attention.kernels.projections import expand, project
from regard.base.dropout import Dropout
from regard.base.hooks import has_hooks
from regard.errors import BadInput
from regard.layers import add_norm, block_step
from regard.layers.norm import NORMS, BatchNorm, build_norm
from regard.layers.replay import must_not_sync

WORTH = 0.05  # with a smaller share of padding, packing costs more than it saves
# On a GPU small batches are launch-bound, and packing launches more kernels. It pays if a block's multiply-adds for
# the padding are more than this: measured on an H200, see results/gpu_speed.md.
GPU_WORTH = {"float32": 1.2e10, "half": 2e10, "half, training": 1e11}


def quick_gelu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(1.702 * x)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_new": partial(F.gelu, approximate="tanh"),  # GPT-2's
    "gelu_pytorch_tanh": partial(F.gelu, approximate="tanh"),
    "quick_gelu": quick_gelu,
    "silu": F.silu,
    "swish": F.silu,
    "tanh": torch.tanh,
}


# What kernels call them; an activation that is not among these is computed by torch alone.
KERNEL_NAMES = {
    act: {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "swish": "silu"}.get(name, name)
    for name, act in ACTIVATIONS.items()
}


def check_heads(dim: int, heads: int) -> None:
    if dim % heads:
        raise ValueError(f"dim must be a multiple of heads, got dim {dim} and {heads} heads")


class FeedForward(nn.Module):
    """W_2 act(W_1 x + b_1) + b_2, at every position   (Vaswani 2017, eq. 2)"""

    def __init__(self, dim: int, ff: int, *, activation: str, dropout: float):
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(f"unknown activation {activation!r}; there are {', '.join(ACTIVATIONS)}")
        self.inner, self.outer = nn.Linear(dim, ff), nn.Linear(ff, dim)
        self.act, self.dropout = ACTIVATIONS[activation], Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        hidden = expand(x, self.inner, self.act, KERNEL_NAMES)
        return project(self.dropout(hidden), self.outer)[0]


class Block(nn.Module):
    """x + part(norm(x)) (pre-norm) or norm(x + part(x)) (post-norm), for each part in turn: self-attention
    (`attend`), cross-attention (`cross`) and the feed-forward layer (`feed`, none where ff is 0).

    norm = "batch": post-norm with batch norm; "none": x + part(x). residual = False: without the sum, so
    part(norm(x)), norm(part(x)) or part(x). score: how the heads compare query and key; the weights of a score are
    those of all heads of its attention."""

    def __init__(
        self,
        dim: int,
        heads: int,
        ff: int,
        *,
        activation: str = "relu",
        norm: str = "post",
        residual: bool = True,
        score: str = "scaled_dot",
        rank: int = 0,
        beta: float = 0.0,
        causal: bool = False,
        cross: bool = False,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        activation_dropout: float = 0.0,
        drop_path: float = 0.0,
        eps: float = 1e-5,
        fixed_length: bool = False,
    ):
        super().__init__()
        check_heads(dim, heads)
        if norm not in NORMS:
            raise ValueError(f"norm must be post (Vaswani 2017), pre (Radford 2019), none or batch, got {norm!r}")
        if not 0 <= drop_path < 1:
            raise ValueError(f"drop_path must lie in [0, 1), got {drop_path}")
        self.pre, self.residual = norm == "pre", residual
        head = dim // heads

        def compared() -> Score:
            return build_score(score, head, head, max_positions=1, rank=rank, beta=beta)

        self.attend = MultiHead(
            dim, heads, score=compared(), causal=causal, dropout=attention_dropout, fixed_length=fixed_length
        )
        self.attend_norm: Any = build_norm(norm, dim, eps)
        self.cross = MultiHead(dim, heads, score=compared(), dropout=attention_dropout) if cross else None
        self.cross_norm: Any = build_norm(norm, dim, eps) if cross else None
        self.feed: Any = FeedForward(dim, ff, activation=activation, dropout=activation_dropout) if ff else None
        self.feed_norm: Any = build_norm(norm, dim, eps) if ff else None
        self.dropout = Dropout(dropout)
        self.drop_path = drop_path

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        since: Tensor | None = None,
        source: Memory | None = None,
        packing: Packing | None = None,
    ) -> Tensor:
        """x (N, T, dim) -> the same shape, so blocks chain in nn.Sequential.

        mask (N, T): which positions of x may be looked at, and count in a batch norm. since (N, T): where each
        position's document begins.
        source (B): the memory of `cross`, shared by the N / B beams of a sentence.
        packing: x (1, tokens, dim) holds the packed rows of a batch, without padding."""

        def look(x: Tensor) -> Tensor:
            return self.attend(Question(x, since=since, packing=packing), self.attend.remember(x, mask=mask))

        return self._run(x, look, source, packing, mask)

    def step(
        self, x: Tensor, past: GrowingMemory, *, mask: Tensor | None = None, source: Memory | None = None
    ) -> tuple[Tensor, GrowingMemory]:
        """Decoding: x (N, T, dim) follows the positions in `past`. Returns the states of x, and the past with x
        appended; begin with GrowingMemory()."""
        if mask is None and block_step.fits(self, x, past, source):
            self._check(x, source, None)
            return block_step.step(self, x, past, source)
        grown = past

        def look(x: Tensor) -> Tensor:
            nonlocal grown
            grown = past.append(self.attend.remember(x, mask=mask))
            return self.attend(past.ask(x), grown.memory)

        return self._run(x, look, source, None), grown

    def _run(
        self,
        x: Tensor,
        look: Callable[[Tensor], Tensor],
        source: Memory | None,
        packing: Packing | None,
        mask: Tensor | None = None,
    ) -> Tensor:
        self._check(x, source, packing)
        parts: list[tuple[Any, Callable[[Tensor], Tensor]]] = [(self.attend_norm, look)]
        if source is not None:
            parts.append((self.cross_norm, partial(self._cross, source=source)))
        if self.feed is not None:
            parts.append((self.feed_norm, self.feed))
        if self._adds_and_norms_at_once(x, [norm for norm, _ in parts]):
            return self._run_at_once(x, parts)
        for norm, part in parts:
            x = self._add(x, norm, part, packing, mask)
        return x

    def _adds_and_norms_at_once(self, x: Tensor, norms: list[Any]) -> bool:
        if not self.residual or (self.training and self.drop_path > 0) or not add_norm.fits(x, norms):
            return False
        return type(self.dropout) is Dropout and self.dropout.shared is None and not has_hooks(self.dropout)

    def _run_at_once(self, x: Tensor, parts: list[tuple[Any, Callable[[Tensor], Tensor]]]) -> Tensor:
        """As `_run`, with residual connection, dropout and layer norm in one operation. `half` is what the next
        part reads."""
        draws = add_norm.Draws(len(parts), self.dropout.rate if self.dropout.training else 0.0, x.device)
        if not self.pre:
            x, half = add_norm.split(x)
            for norm, part in parts[:-1]:
                x, half = add_norm.add_norm(x, part(half), norm, draws.next(), post=True)
            norm, part = parts[-1]
            return add_norm.add_norm(x, part(half), norm, draws.next(), post=True, last=True)[0]
        x, half = add_norm.normed(x, parts[0][0])
        for (_, part), (norm, _) in pairwise(parts):
            x, half = add_norm.add_norm(x, part(half), norm, draws.next(), post=False)
        return add_norm.add(x, parts[-1][1](half), draws.next())

    def _check(self, x: Tensor, source: Memory | None, packing: Packing | None) -> None:
        dim = self.attend.query.in_features
        if x.dim() != 3 or x.shape[-1] != dim:
            raise ValueError(f"this block takes x of shape (batch, length, {dim}), got {tuple(x.shape)}")
        if self.cross is None:
            if source is not None:
                raise ValueError("source is for a block with cross=True; this one has no cross-attention")
            return
        if packing is not None:
            raise ValueError("a block with cross=True takes no packed rows; unpack them first")
        if source is None:
            raise ValueError(
                "a block with cross=True needs source=, the memory its cross-attention looks at: "
                "block(x, source=block.cross.remember(states, mask=mask))"
            )
        if x.shape[0] % source.keys.shape[0]:
            raise ValueError(
                f"x has {x.shape[0]} rows and the source {source.keys.shape[0]}; "
                "x needs as many rows as the source, or a multiple of them (beams of each sentence)"
            )

    def _cross(self, x: Tensor, source: Memory) -> Tensor:
        assert self.cross is not None
        return self.cross(x.reshape(source.keys.shape[0], -1, x.shape[-1]), source).view_as(x)

    def _add(
        self,
        x: Tensor,
        norm: Any,
        part: Callable[[Tensor], Tensor],
        packing: Packing | None,
        mask: Tensor | None,
    ) -> Tensor:
        made = self._with_path(self.dropout(part(norm(x) if self.pre else x)), packing)
        x = x + made if self.residual else made
        if self.pre:
            return x
        return norm(x, mask) if isinstance(norm, BatchNorm) else norm(x)

    def _with_path(self, x: Tensor, packing: Packing | None) -> Tensor:
        """Stochastic depth (Huang 2016): with probability p a part of the block is dropped for a whole row; where
        it is kept, it is scaled by 1 / (1 - p)."""
        if not self.training or self.drop_path == 0:
            return x
        rows = x.shape[0] if packing is None else len(packing.mask)
        keep = torch.rand(rows, device=x.device) >= self.drop_path
        scale = keep.to(x.dtype) / (1 - self.drop_path)
        scale = scale[:, None] if packing is None else scale[packing.rows][None]  # (B, 1) or (1, N)
        return x * scale[..., None]


def blocks_of(model: nn.Module) -> list[Block]:
    """Every Transformer block of a model."""
    return [module for module in model.modules() if isinstance(module, Block)]


def recompute_blocks(model: Any) -> None:
    """Activation checkpointing (Chen 2016), in place: of each block only the input is kept for the backward pass,
    where the rest is computed again, with the same dropout."""
    blocks = blocks_of(model)
    if not blocks:
        raise BadInput(
            "train.recompute is for models of Transformer blocks, and this one has none; set it to false"
        )
    for block in blocks:
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)  # type: ignore[method-assign]


def worth_packing(x: Tensor, padding: int) -> bool:
    """Whether blocks of this width take longer to compute so many positions of padding than to pack the batch."""
    if not x.is_cuda:
        return True
    half = x.dtype in HALF or torch.is_autocast_enabled("cuda")
    kind = "float32" if not half else "half, training" if torch.is_grad_enabled() else "half"
    return padding * 12 * x.shape[-1] ** 2 >= GPU_WORTH[kind]


def through(blocks: Iterable[nn.Module], x: Tensor, mask: Tensor | None = None) -> Tensor:
    """Run x (B, T, dim) through every block. A batch with enough padding is packed, and the states of padding come
    out as 0; otherwise padding is masked. The states of padding are meaningless either way."""
    packing = None
    # A graph needs static shapes. Counting the padding costs a GPU sync, so a batch that is not worth packing even
    # if it were all padding is left as it is.
    static = torch.compiler.is_compiling() or must_not_sync()
    if mask is not None and not static and worth_packing(x, mask.numel()):
        packing = Packing(mask)
        padding = mask.numel() - packing.size
        if padding < WORTH * mask.numel() or not worth_packing(x, padding):
            packing, mask = None, mask if padding else None
    if packing is None:
        for block in blocks:
            x = block(x, mask=mask)
        return x
    x = packing.pack(x)
    for block in blocks:
        x = block(x, packing=packing)
    return packing.unpack(x)
