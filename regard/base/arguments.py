"""Arguments of public functions and classes, checked by their annotations: a wrong call is a BadInput that says
which argument, instead of an error from deep inside."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache, wraps
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from regard.base.field_types import alternatives, evaluated, plain_type_fits, words_of
from regard.base.fields import nearest
from regard.base.names import check_name
from regard.errors import BadInput, WrongArgument

Door = TypeVar("Door", bound=Callable[..., Any])


def checked(door: Door) -> Door:
    """A function whose arguments are checked, or a class, for its constructor's.

    A number of numpy is a number; a name of a file or folder (`str | Path`) must be one that
    can exist. What is annotated with Any, or with what has no name at run time, is left to the function."""
    if not isinstance(door, type):
        return checking(door)
    door.__init__ = checking(door.__init__)  # type: ignore[misc]
    return door


def checked_but(*names: str) -> Callable[[Door], Door]:
    """As `checked`, but for arguments that the function checks itself."""
    return lambda function: checking(function, unchecked=names)


def checking(
    function: Door, *, signature: inspect.Signature | None = None, unchecked: Collection[str] = ()
) -> Door:
    """`signature`: instead of the function's own. `unchecked`: arguments that the function checks itself."""

    @wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        check_call(function, signature or _signature(function), args, keywords, unchecked)
        return function(*args, **keywords)

    if signature is not None:
        call.__signature__ = signature  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


def check_call(
    function: Callable[..., Any],
    signature: inspect.Signature,
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    unchecked: Collection[str] = (),
) -> None:
    """WrongArgument where an argument is missing, unknown, too much or of another type than its annotation."""
    parameters, name = signature.parameters, _name(function)
    kinds = {each.kind for each in parameters.values()}
    names = [key for key in parameters if key != "self"]
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        for key in keywords:
            if key not in parameters:
                raise WrongArgument(f"{name} has no option {key!r}{nearest(key, names)}")
    try:
        bound = signature.bind(*args, **keywords)
    except TypeError as error:
        raise WrongArgument(f"{name}: {error}; it takes {', '.join(names) or 'no arguments'}") from None
    for key, value in bound.arguments.items():
        if key in unchecked or key == "self":
            continue
        kind = _kind(function, parameters[key].annotation)
        several = parameters[key].kind is inspect.Parameter.VAR_POSITIONAL
        for item in value if several else [value]:
            check_argument(key, item, kind)


def check_argument(name: str, value: Any, kind: Any) -> None:
    """WrongArgument unless the value is of this type, and a name of a file if that is what the type allows."""
    if not accepts(kind, value):
        wanted = " or ".join(words_of(each) for each in alternatives(kind) if each is not type(None))
        shown = f"{value!r:.80}" if isinstance(value, str | int | float | None) else type(value).__name__
        raise WrongArgument(f"{name} must be {wanted}, got {shown}")
    if Path in alternatives(kind) and isinstance(value, str | Path):
        try:
            check_name(value)
        except BadInput as error:
            raise WrongArgument(f"{name}: {error}") from None


def accepts(kind: Any, value: Any) -> bool:
    """As `fits` for settings, for what people hold: numbers of numpy, any mapping, anything that can be gone
    through where a sequence is wanted. Names in a sequence, and what is in a mapping, the function checks."""
    if len(options := alternatives(kind)) > 1:
        return any(accepts(each, value) for each in options)
    origin = get_origin(kind)
    if kind is int:
        return isinstance(value, Integral) and not isinstance(value, bool)
    if kind is float:
        return isinstance(value, Real) and not isinstance(value, bool) and _has_a_float(value)
    if kind is str:
        return isinstance(value, str)
    if kind is bool:
        return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")  # of numpy
    if kind is Path:
        return isinstance(value, os.PathLike)
    if getattr(kind, "__name__", "") == "ndarray":  # whatever numpy makes an array of
        return isinstance(value, list | tuple) or hasattr(value, "__array__")
    if origin is Callable:
        return callable(value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, Mapping)
    if origin is tuple and get_args(kind)[-1] is not Ellipsis:
        inner = get_args(kind)
        return isinstance(value, list | tuple) and len(value) == len(inner) and all(map(accepts, inner, value))
    if isinstance(origin, type) and issubclass(origin, Iterable):
        return _is_sequence(value, get_args(kind)[0])
    return plain_type_fits(kind, value)


def _has_a_float(number: Real) -> bool:
    """Unlike 10**400. Whether it may be infinite, or no number, the function knows."""
    try:
        float(number)
    except OverflowError:
        return False
    return True


def _is_sequence(value: Any, inner: Any) -> bool:
    """Without a step where this is an iterator, which can be used once."""
    if isinstance(value, bytes | Mapping | type):
        return False
    if hasattr(value, "__array__"):
        return value.ndim == 1 and all(accepts(inner, item) for item in value.tolist())
    if inner is not str and isinstance(value, Collection):
        return all(accepts(inner, item) for item in value)
    return isinstance(value, Iterable)


@cache
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


@cache
def _kind(function: Callable[..., Any], written: Any) -> Any:
    if written is inspect.Parameter.empty:
        return Any
    module = sys.modules.get(function.__module__)
    return evaluated(written, vars(module) if module else {})


def _name(function: Callable[..., Any]) -> str:
    """Of a constructor, the class."""
    name = function.__name__
    return function.__qualname__.split(".")[-2] if name == "__init__" else name
