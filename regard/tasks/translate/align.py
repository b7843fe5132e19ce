"""Word alignments of given translations, by where a translator looked, and how good they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from regard.base.divided import dividing, each_of_first
from regard.base.files import find_data
from regard.base.lines import open_lines
from regard.base.processes import is_first
from regard.data.text.pairs import read_pairs
from regard.errors import DataError
from regard.metrics.alignment import AlignmentScores, Links, alignment_scores, pharaoh, read_links
from regard.tasks.core.inputs import in_parts
from regard.tasks.core.results import Tick, no_tick
from regard.tasks.translate.run import Translator, check_batch


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
    """Every pair's links are written as they come; `base` is the number of the first word in the gold file. If the
    work is divided, the first process reads the pairs, and alone knows how many there are."""
    translator.check_looks()
    source, target = read_columns(columns)
    pairs: Iterator[tuple[str, str]] = iter(())
    wanted = []
    if reads := is_first() or not dividing():
        pairs = read_pairs(data, source=source, target=target)
        if gold is not None:
            every = list(pairs)
            pairs, wanted = iter(every), read_gold(gold, base, len(every))
    aligned = []
    for links in translator.links(in_parts(pairs, check_batch(None, translator.model)), each_of_first):
        write(pharaoh(links))
        aligned.append(links)
        tick()
    scored = reads and gold is not None
    return Aligned(len(aligned), alignment_scores(aligned, wanted) if scored else None)


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
