"""Classifiers of documents, `han` and `pooling` at the sizes of the recipes imdb-han and imdb-pooling, compared
with the same networks in plain PyTorch: inference and a training step.

padded   documents are one tensor (documents, sentences, words), or (documents, words) for `pooling`, padded to the
         longest of the batch; the GRU runs over all of it and attention masks the padding.
packed   `pack_padded_sequence` at both levels: the GRU and the attention's keys are computed for real words only.
regard, captured (GPU only)   batches of the same documents, rounded up to few shapes, each with a CUDA graph.

Documents are made up, with the lengths of IMDB reviews and words by Zipf's law. All ways have the same batches, of
documents of similar length, as regard draws them; the batches are in memory before the clock runs. `run`: eval
mode, no gradients. `train`: forward, backward, clipping and AdamW, with dropout and word dropout; regard's step is
that of `regard train`. float32, on a GPU with TF32 in cuDNN only. The logits are compared first, with the same
weights; those of `padded` for documents of one length, because its backward GRU reads the padding before the words.

`in vain` is the share of positions that are padding, of those that embeddings are looked up for in training; the
GRU of `packed` computes none of them, nor does regard's on a CPU without gradients."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from benchmarks.frame import Call, Case, bench, row
from benchmarks.shared import CAPTURED, adamw, our_step, plain_step, take_weights
from regard.data.text.labelled_texts import LabelledData
from regard.data.text.special_tokens import REGARD
from regard.data.text.text_encoding import sentences_of
from regard.models.han import HAN, HANConfig
from regard.models.pooling import Pooling, PoolingConfig
from regard.tasks.shared.measuring import answer as captured_answer

VOCABULARY, FIRST_WORD, PAD = 30000, 4, 0  # words come after the special tokens
RATE, DECAY, CLIP = 2e-3, 0.01, 1.0
DROPOUT, WORD_DROPOUT = 0.5, 0.2
EMBED, DIM = 200, 50
LABELS = ("negative", "positive")

Sentences = list[list[int]]
NETWORKS = {  # regard's model and its pooling
    "han, attention": ("han", "attention"),
    "pooling, attention": ("pooling", "attention"),
    "pooling, mean": ("pooling", "mean"),
    "pooling, last": ("pooling", "last"),
}


def count() -> int:
    """Batches of a pass."""
    return bench.pick(1, 8, 6)


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
    encoding = ours(name, 0.0).encoding
    if NETWORKS[name][0] == "han":
        rows = [encoding.row(sentences, 1200)[0] for sentences in documents]
    else:
        every = [list(chain.from_iterable(sentences))[:800] for sentences in documents]
        rows = [(ids, [0] * len(ids)) for ids in every]
    labelled = [(row, False, number % 2) for number, row in enumerate(rows)]
    return LabelledData(
        labelled, encoding=encoding, special=REGARD, batch_tokens=bench.pick(256, 4096, 16384), seed=0
    )


def our_batches(data: Any, way: str = "regard") -> list[Any]:
    batches = [data.batch(rows) for rows in data.order(0)[: count()]]
    return [(data.rounded(batch) if way == CAPTURED else batch).to(bench.device) for batch in batches]


def plain_batches(data: Any) -> list[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """(tokens (B, S, W), sentences of each document (B,), words of each sentence (B, S), labels (B,)); a text
    that is not split is one sentence. Lengths stay on the CPU, where packing reads them."""
    batches = []
    for rows in data.order(0)[: count()]:
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
        batches.append((tokens.to(bench.device), counts, lengths, labels.to(bench.device)))
    return batches


def in_vain(name: str, way: str, data: Any) -> float:
    """The share of positions of words and sentences that are padding."""
    if way == "regard" and not bench.gpu:  # where rows of similar length are computed together
        batches = [[data.parts[row] for row in rows] for rows in data.order(0)[: count()]]
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


def check_same(name: str, way: str) -> None:
    """With the same weights, logits differ from regard's by less than 1e-4 of the largest."""
    before, torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.allow_tf32, False
    mine, peer = ours(name, 0.0).to(bench.device).eval(), Plain(name, way, 0.0).to(bench.device).eval()
    data = data_of(name, even(100) if way == "padded" else made_up(bench.pick(20, 300)))
    with torch.no_grad():
        for tensor in mine.state_dict().values():
            tensor.mul_(4)  # larger than at the start, so that attention is far from a mean
        take_weights(peer, mine)
        for batch, (*parts, _) in zip(our_batches(data), plain_batches(data), strict=True):
            right = peer(*parts)
            off = float((mine.class_logits(batch) - right).abs().max() / right.abs().max())
            assert off < 1e-4, f"{name}, {way}: not the same network, logits are off by {off:.0e}"
    torch.backends.cudnn.allow_tf32 = before


# ---- what is timed


def our_run(name: str, way: str, data: Any) -> Call:
    model, batches = ours(name, DROPOUT).to(bench.device).eval(), our_batches(data, way)
    answer = partial(captured_answer, model) if way == CAPTURED else model.class_logits
    return torch.inference_mode()(lambda: [answer(batch) for batch in batches][-1])


def our_training(name: str, way: str, data: Any) -> Call:
    settings = {"weight_decay": DECAY, "max_grad_norm": CLIP, "capture": way == CAPTURED}
    return our_step(ours(name, DROPOUT), our_batches(data, way), RATE, **settings)


def plain_run(name: str, way: str, data: Any) -> Call:
    model, batches = Plain(name, way, DROPOUT).to(bench.device).eval(), plain_batches(data)
    return torch.inference_mode()(lambda: [model(*parts) for *parts, _ in batches][-1])


def plain_training(name: str, way: str, data: Any) -> Call:
    model = Plain(name, way, DROPOUT).to(bench.device).train()
    losses = [
        lambda parts=parts, labels=labels: F.cross_entropy(model(*parts), labels)
        for *parts, labels in plain_batches(data)
    ]
    return plain_step(losses, adamw(model, RATE, DECAY), clip=CLIP)


@row("documents", "Classifiers of documents, han and pooling, run and train", unit="documents", threads=1)
def documents() -> Iterator[Case]:
    documents = made_up(bench.pick(40, 2000, 4000))
    ours_are = ("regard", CAPTURED) if bench.gpu else ("regard",)
    for name in list(NETWORKS)[: 1 if bench.quick else None]:
        for way in ("padded", "packed"):
            check_same(name, way)
        data = data_of(name, documents)
        number = sum(map(len, data.order(0)[: count()]))
        facts = {way: {"in vain": f"{in_vain(name, way, data):.1%}"} for way in (*ours_are, "padded", "packed")}
        for work, mine, plain in (("run", our_run, plain_run), ("train", our_training, plain_training)):
            contenders = {way: partial(mine, name, way, data) for way in ours_are}
            contenders |= {way: partial(plain, name, way, data) for way in ("padded", "packed")}
            yield Case(f"{name}, {work}", number, contenders, facts=facts)
