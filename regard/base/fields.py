"""Settings that check themselves: types and ranges are declared on a dataclass's fields and checked here, in one
place, for recipes, saved configurations and Python alike."""

from __future__ import annotations

import dataclasses
import difflib
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from regard.base.field_types import fits, in_tuple, takes_text, types_of, words_of
from regard.base.files import LARGEST_RECIPE, read_bytes
from regard.errors import BadInput, DataError, RecipeError

Settings = TypeVar("Settings")
ALIKE, MOST_NEAR = 0.8, 5  # the similarity of words that differ by a typo; how many suggestions are named
MOST_PARTS = 32  # of a dotted key in TOML
# TOML as far as it takes to find keys; what is not closed reaches to the end, so that nothing is looked at twice.
PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"?|'[^'\n]*+'?)"""  # of a key: bare or in quotes
DOT = r"[ \t]*+\.[ \t]*+"
LONG_TEXT = r""""{3}(?:[^"\\]|\\.|"{1,2}(?!"))*+"{0,5}|'{3}(?:[^']|'{1,2}(?!'))*+'{0,5}"""
LEXEME = re.compile(rf"#[^\n]*+|{LONG_TEXT}|(?P<key>{PART}(?:{DOT}{PART})*+)", re.DOTALL)
LONG_KEY = re.compile(rf"{PART}(?:{DOT}{PART}){{{MOST_PARTS}}}", re.DOTALL)
MOST_NUMBERS = 1000  # of a list, as the blocks in each stage of a network: more than any real network has


def setting(
    default: Any = dataclasses.MISSING,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    choices: Collection[str] = (),
    or_zero: str = "",
    words: str = "",
    layers: bool = False,
    later: bool = False,
) -> Any:
    """A field with its range. `or_zero`: 0 is allowed beside the range, and these words say what it means. `words`:
    what the type is called in an error message. `layers`: the model has so many layers, of a list the sum. `later`:
    runs that are older than the field have the default."""
    bounds = {"at_least": at_least, "above": above, "at_most": at_most, "below": below}
    said = {"choices": tuple(choices), "or_zero": or_zero, "words": words, "layers": layers, "later": later}
    return dataclasses.field(default=default, metadata={"bounds": bounds, **said})


def check(settings: Any) -> None:
    """Call this first in `__post_init__`. BadInput names the field, what is allowed and what came. A list becomes
    a tuple if the field is a tuple: TOML and JSON have no tuples."""
    kinds = types_of(type(settings))
    for field in dataclasses.fields(settings):
        value, kind = getattr(settings, field.name), kinds[field.name]
        if isinstance(value, list | tuple) and len(value) > MOST_NUMBERS and isinstance(value[0], int | float):
            raise BadInput(f"{field.name} must have at most {MOST_NUMBERS:,} numbers, got {len(value):,}")
        if not fits(kind, value):
            words = field.metadata.get("words") or words_of(kind)
            raise BadInput(f"{field.name} must be {words}, got {value!r:.80}")
        if isinstance(value, list | tuple):
            value = in_tuple(kind, value)
            object.__setattr__(settings, field.name, value)
        if value is not None:
            check_value(field, value)


def check_value(field: dataclasses.Field[Any], value: Any) -> None:
    """In a list, every item must be in the range."""
    choices, bounds = field.metadata.get("choices"), field.metadata.get("bounds")
    for item in value if isinstance(value, list | tuple) else [value]:
        if choices and item not in choices:
            raise BadInput(f"{field.name} must be one of {', '.join(map(repr, choices))}, got {item!r:.80}")
        if bounds:
            check_range(field.name, item, bounds, field.metadata["or_zero"])


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
        raise BadInput(f"{name} must {words}{zero}, got {value!r}")


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
    kinds = types_of(kind)
    values = {
        key: str(value) if type(value) is int and takes_text(kinds[key]) else value for key, value in table.items()
    }
    try:
        return kind(**values)
    except ValueError as error:
        raise RecipeError(f"[{section}]: {error}") from None


def parse_toml(text: str) -> dict[str, Any]:
    """tomllib's TOMLDecodeError also for a key of very many parts, whose parsing takes time and memory by the
    square of their number."""
    for lexeme in LEXEME.finditer(text):
        if lexeme["key"] and LONG_KEY.match(lexeme["key"]):
            place = lexeme.start() + 1
            raise tomllib.TOMLDecodeError(f"dotted key of more than {MOST_PARTS} parts at character {place}")
    return tomllib.loads(text)


def read_toml(path: Path) -> dict[str, Any]:
    """A recipe's tables."""
    try:
        return parse_toml(read_bytes(path, LARGEST_RECIPE).decode("utf-8"))
    except DataError as error:
        raise RecipeError(str(error)) from None
    except (ValueError, RecursionError) as error:
        raise RecipeError(f"{path} is not valid TOML: {error!s:.300}") from None


def check_known(keys: Iterable[str], allowed: Iterable[str], what: str) -> None:
    allowed = list(allowed)
    for key in keys:
        if key not in allowed:
            raise RecipeError(f"unknown {what}: {key!r}{nearest(key, allowed)}")


def nearest(word: str, words: Iterable[str]) -> str:
    """A hint for an error message: the known words that were probably meant, else all of them."""
    words = list(words)
    near = likely(word, words)[:MOST_NEAR]
    meant = ", ".join(map(repr, near[:-1])) + (" or " if len(near) > 1 else "") + repr(near[-1]) if near else ""
    return f"; did you mean {meant}?" if near else f"; there are {', '.join(words)}"


def likely(word: str, words: Sequence[str]) -> list[str]:
    """Words with this word as a part, as `luong` in `luong-dates`; else the word that is spelt much like it; else
    words that begin with it, as `temperature` with `temp`; else words with a part like it; else the nearest
    word."""
    parts = {each: re.split("[_-]", each) for each in words}

    def having(part: str) -> list[str]:
        return [each for each in words if part in parts[each]]

    longer = [each for each in words if each.startswith(word)] if len(word) > 2 else []
    if near := having(word) or difflib.get_close_matches(word, words, 1, ALIKE) or longer:
        return near
    part = difflib.get_close_matches(word, [each for many in parts.values() for each in many], 1, ALIKE)
    return having(part[0]) if part else difflib.get_close_matches(word, words, 1, 0.5)


FILES = "a file or a list of files"  # words of a setting


def file_names(files: str | Sequence[str]) -> tuple[str, ...]:
    """One file or a list of them, as TOML gives it; empty names are left out."""
    return tuple(file for file in ([files] if isinstance(files, str) else files) if file)


def numbers(name: str, value: Sequence[float], counts: Sequence[int]) -> tuple[float, ...]:
    """A list of numbers, as TOML gives it, of one of these lengths."""
    if len(value) not in counts:
        raise BadInput(f"{name} must be a list of {' or '.join(map(str, counts))} numbers, got {value!r:.80}")
    return tuple(map(float, value))
