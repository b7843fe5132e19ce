"""Recall: read a sequence of bits, remember it, and give back what is wanted of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.errors import BadInput
from regard.tasks.core.card import Card, TaskRequest
from regard.tasks.core.input_files import InputColumns
from regard.tasks.core.inputs import ANY_COLUMNS, FROM_FILE, Inputs, Texts
from regard.tasks.core.options import MOST_TESTED, Option
from regard.tasks.core.results import Metric

DRAWN = "drawn"  # stands for a sequence that is drawn at random
DRAWING = ("length", "repeats", "seed")  # options of drawing it


class BitTexts(Texts):
    """Sequences that are written out, or a sequence that is drawn."""

    what = "sequences"
    metavar = "SEQUENCE"
    help = (
        "Sequences, as in '01010101 11001100' (copy-bits), '01010101 11001100 x3' (repeat-copy), '000000 000001 "
        "000011 / 111000 110000 100000 ? 000000 000001 000011' (associative-recall), '0110100110010110' (n-gram), "
        "'01010101:0.5 11001100:-0.3' (priority-sort). Without any, one is drawn."
    )
    from_file = FROM_FILE.format(what="sequence", usual="sequence or input")
    usual = (("sequence",), ("input",))
    example = "--length 10"
    tried = ()
    may_be_drawn = True

    def unasked(self) -> list[Any]:
        return [DRAWN]

    def check(self, arguments: Sequence[str], source: Path | None) -> None:
        if arguments and source:
            raise BadInput("give sequences or --input, not both")

    def find(self, arguments: Sequence[str], source: Path | None, columns: InputColumns = ANY_COLUMNS) -> Inputs:
        return super().find(arguments if arguments or source else [DRAWN], source, columns)


def check_request(request: TaskRequest) -> None:
    named = [name for name in DRAWING if request.options.get(name) is not None]
    if (request.inputs or request.input_file) and named:
        raise BadInput(f"--{named[0]} is for a sequence that is drawn; give it or sequences, not both")


recall_card = Card[Any](
    verb="recall",
    summary="Remember sequences of bits, and show how the memory is written and read.",
    help="""
        regard recall runs/copy-ntm --length 20 --show -

        regard recall runs/copy-ntm "01010101 11001100 11110000" --json

        regard recall runs/copy-ntm --length 40 --seed 3 --show tape.png

    A line for each: sequence TAB output TAB target TAB wrong bits. The picture has input, output and target, the
    weights of the read and write heads and the memory, over the steps. --sites memory.attend draws the heads
    alone.""",
    desk_name="regard.tasks.recall.desk:RecallDesk",
    settings_name="regard.tasks.recall.settings:RecallSettings",
    inputs=BitTexts(),
    options=(
        Option("length", int, "Draw a sequence of this length.", min=1, metavar="N", limit="tokens"),
        Option(
            "repeats",
            int,
            "Draw one that asks for so many copies (repeat-copy).",
            min=1,
            metavar="N",
            limit="tokens",
        ),
        Option("seed", int, "The same seed draws the same sequence; 0 unless given.", min=0, metavar="N"),
    ),
    check_request=check_request,
    in_words=False,
    picture="tape.png",
    metrics={
        "bit_errors": Metric("min"),  # of a sequence
        "wrong_bits": Metric("min"),  # in percent
        "cost_in_bits": Metric("min"),  # -log2 p of a sequence
        "loss": Metric("min", 4),
    },
    validated=("bit_errors", "loss"),
    best_by=("bit_errors", "loss"),
    unit="bits",
    evaluate_options=(
        Option(
            "test_count",
            int,
            "Play, recall: in how many environments, or sequences of each length.",
            min=2,
            max=MOST_TESTED,
            metavar="N",
        ),
        Option(
            "test_lengths",
            str,
            "Recall: the lengths of sequences, as in 20,40,80.",
            metavar="N,N",
            flags="--lengths",
        ),
        Option(
            "test_repeats",
            int,
            "Recall: how many copies repeat-copy asks for.",
            min=1,
            metavar="N",
            flags="--repeats",
        ),
    ),
    plotted="wrong bits by length",
    trains_with=frozenset({"capture"}),
)
