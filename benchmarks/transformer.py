"""The small Transformer (256 wide, feed-forward 1,024, 3 + 3 layers, 4 heads, 8,000 joint tokens) on the CPU,
beside `transformers`' MarianMTModel and CTranslate2 with the same weights: a training step, and translating.

Training: label smoothing 0.1, AdamW, clipping: forward, backward and update on about 4,096 target tokens per
batch of Multi30k en-de, rows of similar length together (without $REGARD_DATA: random tokens in sentences of such
lengths). The peer's loss is torch's own cross-entropy of its logits. Dropout 0.1 everywhere, or as `transformers`
has it by default, none inside attention and feed-forward layers.

Translating: sentences of test2016, sorted by length, in batches of 64. Random weights would not end a sentence at
a sensible place, so all outputs of a batch have the mean length of its references: every tool forbids the end
token up to there and stops there. The gain from early stopping is not measured. CTranslate2 uses its own
converter and has 2 workers with 1 thread, its best setting, and gets all batches at once. From lists of tokens to
lists of tokens. With int8 it is a different model. `regard by CTranslate2` is `--engine ctranslate2`, a batch at a
time, and `regard int8` is `--dtype int8`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.frame import Call, Case, bench, parameters, row, same_rows
from benchmarks.recurrent import (
    Batches,
    batched,
    joint_words,
    our_translating,
    sides,
    target_tokens,
    vocabulary,
    whole_batch,
)  # fmt: skip
from benchmarks.shared import (
    ENGINES,
    Rows,
    adamw,
    as_regard_runs,
    converted,
    loaded,
    mean_loss,
    names_of,
    of_transformers,
    plain_step,
    saved,
)
from regard.data.artifacts import Artifacts
from regard.data.batches.batch import PairBatch, pad
from regard.data.text.special_tokens import Special
from regard.models.transformer import Transformer, TransformerConfig

ASIDE = ("CTranslate2 int8",)
SMOOTHING, BATCH, END = 0.1, 64, 0  # the end token as Marian numbers it
DROPOUTS: dict[str, dict[str, float]] = {
    "0.1 everywhere": {"dropout": 0.1, "attention_dropout": 0.1, "activation_dropout": 0.1},
    "0.1 outside attention and feed-forward": {"dropout": 0.1},
}


def translator(dropout: dict[str, Any]) -> Transformer:
    torch.manual_seed(0)
    size: dict[str, Any] = Transformer.SIZES[bench.pick("mini", "small")]
    return Transformer(TransformerConfig(vocabulary(), **size, **dropout))


# ---- training


def our_training(batches: list[PairBatch], dropout: dict[str, Any]) -> Call:
    model = translator(dropout).train()
    losses = [partial(mean_loss, model, batch, label_smoothing=SMOOTHING) for batch in batches]
    return as_regard_runs(model, plain_step(losses, adamw(model, 1e-4, 0.01), clip=1.0))


def marian_training(folder: str, batches: list[PairBatch], dropout: dict[str, Any]) -> Call:
    everywhere: Any = dict.fromkeys(("dropout", "attention_dropout", "activation_dropout"), 0.0) | dropout
    model = of_transformers("MarianMTModel").from_pretrained(folder, **everywhere).train()

    def loss_of(batch: PairBatch) -> Tensor:
        logits = model(
            input_ids=batch.source, attention_mask=batch.source_mask.long(),
            decoder_input_ids=batch.target[:, :-1], use_cache=False,
        ).logits  # fmt: skip
        right = batch.target[:, 1:].masked_fill(~batch.target_mask[:, 1:], -100)
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), right.flatten(), label_smoothing=SMOOTHING)

    return plain_step([partial(loss_of, batch) for batch in batches], adamw(model, 1e-4, 0.01), clip=1.0)


@row(
    "transformer-train", "A training step of the small translator on batches of 4,096 tokens", unit="tokens",
    devices=("cpu",), memory=True,
)  # fmt: skip
def transformer_train() -> Iterator[Case]:
    words = joint_words("marian")
    folder = saved(translator({}), Artifacts(words))
    pairs = batched(words)
    pad_id = vocabulary() - 1
    batches = [whole_batch(*pair, special=Special(pad_id, pad_id, END, 1)) for pair in pairs]
    count = target_tokens(pairs)
    for name, dropout in DROPOUTS.items():
        contenders: dict[str, Callable[[], Call]] = {
            "regard": partial(our_training, batches, dropout),
            "transformers": partial(marian_training, folder, batches, dropout),
        }
        yield Case(f"dropout {name}", count, contenders, flops=6 * parameters(translator({})) * count)


# ---- translating


def marian_translating(folder: str, batches: Batches, width: int) -> Call:
    model = of_transformers("MarianMTModel").from_pretrained(folder).eval()
    model.generation_config.forced_eos_token_id = model.generation_config.max_length = None

    def translate() -> Rows:
        answers: Rows = []
        for rows, length in batches:
            source, mask = pad([[*line, END] for line in rows], vocabulary() - 1)
            tokens = model.generate(
                source, attention_mask=mask.long(), num_beams=width, min_new_tokens=length, max_new_tokens=length,
                do_sample=False,
            )  # fmt: skip
            answers += tokens[:, 1:].tolist()
        return answers

    return translate


def ctranslate(folder: str, batches: Batches, width: int, kind: str) -> Call:
    import ctranslate2

    names = names_of(folder)
    numbers = {name: number for number, name in enumerate(names)}
    model = ctranslate2.Translator(
        converted(folder), compute_type=kind, inter_threads=torch.get_num_threads(), intra_threads=1
    )

    def translate() -> Rows:
        waiting = [
            model.translate_batch(
                [[names[number] for number in (*line, END)] for line in rows], beam_size=width,
                min_decoding_length=length, max_decoding_length=length, asynchronous=True,
            )
            for rows, length in batches
        ]  # fmt: skip
        return [[numbers[name] for name in future.result().hypotheses[0]] for each in waiting for future in each]

    return translate


@row(
    "transformer-translate", "The small translator translates sentences, greedily and with a beam of 5",
    unit="sentences", devices=("cpu",),
)  # fmt: skip
def transformer_translate() -> Iterator[Case]:
    words = joint_words("marian")
    folder = saved(translator({}), Artifacts(words))
    count = bench.pick(4, 512)
    pairs = sorted(zip(*sides(words, "test_2016_flickr", count), strict=True), key=lambda pair: len(pair[0]))
    batches: Batches = []
    for begin in range(0, len(pairs), BATCH):
        sources, references = zip(*pairs[begin : begin + BATCH], strict=True)
        length = round(sum(map(len, references)) / len(references))
        batches.append((list(sources), length))
    fill = vocabulary() - 1  # padding, and the first token of a translation
    for width in (1, 5):
        contenders: dict[str, Callable[[], Call]] = {
            name: partial(
                our_translating, partial(loaded, folder, **how), batches, width, start=fill, end=END, fill=fill
            )
            for name, how in {"regard": {}, **ENGINES}.items()
        }
        contenders |= {
            "transformers": partial(marian_translating, folder, batches, width),
        }
        for kind in ("float32", "int8"):
            contenders[f"CTranslate2 {kind}"] = partial(ctranslate, folder, batches, width, kind)
        yield Case("greedy" if width == 1 else f"beam {width}", count, contenders, agree=same_rows, aside=ASIDE)
