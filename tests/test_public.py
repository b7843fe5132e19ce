"""What users hold: every public class and function is documented, every object says what it is."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.attention import Additive, Attend, GrowingMemory, Memory, Packing, Question, trace
from regard.data.batches.batch import PairBatch
from regard.data.made.shapes import shapes
from regard.decode.hypothesis import Hypothesis
from regard.learn.loop import Report
from regard.metrics.accuracy import report
from regard.runs.folder import Folder
from regard.show import Barcode, Curves, Heads, Map, Overlay, ShadedText, Words
from regard.tasks.core.evaluation import SideBySide
from regard.tasks.core.results import Evaluation
from regard.tasks.core.table import TASKS

PACKAGES = [path.parent.name for path in sorted(Path(regard.__file__).parent.glob("*/__init__.py"))]
# What the methods of public objects give and take.
OTHERS = {
    "data.text.tokenizer": ["Tokenizer"],
    "data.artifacts": ["Pixels"],
    "decode.settings": ["Decoding"],
    "decode.hypothesis": ["Hypothesis"],
    "decode.rules": ["Target"],
    "decode.search": ["decode"],
    "layers.block": ["Block"],
    "layers.state": ["State"],
    "learn.loop": ["Report"],
    "metrics.accuracy": ["Report"],
    "metrics.bootstrap": ["Comparison"],
    "runs.folder": ["Folder"],
    "tasks.core.card": ["Card"],
    "tasks.core.desk": ["Desk"],
    "tasks.core.run": ["Run"],
    "tasks.core.results": ["Evaluation", "Metric"],
    "tasks.core.evaluation": ["SideBySide"],
    "tasks.translate.run": ["Translator"],
    "tasks.translate.translation": ["Translation"],
    "tasks.generate.run": ["LanguageModel"],
    "tasks.generate.continuation": ["Continuation"],
    "tasks.shared.reader": ["Reader"],
    "tasks.embed.run": ["Embedder"],
    "tasks.embed.answers": ["Vector", "TokenVectors"],
    "tasks.embed.neighbours": ["Neighbour"],
    "tasks.shared.reader_answers": ["Filled", "Classified"],
    "tasks.recognise.run": ["Recogniser", "Recognised"],
    "tasks.caption.run": ["Captioner", "Caption"],
    "tasks.fewshot.run": ["FewShot", "Support", "Told"],
    "tasks.play.run": ["Agent", "Trial"],
    "tasks.recall.run": ["Recaller", "Recalled"],
}


def public() -> Iterator[tuple[str, Any]]:
    for package in ("regard", *(f"regard.{name}" for name in PACKAGES)):
        module = importlib.import_module(package)
        for name in getattr(module, "__all__", ()):
            yield f"{package}.{name}", getattr(module, name)
    for place, names in OTHERS.items():
        for name in names:
            yield f"regard.{place}.{name}", getattr(importlib.import_module(f"regard.{place}"), name)


def undocumented(name: str, thing: Any) -> Iterator[str]:
    """A dataclass without a docstring gets its signature as one, which does not count."""
    own = vars(thing).get("__doc__") if inspect.isclass(thing) else thing.__doc__
    if not own or own.startswith(f"{thing.__name__}("):
        yield name
    if inspect.isclass(thing) and not getattr(thing, "_is_protocol", False):
        for method, _ in inspect.getmembers(thing):
            found = inspect.getattr_static(thing, method)
            found = getattr(found, "fget", None) or getattr(found, "func", None) or found
            found = getattr(found, "__func__", found)
            ours = inspect.isfunction(found) and found.__module__.startswith("regard")
            if ours and not method.startswith("_") and not inspect.getdoc(getattr(thing, method)):
                yield f"{name}.{method}"


def test_what_is_public_is_documented() -> None:
    things = [(name, thing) for name, thing in public() if inspect.isclass(thing) or inspect.isfunction(thing)]
    assert len(things) > 60
    assert [lacking for name, thing in things for lacking in undocumented(name, thing)] == []


def test_public_lists_hold_all_that_a_package_defines() -> None:
    """The classes and functions of ours that `__init__.py` imports or defines are in its list."""
    for package in PACKAGES:
        module = importlib.import_module(f"regard.{package}")
        if not hasattr(module, "__all__"):
            continue
        there = {
            name
            for name, value in vars(module).items()
            if not name.startswith("_")
            and (inspect.isclass(value) or inspect.isfunction(value))
            and value.__module__.startswith("regard")
        }
        assert all(hasattr(module, name) for name in module.__all__), package
        assert there - set(module.__all__) == set(), package


# ---- every object says what it is


@pytest.fixture(scope="module")
def objects() -> dict[str, Any]:
    """One of each, large enough that its contents would not fit in a line."""
    states, weights = torch.randn(2, 90, 64), torch.rand(90, 90).softmax(-1)
    mask = torch.arange(90) < torch.tensor([[90], [40]])
    words = [f"word{number}" for number in range(90)]
    attend = Attend(Additive(64, 64))
    memory = attend.remember(states, mask=mask)
    dates = regard.load("dates")
    with trace(dates.model, "attend") as seen:
        answer = dates.translate("3 May 1979")
    shakespeare, ocr = regard.load("shakespeare"), regard.load("shapes")
    found = Evaluation({"accuracy": 95.0}, {"texts": 1000}, {"confusion": [[1] * 100] * 100})
    made = [
        memory,
        GrowingMemory().append(memory),
        Question(states),
        attend.look(states, memory),
        Packing(mask),
        seen,
        Map(weights, words, words, "Title"),
        Heads({f"layer {number}": weights[None] for number in range(9)}, words, words),
        Overlay(np.zeros((64, 48, 3), np.uint8), {"rollout": np.ones((4, 4))}),
        ShadedText(weights, words, words),
        Curves({"train": (range(1000), range(1000))}),
        Barcode(np.random.default_rng(0).random((50, 64))),
        Words(["unable", "!"], [0, 0, 1]),
        PairBatch(*(torch.ones(9, 9, dtype=torch.long),) * 4),
        dates,
        shakespeare,
        ocr,
        dates.tokenizer,
        dates.folder,
        dates.task,
        answer,
        shakespeare.generate("ROMEO:" * 20, max_tokens=150),
        ocr.recognise(shapes("test", 1).pixels[0]),
        found,
        SideBySide(TASKS["classify"], "test.tsv", {"a": found, "b": found}, {}),
        report(["a", "b"] * 50, ["a", "a"] * 50, [*"ab"]),
        Hypothesis([1, 2], -0.5, True),
        Report(10, {"valid_loss": 1.0}, 5, False, 0),
    ]
    return {type(one).__name__: one for one in made}


def test_objects_say_what_they_are_in_a_line(objects: dict[str, Any]) -> None:
    for name, one in objects.items():
        said = repr(one)
        assert name in said or name in ("Card", "Folder"), said
        assert len(said) < 400, f"{name}: {said}"
        assert "\n" not in said
        assert not [bad for bad in ("tensor(", "array(", " object at 0x", "function") if bad in said], said


def test_sizes_are_told(objects: dict[str, Any]) -> None:
    said = {name: repr(one) for name, one in objects.items()}
    assert said["Memory"] == "Memory(keys=(2, 90, 64), values=(2, 90, 64), mask=(2, 90))"
    assert said["Map"] == "<Map: 90 rows by 90 columns, 'Title'>"
    assert said["Heads"] == "<Heads: 9 heads of 9 sites (layer 0, layer 1, layer 2, ...)>"
    assert said["Overlay"] == "<Overlay: 1 map over 64 x 48 pixels>"
    assert said["Trace"] == "<Trace: attend (1, 11, 11)>"
    assert said["Packing"] == "<Packing: 130 tokens of 2 rows, padded to 90>"
    assert said["Evaluation"] == "<Evaluation on 1,000 texts: accuracy 95>"
    assert repr(Evaluation({"accuracy": 95.0}, {"texts": 1})) == "<Evaluation on 1 text: accuracy 95>"
    assert said["Tokenizer"].startswith("<Tokenizer: 100 tokens")
    assert said["Translation"].startswith("Translation(source='3 May 1979', text='1979-05-03', score=-0.")
    assert "..., score=-" in said["Continuation"]


def test_a_memory_that_is_empty_or_without_a_mask_says_so() -> None:
    assert repr(GrowingMemory()) == "GrowingMemory(keys=None, values=None, mask=None, size=0)"
    states = torch.zeros(1, 2, 3)
    assert repr(Memory(states, states)) == "Memory(keys=(1, 2, 3), values=(1, 2, 3), mask=None)"


def test_a_folder_says_where_it_is() -> None:
    assert repr(Folder("dates")).endswith("dates>")
