"""Commands that tell what there is: models, recipe."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from regard.app.cli.arguments import Json
from regard.app.cli.completion import recipe_names, system_names

if TYPE_CHECKING:
    from regard.base.described import Described
    from regard.tasks.core.systems import System


def models(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="SYSTEM",
            help="One system, as bert: it is told with its file, its recipes and all settings of its model.",
            autocompletion=system_names,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List every system: its paper, its recipes, its shipped runs; or tell all about one.

    Examples:

        regard models

        regard models bert"""
    from regard.tasks.core.systems import system, systems

    if name is not None:
        told = system(name)
        if as_json:
            print(json.dumps({**told.to_dict(), "settings": [setting.to_dict() for setting in told.settings]}))
        else:
            print_system(told)
    elif as_json:
        print(json.dumps([each.to_dict() for each in systems().values()]))
    else:
        recipes = Column("recipes", no_wrap=True)  # else long names would be cut
        table = Table(
            Column("system", no_wrap=True),
            "paper",
            recipes,
            "shipped runs",
            box=None,
            pad_edge=False,
            padding=(0, 2, 1, 0),
        )
        for each in systems().values():
            table.add_row(each.name, each.paper, "\n".join(each.recipes), "\n".join(each.shipped))
        Console().print(table)


def print_system(system: System) -> None:
    console = Console()
    console.print(Text(f"{system.name}: {system.paper}", style="bold"))
    facts = Table.grid(Column(no_wrap=True), Column(), padding=(0, 2))
    facts.add_row("file", system.file)
    facts.add_row("tasks", ", ".join(system.tasks))
    facts.add_row("shipped runs", ", ".join(system.shipped) or "none")
    for number, (recipe, words) in enumerate(system.recipes.items()):
        facts.add_row("" if number else "recipes", Text.assemble((recipe, "bold"), f"  {words}"))
    console.print(facts)
    print_settings(console, "model", system.settings)
    console.print("\n`regard recipe NAME` tells a recipe with the meaning of its settings.", highlight=False)


def recipe(
    name: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE", help="A shipped recipe's name, or a TOML file.", autocompletion=recipe_names
        ),
    ],
    every: Annotated[
        bool, typer.Option("--all", help="Also the settings that the recipe leaves at their defaults.")
    ] = False,
    as_toml: Annotated[
        bool, typer.Option("--toml", help="Print the TOML itself, to copy into a file and change.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Tell what the settings of a recipe mean.

    Examples:

        regard recipe bahdanau-dates

        regard recipe bert-labelled --all

        regard recipe bert-labelled --toml > mine.toml

    A setting is changed by --set in train and compare, as in --set train.steps=500, or in a file of your own."""
    from regard.tasks.core.recipe_files import recipe_text
    from regard.tasks.core.systems import describe_recipe

    told = describe_recipe(name)
    if as_toml:
        print(recipe_text(name), end="")
        return
    if as_json:
        print(json.dumps({**told.to_dict(), "about": about(recipe_text(name))}))
        return
    console = Console()
    console.print(Text(f"{told.name}: trains {told.model} to {told.task}", style="bold"))
    if words := about(recipe_text(name)):
        console.print(words, highlight=False, markup=False)
    for section, settings in told.settings.items():
        values = told.values.get(section, {})
        print_settings(console, section, [one for one in settings if every or one.name in values], values)
    if not every:
        console.print("\n--all also shows the settings that are left at their defaults.", highlight=False)


def about(text: str) -> str:
    """The comment that a recipe begins with."""
    lines = text.splitlines()
    first = next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return "\n".join(cleaned(line.lstrip("# ")) for line in lines[:first])


def cleaned(text: str) -> str:
    """Safe to print. Numpy comes with `show`, and no other command imports it before it is needed."""
    from regard.show.label_text import clean

    return clean(text)


def print_settings(
    console: Console, section: str, settings: Iterable[Described], values: Mapping[str, Any] | None = None
) -> None:
    """A table of settings with their meaning. With `values`, those of a recipe: what it sets is bold."""
    settings = list(settings)
    if not settings:
        return
    value = Column("default" if values is None else "value", overflow="fold")
    name = Column(Text(f"[{section}]"), no_wrap=True)
    table = Table(name, "type", value, "meaning", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for setting in settings:
        own = values is not None and setting.name in values
        shown = json.dumps(values[setting.name], ensure_ascii=False) if own and values else setting.default_text
        style = "bold" if own else ""
        allowed = f" ({setting.allowed})" if setting.allowed else ""
        table.add_row(
            Text(setting.name, style),
            setting.type,
            Text(cleaned(shown) or "must be set", style),
            Text(f"{setting.meaning}{allowed}"),
        )
    console.print()
    console.print(table)
