"""Training the small Transformer on the CPU, compared with `transformers`' MarianMTModel of the same
configuration, on the same batches.

    pip install -c constraints.txt 'regard[bench]'
    [REGARD_DATA=...] python benchmarks/transformer_training.py [BATCHES]      # prints a Markdown table

256 wide, feed-forward 1,024, 3 + 3 layers, 4 heads, 8,000 joint tokens, label smoothing 0.1, AdamW, clipping:
forward, backward and update on about 4,096 target tokens per batch of Multi30k en-de, rows of similar length
together (without $REGARD_DATA: random tokens in sentences of such lengths). Both start from the same weights. The
peer's loss is torch's own cross-entropy of its logits. Two settings: dropout 0.1 everywhere, and the default of
`transformers`, no dropout inside attention and feed-forward layers.
Each tool runs in its own processes, in turns; times are medians. On a shared machine only the ratio is
meaningful."""

from __future__ import annotations

import json
import os
import resource
import statistics
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring import best_turn, machine, start, take_turns
from recurrent import TOKENS, VOCABULARY, Rows, lines

THREADS, SMOOTHING = 2, 0.1
SETTINGS: dict[str, Any] = {
    "0.1 everywhere": {"dropout": 0.1, "attention_dropout": 0.1, "activation_dropout": 0.1},
    "0.1 outside attention and feed-forward": {"dropout": 0.1},
}


def tokenizer() -> Any:
    """A joint vocabulary of Multi30k, or of 8,000 made-up words, numbered as in Marian."""
    from regard.data.text.tokenizer import Tokenizer

    if "REGARD_DATA" in os.environ:
        texts = [text for part in ("train.en", "train.de") for text in lines(part)]
        return Tokenizer.train(texts, kind="bpe", size=VOCABULARY, numbering="marian")
    return Tokenizer.train(
        [" ".join(map(str, range(VOCABULARY)))], kind="space", size=VOCABULARY, numbering="marian"
    )


def sides(words: Any, part: str, count: int) -> tuple[Rows, Rows]:
    """English and German sentences as token ids: the first `count` of a part of Multi30k, or made-up ones."""
    if "REGARD_DATA" in os.environ:
        english, german = (words.encode_batch(lines(f"{part}.{language}")[:count]) for language in ("en", "de"))
        return english, german
    dice = np.random.default_rng(0)
    lengths = dice.normal(14, 5, count).round().clip(3, 40).astype(int)
    english, german = (
        [dice.integers(2, VOCABULARY - 1, max(1, length + dice.integers(-2, 3))).tolist() for length in lengths]
        for _ in range(2)
    )
    return english, german


def translator(dropout: dict[str, Any]) -> Any:
    from regard.models.transformer import Transformer, TransformerConfig

    torch.manual_seed(0)
    size: Any = Transformer.SIZES["small"]
    return Transformer(TransformerConfig(VOCABULARY, **size, **dropout))


def ours(folder: str, dropout: dict[str, Any]) -> tuple:
    from regard.data.batches.batch import PairBatch

    model = translator(dropout)

    def loss_of(batch: PairBatch) -> torch.Tensor:
        loss = model.loss(batch, label_smoothing=SMOOTHING)
        return loss.total / loss.tokens

    return model, loss_of


def marian(folder: str, dropout: dict[str, Any]) -> tuple:
    from transformers import MarianMTModel

    everywhere: Any = dict.fromkeys(("dropout", "attention_dropout", "activation_dropout"), 0.0) | dropout
    model = MarianMTModel.from_pretrained(folder, **everywhere)

    def loss_of(batch: Any) -> torch.Tensor:
        logits = model(
            input_ids=batch.source,
            attention_mask=batch.source_mask.long(),
            decoder_input_ids=batch.target[:, :-1],
            use_cache=False,
        ).logits
        right = batch.target[:, 1:].masked_fill(~batch.target_mask[:, 1:], -100)
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), right.flatten(), label_smoothing=SMOOTHING)

    return model, loss_of


TOOLS = {"regard": ours, "transformers": marian}


def measure(folder: str, setting: str, tool: str) -> dict[str, float]:
    """Target tokens per second (without padding, with the end token), the first loss, and peak memory."""
    from regard.layers.onednn import without_onednn

    torch.set_num_threads(THREADS)
    model, loss_of = TOOLS[tool](folder, SETTINGS[setting])
    with without_onednn(model) if tool == "regard" else nullcontext():  # as `regard train` does
        return run(folder, model.train(), loss_of)


def run(folder: str, model: Any, loss_of: Any) -> dict[str, float]:
    from regard.data.batches.batch import PairData
    from regard.data.text.special_tokens import Special

    optimiser = torch.optim.AdamW(model.parameters(), 1e-4)
    special = Special(VOCABULARY - 1, VOCABULARY - 1, 0, 1)
    speeds, first = [], 0.0
    pairs = json.loads((Path(folder) / "batches.json").read_text())
    for number, (source, target) in enumerate([pairs[0], *pairs]):
        data = PairData(source, target, batch_tokens=sys.maxsize, seed=0, special=special)
        batch = data.batch(np.arange(len(data)))
        start = time.perf_counter()
        loss = loss_of(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        if number:
            speeds.append(sum(len(row) + 1 for row in target) / (time.perf_counter() - start))
        else:
            first = loss.item()  # of the warm-up
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"speed": statistics.median(speeds), "peak": peak, "loss": first}


def prepare(folder: Path, batches: int) -> None:
    """What both tools read: the batches, and a model in the form of `transformers`."""
    from regard.data.artifacts import Artifacts
    from regard.data.batches.batch import PairData
    from regard.runs.folder import begin, save_weights

    words = tokenizer()
    sources, targets = sides(words, "train", 29000)
    order = PairData(sources, targets, batch_tokens=TOKENS, seed=0).order(0)[:batches]
    rows = [([sources[i] for i in part], [targets[i] for i in part]) for part in order]
    (folder / "batches.json").write_text(json.dumps(rows))
    model = translator({})
    begin(folder, model, Artifacts(words), "")
    save_weights(folder, model)


def main(batches: int) -> None:
    torch.set_num_threads(THREADS)
    command = " ".join(["python benchmarks/transformer_training.py", *sys.argv[1:]])
    import transformers

    print(f"{machine()}, transformers {transformers.__version__}, {batches} batches, seed 0, `{command}`\n")
    print("| dropout | tool | first loss | target tokens/s | peak MiB | times transformers |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder), batches)
        for setting in SETTINGS:
            results = take_turns(__file__, TOOLS, folder, setting)
            fastest = best_turn(results, "speed")
            for tool, best in fastest.items():
                print(
                    f"| {setting} | {tool} | {best['loss']:.3f} | {best['speed']:,.0f} | {best['peak']:,.0f} "
                    f"| {best['speed'] / fastest['transformers']['speed']:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    start(measure, main, words=3, default=5)
