"""Word alignments of given translations, by where a translator looked, and how good they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from regard.base.divided import refuse_stream
from regard.base.files import find_data
from regard.base.lines import open_lines
from regard.data.text.pairs import read_pairs
from regard.errors import DataError
from regard.metrics.alignment import AlignmentScores, Links, alignment_scores, pharaoh, read_links
from regard.tasks.core.results import Tick, no_tick
from regard.tasks.translate.run import Translator


@dataclass(frozen=True)
class Aligned:
    pairs: int
    scores: AlignmentScores | None  # against gold links, if given


def align_pairs(
    translator: Translator,
    data: str,
    columns: str = "",
    *,
    gold: Path | None = None,
    base: int = 1,
    write: Callable[[str], None],
    tick: Tick = no_tick,
) -> Aligned:
    """Every pair's links are written as they come; `base` is the number of the first word in the gold file."""
    translator.check_looks()
    refuse_stream(data)
    source, target = read_columns(columns)
    pairs: Iterable[tuple[str, str]] = read_pairs(data, source=source, target=target)
    wanted = []
    if gold is not None:
        pairs = list(pairs)
        wanted = read_gold(gold, base, len(pairs))
    aligned = []
    for links in translator.align(pairs):
        write(pharaoh(links))
        aligned.append(links)
        tick()
    return Aligned(len(aligned), None if gold is None else alignment_scores(aligned, wanted))


def read_columns(named: str) -> tuple[str, str]:
    """ "en,de" -> ("en", "de")"""
    if not named:
        return "", ""
    source, comma, target = named.partition(",")
    if not comma or not source or not target:
        raise DataError(f"columns must be two names with a comma between them, as in en,de; got {named!r}")
    return source, target


def read_gold(path: Path, base: int, pairs: int) -> list[tuple[Links, Links]]:
    try:
        links = read_links((line for _, line in open_lines(find_data(str(path)))), base=base)
    except DataError:
        raise
    except ValueError as error:
        raise DataError(f"{path}, {error}") from None
    if len(links) != pairs:
        raise DataError(f"{path} has links for {len(links):,} pairs, and there are {pairs:,} to align")
    if not any(sure for sure, _ in links):
        raise DataError(f"{path} has no sure link, so there is nothing to find; write them as 3-4")
    return links
