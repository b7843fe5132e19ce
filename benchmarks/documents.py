"""Classifiers of documents, `han` and `pooling` at the sizes of the recipes imdb-han and imdb-pooling, compared
with the same networks in plain PyTorch: inference and a training step.

    python benchmarks/documents.py [SECONDS]      # prints a Markdown table

padded   documents are one tensor (documents, sentences, words), or (documents, words) for `pooling`, padded to the
         longest of the batch; the GRU runs over all of it and attention masks the padding.
packed   `pack_padded_sequence` at both levels: the GRU and the attention's keys are computed for real words only.
regard, captured (GPU only)   batches of the same documents, rounded up to few shapes, each with a CUDA graph.

Documents are made up, with the lengths of IMDB reviews and words by Zipf's law. All ways have the same batches, of
documents of similar length, as regard draws them; the batches are in memory before the clock runs. `run`: eval
mode, no gradients. `train`: forward, backward, clipping and AdamW, with dropout and word dropout; regard's step is
that of `regard train`. The logits are compared first, with the same weights; those of `padded` for documents of one
length, because its backward GRU reads the padding before the words.

`in vain` is the share of positions that are padding, of those that embeddings are looked up for in training; the
GRU of `packed` computes none of them, nor does regard's on a CPU without gradients. `times` is the time of `padded`
divided by that of the way.

CPU: float32 and one thread; the CPU time of the fastest pass over all batches counts, which other programs disturb
least. Each way runs in its own processes, in turns; the better of two counts. GPU: float32, with TF32 in cuDNN
only, as torch and `regard train` have it by default; in one process the ways take turns pass by pass, and the
median wall-clock time of a pass counts. `first` has the seconds of the first pass (GPU: of the first six, which
capture). With SECONDS each way has one turn and no measurement begins after so many. On a shared machine only the
ratio is meaningful."""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from measuring import DEVICE, FOREVER, GPU, compared, machine, print_row, start, take_turns, timed_passes
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

LONG = 2.5 if GPU else 6.0  # seconds that a measurement should take; on a GPU, of all ways together
WARM = 6  # passes on a GPU before the clock runs: a training step is captured when its shape comes the fourth time
VOCABULARY, FIRST_WORD, PAD = 30000, 4, 0  # words come after the special tokens
TOKENS = 16384 if GPU else 4096  # of a batch
BATCHES = 6 if GPU else 8
DOCUMENTS = 4000 if GPU else 2000  # that batches are drawn from
RATE, DECAY, CLIP = 2e-3, 0.01, 1.0
DROPOUT, WORD_DROPOUT = 0.5, 0.2
EMBED, DIM = 200, 50
LABELS = ("negative", "positive")
CAPTURED = "regard, captured"
WAYS = (*((CAPTURED,) if GPU else ()), "regard", "padded", "packed")

Sentences = list[list[int]]
NETWORKS = {  # regard's model and its pooling
    "han, attention": ("han", "attention"),
    "pooling, attention": ("pooling", "attention"),
    "pooling, mean": ("pooling", "mean"),
    "pooling, last": ("pooling", "last"),
}


# ---- documents


def made_up(count: int) -> list[Sentences]:
    """Documents of about 270 words and sentences of about 21, both log-normal."""
    generator = np.random.default_rng(0)
    chances = 1 / np.arange(1, VOCABULARY - FIRST_WORD + 1)
    chances /= chances.sum()
    documents = []
    for _ in range(count):
        left = max(10, round(generator.lognormal(np.log(205), 0.74)))
        words = (FIRST_WORD + generator.choice(len(chances), left, p=chances)).tolist()
        sentences = []
        while words:
            length = max(1, round(generator.lognormal(np.log(17.5), 0.6)))
            sentences.append(words[:length])
            words = words[length:]
        documents.append(sentences)
    return documents


def even(count: int) -> list[Sentences]:
    """Documents of 5 sentences of 9 words: a batch without padding."""
    words = np.random.default_rng(1).integers(FIRST_WORD, VOCABULARY, (count, 5, 9))
    return words.tolist()


def data_of(name: str, documents: list[Sentences]) -> Any:
    """As `regard train` holds them."""
    from regard.data.text.labelled_texts import LabelledData
    from regard.data.text.special_tokens import REGARD

    encoding = ours(name, 0.0).encoding
    if NETWORKS[name][0] == "han":
        rows = [encoding.row(sentences, 1200)[0] for sentences in documents]
    else:
        every = [list(chain.from_iterable(sentences))[:800] for sentences in documents]
        rows = [(ids, [0] * len(ids)) for ids in every]
    labelled = [(row, False, number % 2) for number, row in enumerate(rows)]
    return LabelledData(labelled, encoding=encoding, special=REGARD, batch_tokens=TOKENS, seed=0)


def our_batches(data: Any, way: str = "regard") -> list[Any]:
    batches = [data.batch(rows) for rows in data.order(0)[:BATCHES]]
    return [(data.rounded(batch) if way == CAPTURED else batch).to(DEVICE) for batch in batches]


def plain_batches(data: Any) -> list[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """(tokens (B, S, W), sentences of each document (B,), words of each sentence (B, S), labels (B,)); a text
    that is not split is one sentence. Lengths stay on the CPU, where packing reads them."""
    from regard.data.text.text_encoding import sentences_of

    batches = []
    for rows in data.order(0)[:BATCHES]:
        documents = [sentences_of(data.row(row)) for row in rows]
        counts = torch.tensor([len(sentences) for sentences in documents])
        longest = max(len(words) for sentences in documents for words in sentences)
        tokens = torch.full((len(documents), int(counts.max()), longest), PAD)
        lengths = torch.zeros(tokens.shape[:2], dtype=torch.long)
        for place, sentences in enumerate(documents):
            for number, words in enumerate(sentences):
                tokens[place, number, : len(words)] = torch.tensor(words)
                lengths[place, number] = len(words)
        labels = torch.tensor([data.labels[row] for row in rows])
        batches.append((tokens.to(DEVICE), counts, lengths, labels.to(DEVICE)))
    return batches


def in_vain(name: str, way: str, data: Any) -> float:
    """The share of positions of words and sentences that are padding."""
    if way == "regard" and not GPU:  # where rows of similar length are computed together
        batches = [[data.parts[row] for row in rows] for rows in data.order(0)[:BATCHES]]
        every = sum(map(data.encoding.positions, batches))
        return 1 - sum(map(data.encoding.real, batches)) / every
    real = every = 0
    if way == CAPTURED:
        for batch in our_batches(data, way):
            masks = [tensor for name, tensor in batch.tensors().items() if name.endswith("mask")]
            real += sum(int(mask.sum()) for mask in masks)
            every += sum(mask.numel() for mask in masks)
        return 1 - real / every
    for tokens, counts, lengths, _ in plain_batches(data):
        rows = tokens.shape[0] * tokens.shape[1] if way == "padded" else int(counts.sum())
        every += rows * tokens.shape[2]
        real += int(lengths.sum())
        if NETWORKS[name][0] == "han":
            every += tokens.shape[0] * tokens.shape[1]
            real += int(counts.sum())
    return 1 - real / every


# ---- the networks


def ours(name: str, dropout: float) -> Any:
    from regard.models.han import HAN, HANConfig
    from regard.models.pooling import Pooling, PoolingConfig

    model, pool = NETWORKS[name]
    sizes: dict[str, Any] = {"labels": LABELS, "embed": EMBED, "dim": DIM, "pool": pool, "dropout": dropout}
    sizes["word_dropout"] = WORD_DROPOUT if dropout else 0.0
    if model == "han":
        return HAN(HANConfig(VOCABULARY, max_sentences=60, max_words=80, **sizes))
    return Pooling(PoolingConfig(VOCABULARY, **sizes))


class Attention(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.context = nn.Parameter(torch.empty(dim).uniform_(-(dim**-0.5), dim**-0.5))
        self.keys = nn.Linear(dim, dim)

    def padded(self, states: Tensor, mask: Tensor) -> Tensor:
        scores = torch.tanh(self.keys(states)) @ self.context
        weights = scores.masked_fill(~mask, -1e9).softmax(1)
        return (weights[..., None] * states).sum(1)

    def packed(self, states: PackedSequence) -> Tensor:
        scores = torch.tanh(self.keys(states.data)) @ self.context
        weights, _ = pad_packed_sequence(like(states, torch.exp(scores - scores.max())), batch_first=True)
        weights = weights / weights.sum(1, keepdim=True)
        every, _ = pad_packed_sequence(states, batch_first=True)
        return (weights[..., None] * every).sum(1)


def like(packed: PackedSequence, data: Tensor) -> PackedSequence:
    """Other data, packed in the same order."""
    return PackedSequence(data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)


class Level(nn.Module):
    """A bidirectional GRU and what is read of its states."""

    def __init__(self, inputs: int, pool: str, dropout: float):
        super().__init__()
        self.gru = nn.GRU(inputs, DIM, batch_first=True, bidirectional=True)
        self.attention = Attention(2 * DIM) if pool == "attention" else None
        self.pool, self.dropout = pool, nn.Dropout(dropout)

    def padded(self, x: Tensor, mask: Tensor) -> Tensor:
        states, last = self.gru(x)
        if self.pool == "last":
            return self.dropout(torch.cat([last[-2], last[-1]], 1))
        states = self.dropout(states)
        if self.attention is not None:
            return self.attention.padded(states, mask)
        return (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)

    def packed(self, x: PackedSequence) -> Tensor:
        states, last = self.gru(x)
        if self.pool == "last":
            return self.dropout(torch.cat([last[-2], last[-1]], 1))
        states = like(states, self.dropout(states.data))
        if self.attention is not None:
            return self.attention.packed(states)
        every, lengths = pad_packed_sequence(states, batch_first=True)
        return every.sum(1) / lengths.to(every.device)[:, None]


class Plain(nn.Module):
    """The network as it is often written, with regard's order of weights."""

    def __init__(self, name: str, way: str, dropout: float):
        super().__init__()
        model, pool = NETWORKS[name]
        self.packs = way == "packed"
        self.embedding = nn.Embedding(VOCABULARY, EMBED)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        self.words = Level(EMBED, pool, dropout)
        self.sentences = Level(2 * DIM, pool, dropout) if model == "han" else None
        self.dropout = nn.Dropout(dropout)
        self.classify = nn.Linear(2 * DIM, len(LABELS))
        self.word_dropout = WORD_DROPOUT if dropout else 0.0

    def embed(self, tokens: Tensor) -> Tensor:
        x = self.dropout(self.embedding(tokens))
        if self.training and self.word_dropout:
            x = x * F.dropout(torch.ones_like(x[..., :1]), self.word_dropout)
        return x

    def forward(self, tokens: Tensor, counts: Tensor, lengths: Tensor) -> Tensor:
        """tokens (B, S, W), counts (B,) of sentences, lengths (B, S) of sentences -> (B, classes)"""
        read = self.pack(tokens, counts, lengths) if self.packs else self.pad(tokens)
        return self.classify(self.dropout(read))

    def pad(self, tokens: Tensor) -> Tensor:
        rows = tokens.flatten(0, 1)  # (B S, W)
        read = self.words.padded(self.embed(rows), rows != PAD)
        if self.sentences is None:
            return read
        return self.sentences.padded(read.unflatten(0, tokens.shape[:2]), tokens[..., 0] != PAD)

    def pack(self, tokens: Tensor, counts: Tensor, lengths: Tensor) -> Tensor:
        if self.sentences is None:
            text = self.embed(tokens[:, 0])
            packed = pack_padded_sequence(text, lengths[:, 0], batch_first=True, enforce_sorted=False)
            return self.words.packed(packed)
        # Packing documents is a way to get all sentences without padding sentences among them.
        rows = pack_padded_sequence(tokens, counts, batch_first=True, enforce_sorted=False)
        words = pack_padded_sequence(lengths, counts, batch_first=True, enforce_sorted=False).data
        x = pack_padded_sequence(self.embed(rows.data), words, batch_first=True, enforce_sorted=False)
        return self.sentences.packed(like(rows, self.words.packed(x)))


def difference(name: str, way: str) -> float:
    """The largest difference of a logit from regard's, with the same weights, as a share of the largest logit."""
    torch.manual_seed(0)
    mine, peer = ours(name, 0.0).to(DEVICE).eval(), Plain(name, way, 0.0).to(DEVICE).eval()
    for theirs, tensor in zip(peer.state_dict().values(), mine.state_dict().values(), strict=True):
        assert theirs.shape == tensor.shape
        theirs.copy_(tensor.mul_(4))  # larger than at the start, so that attention is far from a mean
    data = data_of(name, even(100) if way == "padded" else made_up(300))
    off = 0.0
    with torch.no_grad():
        for batch, (*parts, _) in zip(our_batches(data), plain_batches(data), strict=True):
            right = peer(*parts)
            off = max(off, float((mine.class_logits(batch) - right).abs().max() / right.abs().max()))
    return off


# ---- what is timed

Pass = Callable[[], Tensor]


def our_run(name: str, way: str, data: Any) -> Pass:
    from regard.tasks.shared.measuring import answer as captured

    model, batches = ours(name, DROPOUT).to(DEVICE).eval(), our_batches(data, way)
    answer = partial(captured, model) if way == CAPTURED else model.class_logits

    def run() -> Tensor:
        with torch.inference_mode():
            return [answer(batch) for batch in batches][-1]

    return run


def our_training(name: str, way: str, data: Any) -> Pass:
    from regard.layers.onednn import without_onednn
    from regard.learn.loop import Stepper
    from regard.learn.settings import Training

    settings = Training(
        steps=10**6,
        learning_rate=RATE,
        weight_decay=DECAY,
        max_grad_norm=CLIP,
        capture=way == CAPTURED,
        device=DEVICE,
    )
    stepper, batches = Stepper(ours(name, DROPOUT), settings), our_batches(data, way)

    def train() -> Tensor:
        with nullcontext() if GPU else without_onednn(stepper.model):  # as `fit` does it
            return [stepper.step(1, [batch], RATE)["loss"] for batch in batches][-1]

    return train


def plain_run(name: str, way: str, data: Any) -> Pass:
    model, batches = Plain(name, way, DROPOUT).to(DEVICE).eval(), plain_batches(data)

    def run() -> Tensor:
        with torch.inference_mode():
            return [model(*parts) for *parts, _ in batches][-1]

    return run


def plain_training(name: str, way: str, data: Any) -> Pass:
    model, batches = Plain(name, way, DROPOUT).to(DEVICE).train(), plain_batches(data)
    optimiser = torch.optim.AdamW(model.parameters(), RATE, weight_decay=DECAY, fused=GPU or None)

    def train() -> Tensor:
        for *parts, labels in batches:
            optimiser.zero_grad()
            loss = F.cross_entropy(model(*parts), labels)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimiser.step()
        return loss.detach()

    return train


def make(name: str, work: str, way: str, data: Any) -> Pass:
    if way in (CAPTURED, "regard"):
        return (our_run if work == "run" else our_training)(name, way, data)
    return (plain_run if work == "run" else plain_training)(name, way, data)


def measure(name: str, until: str, way: str) -> dict[str, dict[str, float]]:
    """The numbers of one way on a CPU, under "network|work|way"."""
    torch.set_num_threads(1)
    results: dict[str, dict[str, float]] = {}
    data = data_of(name, made_up(DOCUMENTS))
    for work in ("run", "train"):
        if time.time() > float(until):
            return results
        torch.manual_seed(0)
        numbers = timed_passes(make(name, work, way, data), BATCHES, LONG)
        results[f"{name}|{work}|{way}"] = {**numbers, **facts(name, way, data)}
        print(f"{name}, {work}, {way}: {1000 * numbers['seconds']:.2f} ms", file=sys.stderr, flush=True)
        gc.collect()
    return results


def facts(name: str, way: str, data: Any) -> dict[str, float]:
    count = sum(map(len, data.order(0)[:BATCHES])) / BATCHES
    return {"documents": count, "in vain": in_vain(name, way, data)}


def measure_in_turns(name: str, work: str, data: Any) -> dict[str, list[dict[str, Any]]]:
    """The numbers of all ways on a GPU, as `take_turns` has them."""
    numbers: dict[str, dict[str, float]] = {}
    calls: dict[str, Pass] = {}
    for way in WAYS:
        torch.manual_seed(0)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        calls[way] = make(name, work, way, data)
        first = sum(seconds_of(calls[way]) for _ in range(WARM))
        peak = (torch.cuda.max_memory_allocated() - before) / 2**20
        numbers[way] = {"first": first, "peak": peak, **facts(name, way, data)}
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    end = time.perf_counter() + LONG
    while time.perf_counter() < end or len(times["padded"]) < 3:
        for way, call in calls.items():
            times[way].append(seconds_of(call))
    return {
        way: [{f"{name}|{work}|{way}": {**numbers[way], "seconds": statistics.median(times[way]) / BATCHES}}]
        for way in WAYS
    }


def seconds_of(call: Pass) -> float:
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def table(results: dict[str, list[dict[str, Any]]]) -> None:
    for key, best, times in compared(results, NETWORKS, WAYS, "padded"):
        seconds = best["seconds"]
        cells = [f"{1000 * seconds:,.2f}", f"{best['documents'] / seconds:,.0f}", times]
        print_row([*key, *cells, f"{100 * best['in vain']:.1f} %"], best)


def main(seconds: float) -> None:
    end = time.time() + seconds if seconds else FOREVER
    torch.set_num_threads(1)
    command = " ".join(["python benchmarks/documents.py", *sys.argv[1:]])
    where = torch.cuda.get_device_name() if GPU else "CPU, CPU time of one thread"
    print(
        f"{where}, float32, {machine()}, {BATCHES} batches of {TOKENS:,} tokens, seed 0, `{command}`\n", flush=True
    )
    tf32, torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.allow_tf32, False
    for name in NETWORKS:
        for way in ("padded", "packed"):
            off = difference(name, way)
            print(f"{name}, {way}: logits differ by at most {off:.0e} of the largest", flush=True)
            assert off < 1e-4, f"{name}, {way}: not the same network"
    torch.backends.cudnn.allow_tf32 = tf32
    print(
        f"\n| network | work | way | ms | documents/s | times | in vain | first, s |{' peak MiB |' if GPU else ''}"
    )
    print(f"|{'---|' * (9 if GPU else 8)}", flush=True)
    if GPU:
        documents = made_up(DOCUMENTS)
        for name in NETWORKS:
            data = data_of(name, documents)
            for work in ("run", "train"):
                if time.time() < end:
                    table(measure_in_turns(name, work, data))
                    gc.collect()
                    torch.cuda.empty_cache()
        return
    for name in NETWORKS:
        table(take_turns(__file__, WAYS, name, str(end), turns=1 if seconds else 2))


if __name__ == "__main__":
    start(measure, main, words=3, default=0.0)
