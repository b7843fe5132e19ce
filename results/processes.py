"""The same training in 1, 2 and 4 processes: how far are the losses apart?

    python results/processes.py [SYSTEM ...]       # prints a Markdown table; all systems take some minutes

One small recipe of every task, and some systems whose loss needs the whole batch: next sentences, hard attention,
batch normalisation, an agent's advantages. 50 steps each in float32 on the CPU, without dropout, by plain
`regard.train` and under torchrun (gloo) with DDP and with FSDP2 (train.shard). A cell has the largest difference of
the loss to that of one process: at step 1, and the largest of all 50 steps; then that of the validation after them,
which the processes divide: the largest of all its metrics. results/processes.md has it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

STEPS = 50
WORDS = [
    "the",
    "a",
    "cat",
    "dog",
    "sat",
    "lay",
    "ran",
    "by",
    "on",
    "under",
    "old",
    "small",
    "house",
    "door",
    "mat",
    "tree",
    "and",
    "then",
    "it",
    "was",
    "seen",
    "again",
]
TRAIN = {"steps": STEPS, "eval_every": STEPS, "learning_rate": 5e-4, "device": "cpu"}
# Where a rounding error may change what is sampled, or batch normalisation enlarges it.
SLOW = {"learning_rate": 1e-4}
TEXT = {"documents": "line", "batch_tokens": 512, "length": 24}
BERT = {
    "name": "bert",
    "dim": 32,
    "layers": 2,
    "heads": 2,
    "max_positions": 32,
    "dropout": 0.0,
    "attention_dropout": 0.0,
}
DATES = {"made": "dates", "train_count": 2000, "valid_count": 20, "batch_tokens": 512}
SCENES = {"made": "scenes", "train_count": 300, "valid_count": 4, "batch_size": 10, "crop": 2}
SHAPES = {"made": "shapes", "train_count": 300, "valid_count": 4, "batch_size": 10, "crop": 2}
CAPTIONER = {
    "image_size": 32, "depths": [1, 1], "widths": [8, 16], "reduction": 4, "embed": 16, "decoder": 32,
    "dropout": 0.0,
}  # fmt: skip
BAHDANAU = {"name": "bahdanau", "embed": 16, "encoder": 16, "decoder": 32, "readout": 16, "dropout": 0.0}

Recipe = dict[str, dict[str, Any]]


def recipes(folder: Path) -> dict[str, Recipe]:
    """By task and system."""
    text, labelled, documents = folder / "text.txt", folder / "labelled.tsv", folder / "documents.txt"
    files = {"train": str(text), "valid": str(text)}
    characters = {"kind": "character"}
    words = {"kind": "word", "size": 60}
    return {
        "translate bahdanau": {"data": DATES, "tokens": characters, "model": BAHDANAU},
        "translate bahdanau, hard attention": {
            "data": DATES, "tokens": characters, "model": {**BAHDANAU, "weigh": "hard"},
        },
        "translate transformer": {
            "data": DATES,
            "tokens": characters,
            "model": {
                "name": "transformer", "dim": 32, "layers": 2, "heads": 2, "ff": 64, "max_positions": 64,
                "dropout": 0.0,
            },
        },
        "generate gpt2": {
            "data": {**files, **TEXT},
            "tokens": characters,
            "model": {
                "name": "gpt2", "dim": 32, "layers": 2, "heads": 2, "max_positions": 24, "dropout": 0.0,
                "embed_dropout": 0.0, "attention_dropout": 0.0,
            },
        },
        "fill bert": {"data": {**files, **TEXT}, "tokens": {"kind": "wordpiece", "size": 80}, "model": BERT},
        "fill bert, next sentences": {
            "data": {"train": str(documents), "valid": str(documents), **TEXT, "documents": "blank"},
            "tokens": {"kind": "wordpiece", "size": 80},
            "model": {**BERT, "head": "pretrain", "pooler": True},
        },
        "classify han": {
            "data": {"train": str(labelled), "valid": str(labelled), "batch_tokens": 256},
            "tokens": words,
            "model": {"name": "han", "embed": 16, "dim": 8, "dropout": 0.0, "word_dropout": 0.0},
        },
        "embed elmo": {
            "data": {**files, "batch_tokens": 256},
            "tokens": words,
            "model": {
                "name": "elmo", "head": "predict", "character_dim": 4, "widths": [1, 2], "filters": [8, 8],
                "dim": 8, "cell": 16, "dropout": 0.0,
            },
        },
        "caption show_attend_tell, hard attention": {
            "data": SCENES, "tokens": words, "model": {"name": "show_attend_tell", **CAPTIONER, "weigh": "hard"},
            "train": SLOW,
        },
        "caption show_and_tell, batch norm": {
            "data": SCENES, "tokens": words, "model": {"name": "show_and_tell", **CAPTIONER},
        },
        "recognise vit": {
            "data": SHAPES,
            "model": {
                "name": "vit", "image_size": 16, "patch_size": 4, "dim": 32, "layers": 2, "heads": 2,
                "dropout": 0.0,
            },
        },
        "recognise senet, batch norm": {
            "data": SHAPES,
            "model": {"name": "senet", "image_size": 16, "depths": [1, 1], "widths": [8, 16], "reduction": 4},
        },
        "fewshot snail, batch norm": {
            "data": {
                "made": "glyphs", "train_count": 40, "valid_count": 20, "batch_size": 6,
                "mean": [0.0], "std": [1.0],
            },
            "model": {
                "name": "snail", "ways": 3, "shots": 1, "conv_filters": 8, "keys": [8, 8], "values": [8, 8],
                "tc_filters": 8,
            },
            "train": SLOW,
        },
        "recall ntm": {
            "data": {"made": "copy-bits", "batch_size": 6, "max_length": 4, "test_lengths": [4]},
            "model": {"name": "ntm", "controller": "feedforward"},
        },
        "play snail_agent, PPO": {
            "data": {"made": "environments", "batch_size": 34, "valid_count": 20},
            "model": {"name": "snail_agent", "environment": "bandits", "actions": 3, "pulls": 5, "dim": 8},
            "train": {"ppo_passes": 2, "ppo_parts": 4, "entropy_weight": 0.02, **SLOW},
        },
    }  # fmt: skip


def write_data(folder: Path) -> None:
    draw = random.Random(0)
    lines = [" ".join(draw.choices(WORDS, k=draw.randint(3, 12))) + "." for _ in range(300)]
    (folder / "text.txt").write_text("\n".join(lines) + "\n")
    (folder / "documents.txt").write_text("\n\n".join("\n".join(lines[i : i + 6]) for i in range(0, 300, 6)))
    rows = [f"{line}\t{'animal' if 'cat' in line or 'dog' in line else 'other'}" for line in lines]
    (folder / "labelled.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")


def train(folder: Path, out: Path, names: list[str], settings: dict[str, Any]) -> None:
    """In every process; the runs are left in `out`."""
    import torch

    import regard

    torch.set_num_threads(1)
    for number, (name, recipe) in enumerate(recipes(folder).items()):
        if names and name not in names:
            continue
        full = {**recipe, "train": {**TRAIN, **recipe.get("train", {}), **settings}}
        regard.train(full, out=out / str(number), overwrite=True)


def logs(out: Path) -> dict[str, tuple[list[float], dict[str, float]]]:
    """By recipe: the losses of all steps, and the metrics of the last validation."""
    names = list(recipes(out))
    paths = {names[int(path.parent.name)]: path for path in sorted(out.glob("*/log.jsonl"))}
    found = {}
    for name, path in paths.items():
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        steps = [row["loss"] for row in rows if "gradient_norm" in row]
        found[name] = steps, {key: value for key, value in rows[-1].items() if isinstance(value, float)}
    return found


def launch(count: int, *words: str) -> None:
    """Here is one process without torchrun, which costs nothing."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)] if count else []
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *torchrun, __file__, *words], env=environment, stderr=subprocess.PIPE)
    if done.returncode:
        sys.exit(done.stderr.decode()[-4000:])


def main(names: list[str]) -> None:
    ways = {
        "DDP, 2": (2, {}),
        "DDP, 4": (4, {}),
        "FSDP2, 2": (2, {"shard": True}),
        "FSDP2, 4": (4, {"shard": True}),
    }
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_data(folder)
        found = {}
        for way, (count, settings) in {"1": (0, {}), **ways}.items():
            launch(count, "train", str(folder), str(folder / way), json.dumps(settings), *names)
            found[way] = logs(folder / way)
    print("| recipe | " + " | ".join(ways) + " |\n|---|" + "---|" * len(ways))
    for name, (single, metrics) in found["1"].items():
        cells = []
        for way in ways:
            steps, others = found[way][name]
            apart = [abs(one - other) for one, other in zip(single, steps, strict=True)]
            validated = max(abs(value - others[key]) for key, value in metrics.items())
            cells.append(f"{apart[0]:.0e}, {max(apart):.0e}, {validated:.0e}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["train"]:
        train(Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[5:], json.loads(sys.argv[4]))
    else:
        main(sys.argv[1:])
