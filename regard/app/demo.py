"""`regard demo`: train, evaluate and look, on generated data."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from pathlib import Path

from regard.learn.checkpoint import checkpoints
from regard.learn.progress import say
from regard.tasks.core.recipe import read
from regard.tasks.core.table import load_as
from regard.tasks.core.training import train
from regard.tasks.translate.run import Translator

EXAMPLES = ("3 May 1979", "Saturday, 29 February 2020", "le 1er août 1914", "1969年7月20日")


def demonstrate(out: Path) -> None:
    job, text = read("bahdanau-dates")
    began = time.monotonic()
    say("Training a translator from dates as people write them to ISO dates (Bahdanau 2015).")
    train(job, out, recipe=text, command=f"regard demo --out {out}", resume=bool(checkpoints(out)))
    translator = load_as(out, Translator, "translate")
    evaluation = translator.evaluate()
    seconds = time.monotonic() - began
    right, days = evaluation.metrics["exact_match"], evaluation.counts["pairs"]
    print(f"{right:.1f} % of {days:,} unseen days exactly right, {seconds:.0f} s\n")
    for example in EXAMPLES:
        answer = translator.translate(example)
        print(f"{example} -> {answer.text}")
        print(answer.attention.terminal(colour=sys.stdout.isatty()))
    picture = out / "alignment.png"
    translator.translate(EXAMPLES[1]).attention.save(picture)
    print(f"The alignment as a picture: {picture}; the loss: {out / 'loss.svg'}\n")
    print("Next:")
    activate = Path(sys.prefix) / "bin" / "activate"
    if shutil.which("regard") is None and activate.is_file():
        print(f"  . {shlex.quote(os.path.relpath(activate))}    # puts regard on your path")
    print(f'  regard translate {out} "your own date" --show -')
    print("  regard train bahdanau-dates --set model.score=dot --out runs/dot")
    print("  regard train bahdanau-pairs --set data.train=your-pairs.tsv --out runs/mine")
