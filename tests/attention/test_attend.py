"""The call, which may take the fused kernel, against the exact look; and what attention is at its edges."""

import math
import string
from itertools import product

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from regard.attention import (
    SCORES,
    WAYS,
    Attend,
    Cosine,
    Dot,
    General,
    GrowingMemory,
    Hard,
    MultiHead,
    Question,
    ScaledDot,
    build_score,
    build_weigh,
    trace,
)

INNER = ["dot", "scaled_dot", "general", "cosine"]
PRECISION = {torch.float32: 3e-6, torch.bfloat16: 6e-2, torch.float16: 6e-3}
B, Q, K, D = 3, 4, 10, 8


class Seen(TorchDispatchMode):
    """The names of the operations that run, and the largest tensor they make beside what was there before."""

    def __init__(self, *before):
        super().__init__()
        self.before = {x.untyped_storage().data_ptr() for x in before}
        self.names, self.largest = [], 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.names.append(str(func))
        for x in tree_leaves(out):
            if isinstance(x, torch.Tensor) and x.untyped_storage().data_ptr() not in self.before:
                self.largest = max(self.largest, x.numel())
        return out

    @property
    def fused(self):
        """The plain form is no operation of its own: it would show as a softmax."""
        return any("scaled_dot_product" in name for name in self.names) and not any(
            "softmax" in name for name in self.names
        )


def make_mask(kind, size):
    if kind == "all":
        return None
    mask = torch.ones(B, size, dtype=torch.bool)
    if kind == "right":
        mask[1, size - 3 :], mask[2] = False, False  # the last row has nothing at all
    elif kind == "left":
        mask[1, :3], mask[2, :6] = False, False
    else:
        mask[0, 1::2], mask[2, 3:5] = False, False
    return mask


def remember(attend, k, v, mask, grown):
    """One memory: made at once, grown with gradients (concatenated), or without (inside a buffer)."""
    if grown == "no":
        return attend.remember(k, v, mask)
    cut, memory = k.shape[-2] - 3, GrowingMemory()
    with torch.set_grad_enabled(grown == "with gradients"):
        for part in (slice(0, cut), slice(cut, cut + 1), slice(cut + 1, None)):
            own = None if mask is None else mask[:, part]
            memory = memory.append(attend.remember(k[..., part, :], v[..., part, :], own))
    return memory.memory


def close(one, other, bound):
    return (one.double() - other.double()).abs().max() <= bound * max(1.0, float(other.detach().abs().max()))


GRID = list(
    product(
        ["all", "right", "left", "holes"],
        ["all", "causal", "strict"],
        ["no", "with gradients", "without gradients"],
        [((), K), ((2,), Q)],  # all queries of a sequence, and the last few of one with heads
    )
)


@pytest.mark.parametrize("dtype", PRECISION, ids=str)
@pytest.mark.parametrize("name", INNER)
def test_fused_is_exact(name, dtype):
    """In value and gradient, over mask x causality x growth x heads."""
    torch.manual_seed(0)
    attends = {
        causal: Attend(build_score(name, D, D, max_positions=K), causal=causal != "all", strict=causal == "strict")
        for causal in ("all", "causal", "strict")
    }
    for masked, causal, grown, (heads, count) in GRID:
        case = f"mask {masked}, causality {causal}, grown {grown}, heads {heads}"
        attend, mask = attends[causal].to(dtype), make_mask(masked, K)
        q, k, v = (torch.randn(B, *heads, n, D).to(dtype).requires_grad_() for n in (count, K, K))
        # The queries of a whole sequence need no positions; those of a grown memory and the last few do.
        whole = grown == "no" and count == K
        question = Question(q, position=None if whole else torch.arange(K - count, K))
        memory = remember(attend, k, v, mask, grown)
        with Seen() as seen:
            called = attend(question, memory)
        assert seen.fused, case
        inputs = [q] if grown == "without gradients" else [q, k, v, *attend.parameters()]
        results = []
        for read in (called, attend.look(question, memory).read):
            assert read.dtype == dtype, case
            weight = torch.linspace(-1, 1, read.numel(), dtype=dtype).view_as(read)
            results.append([read, *torch.autograd.grad((read * weight).sum(), inputs, retain_graph=True)])
        for one, other in zip(*results, strict=True):
            assert one.isfinite().all(), case
            assert close(one, other, PRECISION[dtype]), case


@pytest.mark.parametrize("masked", ["all", "right", "left"])
@pytest.mark.parametrize("causal", [False, True])
def test_positions_of_each_row(causal, masked):
    """(B, Q) positions: rows of a batch may be at different steps."""
    torch.manual_seed(0)
    attend = Attend(ScaledDot(D, D), causal=causal)
    mask = make_mask(masked, K)
    for heads in ((), (2,)):
        q, k = torch.randn(B, *heads, 2, D), torch.randn(B, *heads, K, D)
        position = torch.tensor([[0, 1], [4, 3], [9, 7]])
        together = Question(q, position=position)
        read = attend(together, attend.remember(k, mask=mask))
        assert torch.allclose(read, attend.look(together, attend.remember(k, mask=mask)).read, atol=1e-6)
        for b in range(B):
            alone = attend.remember(k[b : b + 1], mask=None if mask is None else mask[b : b + 1])
            one = attend(Question(q[b : b + 1], position=position[b]), alone)
            assert torch.allclose(read[b : b + 1], one, atol=1e-6)


@pytest.mark.parametrize("strict", [False, True])
def test_causal_is_what_it_says(strict):
    """The weights of step t lie on 0 .. t (strict: 0 .. t - 1), and a changed future changes no read."""
    torch.manual_seed(0)
    attend = Attend(ScaledDot(D, D), causal=True, strict=strict)
    x = torch.randn(1, 6, D)
    weights = attend.look(x, attend.remember(x)).weights[0]
    past = torch.ones(6, 6, dtype=torch.bool).tril(-1 if strict else 0)
    assert (weights[~past] == 0).all()
    assert (weights[past] > 0).all()
    alone = attend(x[:, :1], attend.remember(x[:, :1]))
    assert torch.equal(alone, torch.zeros_like(alone) if strict else x[:, :1])
    other = x.clone()
    other[:, 4:] = 9.0
    assert torch.equal(attend(x, attend.remember(x))[:, :4], attend(x, attend.remember(other))[:, :4])


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("causal", ["all", "causal", "strict"])
@pytest.mark.parametrize("name", INNER)
def test_no_queries_by_keys_tensor_is_kept_or_made(name, causal, masked):
    torch.manual_seed(0)
    long = 256
    attend = Attend(build_score(name, D, D, max_positions=1), causal=causal != "all", strict=causal == "strict")
    q, k = torch.randn(1, long, D, requires_grad=True), torch.randn(1, long, D, requires_grad=True)
    mask = torch.arange(long)[None] < long - 20 if masked else None
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda x: (kept.append(x.untyped_storage().nbytes() // x.element_size()), x)[1], lambda x: x
    ):
        memory = attend.remember(k, mask=mask)
        with Seen() as seen, sdpa_kernel(SDPBackend.FLASH_ATTENTION):  # refuses where flash does not apply
            read = attend(q, memory)
        assert kept
        assert max(kept) < long * long / 16
        assert seen.fused
        assert seen.largest < long * long / 16
        kept.clear()
        attend.look(q, memory)
        assert max(kept) >= long * long  # the measure sees what it should
    read.sum().backward()
    assert q.grad.isfinite().all()


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("grown", [False, True])
@pytest.mark.parametrize("heads", [None, 2])
@torch.no_grad()
def test_one_question_does_not_copy_the_memory(heads, grown, masked):
    """A decoder asks once per token: the memory is read where it lies."""
    long = 1024
    attend = Attend(ScaledDot(D, D), causal=True) if heads is None else MultiHead(D, heads, causal=True)
    states = torch.randn(1, long, D)
    memory = attend.remember(states, mask=torch.arange(long)[None] >= 3 if masked else None)
    if grown:
        memory = GrowingMemory().append(memory).append(attend.remember(torch.randn(1, 1, D))).memory
    question = Question(torch.randn(1, 1, D), position=torch.tensor([memory.size - 1]))
    with Seen(memory.keys, memory.values, *attend.parameters()) as seen:
        attend(question, memory)
    assert seen.fused
    assert seen.largest <= 2 * long  # a mask; not the long x D of keys or values


@pytest.mark.parametrize("values", [3, 20])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("causal", ["all", "causal", "strict"])
def test_values_of_another_size_than_keys(causal, masked, values):
    """Still fused, still equal: nothing says that a value has a key's size."""
    torch.manual_seed(0)
    long = 128
    attend = Attend(ScaledDot(D, D), causal=causal != "all", strict=causal == "strict")
    q, k, v = (torch.randn(2, long, d, requires_grad=True) for d in (D, D, values))
    mask = torch.arange(long) < torch.tensor([[long], [long - 9]]) if masked else None
    memory = attend.remember(k, v, mask)
    with Seen() as seen:
        read = attend(q, memory)
    exact = attend.look(q, memory).read
    assert close(read, exact, 3e-6)
    for one, other in zip(
        torch.autograd.grad(read.square().sum(), [q, k, v], retain_graph=True),
        torch.autograd.grad(exact.square().sum(), [q, k, v]),
        strict=True,
    ):
        assert close(one, other, 1e-5)
    assert seen.fused


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_dropout_keeps_the_mean_and_leaves_the_weights(masked, causal):
    torch.manual_seed(0)
    attend = Attend(ScaledDot(D, D), causal=causal, dropout=0.4)
    x = torch.randn(1, 5, D).expand(8000, 5, D)
    memory = attend.remember(x, mask=(torch.arange(5) < 4).expand(8000, 5) if masked else None)
    look = attend.look(x, memory)
    plain = attend.eval().look(x, memory)
    assert torch.equal(look.weights, plain.weights)  # before dropout
    assert torch.allclose(attend(x, memory), plain.read, atol=1e-6)  # none while running
    for read in (look.read, attend.train()(x, memory)):
        assert (read.mean(0) - plain.read[0]).abs().max() < 0.1
        assert read.std(0).min() > 0.01


# ---------------------------------------------------------------- the one idea


def test_equal_weights_are_mean_pooling():
    torch.manual_seed(0)
    states, mask = torch.randn(2, 5, D), torch.arange(5) < torch.tensor([[5], [3]])
    means = torch.stack([states[0].mean(0), states[1, :3].mean(0)])
    nothing = torch.zeros(2, 1, D)  # every key answers an empty question as well as any other
    for score in (Dot(D, D), General(D, D), Cosine(D, D)):
        attend = Attend(score)
        memory = attend.remember(states, mask=mask)
        assert torch.allclose(attend(nothing, memory)[:, 0], means, atol=1e-6)
        assert torch.allclose(attend.look(nothing, memory).read[:, 0], means, atol=1e-6)


NAMES = ["ANNA", "JOAN", "JOHN", "MARY"]
AGES_AND_SIZES = torch.tensor([[31.0, 1.68], [24.0, 1.75], [57.0, 1.81], [42.0, 1.60]])


def spell(name):
    """A letter at each place, one-hot."""
    return torch.tensor(
        [[float(c == letter) for letter in string.ascii_uppercase] for c in name.ljust(4)]
    ).flatten()


@pytest.mark.parametrize("weigh", [None, Hard().eval()], ids=["soft", "hard"])
def test_one_hot_weights_are_a_table(weigh):
    """Persons asked by id and by name; half a name blends the rows it fits."""
    sure = 1000.0  # so sharp a softmax is one-hot to the last bit
    by_id = Attend(Dot(4, 4), weigh)
    table = by_id.remember(torch.eye(4)[None], AGES_AND_SIZES[None])
    assert torch.equal(by_id(sure * torch.eye(4)[None], table)[0], AGES_AND_SIZES)
    by_name = Attend(Dot(4 * 26, 4 * 26), weigh)
    table = by_name.remember(torch.stack([spell(name) for name in NAMES])[None], AGES_AND_SIZES[None])
    for row, name in enumerate(NAMES):
        look = by_name.look(sure * spell(name)[None, None], table)
        assert look.weights[0, 0].tolist() == [float(row == i) for i in range(4)]
        assert torch.equal(look.read[0, 0], AGES_AND_SIZES[row])
    if weigh is None:
        blend = by_name(sure * spell("JO")[None, None], table)[0, 0]
        assert torch.allclose(blend, AGES_AND_SIZES[1:3].mean(0))


def test_self_attention_of_a_sentence():
    """No parameters: queries = keys = values = the embeddings. A word said twice looks alike both times."""
    torch.manual_seed(0)
    words = ["YOUR", "CAT", "IS", "A", "LOVELY", "CAT"]
    table = {word: torch.randn(512) for word in dict.fromkeys(words)}
    x = torch.stack([table[word] for word in words])[None]
    attend = Attend(ScaledDot(512, 512))
    look = attend.look(x, attend.remember(x))
    weights = look.weights[0]
    assert weights.shape == (6, 6)
    assert torch.allclose(weights.sum(-1), torch.ones(6), atol=1e-6)
    exps = (x[0].double() @ x[0].double().T / math.sqrt(512)).exp()
    assert torch.allclose(weights.double(), exps / exps.sum(-1, keepdim=True), atol=1e-6)
    assert torch.allclose(weights[1], weights[5], atol=1e-6)
    assert torch.allclose(weights[:, 1], weights[:, 5], atol=1e-6)
    assert torch.allclose(attend(x, attend.remember(x)), look.read, atol=1e-5)


def test_permutation_equivariance():
    torch.manual_seed(0)
    x, order = torch.randn(2, 7, D), torch.randperm(7)
    for attend in [
        *(Attend(build_score(name, D, D, max_positions=7)) for name in (*INNER, "additive")),
        MultiHead(D, 2),
    ]:
        read = attend(x, attend.remember(x))
        turned = attend(x[:, order], attend.remember(x[:, order]))
        assert torch.allclose(turned, read[:, order], atol=1e-5)
        assert torch.allclose(turned.mean(1), read.mean(1), atol=1e-5)  # pooled: invariant
    causal = Attend(ScaledDot(D, D), causal=True)
    assert not torch.allclose(
        causal(x[:, order], causal.remember(x[:, order])), causal(x, causal.remember(x))[:, order], atol=1e-2
    )


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SCORES)
def test_beams_are_extra_queries(name, way):
    """W beams of a sentence ask its one memory: the same as W copies of it, asked once each."""
    torch.manual_seed(0)
    width = 3
    attend = Attend(build_score(name, D, D, max_positions=K), build_weigh(way, D, window=2), causal=True).eval()
    q, k, mask = torch.randn(B, width, D), torch.randn(B, K, D), make_mask("right", K)
    position = torch.randint(0, K, (B, width))
    together = attend(Question(q, position=position), attend.remember(k, mask=mask))
    copies = attend.remember(k.repeat_interleave(width, 0), mask=mask.repeat_interleave(width, 0))
    apart = attend(Question(q.view(-1, 1, D), position=position.view(-1, 1)), copies)
    assert torch.allclose(together, apart.view_as(together), atol=1e-6)


# ---------------------------------------------------------------- documents of a row, and the newest places


SINCE = torch.tensor([[0, 0, 0, 3, 3, 3, 3, 7, 7, 7], [0] * 10, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]])


def layouts():
    """One head, several, and several behind projections: how to remember and ask is the same."""
    torch.manual_seed(0)
    plain = Attend(ScaledDot(D, D), causal=True)
    return [(plain, ()), (plain, (2,)), (MultiHead(D, 2, causal=True), ())]


@pytest.mark.parametrize("masked", ["all", "right", "left", "holes"])
@pytest.mark.parametrize("number", range(3), ids=["one", "heads", "projected"])
def test_a_document_is_read_as_if_alone(number, masked):
    """Called and looked at, in value and gradient."""
    attend, heads = layouts()[number]
    x, mask = torch.randn(B, *heads, K, D, requires_grad=True), make_mask(masked, K)
    question, memory = Question(x, since=SINCE), attend.remember(x, mask=mask)
    alone = torch.zeros_like(x)
    for row in range(B):
        begins = sorted(set(SINCE[row].tolist()))
        for first, last in zip(begins, [*begins[1:], K], strict=True):
            part = x[row : row + 1, ..., first:last, :]
            seen = None if mask is None else mask[row : row + 1, first:last]
            alone[row, ..., first:last, :] = attend(part, attend.remember(part, mask=seen))[0]
    upstream = torch.randn_like(x)
    wanted = torch.autograd.grad(alone, x, upstream)[0]
    for read in (attend(question, memory), attend.look(question, memory).read):
        assert torch.allclose(read, alone, atol=1e-6)
        assert torch.allclose(torch.autograd.grad(read, x, upstream, retain_graph=True)[0], wanted, atol=1e-5)
    weights = attend.look(question, memory).weights
    before = torch.arange(K) < SINCE[..., None]  # (B, Q, K)
    assert not weights[before.view(B, *[1] * (weights.dim() - 3), K, K).expand_as(weights)].any()


@pytest.mark.parametrize("strict", [False, True])
def test_what_is_shown_of_a_document_is_what_was_read(strict):
    """Of some rows only: where their documents begin goes with them."""
    torch.manual_seed(0)
    attend = Attend(ScaledDot(D, D), causal=True, strict=strict).eval()
    x = torch.randn(B, K, D)
    question, memory = Question(x, since=SINCE), attend.remember(x)
    model = torch.nn.ModuleDict({"site": attend})
    with trace(model, "site", rows=[1, 4, 8]) as seen:
        attend(question, memory)
    assert torch.allclose(seen["site"], attend.look(question, memory).weights[:, [1, 4, 8]], atol=1e-6)


@pytest.mark.parametrize("masked", ["all", "left", "holes"])
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("count", [1, 3, K])
def test_the_newest_places_ask_as_in_the_whole(count, strict, masked):
    """They stand at the end of the memory, with no need to say where."""
    torch.manual_seed(0)
    attend = Attend(ScaledDot(D, D), causal=True, strict=strict).eval()
    x, mask = torch.randn(B, K, D), make_mask(masked, K)
    memory = attend.remember(x, mask=mask)
    whole = attend.look(x, memory)
    for since in (None, SINCE):
        if since is not None:
            whole = attend.look(Question(x, since=since), memory)
        last = Question(x[:, -count:], since=None if since is None else since[:, -count:], newest=True)
        with trace(torch.nn.ModuleDict({"site": attend}), "site") as seen:
            read = attend(last, memory)
        assert torch.allclose(read, whole.read[:, -count:], atol=1e-6)
        assert torch.allclose(attend.look(last, memory).read, whole.read[:, -count:], atol=1e-6)
        assert torch.allclose(seen["site"], whole.weights[:, -count:], atol=1e-6)


# ---------------------------------------------------------------- what is refused


def test_settings_are_checked():
    with pytest.raises(ValueError, match=r"strict=True .* needs causal=True"):
        Attend(Dot(D, D), strict=True)
    for dropout in (-0.1, 1.0):
        with pytest.raises(ValueError, match=rf"dropout must lie in \[0, 1\), got {dropout}"):
            Attend(Dot(D, D), dropout=dropout)


@pytest.mark.parametrize("attend", [Attend(Dot(D, D)), MultiHead(D, 2)], ids=["one", "heads"])
@pytest.mark.parametrize(
    "mask",
    [torch.ones(2, 5), torch.ones(2, 5, dtype=torch.long), torch.ones(2, 4, dtype=torch.bool)],
    ids=["floats", "numbers", "too short"],
)
def test_masks_are_checked_at_the_door(attend, mask):
    with pytest.raises(ValueError, match=r"boolean, True = may look, of shape \(2, 5\); got torch"):
        attend.remember(torch.randn(2, 5, D), mask=mask)
