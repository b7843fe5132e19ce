"""Tensors that are not floating point, as BatchNorm's counters, are saved, loaded and taken over as they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import small_models
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.base.tensors import named_tensors
from regard.errors import RunError
from regard.layers.init import take_over
from regard.learn import checkpoint
from regard.learn.checkpoint import Standing
from regard.runs.folder import Folder, begin, save_weights, shapes
from regard.runs.weights import read_headers, read_weights
from regard.runs.writing import check

COUNTER = "stem.0.norm.num_batches_tracked"
SEEN = 100_003  # a number of batches that half precision would round


@pytest.fixture
def model() -> Any:
    """A small SE-ResNet that has seen batches."""
    model = small_models.build("senet", depths=(1, 1), widths=(4, 8))
    model.train()(small_models.images(model))
    for name, buffer in model.named_buffers():
        if name.endswith("num_batches_tracked"):
            buffer.fill_(SEEN)
    return model.eval()


@pytest.fixture
def folder(model: Any, tmp_path: Path) -> Path:
    begin(tmp_path / "run", model, small_models.artifacts(model), "")
    save_weights(tmp_path / "run", model)
    return tmp_path / "run"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_counters_are_kept_in_runs_of_every_precision(model: Any, folder: Path, dtype: torch.dtype) -> None:
    assert named_tensors(model)[COUNTER].dtype == torch.int64
    save_weights(folder, model, dtype)
    stored = load_file(folder / "model.safetensors")
    assert {x.dtype for x in stored.values()} == {torch.int64, dtype}
    found = Folder(folder).model()
    check(found, model, dtype)
    assert named_tensors(found)[COUNTER].tolist() == SEEN
    if dtype == torch.float32:
        images = small_models.images(model)
        assert torch.equal(found(images), model(images))


def test_a_counter_that_came_back_changed_is_noticed(model: Any, folder: Path) -> None:
    found = Folder(folder).model()
    named_tensors(found)[COUNTER].add_(1)
    with pytest.raises(RunError, match=f"{COUNTER} came back changed"):
        check(found, model, torch.float32)


def rewrite(folder: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def test_integers_of_another_width_are_converted(folder: Path) -> None:
    for dtype in (torch.int32, torch.uint64, torch.uint32):
        rewrite(folder, lambda tensors, dtype=dtype: tensors.update({COUNTER: tensors[COUNTER].to(dtype)}))
        counter = named_tensors(Folder(folder).model())[COUNTER]
        assert (counter.dtype, counter.tolist()) == (torch.int64, SEEN)


@pytest.mark.parametrize(
    ("name", "tensor", "said"),
    [
        (COUNTER, torch.tensor(3.0), rf"{COUNTER} holds floating point \(F32\), and this model has integers there"),
        (COUNTER, torch.tensor(True), r"holds booleans \(BOOL\), and this model has integers there"),
        (COUNTER, torch.tensor([3]), r"should be \(\) by config.json, but is \(1,\)"),
        (
            COUNTER,
            torch.tensor(2**64 - 1, dtype=torch.uint64),
            "holds integers .* and this model's are int64: from -9",
        ),
        (
            "head.bias",
            torch.tensor([1, 2, 3]),
            r"head.bias holds integers \(I64\), and this model has floating point",
        ),
        (
            "head.bias",
            torch.ones(3, dtype=torch.bool),
            r"holds booleans \(BOOL\), and this model has floating point",
        ),
        (
            "head.bias",
            torch.ones(3, dtype=torch.complex64),
            r"head.bias holds C64; a run's tensors must be one of F64",
        ),
        ("head.bias", torch.ones(3).to(torch.float8_e4m3fn), r"head.bias holds F8_E4M3; .*, I8, .*, U64, BOOL$"),
    ],
)
def test_tensors_of_another_kind_are_refused(folder: Path, name: str, tensor: Tensor, said: str) -> None:
    rewrite(folder, lambda tensors: tensors.update({name: tensor}))
    with pytest.raises(RunError, match=said):
        Folder(folder).model()


@pytest.mark.parametrize(("dtype", "word"), [(torch.complex64, "complex64"), (torch.float8_e5m2, "float8_e5m2")])
def test_what_could_not_be_read_is_not_written(model: Any, tmp_path: Path, dtype: torch.dtype, word: str) -> None:
    model.register_buffer("odd", torch.zeros(2, dtype=dtype))
    with pytest.raises(RunError, match=rf"odd holds {word}; a run's tensors must be one of"):
        save_weights(tmp_path, model)
    assert not (tmp_path / "model.safetensors").exists()


def test_every_dtype_returns_as_it_was(tmp_path: Path) -> None:
    stored = {
        "flags": torch.tensor([[True, False]]),
        "none": torch.zeros(0, dtype=torch.int32),
        "one": torch.tensor(-5, dtype=torch.int8),
        "many": torch.tensor([0, 2**16 - 1], dtype=torch.uint16),
        "small": torch.tensor(2.0).half(),
    }
    save_file(stored, tmp_path / "model.safetensors")
    wanted = {name: x.to("meta") for name, x in stored.items()}
    found = read_weights(read_headers(tmp_path), wanted)
    assert all(found[name].dtype == x.dtype and torch.equal(found[name], x) for name, x in stored.items())
    narrow = read_weights(read_headers(tmp_path), {**wanted, "none": wanted["none"].to(torch.int8)})
    assert narrow["none"].dtype == torch.int8
    with pytest.raises(RunError, match=r"many holds integers from 0 to 65,535, .* int16: from -32,768 to 32,767"):
        read_weights(read_headers(tmp_path), {**wanted, "many": wanted["many"].to(torch.int16)})


# ---- training


def test_an_average_keeps_the_newest_count(model: Any, tmp_path: Path) -> None:
    optimiser = torch.optim.SGD(model.parameters(), lr=1.0)
    mean = named_tensors(model)["stem.0.norm.running_mean"]
    for step in (1, 2):
        named_tensors(model)[COUNTER].fill_(step)
        mean.fill_(step)
        checkpoint.save(tmp_path, Standing(step=step, validated=True), model, optimiser, average=2)
    named_tensors(model)[COUNTER].fill_(0)
    assert checkpoint.average(tmp_path, 2, model, say=print) == 2
    assert named_tensors(model)[COUNTER].tolist() == 2
    assert mean.tolist() == [1.5] * len(mean)


def test_running_statistics_are_taken_over(model: Any) -> None:
    other = small_models.build("senet", depths=(1, 1), widths=(4, 8), labels=("a", "b"))
    assert other.adopt(model) == ["head.weight", "head.bias"]
    ours, theirs = named_tensors(other), named_tensors(model)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours if not name.startswith("head."))
    assert ours[COUNTER].tolist() == SEEN


def test_the_statistics_of_a_new_norm_are_new() -> None:
    """A counter has the same shape everywhere, and goes with its norm."""

    def norms(*widths: int) -> nn.Module:
        return nn.Sequential(*(nn.BatchNorm1d(width, affine=width > 2) for width in widths))

    ours, theirs = norms(3, 4, 2), norms(3, 5, 2)
    for module in theirs:
        module.num_batches_tracked.fill_(7)  # type: ignore[union-attr, operator]
    new = take_over(ours, theirs.state_dict())
    assert new == [f"1.{name}" for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")]
    assert [module.num_batches_tracked.tolist() for module in ours] == [7, 0, 7]  # type: ignore[union-attr, operator]


def test_weights_are_wanted_in_the_default_dtype_of_the_moment() -> None:
    config = small_models.small("rnnlm")
    before = torch.get_default_dtype()
    for dtype in (torch.float32, torch.float64):
        torch.set_default_dtype(dtype)
        try:
            assert {x.dtype for x in shapes("rnnlm", config).values()} == {dtype}
        finally:
            torch.set_default_dtype(before)
