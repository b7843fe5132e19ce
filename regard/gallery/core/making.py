"""Run an example: every function that is shown, with the defaults of its parameters or with what a reader
gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

from regard.gallery import module_of
from regard.gallery.core.example import Example, Step, change_example, read_example
from regard.show.picture import Picture
from regard.show.plot import Plot
from regard.show.table import Table

Result = Picture | Plot | Table


@dataclass(frozen=True, eq=False)
class Made:
    """An example with the results of its steps, by their names."""

    example: Example
    results: dict[str, Result]


def make(
    name: str,
    told: Callable[[Step], object] = lambda step: None,
    *,
    constants: Mapping[str, object] | None = None,
) -> Made:
    """Run the whole example; `told` hears of each step before it is run. `constants`: other values of what its file
    writes out in capitals, as {"STEPS": 2000}."""
    example = change_example(name, constants) if constants else read_example(name)
    module = loaded(example)
    results: dict[str, Result] = {}
    for step in example.steps:
        if step.shown:
            told(step)
            results[step.name] = run_step(example, step, {}, module)
    return Made(example, results)


def loaded(example: Example) -> ModuleType:
    """What its code defines: the module of the package, or one of its own where constants were changed."""
    name = f"regard.gallery.{module_of(example.name)}"
    if not example.changed:
        return import_module(name)
    module = ModuleType(name)
    exec(compile(example.changed, f"{module_of(example.name)}.py", "exec"), module.__dict__)
    return module


def run_step(
    example: Example, step: Step, values: Mapping[str, object], module: ModuleType | None = None
) -> Result:
    """One function of an example, with these values of its inputs."""
    import torch

    checked = {one.name: one.check(values[one.name]) for one in step.inputs if one.name in values}
    module = module or loaded(example)
    with torch.random.fork_rng(devices=[]):  # examples set seeds; others' random numbers stay their own
        result = getattr(module, step.name)(**checked)
    assert isinstance(result, Result), f"{example.name}.{step.name} gives a {type(result).__name__}"
    return result
