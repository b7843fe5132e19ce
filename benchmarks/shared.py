"""What rows share: training steps of regard and in plain torch, runs that peers open too, tokens, and weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.frame import Call, bench
from regard.data.artifacts import Artifacts
from regard.data.text.tokenizer import Tokenizer
from regard.layers.onednn import without_onednn
from regard.learn.auto import settled, told
from regard.learn.settings import Training
from regard.learn.stepper import Stepper
from regard.runs.folder import begin, save_weights

Rows = list[list[int]]
CAPTURED = "regard, captured"


def without_packing(model: nn.Module) -> AbstractContextManager[Any]:
    """As `regard` runs and trains on a CPU: without oneDNN on ARM."""
    return nullcontext() if bench.gpu else without_onednn(model)


def as_regard_runs(model: nn.Module, call: Call) -> Call:
    def run() -> Any:
        with without_packing(model):
            return call()

    return run


def our_step(model: Any, batches: Iterable[Any], rate: float, **settings: Any) -> Call:
    """Steps of `regard train`, one for each batch; the last loss."""
    plain = {"precision": "float32", "compile": False, "capture": False}
    training = Training(steps=10**6, learning_rate=rate, device=bench.device, **plain | settings)
    stepper, every = Stepper(model, training), list(batches)

    def step() -> Tensor:
        return [stepper.step(1, [batch], rate)["loss"] for batch in every][-1]

    return as_regard_runs(stepper.model, step)


def our_steps(make: Callable[[], tuple[Any, Iterable[Any]]], rate: float, **settings: Any) -> dict[str, Any]:
    """The contenders of regard for a training step: plain, and on a GPU captured in a CUDA graph."""
    ways = {"regard": False} | ({CAPTURED: True} if bench.gpu else {})
    return {
        name: lambda capture=capture: our_step(*make(), rate, capture=capture, **settings)
        for name, capture in ways.items()
    }


WAYS: dict[str, dict[str, Any]] = {
    "regard": {},
    "regard, captured": {"capture": True},
    "regard, compiled": {"compile": True},
    "regard, compiled and captured": {"compile": True, "capture": True},
}


def our_ways(make: Callable[[], Any], batches: Iterable[Any], rate: float, **settings: Any) -> dict[str, Any]:
    """The contenders of regard for a training step in the precision of the device: eager, and on a GPU captured,
    compiled, and both."""
    every = list(batches)
    return {
        name: lambda way=way: our_step(make(), every, rate, precision=bench.precision, **way, **settings)
        for name, way in (WAYS if bench.gpu else {"regard": WAYS["regard"]}).items()
    }


def auto_takes(model: Any) -> str:
    """What auto stands for in a long training of this model."""
    return told(settled(Training(steps=10**6), model, torch.device(bench.device)))


def plain_step(
    losses: Iterable[Callable[[], Tensor]],
    optimiser: torch.optim.Optimizer,
    *,
    clip: float = 0.0,
    half: bool = False,
) -> Call:
    """Steps in plain torch, one for each loss: forward, backward, clipping and the optimiser; the last loss."""
    learned = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    every = list(losses)

    def step() -> Tensor:
        for loss_of in every:
            optimiser.zero_grad()
            with torch.autocast(bench.kind, torch.bfloat16, enabled=half):
                loss = loss_of()
            loss.backward()
            if clip:
                nn.utils.clip_grad_norm_(learned, clip)
            optimiser.step()
        return loss.detach()

    return step


def adamw(model: nn.Module, rate: float, decay: float = 0.0) -> torch.optim.Optimizer:
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return torch.optim.AdamW(learned, rate, weight_decay=decay, fused=bench.gpu or None)


def mean_loss(model: Any, batch: Any, **options: Any) -> Tensor:
    loss = model.loss(batch, **options)
    return loss.total / loss.tokens


def take_weights(peer: nn.Module, model: nn.Module) -> None:
    """The weights of a model whose order of weights is the same."""
    for theirs, tensor in zip(peer.state_dict().values(), model.state_dict().values(), strict=True):
        theirs.copy_(tensor.reshape(theirs.shape))


def saved(model: Any, artifacts: Artifacts) -> str:
    """A run with these weights, which peers open as it is."""
    folder = bench.folder / type(model).__name__
    begin(folder, model, artifacts, "")
    save_weights(folder, model)
    return str(folder)


def of_transformers(name: str) -> Any:
    """A class of `transformers`, which then only tells errors."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return getattr(transformers, name)


ENGINES = {  # of a run on the CPU, beside float32 by torch
    "regard int8": {"dtype": "int8"},
    "regard by CTranslate2 float32": {"engine": "ctranslate2"},
    "regard by CTranslate2 int8": {"engine": "ctranslate2", "dtype": "int8"},
}


def loaded(folder: str, **engine: str) -> Any:
    """The model of a run as `regard.load` gives it on the CPU."""
    import regard

    return regard.load(folder, device="cpu", **engine).model


def converted(folder: str) -> str:
    """The run as CTranslate2's own converter writes it."""
    from ctranslate2.converters import TransformersConverter

    if not Path(folder, "ctranslate2").exists():
        TransformersConverter(folder).convert(f"{folder}/ctranslate2")
    return f"{folder}/ctranslate2"


def numbered_words(size: int, numbering: str = "regard") -> Tokenizer:
    """A tokenizer of as many made-up words."""
    return Tokenizer.train([" ".join(map(str, range(size)))], kind="space", size=size, numbering=numbering)


def names_of(folder: str) -> list[str]:
    """The tokens of a run by number, as CTranslate2 wants them."""
    vocabulary = Tokenizer.load(Path(folder) / "tokenizer.json").inner
    return [vocabulary.id_to_token(number) for number in range(vocabulary.get_vocab_size())]
