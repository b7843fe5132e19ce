"""Gates of recurrent layers over a text: which words open them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import numpy as np

from regard.attention import Trace
from regard.attention.trace import sites_of
from regard.errors import BadInput, NoAttention
from regard.layers.recurrent import GATES
from regard.models.protocols import Module
from regard.show import Heads, Words
from regard.show.words import merge_weights
from regard.tasks.shared.sites import sites_like
from regard.tasks.shared.words import Tokens, words_of

UNITS = 12  # of a layer that a picture shows
TITLE = "Gates while it reads: the mean, and units from the most open to the most closed"


def gate_sites(model: Module, patterns: Sequence[str] = ()) -> list[str]:
    """The sites of recurrent gates that match a pattern; no pattern: all."""
    if not sites_of(model, GATES):
        raise NoAttention("this model has no gates: only GRU and LSTM cells do (model.cell)")
    return sites_like(model, patterns, kind=GATES)


def gate_maps(
    seen: Trace, tokens: Callable[[str], Tokens], units: int = UNITS, *, turned: Collection[str] = ()
) -> Heads:
    """The gates of the first text of a trace, in words, a panel for each gate of a site: the mean of all units, and
    some of them, evenly spaced from the most open to the most closed. `tokens(site)` is what a site read; those
    of the `turned` sites were read in reverse, except the end token."""
    if units < 0:
        raise BadInput(f"units must be 0 (only the mean of all) or more, got {units}")
    pieces: dict[str, np.ndarray] = {}
    rows, columns, words = {}, {}, {}
    for site in seen.sites:
        tokenizer, ids = tokens(site)
        for kind in seen.kinds(site):
            name, gates = f"{site}, {kind}", seen[site, kind][0].float().cpu().numpy()
            gates = np.vstack([gates[-2::-1], gates[-1:]]) if site in turned else gates
            rows[name], pieces[name] = _chosen(gates, units)
            columns[name], words[name] = tokenizer.tokens(ids), words_of(tokenizer, ids)
    below = Heads({name: table[None] for name, table in pieces.items()}, rows, columns, TITLE, scale=1, of="gate")
    if all(words[name].are(columns[name]) for name in words):
        return below
    merged = {name: _in_words(table, words[name])[None] for name, table in pieces.items()}
    return replace(below, panels=merged, columns={name: own.labels for name, own in words.items()}).over(below)


def _chosen(gates: np.ndarray, units: int) -> tuple[list[str], np.ndarray]:
    """gates (T, D) -> names and values (1 + units, T)"""
    count = gates.shape[1]
    order = np.argsort(-gates.mean(0), kind="stable")
    shown = order[np.linspace(0, count - 1, min(units, count)).round().astype(int)]
    return ["mean", *map(str, shown)], np.vstack([gates.mean(1), gates[:, shown].T])


def _in_words(table: np.ndarray, words: Words) -> np.ndarray:
    """(rows, pieces) -> (rows, words): the mean over the pieces of a word."""
    each = Words([""] * len(table), range(len(table)))
    return merge_weights(table.T, words, each).T
