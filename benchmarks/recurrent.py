"""Recurrent translators, `bahdanau` and `luong`, compared with Joey NMT 2.3 at the same sizes: a training step, and
translating greedily and with a beam of 5.

Bi-GRU encoder with 256 units per direction, GRU decoder 512, embeddings 256, additive attention (`luong`: the
general score and input feeding), 8,000 joint tokens. With a read-out of 448 `bahdanau` has about as many parameters
as Joey NMT's model; 256 is the size in our recipe. `luong` has as many as Joey NMT's, plus the biases of the output
layer. Sentences are those of Multi30k en-de in $REGARD_DATA; without it made-up ones of such lengths.

Training: dropout 0.1, AdamW or Adam, clipping; forward, backward and update on about 4,096 target tokens per
batch; rows of similar length together, as regard batches them, or in shuffled order, as Joey NMT does. A step of
Joey NMT is its own `TrainManager._train_step`, with its own model, loss, clipper and optimiser. On a GPU
`bahdanau` alone, 256 x 20 random tokens, encoder of 512 units per direction, eager and compiled.

Translating: the first sentences of test2016 in batches of 64. The weights are random and would not end a sentence
at a sensible place, so every output has exactly 15 tokens: both tools forbid the end token up to there and stop
there. The gain from early stopping is not measured. Joey NMT's search is its own `joeynmt.search.search`, after
sorting as in its `predict`. From lists of token ids to lists of token ids."""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.frame import Call, Case, bench, parameters, row
from benchmarks.shared import Rows, adamw, mean_loss, numbered_words, plain_step
from regard.base.files import find_data
from regard.data.batches.batch import PairBatch, PairData, pad
from regard.data.text.special_tokens import END, PAD, START
from regard.data.text.tokenizer import Tokenizer
from regard.decode.rules import Target
from regard.decode.search import decode
from regard.decode.settings import Decoding
from regard.models.bahdanau import Bahdanau, BahdanauConfig
from regard.models.luong import Luong, LuongConfig

LENGTH = 15  # of translations
UNKNOWN, JOEY_PAD, BEGIN, JOEY_END = range(4)  # as Joey NMT numbers them
Pairs = list[tuple[Rows, Rows]]
Batches = list[tuple[Rows, int]]  # sources without end tokens, and the length of the outputs


def vocabulary() -> int:
    return bench.pick(300, 8000)


# ---- sentences


def lines(part: str) -> list[str]:
    """Lines of Multi30k, such as those of train.en."""
    return gzip.decompress(find_data(f"multi30k/{part}.gz").read_bytes()).decode().splitlines()


def joint_words(numbering: str = "regard") -> Tokenizer:
    """A joint vocabulary of Multi30k, or of as many made-up words."""
    if "REGARD_DATA" in os.environ and not bench.quick:
        texts = [text for part in ("train.en", "train.de") for text in lines(part)]
        return Tokenizer.train(texts, kind="bpe", size=vocabulary(), numbering=numbering)
    return numbered_words(vocabulary(), numbering)


def sides(words: Tokenizer, part: str, count: int) -> tuple[Rows, Rows]:
    """English and German sentences as token ids: the first `count` of a part of Multi30k, or made-up ones."""
    if "REGARD_DATA" in os.environ and not bench.quick:
        english, german = (words.encode_batch(lines(f"{part}.{language}")[:count]) for language in ("en", "de"))
        return english, german
    dice = np.random.default_rng(0)
    lengths = dice.normal(14, 5, count).round().clip(3, 40).astype(int)
    english, german = (
        [dice.integers(4, vocabulary() - 1, max(1, length + dice.integers(-2, 3))).tolist() for length in lengths]
        for _ in range(2)
    )
    return english, german


def batched(words: Tokenizer, *, shuffled: bool = False) -> Pairs:
    """Batches of pairs, rows x longest side <= 4,096: of similar length, or in any order as Joey NMT does it."""
    tokens, count, sentences = bench.pick((64, 2, 40), (4096, 5, 29000))
    sources, targets = sides(words, "train", sentences)
    order: list[Any] = PairData(sources, targets, batch_tokens=tokens, seed=0).order(0)
    if shuffled:
        longest = [max(len(s) + 1, len(t) + 1) for s, t in zip(sources, targets, strict=True)]
        order, now = [], []
        for number in np.random.default_rng(0).permutation(len(sources)):
            if now and (len(now) + 1) * max(longest[number], *(longest[i] for i in now)) > tokens:
                order.append(now)
                now = []
            now.append(number)
    return [([sources[i] for i in part], [targets[i] for i in part]) for part in order[:count]]


def target_tokens(pairs: Pairs) -> int:
    """Without padding, with the end token."""
    return sum(len(line) + 1 for _, target in pairs for line in target)


def whole_batch(source: Rows, target: Rows, **special: Any) -> PairBatch:
    data = PairData(source, target, batch_tokens=sys.maxsize, seed=0, **special)
    return data.batch(np.arange(len(data)))


# ---- the models


def width() -> int:
    return bench.pick(16, 256)


def bahdanau(readout: int) -> Any:
    sizes = {"embed": width(), "encoder": width(), "decoder": 2 * width(), "readout": readout}
    return Bahdanau(BahdanauConfig(vocabulary(), **sizes))


def luong() -> Any:
    sizes = {"embed": width(), "dim": 2 * width()}
    return Luong(LuongConfig(vocabulary(), cell="gru", bidirectional=True, dropout=0.1, **sizes))


def joey_model(attention: str) -> Any:
    """`luong` starts from the encoder's last state, as ours does; `bahdanau` from a projection of it."""
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    special = SimpleNamespace(
        unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>", sep_token=None, lang_tags=[],
        unk_id=UNKNOWN, pad_id=JOEY_PAD, bos_id=BEGIN, eos_id=JOEY_END, sep_id=None,
    )  # fmt: skip
    words = Vocabulary([str(i) for i in range(4, vocabulary())], special)
    side = {"type": "recurrent", "rnn_type": "gru", "num_layers": 1, "dropout": 0.1}
    embeddings = {"embedding_dim": width(), "dropout": 0.1}
    first = {"bahdanau": "bridge", "luong": "last"}[attention]
    encoder = {**side, "embeddings": dict(embeddings), "hidden_size": width(), "bidirectional": True}
    decoder = {**side, "embeddings": dict(embeddings), "hidden_size": 2 * width(), "hidden_dropout": 0.1,
               "attention": attention, "input_feeding": True, "init_hidden": first}  # fmt: skip
    return build_model({"encoder": encoder, "decoder": decoder}, src_vocab=words, trg_vocab=words)


MODELS: dict[str, dict[str, Callable[[], Any]]] = {
    "bahdanau": {"regard, readout 448": partial(bahdanau, 448), "regard, readout 256": partial(bahdanau, 256)},
    "luong": {"regard": luong},
}


def joey_batch(source: Rows, target: Rows | None = None) -> Any:
    from joeynmt.batch import Batch

    def padded(rows: Rows) -> Tensor:
        longest = max(map(len, rows))
        return torch.tensor([[*line, *[JOEY_PAD] * (longest - len(line))] for line in rows])

    source = [[*line, JOEY_END] for line in source]
    return Batch(
        src=padded(source), src_length=torch.tensor([len(line) for line in source]), src_prompt_mask=None,
        trg=None if target is None else padded([[BEGIN, *line, JOEY_END] for line in target]), trg_prompt_mask=None,
        indices=torch.arange(len(source)), device=torch.device("cpu"), pad_index=JOEY_PAD, eos_index=JOEY_END,
        is_train=target is not None,
    )  # fmt: skip


# ---- training


def our_training(make: Callable[[], Any], pairs: Pairs) -> Call:
    model = make().train()
    losses = [partial(mean_loss, model, whole_batch(*pair)) for pair in pairs]
    return plain_step(losses, adamw(model, 1e-3, 0.01), clip=1.0)


def joey_training(name: str, pairs: Pairs) -> Call:
    from joeynmt.builders import build_gradient_clipper, build_optimizer
    from joeynmt.training import TrainManager

    model = joey_model(name).train()
    model.loss_function = ("crossentropy", 0.0)
    optimiser = build_optimizer({"optimizer": "adam", "learning_rate": 1e-3}, model.parameters())
    clip = build_gradient_clipper({"clip_grad_val": None, "clip_grad_norm": 1.0})
    manager = SimpleNamespace(  # what one step reads of its trainer
        model=model, autocast={"device_type": "cpu", "enabled": False}, n_gpu=0, scaler=None,
        args=SimpleNamespace(normalization="tokens", batch_multiplier=1),
    )  # fmt: skip

    def step() -> None:
        for source, target in pairs:
            TrainManager._train_step(manager, joey_batch(source, target))
            clip(parameters=model.parameters())
            optimiser.step()
            model.zero_grad()

    return step


@row("recurrent-train", "A training step of bahdanau and luong", unit="tokens", memory=True)
def recurrent_train() -> Iterator[Case]:
    if bench.gpu:
        yield from on_gpu()
        return
    words = joint_words()
    for batches, shuffled in (("similar lengths together", False), ("any lengths, shuffled", True)):
        pairs = batched(words, shuffled=shuffled)
        for name, makers in MODELS.items():
            contenders: dict[str, Callable[[], Call]] = {
                tool: partial(our_training, make, pairs) for tool, make in makers.items()
            }
            contenders["Joey NMT"] = partial(joey_training, name, pairs)
            facts = {tool: {"parameters": parameters(make())} for tool, make in makers.items()}
            yield Case(f"{name}, {batches}", target_tokens(pairs), contenders, facts=facts)


def on_gpu() -> Iterator[Case]:
    rows, length = bench.pick((4, 5), (256, 20))
    ids = torch.randint(4, vocabulary(), (2, rows, length + 1))
    mask = torch.ones(rows, length + 1, dtype=torch.bool)
    batch = PairBatch(ids[0, :, 1:], mask[:, 1:], ids[1], mask).to(bench.device)

    def train(half: bool, compiled: bool) -> Call:
        config = BahdanauConfig(vocabulary(), embed=256, encoder=512, decoder=512, readout=512)
        model = Bahdanau(config).to(bench.device).train()
        loss_of = torch.compile(mean_loss) if compiled else mean_loss
        return plain_step([lambda: loss_of(model, batch)], adamw(model, 1e-3, 0.01), clip=1.0, half=half)

    contenders = {
        f"regard, {'bfloat16' if half else 'float32'}{', compiled' if compiled else ''}": partial(
            train, half, compiled
        )
        for half in (False, True)
        for compiled in (False, True)
    }
    yield Case(f"bahdanau, {rows} x {length}", rows * length, contenders)


# ---- translating


def our_translating(
    make: Callable[[], Any], batches: Batches, beam: int, *, start: int = START, end: int = END, fill: int = PAD
) -> Call:
    model = make().eval()

    def translate() -> Rows:
        answers: Rows = []
        for rows, length in batches:
            source, mask = pad([[*line, end] for line in rows], fill)
            target = Target(start, end, max_length=length, min_length=length, never=(fill, start))
            answers += [best.tokens for (best,) in decode(model, source, mask, Decoding(beam=beam), target)]
        return answers

    return translate


def joey_translating(name: str, batches: Batches, beam: int) -> Call:
    from joeynmt.search import search

    model = joey_model(name).eval()

    def translate() -> Rows:
        answers: Rows = []
        for rows, length in batches:
            batch = joey_batch(rows)
            order = batch.sort_by_src_length()
            tokens, _, _ = search(
                model, batch, max_output_length=length, beam_size=beam, beam_alpha=1.0, n_best=1,
                min_output_length=length,
            )  # fmt: skip
            answers += tokens[order].tolist()
        return answers

    return translate


def lengths(answers: Rows, _: Rows) -> str:
    """Answers that are not as long as asked for cannot be compared."""
    assert {len(answer) for answer in answers} == {LENGTH}, f"answers that are not {LENGTH} tokens long"
    return f"{LENGTH} tokens each"


@row(
    "recurrent-translate", "bahdanau and luong translate sentences, greedily and with a beam of 5",
    unit="sentences", devices=("cpu",),
)  # fmt: skip
def recurrent_translate() -> Iterator[Case]:
    count, size = bench.pick((4, 2), (192, 64))
    sources, _ = sides(joint_words(), "test_2016_flickr", count)
    batches = [(sources[begin : begin + size], LENGTH) for begin in range(0, len(sources), size)]
    for name, makers in MODELS.items():
        for beam in (1, 5):
            contenders: dict[str, Callable[[], Call]] = {
                tool: partial(our_translating, make, batches, beam) for tool, make in makers.items()
            }
            contenders["Joey NMT"] = partial(joey_translating, name, batches, beam)
            yield Case(f"{name}, {'greedy' if beam == 1 else f'beam {beam}'}", count, contenders, agree=lengths)
