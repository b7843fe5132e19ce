"""Watching changes nothing, costs only what was named, and is each thread's own affair."""

import gc
import re
import threading
import weakref

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from regard.attention import (
    Additive,
    Attend,
    Cosine,
    Dot,
    GrowingMemory,
    Hard,
    LocalMonotonic,
    LocalPredictive,
    MultiHead,
    Question,
    ScaledDot,
    TemperedQuestion,
    record,
    trace,
)
from regard.attention.trace import sites_of
from regard.errors import NoAttention, WrongArgument

B, T, S, D, H = 2, 5, 7, 16, 4


class Layer(nn.Module):
    traced = ("gate",)  # it records its gate

    def __init__(self):
        super().__init__()
        self.self = MultiHead(D, H, causal=True, dropout=0.2)
        self.cross = MultiHead(D, H, dropout=0.2)
        self.gate = nn.Linear(D, 1)

    def forward(self, x, memory, mask):
        x = x + self.self(x, self.self.remember(x))
        read = self.cross(x, self.cross.remember(memory, mask=mask))
        gate = torch.sigmoid(self.gate(x))  # (B, T, 1)
        record(self, "gate", gate.squeeze(-1))
        return torch.tanh(x + gate * read)


class Decoder(nn.Module):
    """Fused sites in layers, and an exact one at the end."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Layer(), Layer()])
        self.last = Attend(Additive(D, D), dropout=0.2)

    def forward(self, x, memory, mask=None):
        for layer in self.layers:
            x = layer(x, memory, mask)
        return x + self.last(x, self.last.remember(memory, mask=mask))


SITES = ["layers.0.self", "layers.0.cross", "layers.1.self", "layers.1.cross", "last"]


def inputs(seed=0):
    generator = torch.Generator().manual_seed(seed)
    mask = torch.arange(S) < torch.tensor([[S], [S - 3]])
    return torch.randn(B, T, D, generator=generator), torch.randn(B, S, D, generator=generator), mask


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Decoder().eval()


class Softmaxes(TorchDispatchMode):
    """The shape of every softmax that is computed (the fused kernel has none), how many operations there are, and
    the largest thing they make apart from what was there before."""

    def __init__(self, *before):
        super().__init__()
        self.before = {x.untyped_storage().data_ptr() for x in before}
        self.shapes, self.count, self.largest = [], 0, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.count += 1
        if "softmax" in str(func):
            self.shapes.append(tuple(out.shape))
        if isinstance(out, torch.Tensor) and out.untyped_storage().data_ptr() not in self.before:
            self.largest = max(self.largest, out.numel())
        return out


# ---------------------------------------------------------------- what is seen


def test_the_weights_of_every_site(model):
    with trace(model) as seen:
        model(*inputs())
    assert sorted(seen.having("weights")) == sorted(SITES)
    for site in SITES[:4]:
        assert seen[site].shape == (B, H, T, T if "self" in site else S)
    assert seen["last"].shape == (B, T, S)
    for site in SITES:
        assert torch.allclose(seen[site].sum(-1), torch.ones(()), atol=1e-5)
    assert (seen["layers.0.self"].triu(1) == 0).all()
    assert (seen["layers.1.cross"][1, :, :, S - 3 :] == 0).all()


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", ["self", "cross"])
def test_they_are_those_of_the_exact_look(model, name, training):
    """Dropout left out, also while training; of some heads and rows, causal or at given positions."""
    model.train(training)
    site = getattr(model.layers[0], name)
    x, states, mask = inputs()
    memory = site.remember(x) if name == "self" else site.remember(states, mask=mask)
    for question in (x, Question(x[:, [3, 1]], position=torch.tensor([3, 1]))):
        with trace(model, "layers.0.*", heads=[2, 1], rows=[1]) as seen:
            site(question, memory)
        exact = site.look(question, memory).weights
        assert torch.allclose(seen[f"layers.0.{name}"], exact[:, [2, 1], 1:2], atol=1e-6)
        assert not seen[f"layers.0.{name}"].requires_grad


def test_sharpness_of_each_query_is_seen():
    torch.manual_seed(0)
    attend = Attend(Cosine(D, D))
    question = TemperedQuestion(torch.randn(B, T, D), beta=torch.rand(B, T) * 9)
    memory = attend.remember(torch.randn(B, S, D))
    with trace(attend, rows=[1, 3]) as seen:
        attend(question, memory)
    assert torch.allclose(seen[""], attend.look(question, memory).weights[:, [1, 3]], atol=1e-6)


def test_only_what_was_named_is_computed(model):
    arguments = inputs()
    with Softmaxes() as plain:
        model(*arguments)
    assert plain.shapes == [(B, T, S)]  # the exact site's own
    with trace(Decoder()), Softmaxes() as elsewhere:
        model(*arguments)
    assert elsewhere.count == plain.count  # nothing watched, nothing paid
    with trace(model, "layers.1.cross", heads=[0, 3], rows=[2]) as seen, Softmaxes() as counted:
        model(*arguments)
    assert sorted(counted.shapes) == sorted([(B, T, S), (B, 2, 1, S)])
    assert seen.sites == ["layers.1.cross"]
    with trace(model, "layers.1.cross") as full:
        model(*arguments)
    assert torch.allclose(seen["layers.1.cross"], full["layers.1.cross"][:, [0, 3]][:, :, [2]], atol=1e-6)
    with trace(model, "layers.1.cross", "last", rows=[99]) as nothing, Softmaxes() as counted:
        model(*arguments)
    assert counted.shapes == plain.shapes
    assert nothing.sites == []


def test_local_attention_shows_the_named_rows_only():
    """Of a long memory, one row is spread out, not all of them."""
    torch.manual_seed(0)
    attend = Attend(Additive(D, D), LocalMonotonic(window=2))
    memory = attend.remember(torch.randn(1, 4096, D))
    question = Question(torch.randn(1, 16, D), position=torch.arange(16) * 250)
    with torch.no_grad(), trace(attend, rows=[3]) as seen, Softmaxes(memory.keys, memory.values) as made:
        attend(question, memory)
    want = attend.look(question, memory).dense(4096)[:, 3:4]
    assert torch.equal(seen[""], want)
    assert made.largest <= 2 * 4096


@pytest.mark.parametrize("kind", [list, tuple], ids=["list", "tuple"])
def test_heads_and_rows_of_any_sequence(model, kind):
    with trace(model, "layers.0.*", heads=kind([1, 2]), rows=kind([0, 4])) as seen:
        model(*inputs())
    assert seen["layers.0.cross"].shape == (B, 2, 2, S)
    with trace(model, "layers.0.*", heads=range(1, 3), rows=range(0, 5, 4)) as again:
        model(*inputs())
    assert torch.equal(seen["layers.0.cross"], again["layers.0.cross"])


def test_rows_count_across_calls(model):
    """A decoder asks step by step; row 5 is the sixth question, whichever call asked it."""
    x, memory, mask = inputs()
    site = model.layers[0].cross
    with trace(model, "layers.0.cross") as whole:
        site(x, site.remember(memory, mask=mask))
    with trace(model, "layers.0.cross", rows=[1, 4]) as seen:
        for part in (slice(0, 1), slice(1, 3), slice(3, 5)):
            site(x[:, part], site.remember(memory, mask=mask))
    assert torch.allclose(seen["layers.0.cross"], whole["layers.0.cross"][:, :, [1, 4]], atol=1e-6)


def test_a_growing_memory_is_padded(model):
    x = inputs()[0]
    site = model.layers[0].self
    with trace(model, "layers.0.self") as whole:
        site(x, site.remember(x))
    with trace(model, "layers.0.self") as seen:
        memory = GrowingMemory()
        for t in range(T):
            memory = memory.append(site.remember(x[:, t : t + 1]))
            site(Question(x[:, t : t + 1], position=torch.tensor([t])), memory.memory)
    assert torch.allclose(seen["layers.0.self"], whole["layers.0.self"], atol=1e-6)


def test_a_trace_is_walked_through_by_its_sites(model):
    with trace(model, "layers.*.cross") as seen, torch.no_grad():
        model(torch.randn(B, T, D), torch.randn(B, S, D))
    assert list(seen) == seen.sites == ["layers.0.cross", "layers.1.cross"]
    for asked in (0, ("layers.0.cross",), ("layers.0.cross", 1), None):
        with pytest.raises(WrongArgument, match=r"it has \['layers.0.cross', 'layers.1.cross'\], got "):
            seen[asked]


def test_the_mask_says_where_each_query_may_look(model):
    """Padding, the future, and both, whichever way the read goes; also as a memory grows."""
    x = inputs()[0]
    mask = torch.arange(T) < torch.tensor([[T], [T - 2]])
    past = torch.ones(T, T, dtype=torch.bool).tril()
    for attend, want in (
        (Attend(Dot(D, D)), mask[:, None].expand(-1, T, -1)),
        (Attend(Dot(D, D), causal=True), past & mask[:, None]),
        (Attend(Additive(D, D), causal=True, strict=True), past.tril(-1) & mask[:, None]),
        (MultiHead(D, 2, causal=True), past & mask[:, None]),
    ):
        with torch.no_grad(), trace(attend) as seen:
            attend(x, attend.remember(x, mask=mask))
        assert torch.equal(seen["", "mask"], want)
        weights = seen[""] if seen[""].dim() == 3 else seen[""].sum(1)
        assert (weights[~want] == 0).all()
        with torch.no_grad(), trace(attend, rows=[1, 3]) as some:
            attend(x, attend.remember(x, mask=mask))
        assert torch.equal(some["", "mask"], want[:, [1, 3]])
    with torch.no_grad(), trace(attend) as seen:
        attend(x, attend.remember(x))
        attend(Question(x[:, :1], newest=True), attend.remember(x))
    assert seen["", "mask"].shape == (len(x), T + 1, T)
    assert seen["", "mask"][:, -1].all()


def test_records_of_other_kinds(model):
    with trace(model, "layers.*") as seen:
        out = [model(*inputs()) for _ in range(2)]
    assert torch.equal(*out)
    assert seen.kinds("layers.0") == ["gate"]
    assert seen["layers.1", "gate"].shape == (B, 2 * T)  # the second call's queries follow the first's
    assert torch.equal(seen["layers.1", "gate"][:, :T], seen["layers.1", "gate"][:, T:])
    with trace(model, "layers.0") as seen:
        record(model.layers[0], "share", torch.tensor(0.25))
        record(model.layers[0], "share", torch.tensor(0.5))
        record(model.layers[1], "share", torch.tensor(0.75))  # not watched
    assert seen["layers.0", "share"].tolist() == [0.25, 0.5]
    with pytest.raises(
        KeyError, match=r"nothing recorded at \('layers.1', 'share'\); recorded: \('layers.0', 'share'\)"
    ):
        seen["layers.1", "share"]


class Gates(nn.Module):
    """Gates of whole images (B, C), and those of a cell, step by step (N, D)."""

    traced = ("gate", "input")

    def __init__(self):
        super().__init__()
        self.attend = Attend(Dot(D, D))  # not asked

    def forward(self, x):
        gate = x.mean(1).sigmoid()  # (B, D)
        record(self, "gate", gate, axis=0)
        for step in x.unbind(1):
            record(self, "input", step[:, None], axis=1)
        return x * gate[:, None]


def test_gates_without_queries_add_up_over_the_batch():
    model, (x, *_) = Gates(), inputs()
    with trace(model) as seen:
        model(x)
        model(x[:1])
    assert torch.equal(seen["", "gate"], torch.cat([x, x[:1]]).mean(1).sigmoid())
    with trace(model) as seen:
        record(model, "gate", x[:, 0], axis=-2)  # the batch by another number
        record(model, "gate", x[:1, 0], axis=-2)
    assert torch.equal(seen["", "gate"], torch.cat([x, x[:1]])[:, 0])


def test_gates_of_a_cell_add_up_over_its_steps():
    model, (x, *_) = Gates(), inputs()
    with trace(model) as seen:
        model(x)
    assert torch.equal(seen["", "input"], x)  # (N, T, D)
    with trace(model) as seen:
        model(x)
        model(x[:1])
    with pytest.raises(ValueError, match=r"batches of \[1, 2\] rows; trace these calls one by one"):
        seen["", "input"]


def test_sites_with_gates_alone_are_sites(model):
    gates = nn.Sequential(Gates())
    assert sites_of(gates) == ["0", "0.attend"]
    assert (sites_of(gates, "gate"), sites_of(gates, "weights"), sites_of(gates, "x")) == (["0"], ["0.attend"], [])
    assert sites_of(nn.Linear(2, 2)) == []
    with trace(gates) as seen:
        assert repr(seen) == "<Trace: nothing recorded yet>"
        gates(inputs()[0])
    assert (seen.sites, seen.kinds("0"), seen.having("gate"), seen.having("weights")) == (
        ["0"],
        ["gate", "input"],
        ["0"],
        [],
    )
    assert repr(seen) == f"<Trace: 0 gate {(B, D)}>"
    with pytest.raises(
        KeyError, match=r"nothing recorded at \('0', 'weights'\); recorded: \('0', 'gate'\), \('0', 'i"
    ):
        seen["0"]
    with pytest.raises(NoAttention, match=r"none were recorded at any site; recorded: 0 \(gate, input\)$"):
        seen.picture("abcde")
    with trace(model, "layers.0", "layers.0.cross") as seen:
        model(*inputs())
    assert seen.sites == ["layers.0.cross", "layers.0"]
    assert list(seen.picture("abcde", "ABCDEFG").panels) == ["layers.0.cross"]
    with pytest.raises(
        NoAttention, match=r"none were recorded at layers\.0; recorded: layers\.0\.cross \(weights, mask"
    ):
        seen.picture("abcde", "ABCDEFG", sites=["layers.0"])


def test_nothing_watched_nothing_paid_for_gates():
    model, (x, *_) = Gates(), inputs()
    with Softmaxes() as plain:
        out = model(x)
    with trace(Gates()), Softmaxes() as elsewhere:
        model(x)
    with trace(model, "attend"), Softmaxes() as another:
        model(x)
    assert plain.count == elsewhere.count == another.count
    with trace(model), Softmaxes() as watched:
        assert torch.equal(model(x), out)
    assert watched.count > plain.count


def test_what_is_kept_is_a_copy(model):
    """What happens to a recorded tensor afterwards does not change what was seen."""
    gate = torch.zeros(3)
    with trace(model, "layers.0") as seen:
        record(model.layers[0], "gate", gate)
        gate += 1
        record(model.layers[0], "gate", gate)
    assert seen["layers.0", "gate"].tolist() == [0, 0, 0, 1, 1, 1]


def test_centres_and_choices():
    torch.manual_seed(0)
    q, k = torch.randn(B, T, D), torch.randn(B, S, D)
    local = Attend(ScaledDot(D, D), LocalPredictive(D, window=2))
    with trace(local) as seen:
        look = local.look(q, local.remember(k))
    assert torch.equal(seen["", "centre"], look.places.centre.detach())
    assert torch.equal(seen[""], look.dense(S).detach())
    hard = Attend(ScaledDot(D, D), Hard(soft_share=0))
    with trace(hard) as seen:
        look = hard.look(q, hard.remember(k))
    assert torch.equal(seen[""].argmax(-1), look.chosen)


@pytest.mark.parametrize("pattern", ["decoder.*", "layers.*.gate", "layers.0.self.query"])
def test_a_pattern_without_a_site_is_refused(model, pattern):
    """Also one that names another part of the model: nothing would be seen there."""
    with (
        pytest.raises(NoAttention, match=rf"like '{re.escape(pattern)}'; the sites .*'layers\.0\.cross'.*'last'"),
        trace(model, "last", pattern),
    ):
        pass


def test_a_model_without_attention_is_refused():
    with (
        pytest.raises(NoAttention, match=r"this model has no attention .*nn\.MultiheadAttention"),
        trace(nn.Linear(2, 2)),
    ):
        pass


def test_calls_of_unlike_batches_are_not_joined(model):
    x, memory, mask = inputs()
    with trace(model, "last") as seen:
        model(x, memory, mask)
        model(x[:1], memory[:1], mask[:1])
    with pytest.raises(ValueError, match=r"batches of \[1, 2\] rows; trace these calls one by one"):
        seen["last"]


def test_a_picture_in_one_line(model):
    with torch.no_grad(), trace(model, "layers.0.*", "last") as seen:
        model(*inputs())
    queries, words = list("abcde"), list("ABCDEFG")
    heads = seen.picture(queries, words, sites=["layers.0.cross", "last"], item=1)
    assert [panel.shape for panel in heads.panels.values()] == [(H, T, S), (1, T, S)]
    assert torch.equal(torch.from_numpy(heads.panels["last"][0]), seen["last"][1])
    assert heads.tokens("last") == (tuple(queries), tuple(words))
    assert (heads.mask["last"] == seen["last", "mask"][1].numpy()).all()
    assert seen.picture(queries, sites=["layers.0.self"]).map("layers.0.self", 2).weights.shape == (T, T)


# ---------------------------------------------------------------- nothing changes


@pytest.mark.parametrize("training", [False, True])
def test_bit_equal(model, training):
    """Outputs and gradients, with dropout and the same seed."""
    model.train(training)

    def run():
        torch.manual_seed(3)
        model.zero_grad()
        out = model(*inputs())
        out.square().sum().backward()
        after = torch.rand(3)  # nor does watching draw random numbers of its own
        return [out, after, *(p.grad.clone() for p in model.parameters())]

    plain = run()
    for wanted in ({}, {"heads": [1], "rows": [0, 2]}):
        with trace(model, **wanted) as seen:
            watched = run()
        assert seen.sites
        assert all(torch.equal(one, other) for one, other in zip(plain, watched, strict=True))


def test_nothing_is_kept_after(model):
    with trace(model) as seen:
        model(*inputs())
    before = seen["last"]
    with Softmaxes() as counted:
        model(*inputs(1))
    assert counted.shapes == [(B, T, S)]
    assert torch.equal(seen["last"], before)
    gone = weakref.ref(seen)
    del seen
    gc.collect()
    assert gone() is None


def test_nothing_is_watched_after_an_error(model):
    with pytest.raises(RuntimeError, match="on purpose"), trace(model) as seen:
        raise RuntimeError("on purpose")
    model(*inputs())
    assert seen.sites == []


def test_nested(model):
    with trace(model, "layers.0.cross") as outer:
        model(*inputs(0))
        with trace(model, "layers.*.cross", rows=[0]) as inner:
            model(*inputs(1))
        model(*inputs(2))
    assert outer.sites == ["layers.0.cross"]
    assert outer["layers.0.cross"].shape == (B, H, 3 * T, S)
    assert inner["layers.0.cross"].shape == (B, H, 1, S)
    assert sorted(inner.sites) == ["layers.0.cross", "layers.1.cross"]
    assert torch.allclose(inner["layers.0.cross"], outer["layers.0.cross"][:, :, T : T + 1], atol=1e-6)


# ---------------------------------------------------------------- threads


def in_threads(*works):
    """Run all at once; what one raises is raised here."""
    failures = []

    def guarded(work):
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def threads_keep_apart(model, call):
    meet = threading.Barrier(3, timeout=60)
    seen, outs = {}, {}

    def watch(name, *patterns):
        with trace(model, *patterns) as mine:
            meet.wait()
            outs[name] = call(*inputs())
            meet.wait()
        seen[name] = mine

    def only_run():
        meet.wait()
        outs["plain"] = call(*inputs())
        meet.wait()

    in_threads(lambda: watch("a", "layers.0.cross"), lambda: watch("b", "layers.1.self", "last"), only_run)
    assert seen["a"].sites == ["layers.0.cross"]
    assert sorted(seen["b"].sites) == ["last", "layers.1.self"]
    assert seen["a"]["layers.0.cross"].shape == (B, H, T, S)
    assert seen["b"]["layers.1.self"].shape == (B, H, T, T)
    assert torch.equal(outs["a"], outs["plain"])
    assert torch.equal(outs["b"], outs["plain"])


def test_threads_watch_apart(model):
    threads_keep_apart(model, model)


def test_one_watches_while_another_runs(model):
    """A thread started inside a trace is not watched by it."""
    with trace(model) as seen:
        in_threads(lambda: model(*inputs()))
    assert seen.sites == []


def test_rows_are_counted_from_the_first(model):
    with pytest.raises(ValueError, match="from 0"), trace(model, rows=[-1]):
        pass
