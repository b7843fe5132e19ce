"""The settings of models, read from the text of their files: importing a model imports torch, which takes seconds,
and a shell waits while it completes a word."""

from __future__ import annotations

import ast
import json
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2]


@dataclass(frozen=True)
class Setting:
    default: str = ""
    choices: tuple[str, ...] = ()


def model_names() -> tuple[str, ...]:
    return tuple(_models())


def model_settings(model: str) -> dict[str, Setting]:
    """A model's settings by name, without those that follow from the data."""
    place = _models()[model]
    own, config = _attribute(place, "Config")
    settings = {}
    for module, body in reversed(_with_bases((own, ast.unparse(config)))):
        for field in body.body:
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                settings[field.target.id] = _setting(module, field)
    with suppress(KeyError):  # a model may have no sizes, and none by the amount of data
        settings["size"] = Setting("", _words(*_attribute(place, "SIZES")))
        _attribute(place, "AUTO_SIZES")
        settings["size"] = Setting("", (*settings["size"].choices, "auto"))
    from_data = ("vocabulary", "source_vocabulary", "labels")
    return {"name": Setting(model, model_names()), **{k: v for k, v in settings.items() if k not in from_data}}


def task_name(model: str) -> str:
    """The verb of a model's task, as its class or a base has it; a configuration may change it."""
    module, task = _attribute(_models()[model], "task")
    return _words(module, ast.Tuple([task]))[0]


def _attribute(place: tuple[str, str], name: str) -> tuple[str, ast.expr]:
    """What a class or a base of it assigns to a name, and the module that does. KeyError if none does."""
    for module, body in _with_bases(place):
        if name in (inside := dict(_assigned(body))):
            return module, inside[name]
    raise KeyError(name)


def _with_bases(place: tuple[str, str]) -> list[tuple[str, ast.ClassDef]]:
    """A class of ours and the first bases of it, and the module of each."""
    classes = [_class(place)]
    while (bases := classes[-1][1].bases) and isinstance(bases[0], ast.Name):
        try:
            classes.append(_class((classes[-1][0], bases[0].id)))
        except (KeyError, OSError):  # not ours
            break
    return classes


def _setting(module: str, field: ast.AnnAssign) -> Setting:
    """`cell: str = setting("gru", choices=KINDS)` or `tied: bool = False`"""
    value = field.value
    choices: tuple[str, ...] = ()
    if isinstance(value, ast.Call):
        values = [option.value for option in value.keywords if option.arg == "choices"]
        choices = _words(module, values[0]) if values else ()
        value = value.args[0] if value.args else None
    if ast.unparse(field.annotation) == "bool":
        choices = ("true", "false")
    default = ""
    if isinstance(value, ast.Constant):
        default = as_set(value.value)
    elif isinstance(value, ast.Tuple):
        default = as_set(ast.literal_eval(value))
    return Setting(default, choices)


def as_set(value: object) -> str:
    """As --set wants it, without spaces, before which a shell would end the word."""
    text = json.dumps(value, separators=(",", ":")) if isinstance(value, bool | list | tuple) else str(value)
    return "" if " " in text else text


def _models() -> dict[str, tuple[str, str]]:
    """MODELS: the name of each model -> the module and name of its class."""
    table = dict(_assigned(_tree("regard.models")))["MODELS"]
    assert isinstance(table, ast.Dict)
    names = _words("regard.models", table)
    return {name: ("regard.models", ast.unparse(kind)) for name, kind in zip(names, table.values, strict=True)}


def _class(place: tuple[str, str]) -> tuple[str, ast.ClassDef]:
    """A class and the module that defines it, followed through imports."""
    module, name = place
    for node in _tree(module).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return module, node
    return _class((_origin(module, name), name))


def _words(module: str, node: ast.expr) -> tuple[str, ...]:
    """The texts of a tuple or the keys of a table, written out or named here or in a module it is imported from."""
    if isinstance(node, ast.Call) and node.args:  # tuple(KINDS)
        return _words(module, node.args[0])
    if isinstance(node, ast.Name):
        here = dict(_assigned(_tree(module)))
        return _words(module, here[node.id]) if node.id in here else _words(_origin(module, node.id), node)
    if isinstance(node, ast.Attribute):  # SENet.SIZES
        return _words(*_attribute((module, ast.unparse(node.value)), node.attr))
    if isinstance(node, ast.ListComp) and (left := node.generators[0].ifs):  # all names but some
        every = _words(module, node.generators[0].iter)
        without = {str(part.value) for part in ast.walk(left[0]) if isinstance(part, ast.Constant)}
        return tuple(name for name in every if name not in without)
    parts = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
    return tuple(str(part.value) for part in parts if isinstance(part, ast.Constant))


def _origin(module: str, name: str) -> str:
    """The module that a name is imported from."""
    for node in _tree(module).body:
        if isinstance(node, ast.ImportFrom) and node.module and name in [alias.name for alias in node.names]:
            return node.module
    raise KeyError(name)


def _assigned(node: ast.Module | ast.ClassDef) -> list[tuple[str, ast.expr]]:
    assigned = []
    for line in node.body:
        target = line.targets[0] if isinstance(line, ast.Assign) else getattr(line, "target", None)
        if isinstance(target, ast.Name) and isinstance(line, ast.Assign | ast.AnnAssign) and line.value:
            assigned.append((target.id, line.value))
    return assigned


@cache
def _tree(module: str) -> ast.Module:
    path = PACKAGE.joinpath(*module.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))
