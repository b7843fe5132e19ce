"""Every public door with a hostile value in every place: what is raised is in `regard.errors`, where a user can
catch it, or nothing is raised."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard import attention, errors, show
from regard.decode.settings import Decoding
from regard.learn import fit

TYPED = tuple(kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception))
LONG = "x" * 300
VALUES: tuple[Any, ...] = (
    *(None, True, -1, 7, 10**30, 10**400, 0.5, float("nan"), float("inf"), 1j),
    *("", "\0", "\ud800", LONG, "/".join(["x" * 200] * 40), "nosuch", b"bytes"),
    *([], [None], [[]], ["x", 3], ("a", "b"), {}, {"a": 1}, {1: 2}, {None}),
    *(object(), print, range(3), Path("nosuch"), Path("folder"), Path("empty"), Path("noise")),
    *(np.zeros(3), np.zeros((4, 4, 3), np.uint8), np.array("x"), np.float32("nan"), np.int64(3)),
    *(torch.zeros(3), torch.zeros(2, 3, 4, dtype=torch.int64), ...),
)
IMAGE = np.zeros((40, 40, 3), np.uint8)


@dataclass
class Door:
    call: Callable[..., Any]
    usual: dict[str, Any] = field(default_factory=dict)  # a call that would succeed; {}: without arguments
    only: tuple[str, ...] = ()  # the arguments that are tried; (): all
    without: Any = ...  # a value that would begin long work

    def __str__(self) -> str:
        owner = getattr(self.call, "__self__", None)
        return f"{type(owner).__name__}.{self.call.__name__}" if owner is not None else self.call.__name__

    @property
    def arguments(self) -> list[str]:
        fixed = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        parameters = inspect.signature(self.call).parameters.items()
        return list(self.only) or [name for name, each in parameters if each.kind not in fixed]

    def calls(self) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
        for name in self.arguments:
            for value in VALUES:
                if value is self.without:
                    continue
                yield (), {**self.usual, name: value}
        yield (), {**self.usual, "nosuch": 1}
        yield (1,) * 20, self.usual


def untyped(door: Door) -> Iterator[str]:
    for args, keywords in door.calls():
        try:
            door.call(*args, **keywords)
        except TYPED:
            pass
        except Exception as error:
            changed = {name: value for name, value in keywords.items() if value is not door.usual.get(name)}
            yield f"{door} {args[:1]} {changed!r:.80}: {type(error).__name__}: {error!s:.100}"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("empty").touch()
    Path("noise").write_bytes(bytes(range(256)))
    Path("pairs.tsv").write_text("3 May 1979\t1979-05-03\n")
    return tmp_path


def test_opening_training_saving() -> None:
    """A device that is not there keeps a training with good arguments from beginning."""
    dates = regard.load("dates")
    doors = [
        Door(regard.load, {"run": "dates"}),
        Door(regard.load_model, {"run": "dates"}),
        Door(
            regard.train,
            {"recipe": "bahdanau-dates", "out": "out", "set": {"train.device": "cuda:77"}},
            ("recipe", "out", "resume", "start"),
        ),
        Door(dates.to, {"device": "cpu"}),
        Door(dates.save, {"folder": "folder"}),
        Door(dates.about),
        Door(dates.export, {"folder": "folder"}),
    ]
    assert [problem for door in doors for problem in untyped(door)] == []


def test_options_of_decoding() -> None:
    assert list(untyped(Door(Decoding))) == []


def runs() -> Iterator[Door]:
    """The options of decoding, which tasks share, are tried with one of them."""
    data = {"data": "nosuch.tsv"}
    dates, writer, reviews = regard.load("dates"), regard.load("shakespeare"), regard.load("reviews")
    yield Door(dates.translate, {"text": ""})
    yield Door(dates.evaluate, data, ("data", "columns", "beam"), None)
    yield Door(dates.translate("3 May 1979").picture)
    yield Door(writer.generate, {"prompt": "A", "max_tokens": 1}, ("decode", "max_tokens", "stop", "seed"), None)
    yield Door(reviews.classify, {"text": "good"})
    copy, omniglot, scenes = regard.load("copy"), regard.load("omniglot"), regard.load("scenes")
    yield Door(copy.recall, {"length": 2})
    yield Door(copy.evaluate, {"lengths": "0"}, ("columns", "lengths"), None)
    yield Door(omniglot.fewshot, {"query": "nosuch", "support": {"a": [IMAGE], "b": [IMAGE]}})
    yield Door(scenes.caption, {"image": "nosuch"}, ("image", "decode", "max_length"))
    yield Door(scenes.evaluate, data, ("images", "columns"), None)
    shapes, senet = regard.load("shapes"), regard.load("shapes-senet")
    yield Door(shapes.recognise, {"image": IMAGE})
    yield Door(shapes.evaluate, data, (), None)
    yield Door(senet.class_gates, {"data": [IMAGE], "labels": [senet.model.config.labels[0]]})


def test_every_kind_of_run() -> None:
    assert [problem for door in runs() for problem in untyped(door)] == []


def test_pictures() -> None:
    square = np.eye(2)
    picture = show.Map(square, ["a", "b"], ["c", "d"])
    entry = {"image": IMAGE, "caption": "a", "references": ["b"], "score": 1.0, "grade": "right"}
    line = {"words": ["a"], "weights": np.ones((1, 2, 2))}
    example = {"image": IMAGE, "label": "a"}
    looks = {"query": IMAGE, "examples": [show.Example(**example)], "looks": {"a": np.array([0.5, 0.5])}}
    doors = [
        Door(show.Map, {"weights": square, "rows": ["a", "b"], "columns": ["c", "d"]}),
        Door(show.Heads, {"panels": {"a": square[None]}, "rows": ["a", "b"], "columns": ["c", "d"]}),
        Door(show.ShadedText, {"weights": square, "words": ["a", "b"], "queries": ["c", "d"]}),
        Door(show.Document, {"sentences": [["a"]], "weights": [[0.5]]}),
        Door(show.Overlay, {"image": IMAGE, "panels": {"a": square}}),
        Door(show.Gates, {"panels": {"a": np.ones(3)}}),
        Door(show.Tape, {"panels": {"a": square}}),
        Door(show.Vectors, {"rows": ["a", "b"], "vectors": square}),
        Door(show.Entry, entry),
        Door(show.Sheet, {"entries": [show.Entry(**entry)]}),
        Door(show.Line, line),
        Door(show.Looks, {"image": IMAGE, "lines": [show.Line(**line)]}),
        Door(show.Example, example),
        Door(show.Examples, looks),
        Door(show.Curves, {"series": {"a": ([1, 2], [3, 4])}}),
        Door(show.Barcode, {"values": square}),
        Door(show.Images, {"images": {"a": IMAGE}}),
        Door(show.Words, {"labels": ["a"], "numbers": [0]}),
        Door(show.bars, {"rows": [("a", 0.5)]}),
        Door(show.rollout, {"layers": [square[None]]}),
        Door(show.patch_map, {"weights": np.eye(5), "grid": (2, 2)}),
        Door(show.similarity, {"encodings": square}),
        Door(show.position_curves, {"encodings": square}),
        Door(show.length_curves, {"runs": {"a": [(1.0, 2.0, 3, 4.0)]}}),
        Door(show.loss_curve, {"log": [{"step": 1, "loss": 2.0}]}),
        Door(picture.save, {"path": "map.svg"}),
        Door(picture.scaled, {"scale": 1.0}),
        Door(picture.part),
        Door(picture.terminal),
    ]
    assert [problem for door in doors for problem in untyped(door)] == []
    with pytest.raises(regard.WrongArgument, match="ax must be a Axes, got 3"):
        picture.plot(3)  # type: ignore[arg-type]


def test_attention_and_fit() -> None:
    states = torch.zeros(1, 3, 4)
    asked = {"query": states, "keys": states, "values": states}
    everything = tuple(inspect.signature(attention.attention).parameters)
    model = torch.nn.Linear(1, 1)
    doors = [
        Door(attention.Additive, {"query_dim": 4, "key_dim": 4}),
        Door(attention.General, {"query_dim": 4, "key_dim": 4}),
        Door(attention.MultiHead, {"dim": 4, "heads": 2}),
        Door(attention.build_score, {"name": "general", "query_dim": 4, "key_dim": 4, "max_positions": 5}),
        Door(attention.build_weigh, {"name": "local-p", "query_dim": 4, "window": 2}),
        Door(attention.attention, asked, everything),
        Door(attention.look, asked, everything),
        Door(
            fit,
            {
                "model": model,
                "data": [1],
                "loss": print,
                "validate": [1],
                "out": "folder",
                "steps": 1,
                "device": "no",
            },
            ("out", "steps", "resume", "better", "optimiser", "learning_rate", "precision", "seed", "device"),
        ),
    ]
    named = ("unexpected keyword", "multiple values")  # functions that torch may trace say these themselves
    problems = [problem for door in doors for problem in untyped(door)]
    assert [problem for problem in problems if not any(words in problem for words in named)] == []


def test_both_styles_of_catching_work_and_the_argument_is_named() -> None:
    dates = regard.load("dates")
    for kind in (TypeError, ValueError, regard.BadInput, regard.WrongArgument):
        with pytest.raises(kind, match=r"columns must be a text, got list"):
            dates.evaluate("pairs.tsv", columns=["a"])
    with pytest.raises(TypeError, match=r"run must be a text or a path, got 3"):
        regard.load(3)  # type: ignore[call-overload]
    with pytest.raises(
        regard.BadInput, match=r"translate: missing a required argument: 'text'; it takes text, dec"
    ):
        dates.translate()
    with pytest.raises(regard.BadInput, match=r"run: 'x.*has 300 bytes, its longest part 300; at most"):
        regard.load(LONG)
    assert os.listdir() == ["folder"] or "out" not in os.listdir(), "nothing was written"
