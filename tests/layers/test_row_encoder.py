"""Rows that are read with their padding are as packed ones."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from regard.attention import trace
from regard.layers.recurrent import KINDS, PADDING_GATES, gates_of
from regard.layers.row_encoder import RowEncoder

INPUTS, DIM = 5, 6
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def padded(lengths: list[int], longest: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    mask = torch.arange(longest) < torch.tensor(lengths)[:, None]
    return torch.randn(len(lengths), longest, INPUTS, generator=generator), mask


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("lengths", [[7, 5, 9, 1], [2, 9, 1, 1]])  # much of it real, little of it real
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.filterwarnings("error")  # cuDNN warns of weights that are not in one piece
def test_states_alone_are_those_of_packed_rows_in_value_and_gradient(
    kind: str, layers: int, bidirectional: bool, lengths: list[int], device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    torch.manual_seed(3)
    encoder = RowEncoder(kind, INPUTS, DIM, layers=layers, bidirectional=bidirectional).to(device)
    x, mask = (each.to(device) for each in padded(lengths, 9))
    weights = torch.randn(4, 9, 2 * DIM if bidirectional else DIM, device=device)
    found = []
    for work in (lambda: encoder(x, mask)[0], lambda: encoder.states(x, mask)[0]):
        encoder.zero_grad()
        states = work().masked_fill(~mask[..., None], 0)
        (states * weights).sum().backward()
        found.append([states.detach(), *(parameter.grad for parameter in encoder.parameters())])
    rtol, atol = (1e-3, 5e-5) if device == "cuda" else (1e-5, 1e-6)  # cuDNN sums in another order
    torch.testing.assert_close(found[1], found[0], rtol=rtol, atol=atol)


@pytest.mark.parametrize("device", DEVICES)
def test_wider_weights_follow_the_changes_of_the_weights(device: str) -> None:
    torch.manual_seed(3)
    encoder = RowEncoder("gru", INPUTS, DIM, layers=2).to(device).eval()
    x, mask = (each.to(device) for each in padded([7, 5, 9], 9))

    def off() -> float:
        with torch.no_grad():
            return float(
                (encoder._run_padded(x, mask) - encoder(x, mask)[0]).masked_fill(~mask[..., None], 0).abs().max()
            )

    assert off() < 1e-3
    first = encoder._wider[0].tensors
    assert off() < 1e-3
    assert encoder._wider[0].tensors is first
    with torch.no_grad():
        encoder.rnn.weight_hh_l0.add_(1.0)
    assert off() < 1e-3
    encoder.rnn.weight_ih_l1.data.add_(1.0)  # as a captured step: the version stays the same
    encoder.eval()
    assert off() < 1e-3
    if device == "cuda":
        assert encoder._wider[0].tensors is first  # in place, as CUDA graphs go on reading it there
    before = encoder._wider[0].tensors[0].clone()
    encoder.rnn.weight_ih_l0.data.add_(1.0)
    encoder.eval()
    encoder.refresh_derived()
    torch.testing.assert_close(encoder._wider[0].tensors[0][:, :INPUTS], before[:, :INPUTS] + 1)


def test_only_real_tokens_are_looked_up_where_there_is_no_gradient() -> None:
    torch.manual_seed(4)
    encoder, table = RowEncoder("gru", INPUTS, DIM), nn.Embedding(20, INPUTS)
    seen: list[int] = []
    table.register_forward_hook(lambda _, given, __: seen.append(given[0].numel()))
    _, mask = padded([3, 7, 1], 9)
    tokens = torch.randint(20, mask.shape)
    with_gradient, _ = encoder.read(tokens, mask, table)
    with torch.no_grad():
        without, _ = encoder.read(tokens, mask, table)
    torch.testing.assert_close(without, with_gradient, rtol=1e-5, atol=1e-6)
    assert seen == [27, 11]


@pytest.mark.parametrize("kind", PADDING_GATES)
@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("lengths", [[3, 0, 1], [5, 0, 4]])  # little of it real, much of it real
def test_gates_are_those_of_packed_rows_beside_a_row_that_is_empty(
    kind: str, gradients: bool, lengths: list[int]
) -> None:
    torch.manual_seed(5)
    encoder, (x, mask) = RowEncoder(kind, INPUTS, DIM, layers=2), padded(lengths, 5)
    with torch.set_grad_enabled(gradients):
        with trace(encoder) as seen:
            encoder.states(x, mask)
        with trace(encoder) as alone:
            encoder(x[::2], mask[::2])
    for site in encoder.sites:
        for gate in gates_of(kind):
            torch.testing.assert_close(seen[site, gate][::2], alone[site, gate])
            assert not seen[site, gate][1].any()
