"""Types of fields are checked alike, however the file writes them."""

from __future__ import annotations

import dataclasses
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from small_models import wrong_values

from regard.base.field_types import types_of
from regard.base.fields import build, check
from regard.errors import RecipeError

if TYPE_CHECKING:
    from regard.data.nowhere import Unknown

FUTURE = "from __future__ import annotations\n"
SOURCE = """
import typing as t
from dataclasses import dataclass
from typing import Literal, Optional

from regard.base.fields import check, setting

Size = int


@dataclass(frozen=True)
class Inner:
    width: int = 1

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class Base:
    dim: int = setting(8, at_least=1)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class Config(Base):
    plain: Size = 4
    share: float = setting(0.5, at_least=0, below=1)
    quoted: "bool" = False
    limit: Optional[int] = setting(None, at_least=1)
    most: float | None = None
    mode: Literal["soft", "hard"] = "soft"
    norm: t.Literal["pre", 3] = "pre"
    betas: tuple[float, float] = setting((0.9, 0.99), at_least=0, below=1)
    means: t.Tuple[float, ...] = ()
    names: list[str] = setting(())
    files: str | tuple[str, ...] = setting("", words="a file or a list of files")
    inner: Inner = Inner()
    anything: t.Any = None
"""


@pytest.fixture(params=["", FUTURE], ids=["types", "text"])
def config(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The class, from a file that does not and one that does turn annotations into text."""
    return module("example_config", request.param + SOURCE, monkeypatch).Config


def module(name: str, source: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    made = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, made)
    exec(compile(source, f"{name}.py", "exec", dont_inherit=True), made.__dict__)
    return made


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"dim": -3}, "dim must be at least 1, got -3"),
        ({"dim": "wide"}, "dim must be a whole number, got 'wide'"),
        ({"dim": True}, "dim must be a whole number, got True"),
        ({"plain": 4.0}, "plain must be a whole number, got 4.0"),
        ({"share": float("inf")}, "share must be a number, got inf"),
        ({"share": 1}, "share must lie in [0, 1), got 1"),
        ({"quoted": 1}, "quoted must be true or false, got 1"),
        ({"limit": "x"}, "limit must be a whole number or none, got 'x'"),
        ({"limit": 0}, "limit must be at least 1, got 0"),
        ({"most": "x"}, "most must be a number or none, got 'x'"),
        ({"mode": "soggy"}, "mode must be one of 'soft', 'hard', got 'soggy'"),
        ({"norm": 3.0}, "norm must be one of 'pre', 3, got 3.0"),
        ({"betas": [0.9]}, "betas must be a list of 2 numbers, got [0.9]"),
        ({"betas": [0.9, "b"]}, "betas must be a list of 2 numbers, got [0.9, 'b']"),
        ({"betas": [0.9, 1.0]}, "betas must lie in [0, 1), got 1.0"),
        ({"betas": 0.9}, "betas must be a list of 2 numbers, got 0.9"),
        ({"means": [0.5, float("nan")]}, "means must be a list of numbers, got [0.5, nan]"),
        ({"names": ["a", 3]}, "names must be a list of texts, got ['a', 3]"),
        ({"files": {}}, "files must be a file or a list of files, got {}"),
        ({"inner": {"width": 2}}, "inner must be a Inner, got {'width': 2}"),
    ],
)
def test_what_does_not_fit_is_refused(config: Any, values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        config(**values)
    with pytest.raises(RecipeError, match=re.escape(f"[model]: {message}")):
        build(config, values, "model")


def test_what_fits_passes(config: Any) -> None:
    for values in (
        {"limit": None, "most": 3, "mode": "hard", "norm": 3},
        {"limit": 2, "most": 0.5, "betas": [0, 0.5], "means": [1, 2.5, 3]},
        {"names": ["a"], "files": ["a", "b"], "anything": {}, "share": 0},
        {"inner": config().inner, "files": "one"},
    ):
        made = build(config, values, "model")
        wanted = {key: tuple(one) if type(one) is list and key != "names" else one for key, one in values.items()}
        assert {name: getattr(made, name) for name in values} == wanted
    assert build(config, {"files": 3}, "model").files == "3", "the number of a column is a text"
    with pytest.raises(RecipeError, match="limit must be a whole number or none, got '3'"):
        build(config, {"limit": "3"}, "model")


@dataclass(frozen=True)
class Half:
    unknown: Unknown | None = None
    dim: int = 1

    def __post_init__(self) -> None:
        check(self)


def test_a_name_that_only_type_checkers_know_leaves_the_others_checked() -> None:
    assert types_of(Half) == {"unknown": Any, "dim": int}
    assert Half(unknown=3).unknown == 3  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="dim must be a whole number, got 'wide'"):
        Half(dim="wide")  # type: ignore[arg-type]


@pytest.mark.parametrize("first", ["", FUTURE], ids=["types", "text"])
def test_the_worked_paper_is_checked_with_and_without_the_future(
    first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The docs' model file: its author may leave out the line that turns annotations into text."""
    text = (Path(__file__).parents[2] / "docs" / "adding" / "paper.md").read_text(encoding="utf-8")
    source = text.split('title="regard/models/key_value.py"\n', 1)[1].split("```", 1)[0]
    assert source.count(FUTURE) == 1
    config = module("key_value", first + source.replace(FUTURE, ""), monkeypatch).KeyValueConfig
    assert config(vocabulary=9, dim=3).dim == 3
    asked = list(wrong_values(config))
    assert {name for name, *_ in asked} == {field.name for field in dataclasses.fields(config)}
    for name, value, told in [*asked, ("dim", -3, "dim must be"), ("dim", "wide", "dim must be a whole number")]:
        with pytest.raises(ValueError, match=told):
            config(**{"vocabulary": 9, name: value})
