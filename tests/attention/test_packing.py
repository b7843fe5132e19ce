"""Rows end to end read what the padded batch reads, and padding is nowhere."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor, nn

from regard.attention import (
    Additive,
    Attend,
    Cosine,
    General,
    Hard,
    LocalMonotonic,
    MultiHead,
    Packing,
    Question,
    ScaledDot,
    TemperedQuestion,
    trace,
)
from regard.attention import packing as module
from regard.attention.packing import cut

D, H, T = 12, 3, 9

MASKS = {
    "right": torch.arange(T) < torch.tensor([[4], [T], [1], [7], [4]]),
    "left": torch.arange(T) >= torch.tensor([[4], [0], [8], [2], [4]]),
    "ragged": torch.rand(6, T, generator=torch.Generator().manual_seed(3)) < 0.6,
    "one row": torch.arange(T)[None] < 5,
    "equal": (torch.arange(T) < 6).expand(4, T),
    "all real": torch.ones(3, T, dtype=torch.bool),
    "an empty row": torch.arange(T) < torch.tensor([[3], [0], [T], [0]]),
    "single tokens": torch.eye(T, dtype=torch.bool),
}
each_mask = pytest.mark.parametrize("name", MASKS)
COSTS = {"no waste": 0, "some": 40, "one group": 1 << 30}
each_cost = pytest.mark.parametrize("cost", COSTS.values(), ids=COSTS)


@pytest.fixture
def costs(monkeypatch: pytest.MonkeyPatch, cost: int) -> None:
    """Groups as small or as large as may be."""
    monkeypatch.setitem(module.GROUP, "cpu", cost)


def sites(*, causal: bool = False, strict: bool = False, dropout: float = 0.0) -> dict[str, Attend]:
    torch.manual_seed(0)
    options = {"causal": causal, "strict": strict, "dropout": dropout}
    return {
        "heads": MultiHead(D, H, **options),
        "additive heads": MultiHead(D, H, score=Additive(D // H, D // H), **options),
        "general": Attend(General(D, D), **options),
        "additive": Attend(Additive(D, D), **options),
        "cosine": Attend(Cosine(D, D), **options),
    }


def read_packed(attend: Attend, x: Tensor, mask: Tensor) -> Tensor:
    packing = Packing(mask)
    packed = packing.pack(x)
    return packing.unpack(attend(Question(packed, packing=packing), attend.remember(packed)))


def read_padded(attend: Attend, x: Tensor, mask: Tensor) -> Tensor:
    return attend(x, attend.remember(x, mask=mask)).masked_fill(~mask[..., None], 0)


# ---------------------------------------------------------------- there and back


@each_mask
def test_there_and_back(name: str) -> None:
    mask = MASKS[name]
    packing, x = Packing(mask), torch.randn(*mask.shape, 2, 3, requires_grad=True)
    packed = packing.pack(x)
    assert packed.shape == (1, int(mask.sum()), 2, 3)
    assert packing.size == packed.shape[1]
    back = packing.unpack(packed)
    assert torch.equal(back, x.masked_fill(~mask[..., None, None], 0))
    upstream = torch.randn_like(x)
    assert torch.equal(torch.autograd.grad(back, x, upstream)[0], upstream * mask[..., None, None])


@each_mask
def test_every_token_knows_its_row_and_its_order(name: str) -> None:
    mask = MASKS[name]
    packing = Packing(mask)
    row, place = torch.meshgrid(torch.arange(len(mask)), torch.arange(T), indexing="ij")
    assert torch.equal(packing.pack(row)[0], packing.rows)
    for b in range(len(mask)):
        assert torch.equal(packing.pack(place)[0, packing.rows == b], place[b, mask[b]])
    lengths = mask.sum(1)[packing.rows.unique_consecutive()]
    assert torch.equal(lengths, lengths.sort(descending=True).values)


@each_cost
@each_mask
@pytest.mark.usefixtures("costs")
def test_groups_hold_every_row_once(name: str) -> None:
    """Split, then joined, is as before; each group holds whole rows, padded at the right and masked there."""
    mask = MASKS[name]
    packing = Packing(mask)
    packed = packing.pack(torch.arange(mask.numel()).view_as(mask)[..., None] + 1)  # (1, N, 1)
    parts = packing.split(packed)
    assert torch.equal(packing.join(parts), packed)
    found = []
    for part, group in zip(parts, packing.groups, strict=True):
        assert part.shape == (group.rows, group.longest, 1)
        real = torch.ones(part.shape[:2], dtype=torch.bool) if group.mask is None else group.mask
        assert group.mask is None or not real.all()
        assert real[0].all()
        assert (real[:, 1:] <= real[:, :-1]).all()
        found += [row[may, 0].tolist() for row, may in zip(part, real, strict=True)]
    rows = torch.arange(mask.numel()).view_as(mask) + 1
    wanted = [row[may].tolist() for row, may in zip(rows, mask, strict=True)]
    assert sorted(found) == sorted(row for row in wanted if row)


def test_groups_are_cut_where_padding_costs_more_than_a_group() -> None:
    assert cut([5, 5, 5], 0) == [(0, 3)]
    assert cut([5, 4, 4, 2], 0) == [(0, 1), (1, 3), (3, 4)]
    assert cut([5, 4, 4, 3], 9) == [(0, 2), (2, 4)]  # 25 - 16 = 9 is as much as may be, 18 is not
    assert cut([5, 4, 4, 2], 1000) == [(0, 4)]
    assert cut([], 0) == []


def test_real_lengths_waste_little() -> None:
    """Lengths 24 to 128: few groups, an eighth of the pairs at most for padding."""
    lengths = torch.randint(24, 129, (64,), generator=torch.Generator().manual_seed(0))
    packing = Packing(torch.arange(128) < lengths[:, None])
    pairs = sum(group.rows * group.longest**2 for group in packing.groups)
    assert len(packing.groups) <= 12
    assert pairs * 7 / 8 <= int((lengths**2).sum())


# ---------------------------------------------------------------- what is read


@pytest.mark.parametrize("way", ["free", "causal", "strict"])
def test_reads_what_the_padded_batch_reads(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In value and in every gradient, in both precisions, for every mask and any size of groups."""
    for (kind, attend), dtype in product(
        sites(causal=way != "free", strict=way == "strict").items(), (torch.float32, torch.float64)
    ):
        if dtype == torch.float64 and isinstance(attend.score, (Additive, Cosine)):
            continue  # these compute in float32 whatever comes
        close = 5e-6 if dtype == torch.float32 else 1e-12
        attend.to(dtype)
        for name, mask in MASKS.items():
            x = torch.randn(*mask.shape, D, dtype=dtype, requires_grad=True)
            inputs, upstream = [x, *attend.parameters()], torch.randn(*mask.shape, D, dtype=dtype)
            padded = read_padded(attend, x, mask)
            wanted = [padded, *torch.autograd.grad(padded, inputs, upstream)]
            for cost_name, cost in COSTS.items():
                monkeypatch.setitem(module.GROUP, "cpu", cost)
                read = read_packed(attend, x, mask)
                found = [read, *torch.autograd.grad(read, inputs, upstream)]
                for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
                    bound = 10 * close if number else close  # the read, then its gradients
                    said = f"{kind}, {dtype}, mask {name!r}, groups {cost_name!r}: "
                    if not torch.allclose(one, other, rtol=bound, atol=bound):  # quicker, and says nothing
                        torch.testing.assert_close(one, other, rtol=bound, atol=bound, msg=lambda m, s=said: s + m)


@pytest.mark.parametrize("kind", sites())
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_neither_padding_nor_another_row_leaks(kind: str, dropout: float) -> None:
    """NaN at padding is not touched; NaN in a row stays in that row, also among rows padded in one group."""
    attend, mask = sites(dropout=dropout)[kind], MASKS["right"]
    x = torch.randn(*mask.shape, D)
    spoilt = x.masked_fill(~mask[..., None], torch.nan)
    reads = []
    for batch in (x, spoilt):
        batch.requires_grad_()
        torch.manual_seed(1)
        read = read_packed(attend, batch, mask)
        reads.append((read, *torch.autograd.grad(read.square().sum(), [batch, *attend.parameters()])))
    for pure, found in zip(*reads, strict=True):
        assert pure.isfinite().all()
        assert torch.equal(pure, found)
    if not dropout:
        bad = x.detach().clone()
        bad[0] = torch.nan
        assert torch.equal(read_packed(attend, bad, mask)[1:], reads[0][0][1:])


@each_mask
def test_dropout_is_drawn_and_a_seed_repeats_it(name: str) -> None:
    attend, mask = sites(dropout=0.5)["heads"], MASKS[name]
    x = torch.randn(*mask.shape, D)
    torch.manual_seed(1)
    first, second = (read_packed(attend, x, mask) for _ in range(2))
    assert first.isfinite().all()
    assert not torch.equal(first, second)
    torch.manual_seed(1)
    assert torch.equal(read_packed(attend, x, mask), first)
    attend.eval()
    torch.testing.assert_close(read_packed(attend, x, mask), read_padded(attend, x, mask))


def test_dropout_leaves_the_mean() -> None:
    """Many draws of the packed read lie round the read without dropout."""
    attend, mask = sites(dropout=0.2)["general"], MASKS["right"]
    x = torch.randn(*mask.shape, D)
    with torch.no_grad():
        draws = torch.stack([read_packed(attend, x, mask) for _ in range(200)])
        wanted = read_packed(attend.eval(), x, mask)
    error = draws.std(0) / 200**0.5
    assert ((draws.mean(0) - wanted).abs() <= 5 * error + 1e-6).all()
    assert error.max() > 0.001


@pytest.mark.parametrize("shape", [(3, T), (3, 0), (0, T)], ids=str)
def test_a_batch_of_nothing(shape: tuple[int, int]) -> None:
    mask = torch.zeros(shape, dtype=torch.bool)
    attend = sites()["heads"]
    read = read_packed(attend, torch.randn(*shape, D), mask)
    assert torch.equal(read, torch.zeros(*shape, D))


# ---------------------------------------------------------------- what is seen


class Two(nn.Module):
    """Two sites after each other."""

    def __init__(self, kind: str, dropout: float):
        super().__init__()
        self.first, self.second = (sites(dropout=dropout, causal=causal)[kind] for causal in (False, True))

    def forward(self, x: Tensor, mask: Tensor, packed: bool) -> Tensor:
        read = read_packed if packed else read_padded
        return read(self.second, torch.tanh(read(self.first, x, mask)), mask)


@pytest.mark.parametrize("part", [(None, None), ([2, 0], [1, 4, 8])], ids=["all", "some"])
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_a_trace_shows_the_padded_batch(part: tuple[list[int] | None, list[int] | None], dropout: float) -> None:
    """Of the usual shape and in the batch's order, 0 at padding on either side; watching changes no bit."""
    heads, rows = part
    for kind, (name, mask) in product(("heads", "additive"), MASKS.items()):
        case, model, x = f"{kind}, mask {name!r}", Two(kind, dropout), torch.randn(*mask.shape, D)
        torch.manual_seed(1)
        unseen = model(x, mask, True)
        torch.manual_seed(1)
        with trace(model, "*", heads=heads, rows=rows) as seen:
            assert torch.equal(model(x, mask, True), unseen), case
        model.eval()  # a padded pass draws its dropout differently, so later sites would see other states
        with trace(model, "*", heads=heads, rows=rows) as padded:
            model(x, mask, False)
        real = mask if rows is None else mask[:, rows]
        for site in ["first"] if dropout else ["first", "second"]:
            ask = real[..., None] if padded[site].dim() == 3 else real[:, None, :, None]
            assert torch.allclose(seen[site], padded[site] * ask, rtol=5e-6, atol=5e-6), case
            assert not (seen[site] * ~ask).any(), case
            assert torch.allclose(seen[site].sum(-1), ask[..., 0].float(), atol=1e-5), case
            assert not seen[site].requires_grad, case


def test_rows_that_were_not_asked_for_are_not_shown() -> None:
    attend, mask = sites()["heads"], MASKS["right"]
    with trace(attend, rows=[T + 1]) as seen:
        read_packed(attend, torch.randn(*mask.shape, D), mask)
        assert seen.sites == []
        read_packed(attend, torch.randn(*mask.shape, D), mask)  # rows count on from call to call
    assert seen[""].shape == (len(mask), H, 1, T)


# ---------------------------------------------------------------- what is refused


def test_masks_are_boolean_and_of_a_batch() -> None:
    with pytest.raises(ValueError, match=r"boolean mask \(True = .*got torch.float32 of shape \(2, 3\)"):
        Packing(torch.ones(2, 3))
    with pytest.raises(ValueError, match=r"got torch.bool of shape \(3,\)"):
        Packing(torch.ones(3, dtype=torch.bool))


def test_what_does_not_fit_is_refused() -> None:
    packing = Packing(MASKS["right"])
    with pytest.raises(ValueError, match=r"made for shape \(5, 9\), got \(5, 8, 2\)"):
        packing.pack(torch.randn(5, 8, 2))
    with pytest.raises(ValueError, match=r"holds \(1, 25\) tokens, got \(1, 24, 2\)"):
        packing.unpack(torch.randn(1, 24, 2))
    for attend in (sites()["heads"], sites()["general"]):
        x, short = torch.randn(1, 25, D), torch.randn(1, 24, D)
        with pytest.raises(ValueError, match=r"holds \(1, 25\) tokens, got a query of \(1, 24\)"):
            attend(Question(short, packing=packing), attend.remember(x))
        with pytest.raises(ValueError, match=r"holds \(1, 25\) tokens, got a memory of \(1, 24\)"):
            attend(Question(x, packing=packing), attend.remember(short))
        with pytest.raises(ValueError, match="a packed memory takes no mask"):
            attend(Question(x, packing=packing), attend.remember(x, mask=torch.ones(1, 25, dtype=torch.bool)))
        with pytest.raises(ValueError, match="look does not take packed rows"):
            attend.look(Question(x, packing=packing), attend.remember(x))


@pytest.mark.parametrize("name", ["position", "beta", "since", "newest"])
def test_a_packed_question_counts_for_itself(name: str) -> None:
    packing, x = Packing(MASKS["right"]), torch.randn(1, 25, D)
    attend = sites(causal=True)["cosine"]
    extra = {"position": torch.arange(25), "beta": torch.ones(1, 25), "since": torch.zeros(1, 25), "newest": True}
    kind = TemperedQuestion if name == "beta" else Question
    with pytest.raises(ValueError, match=f"a packed question takes no {name}"):
        attend(kind(x, packing=packing, **{name: extra[name]}), attend.remember(x))


@pytest.mark.parametrize("weigh", [Hard(), LocalMonotonic(window=2)], ids=["hard", "local"])
def test_packed_rows_are_read_softly(weigh: nn.Module) -> None:
    packing, x = Packing(MASKS["right"]), torch.randn(1, 25, D)
    attend = Attend(ScaledDot(D, D), weigh)
    with pytest.raises(ValueError, match=f"soft attention, not {type(weigh).__name__}"):
        attend(Question(x, packing=packing), attend.remember(x))
