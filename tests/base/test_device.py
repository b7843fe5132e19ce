import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard.base import device
from regard.base.device import best_device, choose_device, current, on_own_gpu, with_tf32
from regard.errors import BadInput
from regard.learn.settings import Training


def test_auto_is_cuda_else_mps_else_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the question which devices there are is answered for torch; the tensor on them is made on the CPU."""
    zeros = torch.zeros
    monkeypatch.setattr(device, "best_device", best_device)
    monkeypatch.setattr(torch, "zeros", lambda *size, device: zeros(*size))
    for cuda, mps, wanted in ((2, True, "cuda"), (1, False, "cuda"), (0, True, "mps"), (0, False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda cuda=cuda: cuda > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda cuda=cuda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda mps=mps: mps)
        assert choose_device() == torch.device(wanted)
        assert choose_device("cuda:1") == torch.device("cuda:1")


@pytest.mark.parametrize("name", ["cuda:97", "gpu", "", "meta", "xpu:5"])
def test_a_device_that_is_not_here_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match=rf"device '{name}' is not here; use auto or cpu"):
        choose_device(name)


def test_a_device_that_is_here_and_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*size: int, device: torch.device) -> None:
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr(torch, "zeros", full)
    with pytest.raises(torch.OutOfMemoryError):
        choose_device("cpu")


def test_cpu_by_its_names_and_float16_needs_cuda() -> None:
    assert choose_device("cpu") == torch.device("cpu")
    assert choose_device("cpu:0").type == "cpu"
    assert Training(steps=1, device="cuda:1").device == "cuda:1"
    with pytest.raises(BadInput, match="float16 needs a CUDA GPU; on cpu use bfloat16 or float32"):
        choose_device("cpu", "float16")


@pytest.mark.parametrize(("name", "inside"), [("cpu", "highest"), ("cuda", "high")])
def test_half_precision_on_a_gpu_may_use_tf32_while_it_trains(name: str, inside: str) -> None:
    with with_tf32(torch.device(name)):
        assert torch.get_float32_matmul_precision() == inside
    assert torch.get_float32_matmul_precision() == "highest"


def test_the_gpu_of_a_model_is_made_the_current_one() -> None:
    """Kernels and graphs are launched on the current GPU, which need not be the model's."""
    second = current(torch.device("cuda:1"))
    assert isinstance(second, torch.cuda.device)
    assert second.idx == 1
    with current(torch.device("cpu")):
        pass


def test_a_second_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """One GPU is here, and torch says of the second what it says of any other."""

    def zeros(*size: int, device: torch.device) -> Tensor:
        if device.index:
            raise RuntimeError("CUDA error: invalid device ordinal")
        return Tensor(*size)

    monkeypatch.setattr(torch, "zeros", zeros)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert choose_device("cuda:0") == torch.device("cuda:0")
    with pytest.raises(BadInput, match="device 'cuda:1' is not here; use auto or cpu or cuda:0"):
        choose_device("cuda:1")


class OnGpu(Tensor):
    """A tensor that says it is on the second GPU."""

    is_cuda = True  # type: ignore[assignment]
    device = torch.device("cuda:1")  # type: ignore[assignment]

    def get_device(self) -> int:
        return 1


def test_kernels_are_launched_on_the_gpu_of_their_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton launches on the current GPU. Only which GPU is current is answered for torch."""
    made_current: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(device, "current", lambda place: made_current.append(place) or current(torch.device("cpu")))

    @on_own_gpu
    def launch(size: Any, x: Any, *, scale: int) -> int:
        return 3 * scale

    there = torch.zeros(2).as_subclass(OnGpu)
    assert launch(0, there, scale=2) == 6
    assert launch((there, 1), 0, scale=2) == 6, "the first tensor may be in a tuple"
    assert made_current == [torch.device("cuda:1")] * 2
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    launch(0, there, scale=1)
    launch(0, torch.zeros(2), scale=1)
    assert len(made_current) == 2, "it is the current one already, or there is none"


# ---- what the source says


def sources(word: str) -> Iterator[tuple[str, ast.Module]]:
    """Of the modules that have this word in them."""
    folder = Path(regard.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        if word in (text := path.read_text(encoding="utf-8")):
            yield str(path.relative_to(folder)), ast.parse(text)


# These ask about, or act on, the current GPU unless they are told which.
ASK_FOR_A_GPU = {
    "synchronize", "Stream", "current_stream", "memory_reserved", "memory_allocated", "max_memory_allocated",
    "get_device_properties", "get_device_capability", "mem_get_info", "reset_peak_memory_stats",
}  # fmt: skip


def test_no_module_takes_the_current_gpu_for_its_own() -> None:
    for name, module in sources("torch.cuda."):
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("torch.cuda."):
                named = ast.unparse(node.func).removeprefix("torch.cuda.")
                assert named not in ASK_FOR_A_GPU or node.args or node.keywords, f"{name}:{node.lineno}: {named}"


def launchers(module: ast.Module) -> tuple[set[str], dict[str, ast.stmt]]:
    """The kernels of a module, and its other functions and classes."""
    kernels, others = set(), dict[str, ast.stmt]()
    for part in module.body:
        if isinstance(part, ast.FunctionDef | ast.ClassDef):
            if any("triton.jit" in ast.unparse(one) for one in part.decorator_list):
                kernels.add(part.name)
            else:
                others[part.name] = part
    return kernels, others


def names_in(part: ast.AST) -> set[str]:
    """Those that are read: a field may have the name of a function."""
    return {node.id for node in ast.walk(part) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def test_every_module_with_kernels_launches_them_on_the_gpu_of_its_tensors() -> None:
    """Each function that others may call and that leads to a launch is wrapped."""
    found = 0
    for name, module in sources("triton.jit"):
        kernels, others = launchers(module)
        launching = set(kernels)
        while more := {each for each, part in others.items() if names_in(part) & launching} - launching:
            launching |= more
        called = {each for part in others.values() for each in names_in(part) - {getattr(part, "name", "")}}
        for each in launching - kernels - called:
            decorators = [ast.unparse(one) for one in getattr(others[each], "decorator_list", [])]
            assert "on_own_gpu" in decorators, f"{name}: {each} launches kernels, without @on_own_gpu"
            found += 1
    assert found > 10
