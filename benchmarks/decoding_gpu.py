"""Decoding: regard, its plain loop, `transformers` and others with the same weights; on a GPU by CUDA graphs.

Random weights, greedy unless a case says beam; bfloat16 on a GPU, float32 on a CPU. GPT-2 124M: 256 tokens after 32
(CPU: 128), and one token after a prompt of 512. The small translator (dim 256, 3 + 3 layers) and the recurrent ones
(their default sizes): 64 sentences of 20 tokens, 20 tokens each; language models 64 rows, 40 tokens. The end token
is forbidden, but for regard's GPT-2 on a CPU, which does not write it: then its engine need not score again. Times
are from tokens to tokens and include reading the source or the prompt; the first call compiles and captures. The
limit is what the weights that a step reads take at the speed of a copy, times the steps.
CTranslate2 has two threads; with int8 it is a different model. gpt-fast, nanoGPT and vLLM come by --peer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from benchmarks.frame import Call, Case, bench, bytes_of, parameters, row, same_rows
from benchmarks.peers import writers
from benchmarks.shared import (
    ENGINES,
    converted,
    loaded,
    names_of,
    numbered_words,
    of_transformers,
    saved,
    without_packing,
)
from regard.data.artifacts import Artifacts
from regard.decode import graphs
from regard.decode.rules import Target
from regard.decode.search import decode
from regard.decode.settings import Decoding
from regard.models import MODELS

Makers = dict[str, Callable[[], Call]]


def build(name: str, words: int, **sizes: Any) -> Any:
    cls: Any = MODELS[name]
    return cls(cls.Config(words, **sizes)).to(bench.device, bench.dtype).eval()


def ours(model: Any, source: Tensor, decoding: Decoding, target: Target) -> Makers:
    shape = source.shape[:2] if source.dim() == 2 else (len(source), 1)
    mask = torch.ones(shape, dtype=torch.bool, device=bench.device)

    def graph() -> Any:
        with without_packing(model):
            return [answers[0].tokens for answers in decode(model, source, mask, decoding, target)]

    def plain() -> Any:
        with patch.object(graphs, "on_gpu", lambda tensor: False):
            return graph()

    return {"regard": lambda: graph} | ({"plain loop": lambda: plain} if bench.gpu else {})


def generating(folder: str, name: str, source: Tensor, beam: int, tokens: int) -> Call:
    """`transformers` with the weights of this folder."""
    model = of_transformers(name).from_pretrained(folder).to(bench.device, bench.dtype).eval()
    model.generation_config.forced_eos_token_id = model.generation_config.max_length = None
    options: dict[str, Any] = {"pad_token_id": 0} if name == "GPT2LMHeadModel" else {}

    def write() -> Any:
        written = model.generate(
            source, attention_mask=torch.ones_like(source), num_beams=beam, do_sample=False, min_new_tokens=tokens,
            max_new_tokens=tokens, **options,
        )  # fmt: skip
        return written[:, -tokens:].tolist()

    return write


def ctranslate(folder: str, kind: str, prompt: Tensor, tokens: int) -> Call:
    import ctranslate2

    names = names_of(folder)
    model = ctranslate2.Generator(
        converted(folder), compute_type=kind, device=bench.kind, intra_threads=torch.get_num_threads()
    )
    prompts = [[names[number] for number in line] for line in prompt.tolist()]

    def write() -> Any:
        answers = model.generate_batch(
            prompts, beam_size=1, min_length=tokens, max_length=tokens, include_prompt_in_result=False
        )
        return [answer.sequences_ids[0] for answer in answers]

    return write


def by_engine(folder: str, how: dict[str, str], source: Tensor, target: Target) -> Call:
    """A run on the CPU by another engine, or in int8."""
    return ours(loaded(folder, **how), source, Decoding(), target)["regard"]()


def small_gpt2() -> tuple[Any, int]:
    """GPT-2 124M and the number of its words."""
    sizes: dict[str, Any] = MODELS["gpt2"].SIZES["small"]  # type: ignore[attr-defined]
    words = bench.pick(512, 50257)
    return build("gpt2", words, **bench.pick({"dim": 64, "layers": 2, "heads": 2}, sizes)), words


@row("gpt2-decode", "GPT-2 124M writes tokens after a prompt, greedily, by rows at once", unit="tokens")
def gpt2() -> Iterator[Case]:
    model, words = small_gpt2()
    folder = saved(model, Artifacts(numbered_words(words, "gpt2")))
    many = bench.pick(8, 128, 256)
    cases = [(rows, 32, many) for rows in bench.pick((1, 2), (1, 8), (1, 8, 64))]
    for rows, before, tokens in [*cases, (1, bench.pick(64, 512), 1)]:
        prompt = torch.randint(3, words, (rows, before), device=bench.device)
        target = Target(prompt[:, -1], 0, max_length=tokens, min_length=tokens if bench.gpu else 0)
        contenders = ours(model if bench.gpu else loaded(folder), prompt[:, :-1], Decoding(), target)
        for name, how in ({} if bench.gpu else ENGINES).items():
            contenders[name] = partial(by_engine, folder, how, prompt[:, :-1], target)
        contenders |= gpt2_peers(folder, prompt, tokens)
        if tokens > 1:  # gpt-fast cannot write a single token
            contenders |= writers(folder, model.config, prompt, tokens, bench.dtype)
        flops = 2 * parameters(model) * rows * (before + tokens)
        yield Case(
            f"{rows} x {tokens} after {before}", rows * tokens, contenders, reads=tokens * bytes_of(model),
            flops=flops, dtype=bench.dtype, agree=same_rows,
            aside=("CTranslate2 int8",),
        )  # fmt: skip


@row("gpt2-speculate", "GPT-2 124M writes 256 tokens after 8 that come four times, speculating", unit="tokens")
def speculation() -> Iterator[Case]:
    """A text that repeats itself, as this model's does: proposals are right."""
    model, words = small_gpt2()
    many = bench.pick(8, 128, 256)
    prompt = torch.randint(3, words, (1, 8), device=bench.device).repeat(1, 4)
    target = Target(prompt[:, -1], 0, max_length=many, min_length=many, prompt=prompt[:, :-1])
    contenders = {"regard, speculate 15": ours(model, prompt[:, :-1], Decoding(speculate=15), target)["regard"]}
    contenders |= ours(model, prompt[:, :-1], Decoding(), target)
    yield Case(f"1 x {many}", many, contenders, reads=many * bytes_of(model), agree=same_rows)


def gpt2_peers(folder: str, prompt: Tensor, tokens: int) -> Makers:
    kinds = ("bfloat16",) if bench.gpu else ("float32", "int8")
    return {"transformers": lambda: generating(folder, "GPT2LMHeadModel", prompt, 1, tokens)} | {
        f"CTranslate2 {kind}": lambda kind=kind: ctranslate(folder, kind, prompt, tokens) for kind in kinds
    }


def decoded(name: str, model: Any, source: Tensor, target: Target, per_row: int) -> Iterator[Case]:
    """Cases of a model: greedy and beam 5."""
    folder = ""
    if name == "transformer":
        folder = saved(model, Artifacts(numbered_words(model.config.vocabulary, "marian")))
    for beam in (1, 5):
        contenders = ours(model, source, Decoding(beam=beam), target)
        if folder:
            contenders["transformers"] = lambda beam=beam: generating(
                folder, "MarianMTModel", source, beam, target.max_length
            )
        reads = target.max_length * bytes_of(model)
        yield Case(f"{name}, {told(beam)}", len(source) * per_row, contenders, reads=reads, agree=same_rows)


def told(beam: int) -> str:
    return "greedy" if beam == 1 else f"beam {beam}"


def amounts() -> tuple[int, int, int]:
    """Words of a vocabulary, rows at once, tokens of each."""
    return bench.pick((200, 2, 4), (8000, 64, 20))


@row("translator-decode", "Translators write 64 x 20 tokens, greedily and with a beam of 5", unit="sentences")
def translators() -> Iterator[Case]:
    words, sentences, length = amounts()
    source = torch.randint(4, words - 1, (sentences, length), device=bench.device)
    sizes: dict[str, dict[str, Any]] = {"transformer": {"dim": 256, "layers": 3, "heads": 4, "ff": 1024}}
    for name in ("transformer", "luong", "bahdanau", "seq2seq"):
        model = build(name, words, **sizes.get(name, {}))
        yield from decoded(name, model, source, Target(words - 1, 0, max_length=length, min_length=length), 1)


@row("lm-decode", "Recurrent language models write 64 x 40 tokens, greedily and with a beam of 5", unit="tokens")
def language_models() -> Iterator[Case]:
    words, rows, length = amounts()
    prompt = torch.randint(3, words, (rows, 8), device=bench.device)
    for name in ("rnnlm", "lstmn"):
        target = Target(prompt[:, -1], 0, max_length=2 * length, min_length=2 * length)
        yield from decoded(name, build(name, words), prompt[:, :-1], target, 2 * length)


@row("caption-decode", "Captioners write 64 x 20 tokens, greedily and with a beam of 5", unit="captions")
def captioners() -> Iterator[Case]:
    words, count, length = amounts()
    images = torch.randn(count, 3, 64, 64, device=bench.device, dtype=bench.dtype)
    for name in ("show_and_tell", "show_attend_tell"):
        target = Target(1, 2, max_length=length, min_length=length)
        yield from decoded(name, build(name, words), images, target, 1)
