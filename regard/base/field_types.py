"""Types of a dataclass's fields: does a value fit, and how an error message names the type."""

from __future__ import annotations

import inspect
import math
import sys
import types
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin

WORDS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "true or false",
    type(None): "none",
}
MANY = {int: "whole numbers", float: "numbers", str: "texts"}


def types_of(kind: Any) -> dict[str, Any]:
    """The types of a class's attributes, its bases' too. It makes no difference whether the file they are in has
    `from __future__ import annotations`, which turns them into text. What has no name at run time is Any."""
    return _types_of(kind)


@cache
def _types_of(kind: Any) -> dict[str, Any]:
    kinds = {}
    for base in reversed(kind.__mro__):
        names = vars(sys.modules[base.__module__]) if base.__module__ in sys.modules else {}
        for name, written in inspect.get_annotations(base).items():
            kinds[name] = _evaluated(written, names)
    return kinds


def _evaluated(written: Any, names: dict[str, Any]) -> Any:
    try:
        while isinstance(written, str):  # a quoted annotation is a string in a string
            written = eval(written, dict(names))
    except Exception:  # imported under TYPE_CHECKING, say
        return Any
    return written


def fits(kind: Any, value: Any) -> bool:
    """Numbers must be finite; 8.0 is not a whole number and 1 is not true. A list fits where a tuple is wanted, as
    TOML and JSON have no tuples. A type that is not known here allows everything."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return any(fits(alternative, value) for alternative in inner)
    if origin is Literal:
        return any(type(value) is type(literal) and value == literal for literal in inner)
    if origin is tuple or origin is list:
        if not isinstance(value, list | tuple):
            return False
        if origin is list or inner[-1] is Ellipsis:
            return all(fits(inner[0], item) for item in value)
        return len(value) == len(inner) and all(map(fits, inner, value))
    if kind is float:
        return type(value) in (int, float) and is_finite(value)
    if kind in (int, bool):
        return type(value) is kind
    if kind is None or kind is type(None):
        return value is None
    whole = origin or kind
    checkable = whole is not Any and isinstance(whole, type) and not getattr(whole, "_is_protocol", False)
    return isinstance(value, whole) if checkable else True


def is_finite(number: Any) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # a whole number that is no float, as 10**400
        return False


def words_of(kind: Any) -> str:
    """The type as an error message names it: "a whole number", "a list of 2 numbers", "a text or none"."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return " or ".join(words_of(alternative) for alternative in inner)
    if origin is Literal:
        return f"one of {', '.join(map(repr, inner))}"
    if origin is tuple or origin is list:
        many = MANY.get(inner[0], "values")
        return f"a list of {many}" if origin is list or inner[-1] is Ellipsis else f"a list of {len(inner)} {many}"
    return WORDS.get(kind) or f"a {getattr(kind, '__name__', kind)}"


def name_of_type(kind: Any) -> str:
    """The type as programmers name it: "int", "list of float", "str or list of str"."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return " or ".join(name_of_type(alternative) for alternative in inner)
    if origin is tuple or origin is list:
        count = "" if origin is list or inner[-1] is Ellipsis else f"{len(inner)} "
        return f"list of {count}{name_of_type(inner[0])}"
    return getattr(kind, "__name__", str(kind))


def takes_text(kind: Any) -> bool:
    """Whether the type allows a text, but no whole number."""
    return str in alternatives(kind) and int not in alternatives(kind)


def in_tuple(kind: Any, value: Any) -> Any:
    """A list as a tuple where the type allows one and no list, its numbers as floats where they are wanted."""
    items = {get_origin(alternative): get_args(alternative) for alternative in alternatives(kind)}
    if not isinstance(value, list | tuple) or tuple not in items or list in items:
        return value
    return tuple(map(float, value)) if set(items[tuple]) <= {float, Ellipsis} else tuple(value)


def alternatives(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
