"""Training recurrent translators: `bahdanau` and `luong`, compared with Joey NMT 2.3 at the same sizes, on the
same batches.

    pip install -c constraints.txt 'regard[bench]'      # Joey NMT and dependencies it does not declare
    REGARD_DATA=... python benchmarks/recurrent.py      # prints a Markdown table

Bi-GRU encoder with 256 units per direction, GRU decoder 512, embeddings 256, additive attention (`luong`: the
general score and input feeding), 8,000 joint tokens, dropout 0.1, AdamW or Adam, clipping: forward, backward and
update on about 4,096 target tokens per batch of Multi30k en-de. A step of Joey NMT is its own
`TrainManager._train_step`, with its own model, loss, clipper and optimiser. With a read-out of 448 `bahdanau` has
about as many parameters as Joey NMT's model; 256 is the size in our recipe. `luong` has as many as Joey NMT's,
plus the biases of the output layer.
Each tool runs in its own processes, in turns; times are medians. On a shared machine only the ratio is
meaningful."""

from __future__ import annotations

import gzip
import json
import resource
import statistics
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from measuring import best_turn, machine, take_turns

VOCABULARY, TOKENS, BATCHES = 8000, 4096, 5
Rows = list[list[int]]


def lines(part: str) -> list[str]:
    """Lines of Multi30k, such as those of train.en."""
    from regard.base.files import find_data

    try:
        return gzip.decompress(find_data(f"multi30k/{part}.gz").read_bytes()).decode().splitlines()
    except FileNotFoundError as error:
        sys.exit(f"{error}; multi30k/*.gz are those of the Multi30k repository, task 1, raw")


def encoded(*parts: str) -> list[Rows]:
    """Those parts of Multi30k as token ids of one joint vocabulary of the training set."""
    from regard.data.text.tokenizer import Tokenizer

    texts = [text for part in ("train.en", "train.de") for text in lines(part)]
    tokenizer = Tokenizer.train(texts, kind="bpe", size=VOCABULARY)
    return [tokenizer.encode_batch(lines(part)) for part in parts]


def similar_lengths(sources: Rows, targets: Rows) -> list[np.ndarray]:
    """Our batches: rows x longest side <= 4,096, rows of similar length together."""
    from regard.data.batches.batch import PairData

    order = PairData(sources, targets, batch_tokens=TOKENS, seed=0).order(0)
    return order[:BATCHES]


def any_lengths(sources: Rows, targets: Rows) -> list[np.ndarray]:
    """As Joey NMT batches by tokens: in shuffled order, until rows x longest side would pass 4,096."""
    longest = [max(len(s) + 1, len(t) + 1) for s, t in zip(sources, targets, strict=True)]
    batches: list[np.ndarray] = []
    now: list[int] = []
    for row in np.random.default_rng(0).permutation(len(sources)):
        if now and (len(now) + 1) * max(longest[row], *(longest[i] for i in now)) > TOKENS:
            batches.append(np.array(now))
            now = []
        now.append(row)
    return batches[:BATCHES]


def bahdanau(readout: int) -> Any:
    from regard.models.bahdanau import Bahdanau, BahdanauConfig

    return Bahdanau(BahdanauConfig(VOCABULARY, embed=256, encoder=256, decoder=512, readout=readout))


def luong() -> Any:
    from regard.models.luong import Luong, LuongConfig

    return Luong(LuongConfig(VOCABULARY, embed=256, dim=512, cell="gru", bidirectional=True, dropout=0.1))


def ours(model: Any) -> tuple:
    from regard.data.batches.batch import PairData

    optimiser = torch.optim.AdamW(model.parameters())

    def prepare(source: Rows, target: Rows) -> Any:
        data = PairData(source, target, batch_tokens=sys.maxsize, seed=0)
        return data.batch(np.arange(len(data)))

    def step(batch: Any) -> None:
        loss = model.loss(batch)
        (loss.total / loss.tokens).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()

    return model, prepare, step


UNKNOWN, PAD, BEGIN, END = range(4)  # as Joey NMT numbers them


def joey_model(attention: str) -> Any:
    """`luong` starts from the encoder's last state, as ours does; `bahdanau` from a projection of it."""
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    special = SimpleNamespace(
        unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>", sep_token=None, lang_tags=[],
        unk_id=UNKNOWN, pad_id=PAD, bos_id=BEGIN, eos_id=END, sep_id=None,
    )  # fmt: skip
    words = Vocabulary([str(i) for i in range(4, VOCABULARY)], special)
    side = {"type": "recurrent", "rnn_type": "gru", "num_layers": 1, "dropout": 0.1}
    embeddings = {"embedding_dim": 256, "dropout": 0.1}
    first = {"bahdanau": "bridge", "luong": "last"}[attention]
    encoder = {**side, "embeddings": dict(embeddings), "hidden_size": 256, "bidirectional": True}
    decoder = {**side, "embeddings": dict(embeddings), "hidden_size": 512, "hidden_dropout": 0.1,
               "attention": attention, "input_feeding": True, "init_hidden": first}  # fmt: skip
    return build_model({"encoder": encoder, "decoder": decoder}, src_vocab=words, trg_vocab=words)


def joey_batch(source: Rows, target: Rows | None = None) -> Any:
    from joeynmt.batch import Batch

    def padded(rows: Rows) -> torch.Tensor:
        longest = max(map(len, rows))
        return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])

    source = [[*row, END] for row in source]
    return Batch(
        src=padded(source), src_length=torch.tensor([len(row) for row in source]), src_prompt_mask=None,
        trg=None if target is None else padded([[BEGIN, *row, END] for row in target]), trg_prompt_mask=None,
        indices=torch.arange(len(source)), device=torch.device("cpu"), pad_index=PAD, eos_index=END,
        is_train=target is not None,
    )  # fmt: skip


def joey(model: Any) -> tuple:
    from joeynmt.builders import build_gradient_clipper, build_optimizer
    from joeynmt.training import TrainManager

    model.loss_function = ("crossentropy", 0.0)
    optimiser = build_optimizer({"optimizer": "adam", "learning_rate": 1e-3}, model.parameters())
    clip = build_gradient_clipper({"clip_grad_val": None, "clip_grad_norm": 1.0})
    manager = SimpleNamespace(  # what one step reads of its trainer
        model=model, autocast={"device_type": "cpu", "enabled": False}, n_gpu=0, scaler=None,
        args=SimpleNamespace(normalization="tokens", batch_multiplier=1),
    )  # fmt: skip

    def step(batch: Any) -> None:
        TrainManager._train_step(manager, batch)
        clip(parameters=model.parameters())
        optimiser.step()
        model.zero_grad()

    return model, joey_batch, step


TOOLS = {  # for each model, the tools that train it
    "bahdanau": {
        "regard, readout 448": lambda: ours(bahdanau(448)),
        "regard, readout 256": lambda: ours(bahdanau(256)),
        "Joey NMT 2.3": lambda: joey(joey_model("bahdanau")),
    },
    "luong": {"regard": lambda: ours(luong()), "Joey NMT 2.3": lambda: joey(joey_model("luong"))},
}


def measure(file: str, name: str, tool: str) -> dict[str, float]:
    """Target tokens per second (without padding, with the end token), and the process's peak memory."""
    torch.manual_seed(0)
    model, prepare, step = TOOLS[name][tool]()
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


def on_gpu() -> None:
    """`bahdanau` alone on a GPU, eager and compiled: 256 x 20 random tokens, encoder of 512 units per direction."""
    from regard.data.batches.batch import PairBatch
    from regard.models.bahdanau import Bahdanau, BahdanauConfig

    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {date.today()}, seed 0, ", end="")
    print("`python benchmarks/recurrent.py`\n\n| precision | compiled | ms per step | target tokens/s | peak MiB |")
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
    sources, targets = encoded("train.en", "train.de")
    print(f"{machine()}, `python benchmarks/recurrent.py`\n")
    print("| batches | model | tool | parameters | target tokens/s | peak MiB | times Joey NMT |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for batches, order in (
            ("similar lengths together", similar_lengths),
            ("any lengths, shuffled", any_lengths),
        ):
            file = Path(folder) / f"{order.__name__}.json"
            rows = [([sources[i] for i in part], [targets[i] for i in part]) for part in order(sources, targets)]
            file.write_text(json.dumps(rows))
            for name, tools in TOOLS.items():
                results = take_turns(__file__, tools, str(file), name)
                fastest = best_turn(results, "speed")
                for tool, best in fastest.items():
                    print(
                        f"| {batches} | {name} | {tool} | {best['parameters']:,} | {best['speed']:,.0f} "
                        f"| {best['peak']:,.0f} | {best['speed'] / fastest['Joey NMT 2.3']['speed']:.2f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    if len(sys.argv) == 4:
        print(json.dumps(measure(*sys.argv[1:])))
    elif torch.cuda.is_available():
        on_gpu()
    else:
        main()
