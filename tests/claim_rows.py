"""A claim of the tests."""

from __future__ import annotations

from typing import Any

from regard.claims.claim import Claim

ROW: dict[str, Any] = {
    "what": "a copier",
    "commands": (
        "regard train copy-ntm --set train.seed={seed} --out {out}/copy-{seed}",
        "regard evaluate {out}/copy-{seed} --lengths 40",
    ),
    "metric": "wrong_bits",
    "value": 0.25,
    "low": 0,
    "high": 0.4,
    "hardware": "one core",
    "date": "2026-11-19",
    "page": "ntm.md",
    "said": "0.25",
    "seeds": (3, 4),
    "values": (0.2, 0.3),
}


def row(**changes: Any) -> Claim:
    return Claim(**{**ROW, **changes})
