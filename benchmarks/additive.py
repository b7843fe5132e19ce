"""Additive attention: regard's form and the usual one, v . tanh(q[:, :, None] + k[:, None]), which keeps a B x Q
x K x D tensor for the backward pass; both include the exponentials or sums they need. "A query at a time" is how
a recurrent decoder computes it: what depends on the keys is computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from benchmarks.frame import Call, Case, bench, difference, row
from regard.attention.kernels.additive import exponentials, sum_of_tanh


def usual(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    return torch.tanh(queries[:, :, None] + keys[:, None]) @ v


def ours(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    return sum_of_tanh(exponentials(queries), exponentials(keys), v)


def usual_in_steps(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    return torch.cat([usual(query[:, None], keys, v) for query in queries.unbind(1)], 1)


def ours_in_steps(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    ready = exponentials(keys)
    return torch.cat([sum_of_tanh(exponentials(query[:, None]), ready, v) for query in queries.unbind(1)], 1)


FORMS: dict[str, Callable[..., Tensor]] = {
    "regard": ours,
    "regard, a query at a time": ours_in_steps,
    "usual": usual,
    "usual, a query at a time": usual_in_steps,
}


def call_of(form: Callable[..., Tensor], size: tuple[int, ...], dtype: torch.dtype, backward: bool) -> Call:
    rows, queries, keys, dim = size
    torch.manual_seed(0)
    made = [torch.randn(shape, device=bench.device) for shape in ((rows, queries, dim), (rows, keys, dim), (dim,))]
    made[2] /= dim**0.5
    tensors = [x.to(dtype).requires_grad_(backward) for x in made]
    grad = torch.randn(size[:3], device=bench.device).to(dtype)
    if not backward:
        return lambda: form(*tensors)
    return lambda: torch.autograd.grad(form(*tensors), tensors, grad)[0]


@row("additive", "Additive scores of all queries and keys, forward and backward", unit="scores", memory=True)
def additive() -> Iterator[Case]:
    sizes = bench.pick(
        [(2, 4, 8, 16)],
        [(64, 32, 64, 512), (16, 128, 128, 256), (187, 22, 22, 512)],
        [(16, 512, 512, 512), (32, 128, 128, 512), (64, 32, 64, 512), (256, 20, 20, 512)],
    )
    forms = FORMS | ({"usual, compiled": torch.compile(usual)} if bench.gpu else {})
    for size in sizes:
        for dtype in (torch.float32, torch.bfloat16) if bench.gpu else (torch.float32,):
            for backward in (False, True):
                contenders = {name: partial(call_of, form, size, dtype, backward) for name, form in forms.items()}
                name = f"{', '.join(map(str, size))}, {str(dtype).removeprefix('torch.')}"
                work = "forward and backward" if backward else "forward"
                yield Case(f"{name}, {work}", size[0] * size[1] * size[2], contenders, agree=difference)
