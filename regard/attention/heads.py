"""Multi-head attention: the projections are split so that each head attends separately."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from regard.attention.attend import Attend, Look
from regard.attention.kernels.projections import project, real_rows
from regard.attention.memory import Memory
from regard.attention.question import Question
from regard.attention.score import ScaledDot, Score
from regard.attention.shapes import check_memory, check_sizes, check_width
from regard.attention.weigh import Weigh
from regard.base.arguments import checked
from regard.errors import BadInput


@checked
class MultiHead(Attend):
    """head_j = attend(X W_j^Q, Y W_j^K, Y W_j^V), concat(heads) W^O   (Vaswani 2017, 3.2.2), d_k = dim / heads.

    One projection serves all heads and is reshaped. `score` (default scaled dot) works on vectors of d_k, and its
    weights, where it has any, are those of every head. head_dim: another d_k, of queries, keys and values; then
    W^Q, W^K, W^V are (dim, heads d_k), W^O is (heads d_k, dim), and dim need not be a multiple of heads.

    attend(query, key, value, mask=mask)        # as nn.MultiheadAttention; the batch comes first
    attend(query, attend.remember(key, value, mask))     # the same; the memory can be used again

    memory_dim and value_dim: the widths of keys and values, where they differ from dim (torch's kdim and vdim)."""

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        head_dim: int | None = None,
        memory_dim: int | None = None,
        value_dim: int | None = None,
        score: Score | None = None,
        weigh: Weigh | None = None,
        causal: bool = False,
        strict: bool = False,
        dropout: float = 0.0,
        fixed_length: bool = False,
        bias: bool = True,
    ):
        if heads < 1 or (head_dim is None and dim % heads):
            either = "" if heads < 1 else "; change one of them, or say head_dim="
            raise BadInput(f"dim must be a multiple of heads, got dim {dim} and {heads} heads{either}")
        check_sizes(dim=dim, head_dim=head_dim, memory_dim=memory_dim, value_dim=value_dim)
        head = dim // heads if head_dim is None else head_dim
        width = heads * head
        super().__init__(
            score or ScaledDot(head, head),
            weigh,
            causal=causal,
            strict=strict,
            dropout=dropout,
            fixed_length=fixed_length,
        )
        self.heads = heads
        self.query = nn.Linear(dim, width, bias=bias)
        self.key = nn.Linear(memory_dim or dim, width, bias=bias)
        self.value = nn.Linear(value_dim or memory_dim or dim, width, bias=bias)
        self.out = nn.Linear(width, dim, bias=bias)

    @classmethod
    def from_torch(cls, module: nn.MultiheadAttention, *, causal: bool = False) -> MultiHead:
        """A copy of torch's module: its weights, which of them learn, dropout, device, dtype and mode. Two things
        differ: the batch is first, whatever `module.batch_first` is, and masks are True where a query may look.

        torch                                 here
        mha(q, k, v)[0]                       attend(q, k, v)
        key_padding_mask=hidden               mask=~hidden                (B, K)
        attn_mask=hidden                      query_mask=~hidden          (Q, K), (B, Q, K) or (B, H, Q, K)
        attn_mask=floats                      bias=floats
        attn_mask=future, is_causal=True      MultiHead.from_torch(mha, causal=True)
        need_weights=True                     attend.look(q, k, v).weights
        """
        if not isinstance(module, nn.MultiheadAttention):
            raise BadInput(
                "from_torch copies an nn.MultiheadAttention, got "
                f"{type(module).__module__}.{type(module).__name__}; pass the attention inside it, as "
                "layer.self_attn of an nn.TransformerEncoderLayer"
            )
        if module.bias_k is not None or module.add_zero_attn:
            raise BadInput(
                "add_bias_kv and add_zero_attn of nn.MultiheadAttention add places to the memory and are not "
                "supported; only a module made without them can be copied"
            )
        made = cls(
            module.embed_dim,
            module.num_heads,
            memory_dim=module.kdim,
            value_dim=module.vdim,
            causal=causal,
            dropout=module.dropout,
            bias=module.in_proj_bias is not None,
        )
        last = module.out_proj
        made.to(device=last.weight.device, dtype=last.weight.dtype).train(module.training)
        _copy([made.query.weight, made.key.weight, made.value.weight], _parts(module))
        _copy([made.out.weight], [last.weight])
        if module.in_proj_bias is not None:
            _copy([made.query.bias, made.key.bias, made.value.bias], [module.in_proj_bias])
            _copy([made.out.bias], [last.bias])
        return made

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(-3, -2)  # (B, L, H D) -> (B, H, L, D)

    def _merge(self, x: Tensor) -> Tensor:
        return project(x.transpose(-3, -2).flatten(-2), self.out)[0]  # (B, H, Q, D) -> (B, Q, H D)

    def _ask(self, query: Tensor | Question) -> Question:
        question = query if isinstance(query, Question) else Question(query)
        check_width("the query", question.query, self.query.in_features)
        (projected,) = project(question.query, self.query)
        return super()._ask(replace(question, query=self._split(projected)))

    def remember(self, keys: Tensor, values: Tensor | None = None, mask: Tensor | None = None) -> Memory:
        check_width("the keys", keys, self.key.in_features)
        check_width("the values", keys if values is None else values, self.value.in_features)
        if mask is not None or values is not None:
            check_memory(keys, keys if values is None else values, mask)
        if mask is not None:  # before the projections, which would spread NaN
            keys, values = real_rows(keys, mask), None if values is None else real_rows(values, mask)
        if values is None:
            keys, values = map(self._split, project(keys, self.key, self.value))
        else:
            keys, values = self._split(self.key(keys)), self._split(self.value(values))
        if self.causal:  # again after them: a query may have only padding before it, and their bias is not 0
            return super().remember(keys, values, mask)
        return replace(super().remember(keys, values), mask=mask)

    def forward(
        self,
        query: Tensor | Question,
        memory: Memory | Tensor,
        value: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        query_mask: Tensor | None = None,
        bias: Tensor | None = None,
    ) -> Tensor:
        """What each query reads (B, Q, dim). `memory` is a Memory, or the keys (B, K, memory_dim), whose values are
        `value` (B, K, value_dim; None: the keys).

        With keys: mask (B, K), True = may look; query_mask, the same for each query, (Q, K), (B, Q, K) or
        (B, H, Q, K); bias, a float of such a shape, is added to the scores."""
        return self._merge(super().forward(*self._given(query, memory, value, mask, query_mask, bias)))

    def look(
        self,
        query: Tensor | Question,
        memory: Memory | Tensor,
        value: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        query_mask: Tensor | None = None,
        bias: Tensor | None = None,
    ) -> Look:
        """Weights and scores are per head; the read is merged and projected."""
        look = super().look(*self._given(query, memory, value, mask, query_mask, bias))
        return replace(look, read=self._merge(look.read))

    def _given(
        self,
        query: Tensor | Question,
        memory: Memory | Tensor,
        value: Tensor | None,
        mask: Tensor | None,
        query_mask: Tensor | None,
        bias: Tensor | None,
    ) -> tuple[Tensor | Question, Memory]:
        """The question and the memory that the arguments of a call stand for."""
        if isinstance(memory, Tensor):
            memory = self.remember(memory, value, mask)
        elif value is not None or mask is not None:
            raise BadInput("a Memory has its values and mask already: pass them to remember, or pass plain keys")
        if query_mask is None and bias is None:
            return query, memory
        if isinstance(query, Question):
            raise BadInput("a Question has its own mask and bias: Question(query, mask=query_mask, bias=bias)")
        return Question(query, mask=query_mask, bias=bias), memory


def _parts(module: nn.MultiheadAttention) -> list[Tensor]:
    """The weights of queries, keys and values, in one tensor or apart."""
    if module.in_proj_weight is not None:
        return [module.in_proj_weight]
    return [module.q_proj_weight, module.k_proj_weight, module.v_proj_weight]


@torch.no_grad()
def _copy(ours: list[Tensor], theirs: list[Tensor]) -> None:
    """Numbers, and whether they learn; one tensor of theirs may hold several of ours."""
    each = [part for parameter in theirs for part in parameter.chunk(len(ours) // len(theirs))]
    for number, (mine, values) in enumerate(zip(ours, each, strict=True)):
        mine.copy_(values).requires_grad_(theirs[number * len(theirs) // len(ours)].requires_grad)
