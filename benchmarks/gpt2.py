"""A training step of GPT-2 124M: forward, backward, clipping and AdamW on rows of 1,024 random tokens, no dropout,
the same initial weights. regard's step is that of `regard train`; on a GPU in bfloat16 by autocast, captured and
compiled, the peers compiled. nanoGPT comes by --peer. The limit counts six operations for each weight and token."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.frame import Call, Case, bench, note, parameters, row
from benchmarks.peers import nano_gpt
from benchmarks.shared import adamw, auto_takes, numbered_words, of_transformers, our_ways, plain_step, saved
from regard.data.artifacts import Artifacts
from regard.data.text.windows import TextBatch
from regard.models.gpt2 import GPT2, GPT2Config

RATE = 1e-4
NO_DROPOUT = {"dropout": 0.0, "embed_dropout": 0.0, "attention_dropout": 0.0}


def build(words: int) -> GPT2:
    torch.manual_seed(0)
    size: dict[str, Any] = bench.pick({"dim": 64, "layers": 2, "heads": 2}, GPT2.SIZES["small"])
    return GPT2(GPT2Config(words, **size, **NO_DROPOUT))


def trained(model: Any, loss_of: Callable[[Any], Tensor], compiled: bool) -> Call:
    call = torch.compile(loss_of) if compiled else loss_of
    return plain_step([lambda: call(model)], adamw(model, RATE), clip=1.0, half=bench.gpu)


def hugging_face(folder: str, tokens: Tensor, compiled: bool) -> Call:
    names = {"attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0}
    model = of_transformers("GPT2LMHeadModel").from_pretrained(folder, **names).to(bench.device).train()

    def loss_of(model: Any) -> Tensor:
        logits = model(input_ids=tokens[:, :-1], use_cache=False).logits
        return F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())

    return trained(model, loss_of, compiled)


def nano(folder: str, config: GPT2Config, tokens: Tensor, compiled: bool) -> Call:
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    return trained(nano_gpt(folder, config).train(), lambda model: model(inputs, targets)[1], compiled)


@row("gpt2-train", "A training step of GPT-2 124M on rows of 1,024 tokens", unit="tokens", memory=True)
def gpt2_train() -> Iterator[Case]:
    words, rows, length = bench.pick((512, 2, 32), (50257, 1, 1024), (50257, 32, 1024))
    model = build(words)
    folder = saved(model, Artifacts(numbered_words(words, "gpt2")))
    tokens = torch.randint(3, words, (rows, length + 1), device=bench.device)
    batch = TextBatch(tokens, torch.ones_like(tokens[:, 1:], dtype=torch.bool), None)
    contenders: dict[str, Callable[[], Call]] = our_ways(lambda: build(words), [batch], RATE, max_grad_norm=1.0)
    for compiled in (False, True) if bench.gpu else (False,):
        word = ", compiled" if compiled else ""
        contenders[f"transformers{word}"] = lambda compiled=compiled: hugging_face(folder, tokens, compiled)
        contenders[f"nanoGPT{word}"] = lambda compiled=compiled: nano(folder, model.config, tokens, compiled)
    flops = 6 * parameters(model) * rows * length
    note(f"auto: {auto_takes(model)}")
    yield Case(f"{rows} x {length}", rows * length, contenders, flops=flops, dtype=bench.dtype, agree=loss_is)


def loss_is(loss: Tensor, _: Tensor) -> str:
    return f"first loss {float(loss):.4f}"
