"""The settings of a dataclass in words: type, default, range and meaning. The meaning of a field is its comment, at
the end of its line or right above it; a field that a subclass declares again without a comment keeps it."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import io
import json
import textwrap
import tokenize
from functools import cache
from typing import Any

from regard.base.field_types import name_of_type, types_of
from regard.base.fields import range_words


@dataclasses.dataclass(frozen=True)
class Described:
    """One setting in words."""

    name: str
    type: str  # "int", "list of str"
    default: Any  # MISSING: it must be set
    allowed: str  # its choices or its range; "": all values of the type
    meaning: str

    @property
    def default_text(self) -> str:
        """As TOML writes it; "": it must be set."""
        return "" if self.default is dataclasses.MISSING else json.dumps(self.default, ensure_ascii=False)

    def to_dict(self) -> dict[str, Any]:
        must = self.default is dataclasses.MISSING
        default = {"required": True} if must else {"default": self.default}
        return {"name": self.name, "type": self.type, **default, "allowed": self.allowed, "meaning": self.meaning}


def describe(kind: Any) -> list[Described]:
    """Every field of a dataclass, in the order of its declaration."""
    types, meanings = types_of(kind), meanings_of(kind)
    return [
        Described(
            field.name,
            name_of_type(types[field.name]),
            field.default,
            allowed_by(field),
            meanings.get(field.name, ""),
        )
        for field in dataclasses.fields(kind)
    ]


def allowed_by(field: dataclasses.Field[Any]) -> str:
    """The choices or the range of a field: "adamw, sgd", "at least 1", "in [0, 1)"."""
    choices, bounds = field.metadata.get("choices"), field.metadata.get("bounds") or {}
    if choices:
        return ", ".join(choice or '""' for choice in choices)
    if not any(limit is not None for limit in bounds.values()):
        return ""
    words = range_words(*bounds.values()).partition(" ")[2]  # without "be" or "lie"
    or_zero = field.metadata["or_zero"]
    return f"{words}, or 0 ({or_zero})" if or_zero else words


@cache
def meanings_of(kind: Any) -> dict[str, str]:
    """The comments of a class's fields, its bases' too."""
    meanings: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if dataclasses.is_dataclass(base):
            source = inspect.getsource(base)  # type: ignore[arg-type]
            meanings |= _comments(textwrap.dedent(source))
    return meanings


def _comments(source: str) -> dict[str, str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}
    [body] = ast.parse(source).body
    assert isinstance(body, ast.ClassDef)
    meanings = {}
    taken = body.lineno  # the last line of what stands before a field
    for node in body.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.end_lineno:
            lines = [*range(taken + 1, node.lineno), node.end_lineno]
            if meaning := " ".join(comments[line] for line in lines if line in comments):
                meanings[node.target.id] = meaning
        taken = node.end_lineno or taken
    return meanings
