"""What the desks of runs that write their answers token by token share."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from regard.tasks.core.card import Options
from regard.tasks.core.desk import D, Desk, S
from regard.tasks.core.options import Option
from regard.tasks.shared.stepping import Beginning
from regard.tasks.shared.writing import Writing
from regard.tasks.shared.writing_run import WritingRun

R = TypeVar("R", bound=WritingRun)  # what a user holds


class WritingDesk(Desk[S, R, D]):
    decodes_with: ClassVar[tuple[Option, ...]]  # the options that become one `decoding`

    def settled(self, run: R, options: Options) -> Options:
        chosen = {option.name: options.get(option.name) for option in self.decodes_with}
        return {**options, "decoding": run.decoding(chosen)}

    def unanswered(self, run: R, options: Options, text: str | None) -> str:
        return "\n" * (options["decoding"].n_best - 1)

    def writing(self, run: R, item: Any, options: Options) -> Writing | None:
        return run.writing(item, options["decoding"])

    def beginning(self, run: R, item: Any, prefix: list[int], options: Options) -> Beginning:
        return run.beginning(item, prefix, options["decoding"])
