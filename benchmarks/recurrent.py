"""Training a recurrent translator: `bahdanau` beside the real Joey NMT 2.3 at the same sizes, on the same batches.

    pip install -c constraints.txt 'regard[bench]'      # Joey NMT and what it forgets to declare
    REGARD_DATA=... python benchmarks/recurrent.py      # prints a Markdown table

Bi-GRU encoder 256 a direction, GRU decoder 512, embeddings 256, additive attention, 8,000 joint tokens, dropout
0.1, AdamW or Adam, clipping: forward, backward and update on about 4,096 target tokens a batch of Multi30k en-de.
A step of Joey NMT is its own `TrainManager._train_step`, with its own model, loss, clipper and optimiser.
With a read-out of 448 `bahdanau` has the parameters of Joey NMT's model; 256 is the size its recipe takes.
Each tool runs in processes of its own, in turns; times are medians, on a shared machine only the ratio counts."""

from __future__ import annotations

import gzip
import json
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch

VOCABULARY, TOKENS, BATCHES = 8000, 4096, 5
Rows = list[list[int]]


def corpus() -> tuple[Rows, Rows]:
    from regard.data.files import find_data
    from regard.data.text import Tokenizer

    sides = [
        gzip.decompress(find_data(f"multi30k/train.{language}.gz").read_bytes()).decode().splitlines()
        for language in ("en", "de")
    ]
    tokenizer = Tokenizer.train((text for side in sides for text in side), kind="bpe", size=VOCABULARY)
    return tokenizer.encode_batch(sides[0]), tokenizer.encode_batch(sides[1])


def like_lengths(sources: Rows, targets: Rows) -> list[np.ndarray]:
    """Our batches: rows x longest side <= 4,096, rows of like length together."""
    from regard.data.batch import PairData

    order = PairData(sources, targets, batch_tokens=TOKENS, seed=0).order(0)
    return order[:BATCHES]


def any_lengths(sources: Rows, targets: Rows) -> list[np.ndarray]:
    """As Joey NMT batches by tokens: in shuffled order, until rows x longest side would pass 4,096."""
    longest = [max(len(s) + 1, len(t) + 1) for s, t in zip(sources, targets, strict=True)]
    batches, now = [], []
    for row in np.random.default_rng(0).permutation(len(sources)):
        if now and (len(now) + 1) * max(longest[row], *(longest[i] for i in now)) > TOKENS:
            batches.append(np.array(now))
            now = []
        now.append(row)
    return batches[:BATCHES]


def ours(readout: int):
    from regard.data.batch import PairData
    from regard.models.bahdanau import Bahdanau, BahdanauConfig

    model = Bahdanau(BahdanauConfig(VOCABULARY, embed=256, encoder=256, decoder=512, readout=readout))
    optimiser = torch.optim.AdamW(model.parameters())

    def prepare(source: Rows, target: Rows):
        data = PairData(source, target, batch_tokens=sys.maxsize, seed=0)
        return data.batch(np.arange(len(data)))

    def step(batch) -> None:
        loss = model.loss(batch)
        (loss.total / loss.tokens).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()

    return model, prepare, step


def joey():
    from joeynmt.batch import Batch
    from joeynmt.builders import build_gradient_clipper, build_optimizer
    from joeynmt.model import build_model
    from joeynmt.training import TrainManager
    from joeynmt.vocabulary import Vocabulary

    unknown, pad, begin, end = range(4)
    special = SimpleNamespace(
        unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>", sep_token=None, lang_tags=[],
        unk_id=unknown, pad_id=pad, bos_id=begin, eos_id=end, sep_id=None,
    )  # fmt: skip
    words = Vocabulary([str(i) for i in range(4, VOCABULARY)], special)
    side = {"type": "recurrent", "rnn_type": "gru", "num_layers": 1, "dropout": 0.1}
    embeddings = {"embedding_dim": 256, "dropout": 0.1}
    encoder = {**side, "embeddings": dict(embeddings), "hidden_size": 256, "bidirectional": True}
    decoder = {**side, "embeddings": dict(embeddings), "hidden_size": 512, "hidden_dropout": 0.1,
               "attention": "bahdanau", "input_feeding": True, "init_hidden": "bridge"}  # fmt: skip
    model = build_model({"encoder": encoder, "decoder": decoder}, src_vocab=words, trg_vocab=words)
    model.loss_function = ("crossentropy", 0.0)
    optimiser = build_optimizer({"optimizer": "adam", "learning_rate": 1e-3}, model.parameters())
    clip = build_gradient_clipper({"clip_grad_val": None, "clip_grad_norm": 1.0})
    manager = SimpleNamespace(  # what one step reads of its trainer
        model=model, autocast={"device_type": "cpu", "enabled": False}, n_gpu=0, scaler=None,
        args=SimpleNamespace(normalization="tokens", batch_multiplier=1),
    )  # fmt: skip

    def padded(rows: Rows) -> torch.Tensor:
        longest = max(map(len, rows))
        return torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows])

    def prepare(source: Rows, target: Rows):
        source = [[*row, end] for row in source]
        return Batch(
            src=padded(source), src_length=torch.tensor([len(row) for row in source]), src_prompt_mask=None,
            trg=padded([[begin, *row, end] for row in target]), trg_prompt_mask=None,
            indices=torch.arange(len(source)), device=torch.device("cpu"), pad_index=pad, eos_index=end,
            is_train=True,
        )  # fmt: skip

    def step(batch) -> None:
        TrainManager._train_step(manager, batch)
        clip(parameters=model.parameters())
        optimiser.step()
        model.zero_grad()

    return model, prepare, step


TOOLS = {"regard, readout 448": lambda: ours(448), "regard, readout 256": lambda: ours(256), "Joey NMT 2.3": joey}


def measure(tool: str, file: str) -> dict[str, float]:
    """Target tokens a second (real ones, the end token included), and the process's peak memory."""
    torch.manual_seed(0)
    model, prepare, step = TOOLS[tool]()
    model.train()
    pairs = json.loads(Path(file).read_text())
    step(prepare(*pairs[0]))  # warm-up
    seconds, tokens = [], []
    for source, target in pairs:
        batch = prepare(source, target)
        start = time.perf_counter()
        step(batch)
        seconds.append(time.perf_counter() - start)
        tokens.append(sum(len(row) + 1 for row in target))
    speed = statistics.median(count / spent for count, spent in zip(tokens, seconds, strict=True))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"speed": speed, "peak": peak, "parameters": sum(p.numel() for p in model.parameters())}


def on_card() -> None:
    """`bahdanau` alone on a CUDA card, eager and compiled: 256 x 20 random tokens, encoder 512 a direction."""
    from regard.data.batch import PairBatch
    from regard.models.bahdanau import Bahdanau, BahdanauConfig

    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {date.today()}, seed 0, ", end="")
    print("`python benchmarks/recurrent.py`\n\n| precision | compiled | ms a step | target tokens/s | peak MiB |")
    print("|---|---|---|---|---|")
    for precision, compiled in (("float32", False), ("bfloat16", False), ("float32", True), ("bfloat16", True)):
        torch.manual_seed(0)
        torch.cuda.reset_peak_memory_stats()
        model = Bahdanau(BahdanauConfig(VOCABULARY, embed=256, encoder=512, decoder=512, readout=512)).cuda()
        optimiser = torch.optim.AdamW(model.parameters(), fused=True)
        loss_of = torch.compile(model.loss) if compiled else model.loss
        ids, mask = torch.randint(4, VOCABULARY, (2, 256, 21)), torch.ones(256, 21, dtype=torch.bool)
        batch = PairBatch(ids[0, :, 1:], mask[:, 1:], ids[1], mask).to("cuda")
        times = []
        for _ in range(25):
            start = time.perf_counter()
            with torch.autocast("cuda", dtype=torch.bfloat16, enabled=precision == "bfloat16"):
                loss = loss_of(batch)
            (loss.total / loss.tokens).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            optimiser.zero_grad()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
        spent, peak = statistics.median(times[5:]), torch.cuda.max_memory_allocated() / 2**20
        print(
            f"| {precision} | {compiled} | {1000 * spent:.1f} | {256 * 20 / spent:,.0f} | {peak:,.0f} |", flush=True
        )


def main() -> None:
    try:
        sources, targets = corpus()
    except FileNotFoundError as error:
        sys.exit(f"{error}; multi30k/train.en.gz and train.de.gz are those of the Multi30k repository, task 1, raw")
    cores = f"{torch.get_num_threads()} {platform.machine()} cores"
    print(f"{cores}, torch {torch.__version__}, {date.today()}, `python benchmarks/recurrent.py`\n")
    print("| batches | tool | parameters | target tokens/s | peak MiB | times Joey NMT |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, order in (("like lengths together", like_lengths), ("any lengths, shuffled", any_lengths)):
            file = Path(folder) / f"{order.__name__}.json"
            rows = [([sources[i] for i in part], [targets[i] for i in part]) for part in order(sources, targets)]
            file.write_text(json.dumps(rows))
            results: dict[str, list[dict[str, float]]] = {tool: [] for tool in TOOLS}
            for _ in range(2):  # in turns, so that a slow minute of the machine meets both
                for tool in TOOLS:
                    words = [sys.executable, __file__, tool, str(file)]
                    found = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout
                    results[tool].append(json.loads(found))
            base = max(one["speed"] for one in results["Joey NMT 2.3"])
            for tool, found in results.items():
                best = max(found, key=lambda one: one["speed"])
                print(
                    f"| {name} | {tool} | {best['parameters']:,} | {best['speed']:,.0f} | {best['peak']:,.0f} "
                    f"| {best['speed'] / base:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(measure(*sys.argv[1:])))
    elif torch.cuda.is_available():
        on_card()
    else:
        main()
