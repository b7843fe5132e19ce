"""A few numbers as a table, for notebooks and pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from regard.base.arguments import checked
from regard.errors import BadInput
from regard.show.arrays import to_array
from regard.show.html_table import html_table
from regard.show.label_text import clean


@checked
@dataclass(frozen=True, eq=False)
class Table:
    """Rows of named values, {"length": 5, "BLEU": 31.4}: texts, whole numbers, and others to `digits` places.
    Shows itself in a notebook; `notes` stand below it."""

    rows: Sequence[Mapping[str, Any]]
    title: str = ""
    notes: str = ""
    digits: int = 3

    def __post_init__(self) -> None:
        if not self.rows or not self.rows[0]:
            raise BadInput("no rows to show: give at least one, as {name: value}")
        names = list(self.rows[0])
        for number, row in enumerate(self.rows):
            if list(row) != names:
                raise BadInput(f"each row needs the names {names}, in this order; row {number} has {list(row)}")

    @classmethod
    def of(cls, values: Any, rows: Sequence[str], columns: Sequence[str], title: str = "", **options: Any) -> Self:
        """Numbers (R, C) with a name for each row and column; also of either sign, which a map does not
        draw."""
        values = to_array(values, "values")
        if values.shape != (len(rows), len(columns)):
            raise BadInput(
                f"values must have shape (rows, columns) = {(len(rows), len(columns))}, got {values.shape}"
            )
        heads = [f"{column}{' ' * list(columns[:at]).count(column)}" for at, column in enumerate(columns)]
        made = [
            {"": name} | dict(zip(heads, line, strict=True))
            for name, line in zip(rows, values.tolist(), strict=True)
        ]
        return cls(made, title, **options)

    @property
    def cells(self) -> list[list[str]]:
        """The names of the columns, then every row, as texts."""
        return [list(self.rows[0]), *([self._cell(value) for value in row.values()] for row in self.rows)]

    def _cell(self, value: Any) -> str:
        if isinstance(value, float | np.floating):
            if 0 < abs(float(value)) < 10.0 ** -(self.digits + 2):
                return f"{value:.1e}"
            return f"{round(float(value), self.digits) + 0.0:,.{self.digits}f}"  # + 0.0: no -0.000
        if isinstance(value, int | np.integer) and not isinstance(value, bool):
            return f"{value:,}"
        return str(value)

    def data(self) -> dict[str, Any]:
        """The table as plain data, for JSON."""
        cells = [[clean(cell) for cell in row] for row in self.cells]
        return {"kind": "table", "title": clean(self.title), "cells": cells, "notes": self.notes}

    def __repr__(self) -> str:
        return f"<Table: {len(self.rows)} rows of {', '.join(self.rows[0])}>"

    def _repr_html_(self) -> str:
        return html_table(self.cells, title=self.title, header=True, notes=self.notes)
