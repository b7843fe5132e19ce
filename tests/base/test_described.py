"""Settings in words: what their declaration says, and the comments beside it."""

from __future__ import annotations

from dataclasses import dataclass

from regard.base.described import describe
from regard.base.fields import setting


@dataclass(frozen=True)
class Base:
    """Fields for these tests."""

    must: int = setting(at_least=1)  # given always
    # two lines above
    # become one text
    kind: str = setting("a", choices=("a", "b"))
    # above
    rate: float = setting(0.0, at_least=0, below=1)  # and behind

    none: int = 0


@dataclass(frozen=True)
class Further(Base):
    kind: str = setting("b", choices=("a", "b"))  # declared again
    rate: float = setting(0.5, at_least=0, below=1)
    many: tuple[int, ...] = setting((), at_least=2, or_zero="off")  # numbers


def test_meanings_are_the_comments_beside_and_above_a_field() -> None:
    assert {one.name: one.meaning for one in describe(Base)} == {
        "must": "given always",
        "kind": "two lines above become one text",
        "rate": "above and behind",
        "none": "",
    }


def test_a_field_that_is_declared_again_keeps_its_meaning_unless_it_says_another() -> None:
    meanings = {one.name: one.meaning for one in describe(Further)}
    assert (meanings["kind"], meanings["rate"]) == ("declared again", "above and behind")


def test_types_defaults_and_ranges() -> None:
    told = {one.name: (one.type, one.default_text, one.allowed) for one in describe(Further)}
    assert told == {
        "must": ("int", "", "at least 1"),
        "kind": ("str", '"b"', "a, b"),
        "rate": ("float", "0.5", "in [0, 1)"),
        "none": ("int", "0", ""),
        "many": ("list of int", "[]", "at least 2, or 0 (off)"),
    }
    assert describe(Further)[0].to_dict() == {
        "name": "must",
        "type": "int",
        "required": True,
        "allowed": "at least 1",
        "meaning": "given always",
    }
