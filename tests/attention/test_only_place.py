"""`attend.py` names all who weigh keys beside `Attend`; nobody else does."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch
from torch import Tensor

import regard
from regard.attention import Weigh, attend
from regard.layers.pooling import MeanPool
from regard.models.lstmn.tape import TapeLSTM
from regard.models.ntm.memory import TuringMemory
from regard.models.ntm.step import rewrite

PACKAGE = Path(regard.__file__).parent
# What attention is made of: a softmax, a weighted sum, or a kernel of both. In Triton a softmax is made of exp.
MADE_OF = {
    "softmax",
    "log_softmax",
    "masked_softmax",
    "softmin",
    "scaled_dot_product_attention",
    "multi_head_attention_forward",
    "weighted_sums",
    "one_weighted_sum",
    "einsum",
    "fused_attention",
    "packed_attention",
}
# Attention of their own: `attend.py` names each of them, and its test.
OWN = (
    "models/lstmn/tape.py",
    "models/lstmn/kernels.py",
    "models/ntm/step.py",
    "models/ntm/kernels.py",
    "models/snail/kernels.py",
)
# A softmax of something else than keys.
OTHER = {
    "layers/loss.py": "over words or classes",
    "layers/loss_cuda.py": "over words",
    "layers/pooling.py": "a mean: weights that nothing was asked for",
    "models/elmo/scalar_mix.py": "over layers, with learned scores and no query",
    "models/ntm/address.py": "a way to weigh, which `Attend` calls",
    "models/ntm/memory.py": "over the moves of a head, and its learned first weights",
    "models/snail/agent.py": "over actions",
}


def parts_used(path: Path) -> set[str]:
    """What of `MADE_OF` the code of a file calls."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            in_triton = isinstance(node.value, ast.Name) and node.value.id == "tl"
            names.add("softmax" if in_triton and node.attr in ("exp", "exp2") else node.attr)
        elif isinstance(node, ast.Name):
            names.add(node.id)
    return names & MADE_OF


def test_nobody_else_weighs_keys() -> None:
    users = {
        path.relative_to(PACKAGE).as_posix()
        for package in ("layers", "models")
        for path in (PACKAGE / package).rglob("*.py")
        if parts_used(path)
    }
    assert users == {*OWN, *OTHER}


@pytest.mark.parametrize("path", OWN)
def test_attend_names_them_and_their_tests(path: str) -> None:
    folder, file = path.rsplit("/", 1)
    said = attend.__doc__ or ""
    (line,) = (line for line in said.splitlines() if line.strip().startswith(folder))
    assert file in line
    listed = said[said.index(line) :].splitlines()[1].replace(" ", "").split(",")
    first = Path(listed[0])
    for test in (first, *(first.parent / name for name in listed[1:])):
        assert (PACKAGE.parent / test).exists(), test


def slopes(total: Tensor, given: list[Tensor]) -> list[Tensor]:
    return list(torch.autograd.grad(total, given, retain_graph=True))


def test_the_tape_is_attend_step_by_step() -> None:
    """The whole sequence in one function against a look of `Attend` at each step, in value and gradient."""
    torch.manual_seed(0)
    layer, x = TapeLSTM(3, 4, 5).double(), torch.randn(2, 6, 3, dtype=torch.float64, requires_grad=True)
    towards, given = torch.randn(2, 6, 4, dtype=torch.float64), [x, *layer.parameters()]
    whole, steps, before = layer(x), [], layer.begin(x)
    for now in x.unbind(1):
        hidden, before = layer.step(now, before)
        steps.append(hidden)
    looked = torch.stack(steps, 1)
    torch.testing.assert_close(whole, looked, rtol=1e-6, atol=1e-7)
    for ours, wanted in zip(
        slopes((whole * towards).sum(), given), slopes((looked * towards).sum(), given), strict=True
    ):
        torch.testing.assert_close(ours, wanted, rtol=1e-5, atol=1e-6)


def test_a_machine_addresses_as_attend_does() -> None:
    """A step of all heads in one function against a look of `Attend`, in value and gradient."""
    torch.manual_seed(0)
    memory, hidden = TuringMemory(4, places=5, width=3, heads=2, shift=1).double(), torch.randn(2, 4).double()
    before = memory.begin(2)
    before = before._replace(matrix=torch.randn_like(before.matrix).requires_grad_())
    given = [before.matrix, *memory.parameters()]
    question, erase, add = memory.ask(hidden, before)
    weights = memory.attend.look(question, memory.attend.remember(before.matrix)).weights
    reading, writing = weights.chunk(2, 1)
    looked = (reading @ rewrite(before.matrix, writing, erase, add)).flatten(1)
    read, after = memory(hidden, before)
    torch.testing.assert_close(read, looked)
    torch.testing.assert_close(after.weights, weights)
    for ours, wanted in zip(slopes(read.square().sum(), given), slopes(looked.square().sum(), given), strict=True):
        torch.testing.assert_close(ours, wanted)


def test_a_mean_is_attention_with_equal_scores() -> None:
    states, mask = torch.randn(2, 5, 3), torch.arange(5) < torch.tensor([[5], [3]])
    attending = attend.Attend(regard.attention.Dot(3, 3), Weigh())
    read = attending(torch.zeros(2, 1, 3), attending.remember(states, mask=mask))[:, 0]
    torch.testing.assert_close(MeanPool()(states, mask), read)
