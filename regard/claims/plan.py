"""Which claims fit into the time there is, by what they took before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from regard.claims.claim import Claim

TRAINED = "reproduced.txt"  # in the folder of a run: its command, once the training has come to its end


@dataclass(frozen=True)
class Plan:
    """What is done, in its order, and what is left out."""

    done: dict[str, Claim]
    minutes: float  # of all that is done
    longer: dict[str, float]  # what would not fit any more, by its minutes
    unknown: list[str]  # what was never measured alone

    def text(self) -> str:
        lines = [
            f"about {self.minutes:.1f} minutes on the hardware of the claims: {', '.join(self.done) or 'nothing'}"
        ]
        if self.longer:
            lines.append(
                "no time for " + ", ".join(f"{name} ({minutes:.1f})" for name, minutes in self.longer.items())
            )
        if self.unknown:
            lines.append(f"left out, as how long they take was not measured: {', '.join(self.unknown)}")
        return "\n".join(lines)


def plan(claims: Mapping[str, Claim], minutes: float, seeds: int | None, out: Path) -> Plan:
    """Claims in their order, each that still fits. A run that is trained, or planned for another claim, takes no
    time again."""
    done: dict[str, Claim] = {}
    longer: dict[str, float] = {}
    runs: set[str] = set()
    spent = 0.0
    for name, claim in claims.items():
        new = {seed: trained_by(claim, seed, out) - runs for seed in claim.seeds[:seeds]}
        takes = claim.minutes * sum(bool(folders) or not claim.trains for folders in new.values())
        if not claim.minutes:
            continue
        if spent + takes > minutes:
            longer[name] = takes
            continue
        done[name] = claim
        runs |= set().union(*new.values())
        spent += takes
    return Plan(done, spent, longer, [name for name, claim in claims.items() if not claim.minutes])


def trained_by(claim: Claim, seed: int, out: Path) -> set[str]:
    """The runs that a claim trains with this seed and that are not there yet."""
    folders = (words[-1] for words in claim.steps(seed, out)[:-1])
    return {folder for folder in folders if not (Path(folder) / TRAINED).is_file()}
