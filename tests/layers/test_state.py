"""A state's sentences and beams under the moves that every generator shares."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from regard.attention import GrowingMemory, Memory
from regard.layers.state import State, each_tensor


@dataclass(frozen=True)
class Tape:
    cells: tuple[Tensor, Tensor]
    filled: Tensor  # a scalar: belongs to no row
    name: str
    shift: Tensor | None = None


def tape(rows: int) -> Tape:
    first = torch.arange(rows * 3.0).view(rows, 3)
    return Tape((first, -first.flatten()[:rows]), torch.tensor(7), "tape")


def state(sentences: int, width: int) -> State:
    memory = (
        torch.arange(sentences),
        Tape((torch.arange(sentences) * 10, torch.ones(sentences, 2)), torch.tensor(4), "m"),
    )
    return State(memory, (tape(sentences), torch.arange(sentences)[:, None])).spread(width)


def test_each_tensor_reaches_all_that_has_rows_and_nothing_else() -> None:
    tree = (tape(2), (torch.zeros(2), None, 3, "word"))
    changed = each_tensor(lambda x: x + 1, tree)
    assert torch.equal(changed[0].cells[0], tree[0].cells[0] + 1)
    assert torch.equal(changed[0].cells[1], tree[0].cells[1] + 1)
    assert torch.equal(changed[1][0], torch.ones(2))
    assert changed[0].filled is tree[0].filled
    assert (changed[0].name, changed[0].shift, changed[1][1:]) == ("tape", None, (None, 3, "word"))
    assert torch.equal(tree[1][0], torch.zeros(2))  # the old tree stays


def test_spread_sets_beams_side_by_side_over_the_same_memory() -> None:
    one = state(3, 1)
    two = one.spread(2)
    assert (one.width, two.width) == (1, 2)
    assert two.rows[1].flatten().tolist() == [0, 0, 1, 1, 2, 2]
    assert two.rows[0].cells[0][:, 0].tolist() == [0, 0, 3, 3, 6, 6]
    assert two.memory is one.memory
    six = two.spread(3)
    assert six.width == 6
    assert six.rows[1].flatten().tolist() == [0] * 6 + [1] * 6 + [2] * 6


def test_reorder_moves_rows_and_leaves_the_memory() -> None:
    one = State(torch.arange(2), (torch.arange(4), tape(4)), 2)
    moved = one.reorder(torch.tensor([1, 1, 3, 2]))
    assert moved.rows[0].tolist() == [1, 1, 3, 2]
    assert moved.rows[1].cells[0][:, 0].tolist() == [3, 3, 9, 6]
    assert moved.rows[1].filled == 7
    assert moved.memory is one.memory
    assert moved.width == 2
    assert one.rows[0].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("keep", [[0, 2], [2, 0], [1], []])
def test_drop_keeps_sentences_with_all_their_beams(keep: list[int]) -> None:
    left = state(3, 2).drop(torch.tensor(keep, dtype=torch.long))
    assert left.width == 2
    assert left.memory[0].tolist() == keep
    assert left.memory[1].cells[0].tolist() == [10 * one for one in keep]
    assert left.memory[1].filled == 4
    assert left.rows[1].flatten().tolist() == [one for one in keep for _ in range(2)]
    assert left.rows[0].cells[0].shape == (2 * len(keep), 3)


def test_reordered_rows_share_no_buffer() -> None:
    """Even in the same order: this is how a branch begins."""
    trunk = state(2, 2)
    branch = trunk.reorder(torch.arange(4))
    assert branch.width == 2
    assert branch.memory is trunk.memory
    branch.rows[0].cells[0].fill_(99)
    branch.rows[1].fill_(99)
    assert trunk.rows[0].cells[0].max() == 5
    assert trunk.rows[1].flatten().tolist() == [0, 0, 1, 1]
    trunk.rows[0].cells[1].fill_(-99)
    assert branch.rows[0].cells[1].min() > -99


def past(rows: int, *, masked: bool = False) -> GrowingMemory:
    """Two places of each row, in buffers with room for more; row i holds i, then 10 + i."""
    found, number = GrowingMemory(), torch.arange(float(rows)).view(rows, 1, 1)
    with torch.no_grad():
        for step in (0.0, 10.0):
            mask = torch.arange(rows)[:, None] % 2 == 0 if masked and not step else None
            found = found.append(Memory(number + step, -number - step, mask))
    assert found.keys is not None
    assert found.keys.shape[1] > 2
    return found


@pytest.mark.parametrize("masked", [False, True])
def test_a_past_moves_with_its_row(masked: bool) -> None:
    begun = State(torch.arange(2), (past(2, masked=masked), GrowingMemory())).spread(2)

    def rows(state: State) -> list[float]:
        held = state.rows[0].memory
        assert torch.equal(held.keys, -held.values)
        assert torch.equal(held.keys[:, 1], held.keys[:, 0] + 10)
        if masked:
            assert held.mask.tolist() == [[row % 2 == 0, True] for row in held.keys[:, 0, 0]]
        assert state.rows[0].size == state.rows[0].keys.shape[1] == 2, "the room is not moved"
        assert state.rows[1] == GrowingMemory()
        return held.keys[:, 0, 0].tolist()

    assert rows(begun) == [0, 0, 1, 1]
    assert rows(begun.reorder(torch.tensor([2, 3, 0, 2]))) == [1, 1, 0, 1]
    assert rows(begun.drop(torch.tensor([1]))) == [1, 1]


@torch.no_grad()
def test_branches_of_a_past_go_on_apart() -> None:
    """Both would write into the same room: so one of them is a copy."""
    trunk = State((), (past(2),))
    branch = trunk.reorder(torch.arange(2))
    seven = trunk.rows[0].append(Memory(torch.full((2, 1, 1), 7.0), torch.full((2, 1, 1), 7.0)))
    eight = branch.rows[0].append(Memory(torch.full((2, 1, 1), 8.0), torch.full((2, 1, 1), 8.0)))
    assert seven.memory.keys[:, 2].flatten().tolist() == [7, 7]
    assert eight.memory.keys[:, 2].flatten().tolist() == [8, 8]
