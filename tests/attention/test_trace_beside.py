"""Scores, queries, keys and values of a site: recorded where asked, and what the weights are computed from."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.attention import (
    Additive,
    Attend,
    Cosine,
    GrowingMemory,
    LocalMonotonic,
    Memory,
    MultiHead,
    Packing,
    Question,
    trace,
)
from regard.attention.record import BESIDE

B, T, D, H = 2, 5, 12, 3
ASKED = dict.fromkeys(BESIDE, True)
MASK = torch.arange(T) < torch.tensor([[T], [3]])


class Own(nn.Module):
    """By torch's function."""

    def forward(self, x):
        x = x.unflatten(-1, (H, -1)).transpose(1, 2)
        return F.scaled_dot_product_attention(x, 2 * x, x, is_causal=True)


class Itself(nn.Module):
    """A sequence that looks at itself."""

    def __init__(self, attend):
        super().__init__()
        self.attend = attend

    def forward(self, x):
        if isinstance(self.attend, nn.MultiheadAttention):
            return self.attend(x, x, x, key_padding_mask=~MASK)[0]
        if isinstance(self.attend, Own):
            return self.attend(x)
        return self.attend(x, self.attend.remember(x, mask=MASK))


SITES = {
    "heads": lambda: MultiHead(D, H),
    "causal": lambda: MultiHead(D, H, causal=True),
    "other width": lambda: MultiHead(D, H, head_dim=7),
    "cosine": lambda: MultiHead(D, H, score=Cosine(4, 4, beta=2.0)),
    "additive": lambda: Attend(Additive(D, D)),
    "causal additive": lambda: Attend(Additive(D, D), causal=True),
    "window": lambda: Attend(Additive(D, D), LocalMonotonic(window=1)),
    "torch": lambda: nn.MultiheadAttention(D, H, batch_first=True),
    "torch, other sizes": lambda: nn.MultiheadAttention(D, H, batch_first=True, kdim=D, bias=False),
    "function": Own,
}


def built(name):
    torch.manual_seed(0)
    return Itself(SITES[name]()).eval()


@torch.no_grad()
def test_worked_by_hand():
    """Two tokens and one head of two features; the projections double queries, and swap the features of keys."""
    attend = MultiHead(2, 1, bias=False, causal=True)
    attend.query.weight.copy_(torch.tensor([[2.0, 0.0], [0.0, 2.0]]))
    attend.key.weight.copy_(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    attend.value.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, -1.0]]))
    x = torch.tensor([[[1.0, 2.0], [3.0, 0.0]]])
    with trace(attend, **ASKED) as seen:
        attend(x, x)
    assert seen["", "queries"].tolist() == [[[[2.0, 4.0], [6.0, 0.0]]]]
    assert seen["", "keys"].tolist() == [[[[2.0, 1.0], [0.0, 3.0]]]]
    assert seen["", "values"].tolist() == [[[[1.0, -2.0], [3.0, 0.0]]]]
    first, second = seen["", "scores"][0, 0].tolist()
    assert first == [pytest.approx(8 / math.sqrt(2)), -math.inf], "the first may not look at what comes after it"
    assert second == pytest.approx([12 / math.sqrt(2), 0.0])
    share = math.exp(12 / math.sqrt(2)) / (math.exp(12 / math.sqrt(2)) + 1)
    assert seen[""][0, 0, 1].tolist() == pytest.approx([share, 1 - share])


@pytest.mark.parametrize("name", SITES)
@torch.no_grad()
def test_weights_are_the_softmax_of_the_scores(name):
    model, x = built(name), torch.randn(B, T, D)
    with trace(model, "attend", **ASKED) as seen:
        out = model(x)
    weights, scores = seen["attend"], seen["attend", "scores"]
    torch.testing.assert_close(scores.softmax(-1).nan_to_num(), weights)  # 0 where there is nothing to look at
    allowed = seen["attend", "mask"]
    allowed = allowed if scores.dim() == 3 else allowed[:, None].expand_as(scores)
    assert (scores.isneginf() | allowed).all()
    assert seen["attend", "keys"].shape[-2] == seen["attend", "values"].shape[-2] == T
    read = weights @ seen["attend", "values"]
    if name == "function":
        torch.testing.assert_close(read, out)
    elif scores.dim() == 4:
        last = model.attend.out_proj if "torch" in name else model.attend.out
        torch.testing.assert_close(last(read.transpose(1, 2).flatten(2)), out)
    else:
        torch.testing.assert_close(read, out)


@pytest.mark.parametrize("name", ["heads", "causal", "torch", "function"])
@torch.no_grad()
def test_scores_are_products_of_queries_and_keys(name):
    model, x = built(name), torch.randn(B, T, D)
    with trace(model, "attend", **ASKED, heads=[2, 0], rows=[1, 4]) as seen:
        model(x)
    queries, keys, scores = (seen["attend", kind] for kind in ("queries", "keys", "scores"))
    assert (queries.shape, keys.shape, scores.shape) == ((B, 2, 2, 4), (B, 2, T, 4), (B, 2, 2, T))
    products = queries @ keys.mT / 2  # sqrt(4)
    finite = scores.isfinite()
    torch.testing.assert_close(products[finite], scores[finite])
    with trace(model, "attend", **ASKED) as whole:
        model(x)
    torch.testing.assert_close(whole["attend", "queries"][:, [2, 0]][:, :, [1, 4]], queries)
    torch.testing.assert_close(whole["attend", "values"][:, [2, 0]], seen["attend", "values"])


@torch.no_grad()
def test_additive_shows_its_projections():
    model, x = built("additive"), torch.randn(B, T, D)
    with trace(model, "attend", queries=True, keys=True) as seen:
        model(x)
    score = model.attend.score
    torch.testing.assert_close(seen["attend", "queries"], score.query_weight(x), rtol=1e-4, atol=1e-5)
    hidden = ~MASK[..., None]
    torch.testing.assert_close(
        seen["attend", "keys"], score.key_weight(x.masked_fill(hidden, 0)), rtol=1e-4, atol=1e-5
    )


def test_what_is_not_asked_is_not_recorded():
    model = built("heads")
    with trace(model, "attend", scores=True) as seen:
        model(torch.randn(B, T, D))
    assert seen.kinds("attend") == ["weights", "mask", "scores"]
    with pytest.raises(KeyError, match=r"nothing recorded at \('attend', 'keys'\)"):
        seen["attend", "keys"]


@torch.no_grad()
def test_steps_add_up_and_the_memory_is_the_last():
    attend = MultiHead(D, H, causal=True)
    x, past = torch.randn(B, T, D), GrowingMemory()
    with trace(attend, **ASKED) as seen:
        for place in range(T):
            here = x[:, place : place + 1]
            before, past = past, past.append(attend.remember(here))
            attend(before.ask(here), past.memory)
    with trace(attend, **ASKED) as whole:
        attend(x, attend.remember(x))
    for kind in BESIDE:
        torch.testing.assert_close(seen["", kind], whole["", kind])


@torch.no_grad()
def test_packed_rows_are_shown_as_a_padded_batch():
    attend, x, packing = MultiHead(D, H), torch.randn(B, T, D), Packing(MASK)
    packed = packing.pack(x)
    with trace(attend, **ASKED) as seen:
        attend(Question(packed, packing=packing), attend.remember(packed))
    with trace(attend, **ASKED) as wanted:
        attend(x, attend.remember(x, mask=MASK))
    real = MASK[:, None, :, None]
    for kind in ("queries", "values"):
        torch.testing.assert_close(seen["", kind] * real, wanted["", kind] * real)
    shown, all_scores = seen["", "scores"], wanted["", "scores"]
    torch.testing.assert_close(shown[0], all_scores[0])
    torch.testing.assert_close(shown[1, :, :3], all_scores[1, :, :3])


def test_layers_of_transformers_show_all_but_scores():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2, intermediate_size=16,
        vocab_size=9,
    )  # fmt: skip
    model = transformers.LlamaModel(config).eval()
    with torch.no_grad(), trace(model, **ASKED, heads=[1, 3]) as seen:
        model(torch.tensor([[1, 2, 3]]))
    [site] = seen.sites
    assert set(seen.kinds(site)) == {"weights", "mask", "queries", "keys", "values"}
    scores = seen[site, "queries"] @ seen[site, "keys"].mT / 2
    hidden = torch.ones(3, 3, dtype=torch.bool).triu(1)
    torch.testing.assert_close(scores.masked_fill(hidden, -torch.inf).softmax(-1), seen[site])


def test_a_memory_made_by_hand() -> None:
    """Persons asked for by a name: what is looked up is what is read."""
    memory = Memory(torch.eye(3)[None], torch.tensor([[[1.0], [2.0], [4.0]]]))
    attend = Attend(Cosine(3, 3, beta=1.0))
    with trace(attend, **ASKED) as seen:
        attend(torch.tensor([[[0.0, 5.0, 0.0]]]), memory)
    assert seen["", "scores"].tolist() == [[[0.0, 1.0, 0.0]]]
    assert seen["", "values"].flatten().tolist() == [1.0, 2.0, 4.0]
