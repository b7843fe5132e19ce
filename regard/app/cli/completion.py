"""What a shell offers when Tab is pressed: recipes, their settings, runs. Nothing here imports torch or fails."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any

import typer

from regard.app.cli.model_settings import Setting, as_set, model_names, model_settings, task_name
from regard.claims.claim import claims
from regard.runs.shipped import shipped
from regard.tasks.core.recipe_files import logged, read_table, recipes
from regard.tasks.core.table import TASKS

Offer = list[tuple[str, str]]  # values, each with a word of help
BASH = "complete_bash"
MOST_FOLDERS = 300  # a shell does not wait for a walk through a whole disk


def harmless(complete: Callable[..., Offer]) -> Callable[..., Offer]:
    """A completion that fails, by a broken recipe or an unreadable folder, offers nothing."""

    @wraps(complete)
    def offer(*args: Any, **keywords: Any) -> Offer:
        try:
            return complete(*args, **keywords)
        except Exception:
            return []

    return offer


@harmless
def recipe_names(incomplete: str) -> Offer:
    """Shipped recipes, and TOML files in the folder that is being typed."""
    files = [str(path) for path in _begun(incomplete) if path.suffix == ".toml" and path.is_file()]
    return [*recipes().items(), *((file, "a recipe") for file in _plain(files))]


@harmless
def system_names(incomplete: str) -> Offer:
    return [(name, "") for name in model_names()]


@harmless
def claim_names(incomplete: str) -> Offer:
    return [(name, claim.what) for name, claim in claims().items()]


@harmless
def run_names(incomplete: str) -> Offer:
    """Shipped runs, and the folders with a run at most two levels below what is being typed."""
    runs: list[str] = []
    level = [path for path in _begun(incomplete) if path.is_dir()]
    for _ in range(2):
        level = level[:MOST_FOLDERS]
        runs += [str(path) for path in level if (path / "config.json").is_file()]
        level = [inner for path in level for inner in _inside(path) if inner.is_dir()]
    return [*((name, "shipped") for name in shipped()), *((folder, "a run") for folder in _plain(runs))]


@harmless
def settings(ctx: typer.Context, incomplete: str) -> Offer:
    """`train.learning_rate=` and its like, of the recipe that was typed before; after the = the values there are.

    A single offer would end with a space; so where one setting is left, its values are offered as well."""
    # While an option lacks its value, click has not assigned the arguments to their names.
    typed = [ctx.params.get("recipe"), *(ctx.params.get("recipes") or []), *ctx.args]
    recipe = next((word.partition(",")[0] for word in typed if word), None)
    key, equals, _ = incomplete.partition("=")
    every = _settings(recipe).items()
    fitting = {name: setting for name, setting in every if name == key or name.startswith(incomplete)}
    if equals or len(fitting) == 1:
        name, setting = key if equals else next(iter(fitting)), fitting.get(key) or next(iter(fitting.values()))
        values = dict.fromkeys(setting.choices or filter(None, [setting.default]))
        return [(f"{name}=", "")] * (not equals) + [(f"{name}={value}", "") for value in values]
    return [(f"{name}=", f"now {setting.default}" if setting.default else "") for name, setting in fitting.items()]


@harmless
def metric_names(incomplete: str) -> Offer:
    names = dict.fromkeys(name for task in TASKS.values() for name in task.metrics)
    return [(name, ", ".join(verb for verb, task in TASKS.items() if name in task.metrics)) for name in names]


@harmless
def validated_names(incomplete: str) -> Offer:
    """Metrics of validations, as log.jsonl has them."""
    return [
        (name, "") for name in dict.fromkeys(logged(name) for task in TASKS.values() for name in task.validated)
    ]


def of(values: Iterable[str]) -> Callable[[str], Offer]:
    """Completes to one of a few words."""
    words = [(value, "") for value in values]

    def offer(incomplete: str) -> Offer:
        return words

    return offer


def _settings(recipe: str | None) -> dict[str, Setting]:
    """Every setting that a recipe may have, by its full name, with the value that it has there. Without a recipe:
    those of all tasks, but none of a model."""
    from regard.decode.settings import Decoding
    from regard.learn.settings import Training
    from regard.tasks.core.settings import Tokens

    table = read_table(recipe) if recipe else {}
    model = table.get("model", {}).get("name", "")
    sections: list[tuple[str, dict[str, Setting]]] = [("data", _fields(kind)) for kind in _data(table, model)]
    sections += [("tokens", _fields(Tokens)), ("train", _fields(Training)), ("decode", _fields(Decoding))]
    sections += [("model", model_settings(model))] if model else []
    settings = {f"{section}.{key}": setting for section, fields in sections for key, setting in fields.items()}
    for name, setting in settings.items():
        section, _, key = name.partition(".")
        if key in table.get(section, {}):
            settings[name] = dataclasses.replace(setting, default=as_set(table[section][key]))
    return settings


def _data(table: dict[str, Any], model: str) -> list[Any]:
    """The class of [data] of the model's usual task, where it has the keys that the recipe has there; else all that
    have them."""
    usual = task_name(model) if model else ""
    if kinds := _fitting([usual] if usual else [], table):
        return kinds
    return _fitting(TASKS, table)


def _fitting(verbs: Iterable[str], table: dict[str, Any]) -> list[Any]:
    kinds = [TASKS[verb].Settings for verb in verbs]
    keys = set(table.get("data", {}))
    return [kind for kind in kinds if keys <= {field.name for field in dataclasses.fields(kind)}]


def _fields(kind: Any) -> dict[str, Setting]:
    return {
        field.name: Setting(
            "" if field.default is dataclasses.MISSING else as_set(field.default),
            ("true", "false") if type(field.default) is bool else field.metadata.get("choices", ()),
        )
        for field in dataclasses.fields(kind)
    }


def _begun(incomplete: str) -> list[Path]:
    """The files and folders whose names begin so."""
    folder, _, name = incomplete.rpartition("/")
    place = Path(folder or ("/" if incomplete.startswith("/") else "."))
    return [path for path in _inside(place) if path.name.startswith(name)]


def _inside(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))[:MOST_FOLDERS]
    except OSError:
        return []


def _plain(names: Iterable[str]) -> list[str]:
    """The names that need no quotes; the shell completes the others as files."""
    return [name for name in names if name.isprintable() and not set(name) & set(" \"'\\$`&;|<>()*?![]{}#~")]


# ---- zsh

FIRST_TAB = """
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  %(complete_func)s "$@"
fi
"""


def complete_at_first_tab() -> None:
    """zsh reads an installed script at the first Tab of a session. That of typer only defines what completes, so
    that nothing is offered before the second; ours calls it too."""
    with contextlib.suppress(Exception):
        from typer._completion_shared import _completion_scripts

        _completion_scripts["zsh"] = f"{_completion_scripts['zsh'].rstrip()}\n{FIRST_TAB}"


# ---- bash


def complete_in_bash(app: Callable[[], object]) -> None:
    """bash takes `model.score=dot` for three words and wants only the last completed."""
    typed = os.environ.get("COMP_WORDS", "").split("\n")
    words, at, before = joined(typed, int(os.environ.get("COMP_CWORD", "0")))
    os.environ["COMP_WORDS"], os.environ["COMP_CWORD"] = "\n".join(words), str(at)
    answer = io.StringIO()
    with contextlib.redirect_stdout(answer), contextlib.suppress(SystemExit):
        app()
    for line in answer.getvalue().splitlines():
        print(line.removeprefix(before))


def joined(typed: list[str], at: int) -> tuple[list[str], int, str]:
    """The words up to the cursor, those around = put together; the number of the last; what of it bash keeps."""
    words: list[str] = []
    before = ""
    for number, word in enumerate(typed[: at + 1]):
        if number > 1 and (word == "=" or words[-1].endswith("=")):
            before = words[-1] + ("=" if word == "=" else "")
            words[-1] += word
        else:
            before = ""
            words.append(word)
    return words, len(words) - 1, before
