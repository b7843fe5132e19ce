"""Which claims fit into the time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from claim_rows import row

from regard.claims.claim import Claim
from regard.claims.plan import TRAINED, plan


def two_seeds(name: str, minutes: float, **changes: Any) -> Claim:
    train = f"regard train copy-ntm --set train.seed={{seed}} --out {{out}}/{name}-{{seed}}"
    return row(commands=(train, f"regard evaluate {{out}}/{name}-{{seed}}"), minutes=minutes, **changes)


CLAIMS = {
    "short": two_seeds("a", 2),
    "long": two_seeds("b", 9),
    "shares": two_seeds("a", 2, metric="loss"),
    "unknown": two_seeds("c", 0),
    "shipped": row(commands=("regard evaluate copy",), seeds=(0,), values=(), minutes=0.5),
}


def test_what_fits_is_done_in_order(tmp_path: Path) -> None:
    """Two claims of the same runs take their time once."""
    found = plan(CLAIMS, 10, None, tmp_path)
    assert (list(found.done), found.minutes) == (["short", "shares", "shipped"], 4.5)
    assert (found.longer, found.unknown) == ({"long": 18}, ["unknown"])
    assert found.text().splitlines() == [
        "about 4.5 minutes on the hardware of the claims: short, shares, shipped",
        "no time for long (18.0)",
        "left out, as how long they take was not measured: unknown",
    ]


def test_fewer_seeds_take_less(tmp_path: Path) -> None:
    found = plan(CLAIMS, 12, 1, tmp_path)
    assert (list(found.done), found.minutes) == (["short", "long", "shares", "shipped"], 11.5)


def test_what_is_trained_takes_no_time(tmp_path: Path) -> None:
    for seed in (3, 4):
        (tmp_path / f"b-{seed}").mkdir()
        (tmp_path / f"b-{seed}" / TRAINED).touch()
    found = plan(CLAIMS, 4, None, tmp_path)
    assert (list(found.done), found.minutes) == (["short", "long", "shares"], 4.0)
