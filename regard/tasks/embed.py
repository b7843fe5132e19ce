"""Embed: texts to vectors. Nothing is trained for this; every encoder can be asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.data.short_repr import short_repr
from regard.errors import BadInput
from regard.tasks.inputs import Texts
from regard.tasks.options import Option
from regard.tasks.reader_task import ReaderTask
from regard.tasks.results import Answer
from regard.tasks.task import Options, Tick, no_tick

if TYPE_CHECKING:
    import numpy as np

    from regard.show import Heads
    from regard.tasks.reader import Encoded, Reader

POOLS = ("mean", "cls")  # as in reader.py, which imports torch


@dataclass(frozen=True)
class Vector:
    """The vector of a text."""

    text: str
    vector: np.ndarray
    reader: Reader

    __repr__ = short_repr

    def to_dict(self) -> dict[str, object]:
        return {"text": self.text, "vector": self.vector.tolist()}

    def line(self) -> str:
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def picture(self, sites: Sequence[str] = ()) -> Heads:
        return self.reader.look(self.text, *sites)


class Embed(ReaderTask[Any, Any]):
    verb = "embed"
    summary = "Turn texts into vectors."
    help = """
        regard embed runs/bert "a cat" "a kitten" --normalise

        regard embed runs/bert --input sentences.txt --output vectors.npy

    A .npy file holds the vectors alone, the others the texts too. Texts longer than the model takes are truncated,
    and a message says how many. A line that cannot be read gets a row of NaN, in JSON its error (see --strict)."""
    inputs = Texts()
    output = "Write the vectors to a file: .npy, .parquet or .jsonl. Without it, JSON lines go to stdout."
    options = (
        Option("pool", str, "The mean of all tokens' states, or the state of [CLS].", "mean", choices=POOLS),
        Option("normalise", bool, "Give every vector the length 1.", False, flags="--normalise"),
    )

    def check_options(self, output: Path | None, options: Options, given: Sequence[str], as_json: bool) -> None:
        from regard.tasks.vectors import kind_of

        if kind_of(output) != ".jsonl" and as_json:
            raise BadInput(f"--json asks for JSON lines and {output} is another format; give one of them")

    def reader(self, run: Reader, options: Options) -> Callable[[str], Encoded[str]]:
        return run.read

    def ask(
        self,
        run: Reader,
        inputs: Iterable[str | Encoded[str]],
        options: Options,
        *,
        tick: Tick = no_tick,
        stream: Callable[[str], None] | None = None,
    ) -> Iterator[Vector]:
        pool, normalise = options.get("pool") or "mean", bool(options.get("normalise"))
        with run.telling_truncated() as truncated:
            for text, vector in run.vectors(inputs, pool=pool, normalise=normalise, cut=truncated):
                yield Vector(text, vector, run)
                tick()

    def writer(
        self, run: Reader, output: Path | None, options: Options, as_json: bool
    ) -> AbstractContextManager[Callable[[Answer], None]]:
        from regard.tasks.vectors import vector_writer

        return vector_writer(output, run.model.config.dim)  # type: ignore[return-value] # its answers are Vectors
