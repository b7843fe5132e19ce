"""The command that gets a result of results/ again: reproduce."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from regard.app.cli.arguments import Json
from regard.app.cli.completion import claim_names
from regard.app.console import tell
from regard.learn.progress import say

if TYPE_CHECKING:
    from regard.claims.claim import Claim


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID]...",
            help="Claims, as dates; they are listed with --list.",
            autocompletion=claim_names,
        ),
    ] = None,
    listed: Annotated[
        bool, typer.Option("--list", help="List the claims, or tell all about those that are named.")
    ] = False,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="One seed and 10 steps of each training, to see that all works. Nothing is judged or kept.",
        ),
    ] = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="The first N of the claim's seeds; all unless given.")
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Do the claims that fit into so many minutes by what they took before, in their order; of all "
            "claims unless some are named.",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="The runs go here; what is trained already is not trained again.")
    ] = Path("runs/reproduce"),
    as_json: Json = False,
) -> None:
    """Get a result again: run the commands of a claim, and tell whether its value lies where it should.

    Examples:

        regard reproduce --list

        regard reproduce dates

        regard reproduce multi30k-transformer --quick

        regard reproduce wikitext2-lstmn wikitext2-rnnlm --seeds 1

        regard reproduce --minutes 25

    A claim is a number of the project's results, with its commands, seeds, hardware and date, and the interval in
    which the value of another seed or machine should lie. Claims about shipped runs take seconds; others
    train first, most of them for minutes on a GPU, one training after another. Ctrl-C saves a checkpoint, and the
    same command goes on from it. Where data is needed, $REGARD_DATA names the folder that holds it.

    Exit code 0: the values lie in their intervals; 1: one does not, or a command failed."""
    from regard.claims.claim import claims, find_claims
    from regard.errors import BadInput

    chosen = find_claims(names or [])
    if quick and (seeds or minutes is not None):
        raise BadInput("--quick takes one seed and no time; leave --seeds and --minutes out")
    if listed:
        tell_claims(chosen or claims(), whole=bool(chosen), as_json=as_json)
        return
    if minutes is not None:
        chosen = planned(chosen or with_data(claims()), minutes, seeds, out)
    elif not chosen:
        raise BadInput("name a claim, as in `regard reproduce dates`; `regard reproduce --list` lists them")
    from regard.claims.reproduce import Work, as_json_text, check_data

    for name, claim in chosen.items():
        check_data(name, claim)
    where: AbstractContextManager[str | Path] = tempfile.TemporaryDirectory() if quick else nullcontext(out)
    with where as folder:
        work, outcomes = Work(Path(folder), say, quick=quick), []
        for name, claim in chosen.items():
            some = claim.seeds[: 1 if quick else seeds]
            outcomes.append(work.reproduce(name, claim, some))
            if not as_json:
                tell(outcomes[-1].text())
    if as_json:
        tell(as_json_text(outcomes))
    if any(outcome.holds is False for outcome in outcomes):
        raise typer.Exit(1)


def with_data(every: Mapping[str, Claim]) -> dict[str, Claim]:
    """Those whose data is there."""
    from regard.claims.reproduce import check_data
    from regard.errors import DataError

    found, missing = {}, []
    for name, claim in every.items():
        try:
            check_data(name, claim)
            found[name] = claim
        except DataError:
            missing.append(name)
    if missing:
        say(f"left out, as their data is not here: {', '.join(missing)}")
    return found


def planned(chosen: Mapping[str, Claim], minutes: float, seeds: int | None, out: Path) -> dict[str, Claim]:
    """What fits into the time, and is told before it begins."""
    from regard.claims.plan import plan
    from regard.errors import BadInput

    found = plan(chosen, minutes, seeds, out)
    if not found.done:
        raise BadInput(f"no claim fits into {minutes:g} minutes: {found.text()}")
    say(found.text())
    return found.done


def tell_claims(chosen: Mapping[str, Claim], *, whole: bool, as_json: bool) -> None:
    if as_json:
        print(json.dumps([{"claim": name, **dataclasses.asdict(claim)} for name, claim in chosen.items()]))
        return
    if whole:
        print("\n\n".join(whole_text(name, claim) for name, claim in chosen.items()))
        return
    table = Table(
        Column("id", no_wrap=True),
        "what",
        Column("value", no_wrap=True),
        Column("a seed", no_wrap=True),
        box=None,
        pad_edge=False,
    )
    for name, claim in chosen.items():
        table.add_row(name, claim.what, claim.number(claim.value), time_of(claim))
    Console().print(table)
    print("\n`regard reproduce --list ID` tells all of one, `regard reproduce ID` gets it again.")


def whole_text(name: str, claim: Claim) -> str:
    """All about one claim."""
    facts = {
        "value": claim.recorded,
        "each seed": ", ".join(map(claim.plain, claim.values)),
        "should lie in": f"{claim.low:g} to {claim.high:g}",
        "seeds": ", ".join(map(str, claim.seeds)),
        "published": claim.published,
        "needs": claim.needs,
        "a seed takes": time_of(claim),
        "page": f"results/{claim.page}",
    }
    lines = [f"{fact:<15}{value}" for fact, value in facts.items() if value]
    return "\n".join([f"{name}: {claim.what}", *lines, *(f"    {command}" for command in claim.commands)])


def time_of(claim: Claim) -> str:
    """Of one seed, where it was measured."""
    if not claim.minutes:
        return "not measured"
    return f"{claim.minutes * 60:.0f} s" if claim.minutes < 2 else f"{claim.minutes:.0f} min"
