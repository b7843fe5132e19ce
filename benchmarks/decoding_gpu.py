"""Decoding on a GPU: regard's CUDA graphs, its plain loop, and `transformers` with the same weights, in turns.

    python benchmarks/decoding_gpu.py [SECONDS]     # of each measurement; prints a Markdown table

bfloat16, random weights, greedy unless a row says beam. GPT-2 124M: 256 tokens after 32. The small translator (dim
256, 3 + 3 layers) and the recurrent ones (their default sizes): 64 sentences of 20 tokens, 20 tokens each;
language models 64 rows, 40 tokens. Speculation: 256 tokens after 8 that come four times. The end token is
forbidden. Times are from tokens to tokens and include reading the source or the prompt; the first call is its own
column: it compiles and captures. `limit`: what the weights that a step reads would take at the measured speed of a
copy, times the steps; the share is of that."""

from __future__ import annotations

import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from measuring import machine
from torch import Tensor, nn

from regard.data.artifacts import Artifacts
from regard.data.text.tokenizer import Tokenizer
from regard.decode import graphs
from regard.decode.rules import Target
from regard.decode.search import decode
from regard.decode.settings import Decoding
from regard.models import MODELS
from regard.runs.folder import begin, save_weights

WORDS, SENTENCES, LENGTH = 8000, 64, 20
Write = Callable[[], Any]


class Row(NamedTuple):
    name: str
    unit: str
    count: int  # of what is counted in a call
    steps: int
    model: Any
    ways: dict[str, Write]


def ours(model: Any, source: Tensor, decoding: Decoding, target: Target) -> dict[str, Write]:
    mask = torch.ones(source.shape[:2] if source.dim() == 2 else (len(source), 1), dtype=torch.bool, device="cuda")

    def graph() -> Any:
        return decode(model, source, mask, decoding, target)

    def plain() -> Any:
        with patch.object(graphs, "on_gpu", lambda tensor: False):
            return graph()

    return {"regard": graph, "its plain loop": plain}


def gpt2() -> Iterator[Row]:
    cls: Any = MODELS["gpt2"]
    model = cls(cls.Config(50257, **cls.SIZES["small"])).cuda().bfloat16().eval()
    theirs = opened(model, 50257, "GPT2LMHeadModel")
    for rows in (1, 8, 64):
        prompt = torch.randint(3, 50257, (rows, 32), device="cuda")
        target = Target(prompt[:, -1], 0, max_length=256, min_length=256)
        ways = ours(model, prompt[:, :-1], Decoding(), target)
        ways["transformers"] = lambda prompt=prompt: theirs.generate(
            prompt, attention_mask=torch.ones_like(prompt), do_sample=False, min_new_tokens=256, max_new_tokens=256,
            pad_token_id=0,
        )  # fmt: skip
        yield Row(f"GPT-2 124M, {rows} rows", "tokens/s", rows * 256, 256, model, ways)


def speculation() -> Iterator[Row]:
    """A text that repeats itself, as this model's does: proposals are right."""
    cls: Any = MODELS["gpt2"]
    model = cls(cls.Config(50257, **cls.SIZES["small"])).cuda().bfloat16().eval()
    prompt = torch.randint(3, 50257, (1, 8), device="cuda").repeat(1, 4)
    target = Target(prompt[:, -1], 0, max_length=256, min_length=256, prompt=prompt[:, :-1])
    ways = ours(model, prompt[:, :-1], Decoding(speculate=15), target)
    ways["regard, one by one"] = ours(model, prompt[:, :-1], Decoding(), target)["regard"]
    yield Row("GPT-2 124M, 1 row, speculate 15", "tokens/s", 256, 256, model, ways)


def translators() -> Iterator[Row]:
    source = torch.randint(4, WORDS - 1, (SENTENCES, LENGTH), device="cuda")
    sizes: dict[str, dict[str, Any]] = {"transformer": {"dim": 256, "layers": 3, "heads": 4, "ff": 1024}}
    for name in ("transformer", "luong", "bahdanau", "seq2seq"):
        cls: Any = MODELS[name]
        model = cls(cls.Config(WORDS, **sizes.get(name, {}))).cuda().bfloat16().eval()
        theirs = opened(model, WORDS, "MarianMTModel") if name == "transformer" else None
        for beam in (1, 5):
            target = Target(WORDS - 1, 0, max_length=LENGTH, min_length=LENGTH)
            ways = ours(model, source, Decoding(beam=beam), target)
            if theirs is not None:
                ways["transformers"] = lambda theirs=theirs, beam=beam: theirs.generate(
                    source, attention_mask=torch.ones_like(source), num_beams=beam, do_sample=False,
                    min_new_tokens=LENGTH, max_new_tokens=LENGTH,
                )  # fmt: skip
            yield Row(f"{name}, {told(beam)}", "sentences/s", SENTENCES, LENGTH, model, ways)


def language_models() -> Iterator[Row]:
    prompt = torch.randint(3, WORDS, (64, 8), device="cuda")
    for name in ("rnnlm", "lstmn"):
        cls: Any = MODELS[name]
        model = cls(cls.Config(WORDS)).cuda().bfloat16().eval()
        for beam in (1, 5):
            target = Target(prompt[:, -1], 0, max_length=40, min_length=40)
            ways = ours(model, prompt[:, :-1], Decoding(beam=beam), target)
            yield Row(f"{name}, {told(beam)}", "tokens/s", 64 * 40, 40, model, ways)


def captioners() -> Iterator[Row]:
    images = torch.randn(SENTENCES, 3, 64, 64, device="cuda", dtype=torch.bfloat16)
    for name in ("show_and_tell", "show_attend_tell"):
        cls: Any = MODELS[name]
        model = cls(cls.Config(WORDS)).cuda().bfloat16().eval()
        for beam in (1, 5):
            target = Target(1, 2, max_length=LENGTH, min_length=LENGTH)
            ways = ours(model, images, Decoding(beam=beam), target)
            yield Row(f"{name}, {told(beam)}", "captions/s", SENTENCES, LENGTH, model, ways)


def told(beam: int) -> str:
    return "greedy" if beam == 1 else f"beam {beam}"


def opened(model: nn.Module, words: int, name: str) -> Any:
    """The model of `transformers` with these weights, through a folder."""
    import transformers

    numbering = str(getattr(model, "numbering", ""))
    text = [" ".join(map(str, range(words)))]
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = Tokenizer.train(text, kind="space", size=words, numbering=numbering)
        begin(Path(folder), model, Artifacts(tokenizer), "")
        save_weights(Path(folder), model)
        return getattr(transformers, name).from_pretrained(folder).cuda().bfloat16().eval()


def copied_per_second() -> float:
    """Bytes that a copy reads and writes in a second."""
    x = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    y = torch.empty_like(x)
    for _ in range(3):
        y.copy_(x)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(10):
        y.copy_(x)
    torch.cuda.synchronize()
    return 20 * x.numel() / (time.perf_counter() - start)


def timed(ways: dict[str, Write], long: float) -> dict[str, tuple[float, float]]:
    """Seconds of the first call, and the median of later ones, of each way in turns."""
    first: dict[str, float] = {}
    later: dict[str, list[float]] = {name: [] for name in ways}

    def once(name: str) -> float:
        start = time.perf_counter()
        ways[name]()
        torch.cuda.synchronize()
        return time.perf_counter() - start

    for name in ways:
        first[name] = once(name)
    once("regard")  # captures the rest
    spent = dict.fromkeys(ways, 0.0)
    while any(seconds < long for seconds in spent.values()):
        for name, seconds in spent.items():
            if seconds < long:
                later[name].append(once(name))
                spent[name] += later[name][-1]
    return {name: (first[name], statistics.median(later[name])) for name in ways}


def main(long: float) -> None:
    torch.manual_seed(0)
    speed = copied_per_second()
    print(f"{torch.cuda.get_device_name()}, {machine()}, a copy {speed / 1e12:.2f} TB/s\n")
    print("| work | way | rate | times the plain loop | of the limit | first call, s |\n|---|---|---|---|---|---|")
    for rows in (gpt2, speculation, translators, language_models, captioners):
        for row in rows():
            weights = sum(tensor.numel() * tensor.element_size() for tensor in row.model.parameters())
            limit = weights / speed * row.steps
            numbers = timed(row.ways, long)
            for way, (first, seconds) in numbers.items():
                times = numbers["its plain loop"][1] / seconds
                print(
                    f"| {row.name} | {way} | {row.count / seconds:,.0f} {row.unit} | {times:.1f} "
                    f"| {limit / seconds:.1%} | {first:.2f} |",
                    flush=True,
                )
        gc.collect()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0)
