"""Encodings of positions: the values that can be looked up, and the properties that were promised."""

import math
import weakref

import pytest
import torch

from regard.layers.positions import POSITIONS, Fraction, Learned, Number, Sinusoidal, build_positions


def test_the_first_positions_of_512_dimensions():
    zero, one = Sinusoidal(512)(torch.arange(2))
    assert zero.tolist() == [0.0, 1.0] * 256
    torch.testing.assert_close(one[:4], torch.tensor([0.8415, 0.5403, 0.8219, 0.5697]), atol=5e-5, rtol=0)
    torch.testing.assert_close(one[-2:], torch.tensor([0.0001, 1.0]), atol=5e-5, rtol=0)


def test_four_dimensions_are_two_waves():
    positions = torch.arange(0, 3000, 7)
    p = positions.double()
    waves = torch.stack([p.sin(), p.cos(), (p / 100).sin(), (p / 100).cos()], -1)
    torch.testing.assert_close(Sinusoidal(4)(positions).double(), waves, atol=1e-6, rtol=0)


def test_encodings_are_bounded_unique_and_the_same_each_time():
    table = Sinusoidal(32)(torch.arange(2000))
    assert table.abs().max() <= 1
    distance = torch.cdist(table.double(), table.double()) + 9 * torch.eye(2000)
    assert distance.min() > 0.1
    assert torch.equal(Sinusoidal(32)(torch.arange(2000)), table)


def test_a_position_has_one_encoding_whatever_the_length_and_order():
    encode = Sinusoidal(16)
    short = encode(torch.arange(5))
    long = encode(torch.arange(900))  # the table has to grow
    assert torch.equal(long[:5], short)
    assert torch.equal(encode(torch.arange(5)), short)
    batch = torch.tensor([[0, 0, 1], [899, 3, 0]])
    assert torch.equal(encode(batch), long[batch])
    assert torch.equal(encode(batch, most=899), long[batch])
    assert torch.equal(Sinusoidal(16)(torch.tensor([899])), long[899:])


def test_a_shift_is_one_linear_map_for_all_positions():
    """Pair i turns by the angle k / 10000^(2i/d), wherever it stands."""
    dim, k = 16, 13
    turn = torch.zeros(dim, dim, dtype=torch.float64)
    for pair in range(0, dim, 2):
        angle = k / 10000 ** (pair / dim)
        block = [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]
        turn[pair : pair + 2, pair : pair + 2] = torch.tensor(block, dtype=torch.float64)
    table = Sinusoidal(dim)(torch.arange(500)).double()
    torch.testing.assert_close(table[k:], table[:-k] @ turn.T, atol=1e-6, rtol=0)


def test_any_length_goes_and_far_positions_stay_exact():
    far = 1_000_003
    encoded = Sinusoidal(6)(torch.tensor([far]))
    exact = [f(far / 10000 ** (pair / 6)) for pair in (0, 2, 4) for f in (math.sin, math.cos)]
    torch.testing.assert_close(encoded[0], torch.tensor(exact), atol=1e-6, rtol=0)


def test_an_odd_dimension_ends_with_a_sine():
    torch.testing.assert_close(Sinusoidal(5)(torch.arange(9))[:, 4], (torch.arange(9) / 10000**0.8).sin())


def test_a_longer_table_leaves_the_shorter_one_where_it_was() -> None:
    """A CUDA graph that was captured with it reads on there."""
    positions = Sinusoidal(8)
    positions(torch.arange(5))
    table = weakref.ref(positions.table)
    rows = positions.table.clone()
    positions(torch.arange(500))
    there = table()
    assert there is not None
    assert there is not positions.table
    assert torch.equal(there, rows)


def test_waves_are_no_weights():
    encode = Sinusoidal(8)
    encode(torch.arange(100))
    assert not list(encode.parameters())
    assert not encode.state_dict()


def test_no_positions_give_no_encodings():
    for name in POSITIONS[:-1]:
        assert build_positions(name, 4, max_positions=3)(torch.zeros(2, 0, dtype=torch.long)).shape == (2, 0, 4)


def test_learned_positions_are_rows_of_a_table_that_learns():
    encode = Learned(8, max_positions=10)
    positions = torch.tensor([[0, 9], [3, 3]])
    assert torch.equal(encode(positions), encode.table.weight[positions])
    encode(positions).sum().backward()
    assert encode.table.weight.grad.sum(-1).tolist() == [8, 0, 0, 16, 0, 0, 0, 0, 0, 8]


def test_beyond_the_last_row_is_a_clear_error():
    encode = Learned(8, max_positions=10)
    message = (
        "position 10 is beyond the last of the 10 .*; shorten the text, or train with a larger model.max_positions"
    )
    with pytest.raises(ValueError, match=message):
        encode(torch.tensor([[1, 10]]))
    with pytest.raises(ValueError, match=message):
        encode(torch.tensor([[1, 2]]), most=10)


def test_the_rejected_schemes_show_why_they_were():
    positions = torch.arange(5)
    number = Number(3)(positions)
    assert torch.equal(number, positions.float()[:, None].expand(5, 3))
    fraction = Fraction(3, max_positions=5)(positions)
    assert fraction[:, 0].tolist() == [0, 0.25, 0.5, 0.75, 1]
    # Where the length is known, one step has another size in each sentence: what sines do not do.
    short, long = Fraction(3, max_positions=99)(positions, lengths=torch.tensor([3, 5]))
    assert short[:3, 0].tolist() == [0, 0.5, 1]
    assert torch.equal(long, fraction)
    assert Fraction(3, max_positions=9)(positions[:1], lengths=torch.tensor([1])).tolist() == [[[0, 0, 0]]]
    assert Number(3)(positions + 1000).max() > 1000
    assert Number(3)(torch.ones(2, 4, dtype=torch.long)).shape == (2, 4, 3)


def test_positions_are_built_by_name():
    kinds = [type(build_positions(name, 4, max_positions=3)) for name in POSITIONS]
    assert kinds == [Sinusoidal, Learned, Fraction, Number, type(None)]
    with pytest.raises(ValueError, match="unknown positions 'rotary'; there are sinusoidal, learned, fraction"):
        build_positions("rotary", 4, max_positions=3)


def test_a_table_that_another_thread_makes_shorter_is_not_read():
    class Disturbed(Sinusoidal):
        def __setattr__(self, name, value):
            super().__setattr__(name, value[:3] if name == "table" and len(value) else value)

    assert torch.equal(Disturbed(8)(torch.arange(200)), Sinusoidal(8)(torch.arange(200)))


@pytest.mark.parametrize("name", POSITIONS[:-1])
def test_positions_in_float64_are_exact(name):
    """Also where a table was made in float32 before."""
    encode = build_positions(name, 6, max_positions=9)
    positions = torch.arange(7)
    encode(positions)
    encoded = encode.double()(positions, lengths=torch.tensor([7]))
    exact = {
        "sinusoidal": [
            [f(place / 10000 ** (pair / 6)) for pair in (0, 2, 4) for f in (math.sin, math.cos)]
            for place in range(7)
        ],
        "fraction": [[[place / 6] * 6 for place in range(7)]],
        "number": [[place] * 6 for place in range(7)],
        "learned": encode.table.weight[:7].tolist() if name == "learned" else None,
    }[name]
    assert encoded.dtype == torch.float64
    torch.testing.assert_close(encoded, torch.tensor(exact, dtype=torch.float64), atol=1e-15, rtol=1e-15)
