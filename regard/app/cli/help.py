"""How `--help` names what a parameter takes: a flag takes nothing, an argument is named by its own word, an option
by a word such as FILE or N. Newer typers would print Python's types: <bool>, <list[str]>."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer.core import TyperCommand, TyperGroup

WORDS: dict[Any, str] = {
    Path: "FILE",
    int: "N",
    float: "X",
    str: "NAME",
}  # for options that have no word of their own


def name_values(parameters: list[Any]) -> list[Any]:
    """The parameters of a command, which no longer show their types."""
    for parameter in parameters:
        if parameter.param_type_name == "argument":
            dots = "..." if parameter.nargs != 1 else ""
            parameter.display_type_rich = lambda ctx, dots=dots: dots
        elif parameter.is_flag:
            parameter.metavar = ""
        elif parameter.metavar is None:
            described = getattr(parameter, "type_descriptor", None)  # older typers name values in such words anyway
            parameter.metavar = WORDS.get(getattr(described, "annotation", None))
    return parameters


class Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return name_values(super().get_params(ctx))


class Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return name_values(super().get_params(ctx))
