"""Fine-tuning an encoder of MiniLM's size on the CPU, compared with `transformers`' BertForSequenceClassification
with the same weights, on the same batches.

    pip install -c constraints.txt 'regard[bench]'
    python benchmarks/encoder_training.py [BATCHES]       # prints a Markdown table

384 wide, feed-forward 1,536, 6 layers, 12 heads, 30,522 tokens, two classes, dropout 0.1 in attention and
elsewhere as in BERT: forward, backward and AdamW on batches of 32 rows of random tokens, with lengths drawn
uniformly from 24 to 128, padded to the longest. Random weights, saved as a run by regard; `transformers` opens
that folder as it is. regard runs without oneDNN on ARM, as `regard train` does. The first loss is that of the
first batch without dropout.
Each tool runs in its own processes, in turns; times are medians. On a shared machine only the ratio is
meaningful."""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bert_encoding import MAX_LENGTH, PAD, ROWS, THREADS, VOCABULARY, texts, tokenizer
from measuring import best_turn, machine, start, take_turns
from torch import Tensor

Tool = tuple[Any, Callable[[Any], Tensor]]  # model, its loss


def batches(count: int) -> Iterator[Any]:
    from regard.data.batches.batch import pad
    from regard.data.text.text_encoding import LabelledBatch

    for seed in range(count):
        dice = np.random.default_rng(seed)
        rows, segments = texts(dice.integers(24, MAX_LENGTH + 1, ROWS).tolist(), seed)
        tokens, mask = pad(rows, PAD)
        yield LabelledBatch(tokens, pad(segments, 0)[0], mask, torch.from_numpy(dice.integers(2, size=ROWS)))


def ours(folder: str) -> Tool:
    from regard.runs.folder import Folder

    model: Any = Folder(folder).model()

    def loss_of(batch: Any) -> Tensor:
        loss = model.loss(batch)
        return loss.total / loss.tokens

    return model, loss_of


def transformers_own(folder: str) -> Tool:
    from transformers import BertForSequenceClassification

    model = BertForSequenceClassification.from_pretrained(folder)

    def loss_of(batch: Any) -> Tensor:
        return model(
            input_ids=batch.tokens,
            attention_mask=batch.mask.long(),
            token_type_ids=batch.segments,
            labels=batch.labels,
        ).loss

    return model, loss_of


TOOLS = {"regard": ours, "transformers": transformers_own}


def measure(folder: str, count: str, tool: str) -> dict[str, float]:
    """Real tokens a second, the first loss, and the process's peak memory."""
    from regard.layers.onednn import without_onednn

    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    model, loss_of = TOOLS[tool](folder)
    optimiser = torch.optim.AdamW(model.parameters(), 2e-5)
    speeds = []
    with without_onednn(model) if tool == "regard" else nullcontext():
        first, *rest = batches(int(count) + 1)
        with torch.inference_mode():
            begin = loss_of(first).item()  # both are opened in eval mode
        model.train()
        for batch in (first, *rest):
            start = time.perf_counter()
            loss_of(batch).backward()
            optimiser.step()
            optimiser.zero_grad()
            speeds.append(int(batch.mask.sum()) / (time.perf_counter() - start))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"speed": statistics.median(speeds[1:]), "peak": peak, "loss": begin}  # the first was the warm-up


def prepare(folder: Path) -> None:
    from regard.data.artifacts import Artifacts
    from regard.models.bert import Bert, BertConfig
    from regard.runs.folder import begin, save_weights

    torch.manual_seed(0)
    model = Bert(BertConfig(VOCABULARY, dim=384, layers=6, heads=12, head="classify", labels=("no", "yes")))
    begin(folder, model, Artifacts(tokenizer(), labels=model.config.labels), "")
    save_weights(folder, model)


def main(count: int) -> None:
    import transformers

    torch.set_num_threads(THREADS)
    command = " ".join(["python benchmarks/encoder_training.py", *sys.argv[1:]])
    real = statistics.mean(batch.mask.float().mean().item() for batch in batches(count + 1))
    print(f"{machine()}, transformers {transformers.__version__}, {count} batches, ", end="")
    print(f"{100 * real:.0f} % of the positions real tokens, seed 0, `{command}`\n")
    print("| tool | first loss | real tokens/s | peak MiB | times transformers |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        results = take_turns(__file__, TOOLS, folder, str(count))
    fastest = best_turn(results, "speed")
    for tool, best in fastest.items():
        print(
            f"| {tool} | {best['loss']:.5f} | {best['speed']:,.0f} | {best['peak']:,.0f} "
            f"| {best['speed'] / fastest['transformers']['speed']:.2f} |"
        )


if __name__ == "__main__":
    start(measure, main, words=3, default=5)
