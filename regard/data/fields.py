"""Settings that check themselves: types and ranges are declared on a dataclass's fields and checked here, in one
place, for recipes, saved configurations and Python alike."""

from __future__ import annotations

import dataclasses
import difflib
import math
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from regard.errors import RecipeError

Settings = TypeVar("Settings")

TYPES: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "str": (str,), "bool": (bool,)}
WORDS = {"int": "a whole number", "float": "a number", "str": "a text", "bool": "true or false"}


def setting(
    default: Any = dataclasses.MISSING,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    choices: Collection[str] = (),
    or_zero: str = "",
) -> Any:
    """A field with its range. `or_zero`: 0 is allowed beside the range, and these words say what it means."""
    bounds = {"at_least": at_least, "above": above, "at_most": at_most, "below": below}
    return dataclasses.field(
        default=default, metadata={"bounds": bounds, "choices": tuple(choices), "or_zero": or_zero}
    )


def check(settings: Any) -> None:
    """Call this first in `__post_init__`. ValueError names the field, what is allowed and what came."""
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        check_type(field, value)
        choices = field.metadata.get("choices")
        if choices and value not in choices:
            raise ValueError(f"{field.name} must be one of {', '.join(map(repr, choices))}, got {value!r:.80}")
        if field.metadata.get("bounds"):
            check_range(field.name, value, field.metadata["bounds"], field.metadata["or_zero"])


def check_type(field: dataclasses.Field[Any], value: object) -> None:
    """Numbers must be finite; 8.0 is not a whole number and 1 is not true."""
    kind = type_name(field)
    if kind in TYPES and (type(value) not in TYPES[kind] or (kind == "float" and not is_finite(value))):
        raise ValueError(f"{field.name} must be {WORDS[kind]}, got {value!r:.80}")


def type_name(field: dataclasses.Field[Any]) -> str:
    """The annotation as it is written, with or without `from __future__ import annotations`."""
    return field.type.__name__ if isinstance(field.type, type) else str(field.type)


def is_finite(number: Any) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # a whole number that is no float, as 10**400
        return False


def check_range(name: str, value: float, bounds: Mapping[str, float | None], or_zero: str) -> None:
    least, above, most, below = (bounds[key] for key in ("at_least", "above", "at_most", "below"))
    fits = (
        (least is None or value >= least)
        and (above is None or value > above)
        and (most is None or value <= most)
        and (below is None or value < below)
    )
    if not fits and not (or_zero and value == 0):
        words = range_words(least, above, most, below)
        zero = f", or 0 ({or_zero})" if or_zero else ""
        raise ValueError(f"{name} must {words}{zero}, got {value!r}")


def range_words(least: float | None, above: float | None, most: float | None, below: float | None) -> str:
    """The range as people write it: "be at least 1", "lie in [0, 1)"."""
    low, high = least if least is not None else above, most if most is not None else below
    if low is not None and high is not None:
        return f"lie in {'[' if least is not None else '('}{low:,}, {high:,}{']' if most is not None else ')'}"
    if low is not None:
        return f"be {'at least' if least is not None else 'above'} {low:,}"
    return f"be {'at most' if most is not None else 'below'} {high:,}" if high is not None else "be a number"


def build(kind: type[Settings], table: Mapping[str, Any], section: str) -> Settings:
    """Settings from one section of a recipe: every key known, every value of its field's type.

    A whole number is also a text where a text is wanted: the number of a column."""
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    check_known(table, fields, f"key of [{section}]")
    for key, field in fields.items():
        missing = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if missing and key not in table:
            raise RecipeError(f"{section}.{key} must be set")
    values = {
        key: str(value) if type(value) is int and type_name(fields[key]).startswith("str") else value
        for key, value in table.items()
    }
    try:
        return kind(**values)
    except ValueError as error:
        raise RecipeError(f"[{section}]: {error}") from None


def read_toml(path: Path) -> dict[str, Any]:
    """A recipe's tables."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise RecipeError(f"{path} is not valid TOML: {error!s:.300}") from None


def check_known(keys: Iterable[str], allowed: Iterable[str], what: str) -> None:
    allowed = list(allowed)
    for key in keys:
        if key not in allowed:
            raise RecipeError(f"unknown {what}: {key!r}{nearest(key, allowed)}")


def nearest(word: str, words: Iterable[str]) -> str:
    """A hint for an error message: the known word that was probably meant, else all of them."""
    words = list(words)
    near = [one for one in words if word in one.split("_")] or difflib.get_close_matches(word, words, 1, 0.5)
    return f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(words)}"


def file_names(files: object) -> tuple[str, ...]:
    """One file or a list of them, as TOML gives it; empty names are left out."""
    named = [files] if isinstance(files, str) else files
    if not isinstance(named, list | tuple) or not all(isinstance(one, str) for one in named):
        raise ValueError(f"train must be a file or a list of files, got {files!r}")
    return tuple(one for one in named if one)


def numbers(name: str, value: object, counts: Sequence[int]) -> tuple[float, ...]:
    """A list of numbers, as TOML gives it, of one of these lengths."""
    if not isinstance(value, list | tuple) or not all(type(one) in (int, float) for one in value):
        raise ValueError(f"{name} must be a list of numbers, got {value!r:.80}")
    if len(value) not in counts or not all(map(math.isfinite, value)):
        raise ValueError(f"{name} must have {' or '.join(map(str, counts))} finite numbers, got {value!r:.80}")
    return tuple(map(float, value))
