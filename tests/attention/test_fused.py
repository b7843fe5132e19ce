"""The fused kernels on a GPU; without one these tests are skipped."""

import warnings

import pytest
import torch

from regard.attention import Attend, MultiHead, Packing, Question, ScaledDot
from regard.attention.kernels.fused import fused_attention, has_packed_kernel, packed_attention, without_cudnn

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")


def kernels(work) -> str:
    """The names of the kernels that `work` launches."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some versions of the profiler warn of how they work
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
            work()
            torch.cuda.synchronize()
    return " ".join(event.key for event in seen.key_averages())


@on_gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_length_that_grows_never_goes_to_cudnn(dtype: torch.dtype) -> None:
    query, keys = (torch.randn(1, 12, n, 64, device="cuda", dtype=dtype) for n in (1, 97))
    read = lambda **options: fused_attention(query, keys, keys, dropout=0.0, scale=0.125, **options)  # noqa: E731
    assert "cudnn" not in kernels(read)
    assert "cudnn" not in kernels(lambda: read(mask=torch.ones(1, 1, 1, 97, dtype=torch.bool, device="cuda")))
    assert torch.backends.cuda.cudnn_sdp_enabled(), "the user's setting is left as it was"


@on_gpu
@pytest.mark.parametrize("causal", [False, True])
def test_short_rows_that_are_learned_from_do_not_go_to_flash_attention(causal: bool) -> None:
    def flash(count: int, *, learn: bool) -> bool:
        x = torch.randn(2, 4, count, 64, device="cuda", dtype=torch.bfloat16, requires_grad=learn)
        with torch.set_grad_enabled(learn):
            return "flash" in kernels(lambda: fused_attention(x, x, x, causal=causal, dropout=0.0, scale=0.125))

    assert not flash(16, learn=True)
    assert flash(16, learn=False)
    assert flash(128, learn=True)
    assert torch.backends.cuda.flash_sdp_enabled(), "the user's setting is left as it was"


@on_gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("lengths", [[5, 128, 1, 77], [3, 0, 9], [64, 64]])
def test_packed_rows_in_one_kernel(dtype: torch.dtype, lengths: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The same as in groups of padded rows, forwards and backwards."""
    torch.manual_seed(0)
    mask = torch.arange(max(lengths), device="cuda") < torch.tensor(lengths, device="cuda")[:, None]
    packing, attend = Packing(mask), MultiHead(64, 4).to("cuda", dtype)
    x = torch.randn(1, packing.size, 64, device="cuda", dtype=dtype, requires_grad=True)

    def run() -> tuple[torch.Tensor, torch.Tensor]:
        read = attend(Question(x, packing=packing), attend.remember(x))
        return read, torch.autograd.grad(read.float().square().sum(), x)[0]

    assert "flash" in kernels(run)
    found = run()
    monkeypatch.setattr("regard.attention.attend.has_packed_kernel", lambda *_: False)
    for one, other in zip(found, run(), strict=True):
        assert (one - other).abs().max() <= 0.02 * other.abs().max()


@pytest.mark.parametrize("set_by_user", [True, False])
def test_the_users_choice_of_cudnn_is_left_as_it_was(set_by_user: bool) -> None:
    before = torch.backends.cuda.cudnn_sdp_enabled()
    try:
        torch.backends.cuda.enable_cudnn_sdp(set_by_user)
        with without_cudnn(), without_cudnn():
            assert not torch.backends.cuda.cudnn_sdp_enabled()
        assert torch.backends.cuda.cudnn_sdp_enabled() == set_by_user
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


def test_the_packed_kernel_takes_these_arguments_and_has_a_gradient() -> None:
    """Shapes alone, on the meta device: what can be checked without a GPU."""
    mask = torch.arange(9) < torch.tensor([9, 0, 4])[:, None]
    packing = Packing(mask)
    query = torch.randn(1, 4, packing.size, 16, device="meta", dtype=torch.bfloat16, requires_grad=True)
    packing.starts = packing.starts.to("meta")
    read = packed_attention(query, query, query, packing)
    assert read.shape == query.shape
    assert torch.autograd.grad(read.sum(), query)[0].shape == query.shape


def test_on_the_cpu_there_is_no_packed_kernel() -> None:
    query = torch.randn(1, 2, 5, 16)
    assert not has_packed_kernel(query, query, 0.25)
    attend, packing = Attend(ScaledDot(16, 16)), Packing(torch.ones(1, 5, dtype=torch.bool))
    rows = query[:, 0]
    read = attend(Question(rows, packing=packing), attend.remember(rows))
    assert torch.allclose(read, attend(rows, attend.remember(rows)), atol=1e-6)
