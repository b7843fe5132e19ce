"""Options of tasks, declared once for the command line (--n-best), Python and JSON (n_best)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from regard.decode.settings import Decoding
from regard.errors import BadInput


@dataclass(frozen=True)
class Option:
    name: str  # in Python and JSON; on the command line with dashes
    kind: type  # int, float, str, bool or Path
    help: str
    default: Any = None  # None: as the run's recipe says, else off
    metavar: str | None = None
    min: float | None = None
    max: float | None = None
    many: bool = False  # it may be given several times
    choices: tuple[str, ...] = ()  # checked before anything is loaded
    flags: str = ""  # another spelling on the command line, as "--replace-unknown/--keep-unknown"


BEAM = Option(
    "beam",
    int,
    "How many hypotheses to keep; 1 is greedy. As the run's recipe says unless given.",
    min=1,
    metavar="N",
)
SEARCH = (
    BEAM,
    Option("n_best", int, "How many answers to give for each input.", min=1, metavar="N"),
    Option("length_penalty", float, "Beam: score by log p / length^X; 0 prefers short answers.", metavar="X"),
    Option("min_length", int, "At least this many tokens.", min=0, metavar="N"),
    Option("repetition_penalty", float, "Above 1, tokens that occurred before are less likely.", metavar="X"),
    Option("no_repeat_ngram", int, "No n-gram of this length occurs twice; 0 allows them.", min=0, metavar="N"),
    Option("temperature", float, "Above 0, sample at this temperature; 0 takes the likeliest.", min=0, metavar="X"),
    Option("top_k", int, "Sample from the k likeliest tokens only.", min=0, metavar="N"),
    Option("top_p", float, "Sample from the likeliest tokens that sum to p.", min=0, max=1, metavar="X"),
    Option("seed", int, "The same seed samples the same answers.", metavar="N"),
)
TOP = Option("top", int, "How many of the likeliest to show.", 5, min=1, metavar="N")


def check_options(options: Iterable[Option], values: Mapping[str, Any]) -> None:
    """BadInput where a value is not of its option's type, range or choices."""
    for option in options:
        value, name = values.get(option.name), f"--{option.name.replace('_', '-')}"
        if value is None:
            continue
        if option.choices and value not in option.choices:
            raise BadInput(f"{name} must be one of {', '.join(option.choices)}, got {value!r}")
        if option.kind in (int, float) and (type(value) is bool or not isinstance(value, int | option.kind)):
            raise BadInput(f"{name} must be a number, got {value!r:.80}")
        if option.min is not None and value < option.min:
            raise BadInput(f"{name} must be at least {option.min}, got {value}")
        if option.max is not None and value > option.max:
            raise BadInput(f"{name} must be at most {option.max}, got {value}")


def change_decoding(decoding: Decoding, asked: Mapping[str, Any]) -> Decoding:
    """The run's own decoding settings, changed where a value is given (not None). More answers than hypotheses
    widen the beam."""
    given = {name: value for name, value in asked.items() if value is not None}
    if given.get("temperature") and given.get("beam", 1) > 1:
        raise BadInput("temperature samples an answer and beam searches for the likeliest; give one of them")
    beam = max(given.get("beam", decoding.beam), given.get("n_best", decoding.n_best))
    try:
        return replace(decoding, **{**given, "beam": beam})
    except (ValueError, TypeError) as error:
        raise BadInput(str(error)) from None
