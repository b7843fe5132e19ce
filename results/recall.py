"""How far back does each cell remember? Exact match on the recall task by distance, of finished comparisons.

    regard compare recall-luong recall-seq2seq,model.cell=rnn,model.chrono_steps=0 \\
        --vary data.distance=10,25,50,100,200 --seeds 3 --out runs/recall
    python results/recall.py runs/recall --out results/recall.svg

Of every training below the folders given it reads recipe.toml and result.json; trainings that have not finished are
left out. Prints a Markdown table, a row for each system: the mean of the seeds, and in brackets the spread (largest
minus smallest) where there are several. Draws the same as lines, with a band from the worst seed to the best."""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from regard.data.made.pairs import LETTERS
from regard.show import Curves

CELLS = {"rnn": "plain RNN", "gru": "GRU", "lstm": "LSTM"}
CHANCE = 100 / len(LETTERS)
Trainings = dict[str, dict[int, dict[int, float]]]  # exact match by system, distance and seed


def system(model: dict[str, Any]) -> str:
    """What a recipe's [model] is called in the table."""
    cell = CELLS[model["cell"]]
    if model["name"] != "seq2seq":
        return f"{cell} with attention"
    keeps = model.get("chrono_steps", 0) and model["cell"] != "rnn"  # a plain RNN has no gates to start open
    return f"{cell}, chrono {model['chrono_steps']}" if keeps else cell


def collect(folders: Iterable[Path]) -> Trainings:
    trainings: Trainings = {}
    for result in sorted(path for folder in folders for path in folder.rglob("result.json")):
        recipe = tomllib.loads((result.parent / "recipe.toml").read_text(encoding="utf-8"))
        name, distance, seed = system(recipe["model"]), recipe["data"]["distance"], recipe["train"]["seed"]
        seeds = trainings.setdefault(name, {}).setdefault(distance, {})
        if seed in seeds:
            raise SystemExit(
                f"{result.parent} is a second training of {name} at distance {distance} with seed {seed}; "
                "give only folders whose trainings differ in cell, chrono_steps, distance or seed"
            )
        seeds[seed] = json.loads(result.read_text(encoding="utf-8"))["exact_match"]
    if not trainings:
        raise SystemExit("no result.json in these folders; give the --out of regard compare")
    order = [*CELLS.values(), "with attention"]  # as the table is read: from the plain cell up to attention
    rank = {name: max(at for at, kind in enumerate(order) if kind in name) for name in trainings}
    return {
        name: dict(sorted(trainings[name].items()))
        for name in sorted(trainings, key=lambda name: (rank[name], name))
    }


def print_table(trainings: Trainings) -> None:
    distances = sorted({distance for row in trainings.values() for distance in row})
    print(f"Exact match in percent by distance, mean and spread of the seeds; chance is {CHANCE:.1f}\n")
    print("| system | seeds |" + "".join(f" {distance} |" for distance in distances))
    print("|---|---|" + "---|" * len(distances))
    for name, row in trainings.items():
        counts = sorted({len(seeds) for seeds in row.values()})
        cells = [shown(list(row[distance].values())) if distance in row else "" for distance in distances]
        print(f"| {name} | {' or '.join(map(str, counts))} | " + " | ".join(cells) + " |")


def shown(values: list[float]) -> str:
    spread = f" ({max(values) - min(values):.1f})" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread}"


def curves(trainings: Trainings) -> Curves:
    lines = {
        name: (
            [math.log2(distance) for distance in row],
            [statistics.mean(seeds.values()) for seeds in row.values()],
        )
        for name, row in trainings.items()
    }
    bands = {
        name: ([min(seeds.values()) for seeds in row.values()], [max(seeds.values()) for seeds in row.values()])
        for name, row in trainings.items()
    }
    distances = sorted({distance for row in trainings.values() for distance in row})
    places = {math.log2(distance): str(distance) for distance in distances}
    chance = (list(places), [CHANCE] * len(places))
    return Curves(
        lines | {f"chance, 1 in {len(LETTERS)}": chance},
        title="A letter recalled after so many steps",
        x_label="steps from the letter to the question",
        y_label="exact match, %",
        spread=bands,
        ticks=places,
        from_zero=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description="The recall task: exact match by distance, a line for each system."
    )
    parser.add_argument("folders", type=Path, nargs="+", help="the --out of regard compare, one or several")
    parser.add_argument("--out", type=Path, help="draw the lines into this .svg or .png")
    options = parser.parse_args()
    trainings = collect(options.folders)
    print_table(trainings)
    if options.out:
        curves(trainings).save(options.out)


if __name__ == "__main__":
    main()
