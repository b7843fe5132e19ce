"""Watching a model under torch.compile: it runs as compiled, and is seen all the same."""

import shutil
import threading

import pytest
import torch
from torch import nn

from regard.attention import Additive, Attend, MultiHead, record, trace

B, T, S, D, H = 2, 5, 7, 16, 4
# Without vector instructions inductor need not try out the compiler for each kind of them, for half a minute; and
# without processes that compile for it, torch is not imported anew.
QUICK = {"cpp.vec_isa_ok": False, "compile_threads": 1}

# torch.compile warns about what it does itself: instances of autograd functions, scripted methods.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.*is deprecated:DeprecationWarning"),
]


class Layer(nn.Module):
    """A fused site, an exact one, and a gate."""

    traced = ("gate",)

    def __init__(self):
        super().__init__()
        self.cross = MultiHead(D, H, dropout=0.2)
        self.last = Attend(Additive(D, D), dropout=0.2)
        self.gate = nn.Linear(D, 1)

    def forward(self, x, memory, mask):
        read = self.cross(x, self.cross.remember(memory, mask=mask))
        gate = torch.sigmoid(self.gate(x))  # (B, T, 1)
        record(self, "gate", gate.squeeze(-1))
        x = torch.tanh(x + gate * read)
        return x + self.last(x, self.last.remember(memory, mask=mask))


def inputs():
    generator = torch.Generator().manual_seed(0)
    mask = torch.arange(S) < torch.tensor([[S], [S - 3]])
    return torch.randn(B, T, D, generator=generator), torch.randn(B, S, D, generator=generator), mask


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Layer().eval()


@pytest.fixture
def compiled(model):
    torch._dynamo.reset()
    yield torch.compile(model, backend="eager")
    torch._dynamo.reset()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.thorough)])
def test_bit_equal_and_seen(model, backend):
    if backend == "inductor" and (shutil.which("g++") is None or " " in torch.__file__):
        pytest.skip("inductor needs g++, and a torch that lies in a path without spaces")
    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend)
    from torch._inductor import config  # late: with all that it imports it takes seconds

    with torch.no_grad(), config.patch(QUICK):
        plain = compiled(*inputs())
        with trace(compiled, "", "cross", heads=[1], rows=[0]) as seen:
            watched = compiled(*inputs())
        after = compiled(*inputs())
        with trace(model, "cross", heads=[1], rows=[0]) as eager:
            model(*inputs())
    assert torch.equal(plain, watched)
    assert torch.equal(plain, after)
    assert seen.sites == ["cross", ""]
    assert torch.allclose(seen["cross"], eager["cross"], atol=1e-6)
    assert seen["", "gate"].shape == (B, T)


def test_first_compiled_while_watched(compiled):
    """The graph holds nothing of the trace, whose end compiles nothing anew."""

    def graphs():
        return torch._dynamo.utils.counters["stats"]["unique_graphs"]

    with torch.no_grad():
        before = graphs()
        with trace(compiled, "last") as seen:
            watched = compiled(*inputs())
        assert torch.equal(watched, compiled(*inputs()))
    assert graphs() == before + 1
    assert seen["last"].shape == (B, T, S)  # of the first call alone


def test_gradients_are_untouched(model, compiled):
    def run():
        model.zero_grad()
        compiled(*inputs()).square().sum().backward()
        return [p.grad.clone() for p in model.parameters()]

    plain = run()
    with trace(compiled, "last"):
        watched = run()
    assert all(torch.equal(one, other) for one, other in zip(plain, watched, strict=True))


def test_nested(compiled):
    with torch.no_grad(), trace(compiled, "last") as outer, trace(compiled, "cross", "last") as inner:
        compiled(*inputs())
    assert outer.sites == ["last"]
    assert outer["last"].shape == (B, T, S)
    assert inner["cross"].shape == (B, H, T, S)
    assert torch.equal(inner["last"], outer["last"])


def test_threads_watch_apart(compiled):
    with torch.no_grad():
        plain = compiled(*inputs())  # compiled once, here
    meet = threading.Barrier(3, timeout=60)
    seen, outs, failures = {}, [], []

    def run(*patterns):
        try:
            with torch.no_grad(), trace(compiled, *patterns) as mine:
                meet.wait()
                outs.append(compiled(*inputs()))
                meet.wait()
            seen[patterns] = mine
        except BaseException as error:
            failures.append(error)

    def only_run():
        with torch.no_grad():
            meet.wait()
            outs.append(compiled(*inputs()))
            meet.wait()

    works = [lambda: run("cross"), lambda: run("last"), only_run]
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(outs) == 3
    assert all(torch.equal(out, plain) for out in outs)
    assert seen["cross",].sites == ["cross"]
    assert seen["last",].sites == ["last"]
    assert seen["cross",]["cross"].shape == (B, H, T, S)
    assert seen["last",]["last"].shape == (B, T, S)


def test_a_compiled_part_of_a_model(model):
    torch._dynamo.reset()
    whole = nn.ModuleDict({"first": model, "second": Layer().eval()})
    x, memory, mask = inputs()

    def run():
        with torch.no_grad():
            return whole["second"](whole["first"](x, memory, mask), memory, mask)

    with trace(whole, "first.cross") as eager:
        run()
    whole["first"] = torch.compile(model, backend="eager")
    before = run()
    with trace(whole, "*cross") as seen:
        assert torch.equal(run(), before)
    (first,) = [site for site in seen.sites if site.startswith("first.")]
    assert torch.allclose(seen[first], eager["first.cross"], atol=1e-6)
    assert seen["second.cross"].shape == (B, H, T, S)


def test_while_training_it_is_refused(compiled):
    """The second pass would draw other dropout than the first."""
    compiled.train()
    with pytest.raises(ValueError, match=r"call model\.eval\(\) first"), trace(compiled, "last"):
        compiled(*inputs())


def test_compiled_in_place_is_refused(model):
    model.compile(backend="eager")
    with pytest.raises(ValueError, match=r"use compiled = torch\.compile\(model\)"), trace(model, "last"):
        pass
