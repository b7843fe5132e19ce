"""Options of tasks, declared once for the command line (--n-best), Python and JSON (n_best)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import Field, dataclass, replace
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypedDict, TypeVar

from regard.base.arguments import checking
from regard.base.field_types import is_finite, types_of
from regard.base.fields import check_value
from regard.decode.settings import TOO_MANY_TOKENS, Decoding
from regard.errors import BadInput
from regard.tasks.shared.received import Received

P = ParamSpec("P")  # the parameters of a method
R = TypeVar("R")  # what it returns
T = TypeVar("T")
Limit = Literal["", "beams", "tokens"]


@dataclass(frozen=True)
class Option:
    """An option of a task: its name, type, range and help."""

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
    limit: Limit = ""  # the limit of a server that its value is held to
    received: Received | None = None  # how it is sent to a server, where it names files on the command line
    asked: bool = False  # it is part of the question, and no detail: a page shows it beside the input
    written: bool = False  # it names a file that is written, and not read
    setting: Field[Any] | None = None  # of Decoding, whose own check and message it has

    @property
    def flag(self) -> str:
        """Its name on the command line."""
        return self.flags.partition("/")[0] or f"--{self.name.replace('_', '-')}"

    @property
    def keyword(self) -> str:
        """Its name in Python."""
        return self.flag.lstrip("-").replace("-", "_")

    @property
    def served(self) -> bool:
        """Whether it can be sent to a server: it names no file there."""
        return self.received is not None or self.kind is not Path


def of_decoding(
    name: str, help: str, *, least: bool = True, most: bool = False, limit: Limit = "", flags: str = ""
) -> Option:
    """An option that is a setting of Decoding: its type and its range are declared there, and nowhere else.
    `least`, `most`: does --help show that end of the range? Not where it is far beyond useful values."""
    field = Decoding.__dataclass_fields__[name]
    kind, bounds = types_of(Decoding)[name], field.metadata.get("bounds", {})
    lower = bounds.get("above") if bounds.get("at_least") is None else bounds["at_least"]
    return Option(
        name,
        kind,
        help,
        metavar={int: "N", float: "X"}.get(kind),
        min=lower if least else None,
        max=bounds.get("at_most") if most else None,
        flags=flags,
        limit=limit,
        setting=field,
    )


BEAM = of_decoding(
    "beam", "How many hypotheses to keep; 1 is greedy. As the run's recipe says unless given.", limit="beams"
)
SEARCH = (
    BEAM,
    of_decoding("n_best", "How many answers to give for each input; the beam is at least as wide.", limit="beams"),
    of_decoding("length_penalty", "Beam: score by log p / length^X; 0 prefers short answers.", least=False),
    of_decoding("min_length", "At least this many tokens.", limit="tokens"),
    of_decoding("repetition_penalty", "Above 1, tokens that occurred before are less likely.", least=False),
    of_decoding("no_repeat_ngram", "No n-gram of this length occurs twice; 0 allows them."),
    of_decoding("temperature", "Above 0, sample at this temperature; 0 takes the likeliest."),
    of_decoding("top_k", "Sample from the k likeliest tokens only."),
    of_decoding("top_p", "Sample from the likeliest tokens that sum to p.", most=True),
    of_decoding("seed", "The same seed samples the same answers."),
)
TRANSLATE = (
    *SEARCH,
    of_decoding("coverage", "Beam: prefer answers that looked at every source token."),
    of_decoding(
        "max_length",
        "At most this many tokens, the end token included; 0: twice the source + 20.",
        limit="tokens",
    ),
    of_decoding(
        "replace_unknown",
        "Copy the source word most looked at for an unknown word.",
        flags="--replace-unknown/--keep-unknown",
    ),
)
CAPTION = (
    *SEARCH,
    of_decoding("max_length", "At most this many tokens, the end token included; 0: 50.", limit="tokens"),
)
MAX_TOKENS = Option(  # Decoding's max_length, where 0 would have no meaning
    "max_tokens",
    int,
    "Write at most this many tokens.",
    min=1,
    max=TOO_MANY_TOKENS - 1,
    metavar="N",
    limit="tokens",
)
GENERATE = (
    MAX_TOKENS,
    Option("stop", str, "End before this text; may be given several times.", metavar="TEXT", many=True),
    *SEARCH,
    of_decoding("speculate", "Propose N tokens from the text so far and verify them at once; 0: off.", most=True),
)


class SearchOptions(TypedDict, total=False):
    """SEARCH as keywords in Python. An option that is None or not given is as the run's settings say."""

    beam: int | None
    n_best: int | None
    length_penalty: float | None
    min_length: int | None
    repetition_penalty: float | None
    no_repeat_ngram: int | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    seed: int | None


class TranslateOptions(SearchOptions, total=False):
    """TRANSLATE as keywords in Python."""

    coverage: float | None
    max_length: int | None
    replace_unknown: bool | None


class CaptionOptions(SearchOptions, total=False):
    """CAPTION as keywords in Python."""

    max_length: int | None


class GenerateOptions(SearchOptions, total=False):
    """GENERATE as keywords in Python."""

    max_tokens: int | None
    stop: str | Sequence[str] | None
    speculate: int | None


MOST_TESTED = 1_000_000  # generated examples of an evaluation: more would take days, and memory for each
TOP = Option("top", int, "How many of the likeliest to show.", 5, min=1, metavar="N")


def check_options(options: Iterable[Option], values: Mapping[str, Any], *, flags: bool = False) -> None:
    """BadInput where a value is not of its option's type, range or choices. `flags`: options are called as on the
    command line."""
    for option in options:
        value, name = values.get(option.name), option.flag if flags else option.keyword
        if value is None:
            continue
        if option.choices and value not in option.choices:
            raise BadInput(f"{name} must be one of {', '.join(option.choices)}, got {value!r}")
        if option.kind in (int, float) and not is_number(value, option.kind):
            words = "a whole number" if option.kind is int else "a number"
            raise BadInput(f"{name} must be {words}, got {value!r:.80}")
        if option.setting is not None:
            check_value(option.setting, value)
            continue
        if option.min is not None and value < option.min:
            raise BadInput(f"{name} must be at least {option.min}, got {value}")
        if option.max is not None and value > option.max:
            raise BadInput(f"{name} must be at most {option.max}, got {value}")


def is_number(value: object, kind: type) -> bool:
    """A finite number of this kind; a bool is not a number."""
    return type(value) is not bool and isinstance(value, int | kind) and is_finite(value)


def change_decoding(decoding: Decoding, options: Mapping[str, Any]) -> Decoding:
    """The run's own decoding settings, changed where a value is given (not None). More answers than hypotheses
    widen the beam."""
    if not isinstance(decoding, Decoding):
        raise BadInput(f"decode must be a Decoding, got {decoding!r:.40}; give options by name, as in beam=5")
    changes = {name: value for name, value in options.items() if value is not None}
    if changes.get("temperature") and changes.get("beam", 1) > 1:
        raise BadInput("temperature samples an answer and beam searches for the likeliest; give one of them")
    beam, answers = (changes.get(name, getattr(decoding, name)) for name in ("beam", "n_best"))
    try:
        return replace(decoding, **{**changes, "beam": max(beam, answers) if beam > 0 else beam})
    except (ValueError, TypeError) as error:
        raise BadInput(str(error)) from None


READ = ("decode", "dictionary", "support", "top", "pool", "layer")  # arguments whose own checks say more


def either(name: str, value: T | None, old_name: str, old: T | None) -> T | None:
    """A keyword by the command's name for it, or by the one it had before."""
    if value is not None and old is not None:
        raise BadInput(f"{name} and {old_name} are the same; give {name} alone")
    return old if value is None else value


def checks_keywords(method: Callable[P, R]) -> Callable[P, R]:
    """The arguments are checked by their annotations; an unknown keyword's error names the nearest one. What a run
    is asked with, the first argument, and those of READ are checked where they are read. The signature, which
    `help` shows, has every keyword of a TypedDict."""
    whole = spell_out(method)
    asked = [name for name in whole.parameters if name != "self"][:1]
    return checking(method, signature=whole, unchecked=[*asked, *READ])


def spell_out(method: Callable[..., object]) -> Signature:
    """The signature of a method, its `**options: Unpack[SomeOptions]` as the keywords that it stands for."""
    whole = signature(method)
    parameters: list[Parameter] = []
    for parameter in whole.parameters.values():
        if parameter.kind is not Parameter.VAR_KEYWORD:
            parameters.append(parameter)
            continue
        (options,) = eval(parameter.annotation, method.__globals__).__args__
        for name, kind in options.__annotations__.items():
            words = kind.__forward_arg__
            parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=words))
    return whole.replace(parameters=parameters)
