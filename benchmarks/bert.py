"""BERT: encoding with BERT-base, and fine-tuning an encoder of MiniLM's size (384 wide, 6 layers, 12 heads, two
classes, dropout 0.1 in attention and elsewhere).

Random weights, saved as a run by regard; `transformers` opens that folder as it is, CTranslate2 uses its own
converter. Rows of random tokens in two segments: all of length 128, or of lengths drawn uniformly from 24 to 128
and padded to the longest; 32 on a CPU, 256 on a GPU (bfloat16). On a CPU the time is from lists of tokens to the
states of the last layer; regard runs without oneDNN on ARM, as `regard embed` does, and a contender shows it with
oneDNN. CTranslate2 skips padding too; it has 1 worker with 2 threads, or 2 workers with 1 thread, each with half
of the rows. With int8 it is a different model. A training step is forward, backward and AdamW."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.frame import Call, Case, bench, difference, parameters, row
from benchmarks.shared import Rows, adamw, as_regard_runs, converted, mean_loss, of_transformers, plain_step, saved
from regard.data.artifacts import Artifacts
from regard.data.batches.batch import pad
from regard.data.text.special_tokens import BERT
from regard.data.text.text_encoding import LabelledBatch
from regard.data.text.tokenizer import Tokenizer
from regard.data.text.wordpiece import NAMES, word_pieces
from regard.models.bert import Bert, BertConfig
from regard.runs.folder import Folder

PAD, FIRST, SHORTEST, LONGEST = 0, 5, 24, 128  # the first tokens are special
ASIDE = ("CTranslate2 int8",)
TINY = {"dim": 32, "layers": 2, "heads": 2}


def words() -> int:
    return bench.pick(200, 30522)


def tokenizer() -> Tokenizer:
    """As many made-up words as BERT has pieces."""
    names = [*NAMES, *(f"word{number}" for number in range(FIRST, words()))]
    inner = word_pieces({name: number for number, name in enumerate(names)}, lowercase=True)
    special = BERT.ids(inner)
    assert special is not None
    return Tokenizer(inner, special)


def texts(lengths: list[int], seed: int = 0) -> tuple[Rows, Rows]:
    """Random tokens, and the segment of each: the second begins in the middle."""
    dice = np.random.default_rng(seed)
    tokens = [dice.integers(FIRST, words(), length).tolist() for length in lengths]
    return tokens, [[0] * (length // 2) + [1] * (length - length // 2) for length in lengths]


def padded(rows: Rows, segments: Rows) -> tuple[Tensor, Tensor, Tensor]:
    tokens, mask = pad(rows, PAD)
    return tokens.to(bench.device), mask.to(bench.device), pad(segments, 0)[0].to(bench.device)


def real(states: Tensor, rows: Rows) -> Tensor:
    """The states of real tokens."""
    return torch.cat([state[: len(line)].float().cpu() for state, line in zip(states, rows, strict=True)])


# Encoders return the states of real tokens; on a GPU those of the first, from tensors that are already there.
Read = Callable[[Tensor, Tensor, Tensor], Tensor]


def encoding(read: Read, rows: Rows, segments: Rows) -> Call:
    if bench.gpu:
        tensors = padded(rows, segments)
        return torch.inference_mode()(lambda: read(*tensors)[:, 0])
    return torch.inference_mode()(lambda: real(read(*padded(rows, segments)), rows))


def ours(folder: str, rows: Rows, segments: Rows, onednn: bool = False) -> Call:
    model: Any = Folder(folder).model().to(bench.device, bench.dtype).eval()
    call = encoding(lambda tokens, mask, kinds: model.states(tokens, kinds, mask), rows, segments)
    return call if onednn else as_regard_runs(model, call)


def hugging_face(folder: str, rows: Rows, segments: Rows) -> Call:
    model = of_transformers("BertModel").from_pretrained(folder, add_pooling_layer=False)
    model = model.to(bench.device, bench.dtype).eval()

    def read(tokens: Tensor, mask: Tensor, kinds: Tensor) -> Tensor:
        return model(input_ids=tokens, attention_mask=mask.long(), token_type_ids=kinds).last_hidden_state

    return encoding(read, rows, segments)


def ctranslate(folder: str, rows: Rows, segments: Rows, kind: str, workers: int) -> Call:
    """With several workers, rows are sorted by length and dealt out to them in turns, the longest first."""
    import ctranslate2

    threads = max(1, torch.get_num_threads() // workers)
    model = ctranslate2.Encoder(converted(folder), compute_type=kind, inter_threads=workers, intra_threads=threads)

    def part(share: list[int]) -> np.ndarray:
        states = model.forward_batch([rows[i] for i in share], token_type_ids=[segments[i] for i in share])
        return np.array(states.last_hidden_state)

    def read() -> Tensor:
        order = sorted(range(len(rows)), key=lambda number: -len(rows[number]))
        shares = [order[worker::workers] for worker in range(workers)]
        with ThreadPoolExecutor(workers) as pool:
            parts = list(pool.map(part, shares))
        every = {i: torch.from_numpy(state) for share, states in zip(shares, parts, strict=True)
                 for i, state in zip(share, states, strict=True)}  # fmt: skip
        return real([every[i] for i in range(len(rows))], rows)  # type: ignore[arg-type]

    return read


@row("bert-encode", "BERT-base reads rows of 128 tokens, or of 24 to 128", unit="sequences")
def bert_encode() -> Iterator[Case]:
    count = bench.pick(4, 32, 256)
    model = Bert(BertConfig(words(), head="none", **bench.pick(TINY, {})))
    folder = saved(model, Artifacts(tokenizer()))
    lengths = {"128": [LONGEST] * count}
    lengths["24 to 128"] = np.random.default_rng(0).integers(SHORTEST, LONGEST + 1, count).tolist()
    for name, each in lengths.items():
        rows, segments = texts(each)
        contenders: dict[str, Callable[[], Call]] = {
            "regard": partial(ours, folder, rows, segments),
            "transformers": partial(hugging_face, folder, rows, segments),
        }
        if not bench.gpu:
            contenders["regard with oneDNN"] = partial(ours, folder, rows, segments, onednn=True)
            for kind, workers in (("float32", 1), ("float32", 2), ("int8", 1)):
                word = f"CTranslate2 {kind}" + (f", {workers} workers" if workers > 1 else "")
                contenders[word] = partial(ctranslate, folder, rows, segments, kind, workers)
        flops = 2 * (parameters(model) - words() * model.config.dim) * sum(each)
        yield Case(
            f"{count} x {name}", count, contenders, flops=flops, dtype=bench.dtype, agree=difference, aside=ASIDE
        )


# ---- fine-tuning


def batches(count: int, rows: int) -> list[LabelledBatch]:
    made = []
    for seed in range(count):
        dice = np.random.default_rng(seed)
        tokens, mask, kinds = padded(*texts(dice.integers(SHORTEST, LONGEST + 1, rows).tolist(), seed))
        made.append(LabelledBatch(tokens, kinds, mask, torch.from_numpy(dice.integers(2, size=rows)).to(tokens)))
    return made


def fine_tuned(model: Any, every: list[LabelledBatch], loss_of: Callable[[Any, Any], Tensor]) -> Call:
    model = model.to(bench.device).train()
    return plain_step([lambda batch=batch: loss_of(model, batch) for batch in every], adamw(model, 2e-5))


@row(
    "bert-train", "Fine-tuning an encoder of MiniLM's size on rows of 24 to 128 tokens", unit="tokens", memory=True
)
def bert_train() -> Iterator[Case]:
    size = bench.pick(TINY, {"dim": 384, "layers": 6, "heads": 12})
    model = Bert(BertConfig(words(), head="classify", labels=("no", "yes"), **size))
    folder = saved(model, Artifacts(tokenizer(), labels=model.config.labels))
    every = batches(bench.pick(1, 5), bench.pick(4, 32))

    def mine() -> Call:
        model: Any = Folder(folder).model()
        return as_regard_runs(model, fine_tuned(model, every, mean_loss))

    def theirs() -> Call:
        model = of_transformers("BertForSequenceClassification").from_pretrained(folder)

        def loss_of(model: Any, batch: LabelledBatch) -> Tensor:
            names = {"attention_mask": batch.mask.long(), "token_type_ids": batch.segments, "labels": batch.labels}
            return model(input_ids=batch.tokens, **names).loss

        return fine_tuned(model, every, loss_of)

    count = sum(int(batch.mask.sum()) for batch in every)
    yield Case("5 batches of 32 rows", count, {"regard": mine, "transformers": theirs})
