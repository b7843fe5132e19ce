"""Translating with recurrent models on the CPU, greedily and with a beam of 5: `bahdanau` and `luong`, compared
with Joey NMT 2.3 at the same sizes, on the same sentences.

    pip install -c constraints.txt 'regard[bench]'
    REGARD_DATA=... python benchmarks/recurrent_translation.py [SENTENCES]     # prints a Markdown table

The first sentences of Multi30k's test2016, English, in their order, in batches of 64. Models and tokens are those
of `recurrent.py`. The weights are random and would not end a sentence at a sensible place, so every output has
exactly 15 tokens: both tools forbid the end token up to there, each by its own setting for the minimum length,
and stop there. The gain from early stopping on trained models is not measured. Joey NMT's search is its own
`joeynmt.search.search`, after sorting as in its `predict`. The time is measured from lists of token ids to lists
of token ids.
Each tool runs in its own processes, in turns; the better of two counts. On a shared machine only the ratio is
meaningful."""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from measuring import machine, start, take_turns
from recurrent import Rows, bahdanau, encoded, joey_batch, joey_model, luong

BATCH, LENGTH, BEAM = 64, 15, 5


def ours(model: Any) -> tuple:
    from regard.data.batches.batch import pad
    from regard.data.text.special_tokens import END, PAD, START
    from regard.decode.rules import Target
    from regard.decode.search import decode
    from regard.decode.settings import Decoding

    target = Target(START, END, max_length=LENGTH, min_length=LENGTH, never=(PAD, START))

    def translate(rows: Rows, width: int) -> Rows:
        source, mask = pad([[*row, END] for row in rows], PAD)
        return [best.tokens for (best,) in decode(model, source, mask, Decoding(beam=width), target)]

    return model, translate


def joey(model: Any) -> tuple:
    from joeynmt.search import search

    def translate(rows: Rows, width: int) -> Rows:
        batch = joey_batch(rows)
        order = batch.sort_by_src_length()
        tokens, _, _ = search(
            model,
            batch,
            max_output_length=LENGTH,
            beam_size=width,
            beam_alpha=1.0,
            n_best=1,
            min_output_length=LENGTH,
        )
        return tokens[order].tolist()

    return model, translate


TOOLS = {
    "bahdanau": {
        "regard, readout 448": lambda: ours(bahdanau(448)),
        "regard, readout 256": lambda: ours(bahdanau(256)),
        "Joey NMT 2.3": lambda: joey(joey_model("bahdanau")),
    },
    "luong": {"regard": lambda: ours(luong()), "Joey NMT 2.3": lambda: joey(joey_model("luong"))},
}


def measure(file: str, name: str, tool: str) -> dict:
    """Seconds for all sentences by beam width, and the process's peak memory."""
    torch.manual_seed(0)
    model, translate = TOOLS[name][tool]()
    model.eval()
    rows = json.loads(Path(file).read_text())
    seconds = {}
    for width in (1, BEAM):
        translate(rows[:BATCH], width)  # warm-up
        start = time.perf_counter()
        answers = [answer for i in range(0, len(rows), BATCH) for answer in translate(rows[i : i + BATCH], width)]
        seconds[width] = time.perf_counter() - start
        if [len(answer) for answer in answers] != [LENGTH] * len(rows):
            raise RuntimeError(f"{tool}: answers that are not {LENGTH} tokens long cannot be compared")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "peak": peak, "parameters": sum(p.numel() for p in model.parameters())}


def main(sentences: int) -> None:
    [rows] = encoded("test_2016_flickr.en")
    rows = rows[:sentences]
    command = " ".join(["python benchmarks/recurrent_translation.py", *sys.argv[1:]])
    print(f"{machine()}, {len(rows)} sentences, seed 0, `{command}`\n")
    print("| search | model | tool | parameters | sentences/s | tokens/s | peak MiB | times Joey NMT |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "sources.json"
        file.write_text(json.dumps(rows))
        for name, tools in TOOLS.items():
            results = take_turns(__file__, tools, str(file), name)
            for search, width in (("greedy", "1"), (f"beam {BEAM}", str(BEAM))):  # JSON's keys are texts
                fastest = {tool: min(turn["seconds"][width] for turn in turns) for tool, turns in results.items()}
                for tool, seconds in fastest.items():
                    speed, turn = len(rows) / seconds, results[tool][0]
                    times = fastest["Joey NMT 2.3"] / seconds
                    print(
                        f"| {search} | {name} | {tool} | {turn['parameters']:,} | {speed:,.1f} "
                        f"| {speed * LENGTH:,.0f} | {turn['peak']:,.0f} | {times:.2f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    start(measure, main, words=3, default=192)
