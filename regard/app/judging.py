"""Runs judged side by side, and the links that attention draws between words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from regard.app.console import progress, say
from regard.app.recipe import read
from regard.data.files import find_data
from regard.data.pairs import Columns, DataError, open_lines, read_pairs, read_rows
from regard.metrics.alignment import Links, alignment_scores, pharaoh, read_links
from regard.metrics.bootstrap import Comparison
from regard.show.curves import length_curves
from regard.tasks import Decoding, Translator, find, load_as
from regard.tasks.folder import RunError
from regard.tasks.judge import MEASURES, Verdict, compare, judge
from regard.tasks.settings import Example


def evaluate(
    runs: list[str],
    data: str | None,
    columns: str | None,
    change: Callable[[Decoding], Decoding],
    *,
    show: Path | None,
    as_json: bool,
) -> None:
    if twice := {run for run in runs if runs.count(run) > 1}:
        raise RunError(f"{', '.join(sorted(twice))} is named twice; a run needs no comparison with itself")
    for run in runs:
        find(run)  # a slip of the pen is told before the first is judged
    examples = read_examples(runs, data, _columns(columns))
    verdicts = {}
    for run in runs:
        translator = load_as(run, Translator)
        check_sources(translator, examples, data)
        with progress(len(examples), f"pairs by {run}") as tick:
            verdicts[run] = judge(translator, examples, change(translator.decode), tick=tick)
    first, *others = runs
    tests = {run: compare(verdicts[first], verdicts[run], examples) for run in others}
    if show:
        names = [Path(run).name for run in runs]
        labels = names if len(set(names)) == len(names) else runs
        lengths = {
            label: [(one.low, one.high, one.sentences, one.bleu) for one in verdict.by_length]
            for label, verdict in zip(labels, verdicts.values(), strict=True)
        }
        length_curves(lengths).save(show)
        say(f"wrote {show}")
    print(as_json_text(verdicts, tests) if as_json else as_text(verdicts, tests))


def read_examples(runs: list[str], data: str | None, columns: Columns) -> list[Example]:
    """The pairs to judge by: a file's, else the test split of the generated set that all runs learned from."""
    if data is not None:
        return [(row[0], row[1:]) for row in read_rows(data, columns)]
    jobs = [read(str(find(run) / "recipe.toml"))[0] for run in runs]
    for run, job in zip(runs, jobs, strict=True):
        if not job.data.made:
            raise RunError(f"{run} was trained on files; say which pairs to judge it on: --data FILE")
        if job.data.made != jobs[0].data.made:
            raise RunError(
                f"{run} was trained on {job.data.made} and {runs[0]} on {jobs[0].data.made}; "
                "name the pairs to judge both on: --data FILE"
            )
    return jobs[0].data.examples("test")


def check_sources(translator: Translator, examples: list[Example], data: str | None) -> None:
    for number, (source, _) in enumerate(examples, 1):
        try:
            translator.read(source)
        except ValueError as error:
            raise DataError(f"{data or 'the test pairs'}, pair {number}: {error}") from None


def _columns(named: str | None) -> Columns:
    if named is None:
        return Columns()
    source, comma, target = named.partition(",")
    if not comma or not source or not target:
        raise DataError(f"--columns wants two names with a comma between them, as in en,de; got {named!r}")
    return Columns(source, target)


def as_json_text(verdicts: dict[str, Verdict], tests: dict[str, list[Comparison]]) -> str:
    """One run: its numbers. Several: a list of them, each but the first with its comparison to the first."""
    rows = []
    for run, verdict in verdicts.items():
        against = {one.metric: {"difference": one.difference, "interval": one.interval, "p": one.p}
                   for one in tests.get(run, [])}  # fmt: skip
        rows.append({"run": run, **verdict.table(), **({"against_first": against} if against else {})})
    return json.dumps(rows[0] if len(rows) == 1 else rows)


def as_text(verdicts: dict[str, Verdict], tests: dict[str, list[Comparison]]) -> str:
    """A column for each run."""
    some = next(iter(verdicts.values()))
    lines = [["pairs", *(str(len(one.answers)) for one in verdicts.values())]]
    if len(verdicts) > 1:
        lines.insert(0, ["", *verdicts])
    for name in MEASURES:
        lines.append([name, *(f"{one.scores[name]:.2f}" for one in verdicts.values())])
    for place, bucket in enumerate(some.by_length):
        words = f"{bucket.low} to {bucket.high}" if bucket.low < bucket.high else str(bucket.low)
        label = f"bleu, {words} words ({bucket.sentences} pairs)"
        lines.append([label, *(f"{one.by_length[place].bleu:.2f}" for one in verdicts.values())])
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    parts = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    for run, found in tests.items():
        parts.append(f"{run} against {next(iter(verdicts))}, paired bootstrap of 1,000 test sets:")
        for one in found:
            low, high = one.interval
            parts.append(
                f"  {one.metric}: {one.difference:+.2f}, 95 % within {low:+.2f} to {high:+.2f}, p = {one.p:.3f}"
            )
    parts += [f"{name}: {signature}" for name, signature in some.signatures.items()]
    return "\n".join(part.rstrip() for part in parts)


def align(
    run: str,
    data: str,
    columns: str | None,
    gold: Path | None,
    base: int,
    site: str,
    head: int | None,
    *,
    write: Callable[[str], None],
) -> None:
    translator = load_as(run, Translator)
    translator.site, translator.head = site, head
    translator.check_looks()
    pairs: Iterable[tuple[str, str]] = read_pairs(data, _columns(columns))
    wanted = []
    if gold is not None:
        pairs = list(pairs)
        wanted = read_gold(gold, base, len(pairs))
    found = []
    with progress(None, "pairs") as tick:
        for links in translator.align(pairs):
            write(pharaoh(links))
            found.append(links)
            tick()
    named: Any = site or translator.model.alignment
    which = "its heads' mean, or its only one" if head is None else f"head {head}"
    say(f"{len(found):,} pairs aligned by the attention `{named}` of {run}, {which}")
    if gold is not None:
        scores = alignment_scores(found, wanted)
        say(
            f"alignment error rate {scores.aer:.1f} %, precision {scores.precision:.1f} %, "
            f"recall {scores.recall:.1f} %"
        )


def read_gold(path: Path, base: int, pairs: int) -> list[tuple[Links, Links]]:
    try:
        found = read_links((line for _, line in open_lines(find_data(str(path)))), base=base)
    except DataError:
        raise
    except ValueError as error:
        raise DataError(f"{path}, {error}") from None
    if len(found) != pairs:
        raise DataError(f"{path} has links for {len(found):,} pairs, and there are {pairs:,} to align")
    if not any(sure for sure, _ in found):
        raise DataError(f"{path} has no sure link, so there is nothing to find; write them as 3-4")
    return found
