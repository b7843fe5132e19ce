"""GPT-2 124M, BERT-base and ViT-B/16 on a GPU in bfloat16, compared with `transformers`: first and later calls.

    python benchmarks/gpu.py          # prints a Markdown table; needs a CUDA GPU and `transformers`

Random weights of the same size for both tools. GPT-2 writes 256 tokens after 32 (greedy, the end token forbidden),
so that every token has a memory length that the process has not met before. BERT reads 256 rows of 128 tokens, or
of lengths drawn uniformly from 24 to 128; ViT reads 256 images of 224 x 224. Each tool runs in its own processes,
in turns; the first call of a process counts as first, the median of the three after it as later; the better of two
such processes counts. On a shared machine only the ratio is meaningful."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from measuring import take_turns

DTYPE, TOKENS = torch.bfloat16, 256
WORK = {  # the unit, and how many of them a call computes
    "GPT-2, 1 row": ("tokens", TOKENS),
    "BERT, 256 rows of 128": ("sequences", 256),
    "BERT, 256 rows of 24-128": ("sequences", 256),
    "ViT, 256 images": ("images", 256),
}
Call = Callable[[], Any]


def prompts() -> torch.Tensor:
    return torch.randint(5, 50257, (1, 32), generator=torch.Generator().manual_seed(0)).cuda()


def texts(shortest: int) -> tuple[torch.Tensor, torch.Tensor]:
    dice = np.random.default_rng(0)
    lengths = torch.tensor(dice.integers(shortest, 129, 256))
    tokens = torch.tensor(dice.integers(5, 30000, (256, 128)))
    return tokens.cuda(), (torch.arange(128) < lengths[:, None]).cuda()


def images() -> torch.Tensor:
    return torch.randn(256, 3, 224, 224, generator=torch.Generator().manual_seed(0)).to("cuda", DTYPE)


def ours(work: str) -> Call:
    from regard.decode.rules import Target
    from regard.decode.search import decode
    from regard.decode.settings import Decoding
    from regard.models.bert import Bert, BertConfig
    from regard.models.gpt2 import GPT2, GPT2Config
    from regard.models.vit import ViT, ViTConfig

    if work.startswith("GPT-2"):
        model: Any = GPT2(GPT2Config(50257, dim=768, layers=12, heads=12)).to("cuda", DTYPE).eval()
        prompt = prompts()
        before, mask = prompt[:, :-1], torch.ones_like(prompt[:, :-1], dtype=torch.bool)
        target = Target(prompt[:, -1], end=0, max_length=TOKENS, min_length=TOKENS)
        return lambda: decode(model, before, mask, Decoding(), target)
    if work.startswith("BERT"):
        model = Bert(BertConfig(30522, head="none", pooler=False)).to("cuda", DTYPE).eval()
        tokens, mask = texts(24 if "24" in work else 128)
        return lambda: model.states(tokens, None, mask)
    model = ViT(ViTConfig(labels=tuple(map(str, range(1000))))).to("cuda", DTYPE).eval()
    pixels = images()
    return lambda: model(pixels)


def theirs(work: str) -> Call:
    import transformers

    transformers.logging.set_verbosity_error()
    if work.startswith("GPT-2"):
        config = transformers.GPT2Config(eos_token_id=0, pad_token_id=0, bos_token_id=0)
        model: Any = transformers.GPT2LMHeadModel(config).to("cuda", DTYPE).eval()
        prompt = prompts()
        options: dict[str, Any] = {"do_sample": False, "min_new_tokens": TOKENS, "max_new_tokens": TOKENS}
        return lambda: model.generate(prompt, attention_mask=torch.ones_like(prompt), **options)
    if work.startswith("BERT"):
        model = transformers.BertModel(transformers.BertConfig(), add_pooling_layer=False).to("cuda", DTYPE).eval()
        tokens, mask = texts(24 if "24" in work else 128)
        return lambda: model(input_ids=tokens, attention_mask=mask.long())
    model = transformers.ViTForImageClassification(transformers.ViTConfig(num_labels=1000)).to("cuda", DTYPE).eval()
    pixels = images()
    return lambda: model(pixel_values=pixels)


TOOLS = {"regard": ours, "transformers": theirs}


def seconds(call: Call) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    with torch.inference_mode():
        call()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def measure(work: str, tool: str) -> dict[str, float]:
    torch.manual_seed(0)
    call = TOOLS[tool](work)
    torch.zeros(8, 8, device="cuda", dtype=DTYPE).matmul(
        torch.zeros(8, 8, device="cuda", dtype=DTYPE)
    )  # start CUDA
    first = seconds(call)
    return {"first": first, "later": statistics.median(seconds(call) for _ in range(3))}


def main() -> None:
    import transformers

    versions = f"torch {torch.__version__}, transformers {transformers.__version__}"
    print(f"{torch.cuda.get_device_name()}, {versions}, bfloat16, `python benchmarks/gpu.py`\n")
    print("| work | unit | regard, first call | transformers, first call | times | regard | transformers | times |")
    print("|---|---|---|---|---|---|---|---|")
    for work, (unit, count) in WORK.items():
        results = take_turns(__file__, TOOLS, work)
        cells = []
        for call in ("first", "later"):
            speed = {tool: count / min(turn[call] for turn in turns) for tool, turns in results.items()}
            cells += [f"{speed['regard']:,.0f}", f"{speed['transformers']:,.0f}"]
            cells += [f"**{speed['regard'] / speed['transformers']:.2f}**"]
        print(f"| {work} | {unit}/s | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(measure(*sys.argv[1:])))
    else:
        main()
