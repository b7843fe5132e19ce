import pytest
import torch

from regard.base import device
from regard.base.device import best_device, choose_device, current, with_tf32
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
