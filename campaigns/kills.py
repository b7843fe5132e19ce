"""kill -9 of trainings: at random moments, and inside saving with the file cut in half."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from campaigns.children import Child, in_child
from campaigns.folders import TYPED
from campaigns.frame import Case, Fault, campaign
from campaigns.trainings import PATIENCE, Whole, begin, compare, end, whole, write_data
from regard.tasks.core.table import load

SEVERAL = ("translate bahdanau", "generate gpt2", "recognise vit")  # those that are trained in 2 and 4 processes
GRACE = 20  # seconds in which processes find that another was killed
RANKS = (1, 1, 1, 1, 1, 1, 1, 1, 2, 4)


@campaign(
    "kills",
    "kill -9 of a training, once to three times, at a random moment or inside a call that saves, there also with "
    "the new file cut in half; small trainings of every task, some in 2 and 4 processes; then it is resumed "
    "to its end.",
    holds="each step logged once, log and weights equal to the last bit to the training that nobody killed, no "
    "file left over; in between the folder opens or is refused clearly.",
    reach=500,
)
@contextmanager
def kills(place: Path) -> Iterator[Case]:
    names = write_data(place)
    known: dict[tuple[str, int], Whole] = {}

    def case(draw: Random) -> str:
        ranks = draw.choice(RANKS)
        name = draw.choice(SEVERAL if ranks > 1 else names)
        if (name, ranks) not in known:
            known[name, ranks] = whole(place, name, place / f"whole-{len(known)}", ranks)
        wanted, out = known[name, ranks], place / "run"
        shutil.rmtree(out, ignore_errors=True)
        hit = 0
        for number in range(draw.choice((1, 1, 2, 3))):
            inside = draw.random() < 0.5
            at = draw.randint(1, wanted.calls) if inside else 0
            moment = draw.uniform(0, 1.2 * wanted.seconds)
            what = f"{name} in {ranks} processes, " + (f"call {at}" if inside else f"after {moment:.2f} s")
            children = begin(place, name, out, resume=number > 0, at=at, cut=draw.random() < 0.5, ranks=ranks)
            if not inside:
                children[0].running(moment)
                draw.choice(children).kill()
            hit += stopped(children)
            if out.exists() and (found := in_child(lambda: opened(out))).result is None:
                raise Fault(f"{what}: the folder neither opens nor is refused: {found.said[-500:]}")
        if not out.exists() or not (out / "recipe.toml").exists():
            shutil.rmtree(out, ignore_errors=True)  # nothing was begun
        last = end(begin(place, name, out, resume=out.exists(), ranks=ranks))
        if any(each.code for each in last):
            raise Fault(f"{what}: it could not be resumed: {last[0].said[-500:]}")
        compare(out, wanted, what)
        return f"{'one process' if ranks == 1 else f'{ranks} processes'}: " + (
            "equal" if hit else "ended before the kill"
        )

    yield case


def stopped(children: list[Child]) -> bool:
    """Whether one of them was killed, once all have ended: as torchrun does, the others are then ended too."""
    for child in children:
        child.running(GRACE if len(children) > 1 else PATIENCE)
        child.kill()
    return any(ended.code == -signal.SIGKILL for ended in end(children))


def opened(folder: Path) -> Any:
    try:
        load(folder, "cpu")
    except TYPED as error:
        return f"{error!s:.200}"
    return "opened"
