"""What there is, in words: every system with its paper, file, recipes, shipped runs and settings, and what the
settings of a recipe mean. The commands `models` and `recipe` and the docs print this."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from pathlib import Path
from typing import Any

from regard.base.described import Described, describe
from regard.base.fields import check_known, nearest
from regard.decode.settings import Decoding
from regard.errors import BadInput, RecipeError
from regard.learn.settings import Training
from regard.models import MODELS, blank, task_of
from regard.runs.folder import Folder
from regard.runs.shipped import SHIPPED, shipped
from regard.tasks.core.recipe import FROM_DATA, SECTIONS, check_sections, model_config
from regard.tasks.core.recipe_files import Recipe, model_of, read_table, recipes
from regard.tasks.core.settings import Tokens
from regard.tasks.core.table import TASKS

SIZE = "stands for the numbers of that name; numbers that are set beside it win"


@dataclasses.dataclass(frozen=True)
class System:
    """A model of MODELS, and what there is of it."""

    name: str
    paper: str
    file: str  # in the package: regard/models/bert.py
    tasks: tuple[str, ...]  # verbs; which one may depend on model.head
    recipes: dict[str, str]  # names, each with what it is for
    shipped: tuple[str, ...]  # runs

    @property
    def settings(self) -> list[Described]:
        return model_settings(self.name)

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def systems() -> dict[str, System]:
    """Every system, by the name of its model."""
    words, runs = recipes(), {name: Folder(SHIPPED / name).name for name in shipped()}
    models = {recipe: model_of(recipe) for recipe in words}
    return {
        name: System(
            name,
            model.paper,
            f"{model.__module__.replace('.', '/')}.py",
            tasks_of(name),
            {recipe: words[recipe] for recipe, used in models.items() if used == name},
            tuple(run for run, used in runs.items() if used == name),
        )
        for name, model in MODELS.items()
    }


def system(name: str) -> System:
    if name not in MODELS:
        raise BadInput(f"there is no system {name!r}{nearest(name, MODELS)}")
    return systems()[name]


def tasks_of(model: str) -> tuple[str, ...]:
    """The verbs of the tasks that a model can be made for, one for each of its heads."""
    fields = {field.name: field for field in dataclasses.fields(MODELS[model].Config)}
    heads = fields["head"].metadata["choices"] if "head" in fields else ()
    tasks = [task_of(model, MODELS[model].Config(**blank(model)))]
    for head in heads:
        with suppress(ValueError):  # a head that needs other settings too is of a task that another head has
            tasks.append(task_of(model, MODELS[model].Config(**blank(model), head=head)))
    return tuple(dict.fromkeys(tasks))


def model_settings(model: str) -> list[Described]:
    """The settings of [model], without those that follow from the data."""
    settings = [setting for setting in describe(MODELS[model].Config) if setting.name not in FROM_DATA]
    if sizes := getattr(MODELS[model], "SIZES", {}):
        settings.insert(0, Described("size", "str", "", ", ".join(sizes), SIZE))
    return settings


def data_settings(task: str) -> list[Described]:
    """The settings of [data]: with what `train` must name, and the generated sets there are."""
    kind = TASKS[task].Settings
    form, sets = getattr(kind, "form", ""), getattr(kind, "sets", ())
    settings = {setting.name: setting for setting in describe(kind)}
    if form:
        train = settings["train"]
        settings["train"] = dataclasses.replace(train, meaning=f"{train.meaning}; {form}")
    if sets:
        settings["made"] = dataclasses.replace(settings["made"], allowed=", ".join(sets))
    return list(settings.values())


def sections(model: str, task: str) -> dict[str, list[Described]]:
    """Every setting that a recipe of this model and task may have, by section."""
    name = Described("name", "str", dataclasses.MISSING, "", "the system; `regard models` lists them")
    every = {
        "data": data_settings(task),
        "tokens": describe(Tokens),
        "model": [name, *model_settings(model)],
        "train": describe(Training),
        "decode": describe(Decoding),
    }
    wanted = ("data", "model", "train", *TASKS[task].sections)
    return {section: every[section] for section in SECTIONS if section in wanted}


@dataclasses.dataclass(frozen=True)
class DescribedRecipe:
    """A recipe with the meaning of its settings. `values` has those it sets, `settings` all that it may set."""

    name: str
    model: str
    task: str
    values: Recipe
    settings: dict[str, list[Described]]

    def to_dict(self) -> dict[str, Any]:
        """Every setting, with its value where the recipe sets it."""
        return {
            "recipe": self.name,
            "model": self.model,
            "task": self.task,
            "sections": {
                section: [
                    {**setting.to_dict(), **({"value": values[setting.name]} if setting.name in values else {})}
                    for setting in settings
                ]
                for section, settings in self.settings.items()
                for values in [self.values.get(section, {})]
            },
        }


def describe_recipe(recipe: str) -> DescribedRecipe:
    """A recipe by its file or shipped name. It need not be complete: one for your own data names no files yet."""
    table = read_table(recipe)
    check_sections(table)
    model = table.get("model", {}).get("name")
    if model not in MODELS:
        raise RecipeError(f"model.name must be one of {', '.join(MODELS)}, got {model!r}")
    own = {key: value for key, value in table["model"].items() if key != "name"}
    task = task_of(model, model_config(model, own))
    settings = sections(model, task)
    check_known(table, settings, f"section of a recipe to {task}")
    for section, values in table.items():
        check_known(values, [setting.name for setting in settings[section]], f"key of [{section}]")
    return DescribedRecipe(Path(recipe).stem, model, task, table, settings)
