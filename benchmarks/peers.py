"""Peers that are not packages of ours to install: given by --peer NAME=PATH, never copied, imported from there.

nanoGPT   PATH is a checkout of karpathy/nanoGPT; it has GPT-2's weights, and computes GELU exactly, not by tanh;
          it decodes without a memory of keys and values
gpt-fast  PATH is a checkout of pytorch-labs/gpt-fast: a model of the same width, depth and number of parameters
          (SwiGLU, rotary positions), with weights of its own; all rows have the first row's prompt
vLLM      PATH is the folder that has the package vllm (site-packages); it opens the same run"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file
from torch import Tensor

from benchmarks.frame import Call, bench


class Place(NamedTuple):
    file: str  # by which PATH is recognised
    place: str


PEERS = {
    "nanoGPT": Place("model.py", "a checkout of karpathy/nanoGPT"),
    "gpt-fast": Place("generate.py", "a checkout of pytorch-labs/gpt-fast"),
    "vLLM": Place("vllm/__init__.py", "the folder with the package vllm, such as site-packages"),
}


class NotGiven(ModuleNotFoundError):
    """A peer that --peer has not named."""


def path_of(name: str) -> Path:
    if name not in bench.peers:
        raise NotGiven(f"--peer {name}=PATH, {PEERS[name].place}")
    return bench.peers[name]


@contextmanager
def found_in(path: Path) -> Iterator[None]:
    """Imports look there first. Peers share names such as `model`, so what was loaded has another name afterwards,
    by which the compiler finds it."""
    before = set(sys.modules)
    sys.path.insert(0, str(path))
    try:
        yield
    finally:
        sys.path.remove(str(path))
        for name in set(sys.modules) - before:
            module = sys.modules[name]
            if Path(str(getattr(module, "__file__", ""))).parent == path:
                module.__name__ = re.sub(r"\W", "_", f"{path}_{name}")
                sys.modules[module.__name__] = sys.modules.pop(name)


def module_of(path: Path, name: str) -> ModuleType:
    with found_in(path):
        return importlib.import_module(name)


def nano_gpt(folder: str, config: Any, dropout: float = 0.0) -> Any:
    """nanoGPT's GPT with the weights of a run of GPT-2."""
    nano = module_of(path_of("nanoGPT"), "model")
    model = nano.GPT(
        nano.GPTConfig(
            block_size=config.max_positions, vocab_size=config.vocabulary, n_layer=config.layers,
            n_head=config.heads, n_embd=config.dim, dropout=dropout,
        )
    )  # fmt: skip
    stored = load_file(f"{folder}/model.safetensors")
    weights = {name if name.startswith("transformer.") else f"transformer.{name}": x for name, x in stored.items()}
    weights["transformer.lm_head.weight"] = weights["transformer.wte.weight"]
    with torch.no_grad():
        for name, theirs in model.state_dict().items():
            tensor = weights[name if name.startswith("transformer.") else f"transformer.{name}"]
            turned = tensor.dim() == 2 and any(part in name for part in (".attn.c_", ".mlp.c_"))  # Conv1D
            theirs.copy_(tensor.t() if turned else tensor)
    return model.to(bench.device)


def nano_gpt_writes(folder: str, config: Any, prompt: Tensor, tokens: int, dtype: torch.dtype) -> Call:
    model = nano_gpt(folder, config).to(dtype).eval()
    return lambda: model.generate(prompt, tokens, top_k=1)[:, prompt.shape[1] :].tolist()


def gpt_fast_writes(config: Any, prompt: Tensor, tokens: int, dtype: torch.dtype) -> Call:
    path = path_of("gpt-fast")
    sys.modules["tokenizer"] = ModuleType("tokenizer")  # its packages are not needed: prompts are numbers
    sys.modules["tokenizer"].get_tokenizer = None  # type: ignore[attr-defined]
    fast = module_of(path, "generate")
    del sys.modules["tokenizer"]
    arguments = fast.Transformer.__init__.__globals__["ModelArgs"](
        block_size=config.max_positions, vocab_size=config.vocabulary, n_layer=config.layers, n_head=config.heads,
        dim=config.dim,
    )  # fmt: skip
    model = fast.Transformer(arguments).to(bench.device, dtype).eval()
    if bench.gpu:  # as its own command does with --compile
        fast.decode_one_token = torch.compile(fast.decode_one_token, mode="reduce-overhead", fullgraph=True)

    def write() -> Any:
        written, _ = fast.generate(
            model, prompt[0], tokens, len(prompt), interactive=False, draft_model=None, temperature=0.0, top_k=1
        )
        return written[:, prompt.shape[1] :].tolist()

    return write


def vllm_writes(folder: str, prompt: Tensor, tokens: int, dtype: torch.dtype) -> Call:
    path = path_of("vLLM")
    sys.path.append(str(path))  # stays: parts of the package are imported later
    import vllm

    model = vllm.LLM(
        folder, dtype=str(dtype).removeprefix("torch."), skip_tokenizer_init=True, gpu_memory_utilization=0.3
    )
    wanted = vllm.SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False)
    prompts = [{"prompt_token_ids": row} for row in prompt.tolist()]
    return lambda: [list(answer.outputs[0].token_ids) for answer in model.generate(prompts, wanted, use_tqdm=False)]


def writers(
    folder: str, config: Any, prompt: Tensor, tokens: int, dtype: torch.dtype
) -> dict[str, Callable[[], Call]]:
    """The contenders of a row that writes tokens with GPT-2."""
    return {
        "nanoGPT": lambda: nano_gpt_writes(folder, config, prompt, tokens, dtype),
        "gpt-fast": lambda: gpt_fast_writes(config, prompt, tokens, dtype),
        "vLLM": lambda: vllm_writes(folder, prompt, tokens, dtype),
    }
