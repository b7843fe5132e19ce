"""How fast is a task of the Neural Turing machine learned? Cost in bits of a sequence while training.

    python results/ntm_curves.py --ntm runs/copy0 runs/copy1 runs/copy2 --lstm runs/lstm0 runs/lstm1 runs/lstm2 \\
        --out results/ntm_copy_curves.svg

Each folder is a training with batches of 64. A line is the median seed, its band goes from the best to the worst,
of means over 100 steps (Graves et al. 2014, figures 3, 10 and 18)."""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np

from regard.show import Curves

BATCH, MEAN = 64, 100  # sequences of a step; steps of a point


def costs(run: Path) -> np.ndarray:
    """Bits of a sequence, a number for each MEAN steps."""
    rows = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    each = [row["loss"] * row["tokens"] / BATCH / math.log(2) for row in rows if "tokens" in row]
    return np.array(each)[: len(each) // MEAN * MEAN].reshape(-1, MEAN).mean(1)


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost in bits of a sequence while training.")
    parser.add_argument("--ntm", type=Path, nargs="+", required=True, help="trainings with several seeds")
    parser.add_argument("--lstm", type=Path, nargs="+", required=True, help="those of bit_lstm")
    parser.add_argument("--out", type=Path, required=True, help="an .svg or .png file")
    parser.add_argument("--title", default="", help="above the picture")
    options = parser.parse_args()
    lines, bands = {}, {}
    for name, runs in (("NTM", options.ntm), ("LSTM", options.lstm)):
        series = np.stack([costs(run) for run in runs])
        seen = np.arange(1, series.shape[1] + 1) * MEAN * BATCH / 1000
        lines[name] = seen, np.median(series, 0)
        bands[name] = series.min(0), series.max(0)
    labels = {"x_label": "thousands of sequences", "y_label": "bits per sequence"}
    Curves(lines, title=options.title, spread=bands, from_zero=True, **labels).save(options.out)


if __name__ == "__main__":
    main()
