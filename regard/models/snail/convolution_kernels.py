"""`PooledConvolution` on CUDA, for images of one channel: Triton kernels that never store what the convolution
gives, which is as large as the images times the filters.

    max over 4 places of relu(a . x + b),  a = s w,  b = beta - s mean,  s = gamma / sqrt(var + eps)

x: the 9 pixels of a patch. The images need no gradient, so the statistics of a batch follow from those of its
patches: mean = w . m and var = w' C w, with the mean m and the covariance C of all patches. Sums and products of
pixels are added up in float32 by each program, then in float64. The forward pass keeps which place was the largest;
the backward pass adds the patches of these places, weighted by the gradient. No sum depends on the order in which
programs run: the same inputs give the same bits. It computes in float32 whatever the autocast.

Letters: N images of H x W pixels with a border of zeros, F filters, k and j pixels of a patch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from regard.base.device import on_own_gpu
from regard.base.with_triton import tl, triton

SLOTS = tl.constexpr(128)  # for 10 x 10 sums of products
PATCHES = 256  # of a tile when products are summed, by one warp: a sum needs no barrier
PLACES, FILTERS = 16, 64  # of a tile: the backward pass keeps ten sums for each number
PROGRAMS = 1056  # at most: 8 for each multiprocessor of a large GPU
MULTIPLE, WIDEST = 16, 256  # of the filters: other numbers were not tried
MOST = 1 << 30  # pixels of a batch: places are counted in 32 bits


@triton.jit
def _corner(place, H: tl.constexpr, W: tl.constexpr, STEP: tl.constexpr):
    """Where the patch of a place begins; an image has H // STEP x W // STEP places."""
    COLUMNS: tl.constexpr = W // STEP
    EACH: tl.constexpr = (H // STEP) * COLUMNS
    rest = place % EACH
    within = (rest // COLUMNS) * (STEP * (W + 2)) + (rest % COLUMNS) * STEP
    return (place // EACH).to(tl.int64) * ((H + 2) * (W + 2)) + within


@triton.jit
def _pixel(corner, k: tl.constexpr, inside, W: tl.constexpr):
    return tl.load(corner + (k // 3) * (W + 2) + k % 3, mask=inside, other=0.0)


@triton.jit(do_not_specialize=["count"])
def _moments(images, sums, count, H: tl.constexpr, W: tl.constexpr, TILE: tl.constexpr):
    """sums[program, 10 k + j] = sum of x_k x_j over patches, x_9 = 1"""
    slot = tl.arange(0, SLOTS)
    total = tl.zeros((SLOTS,), tl.float32)
    for first in range(tl.program_id(0) * TILE, count, tl.num_programs(0) * TILE):
        place = first + tl.arange(0, TILE)
        inside = place < count
        corner = images + _corner(place, H, W, 1)
        for k in tl.static_range(9):
            x = _pixel(corner, k, inside, W)
            total += tl.where(slot == 10 * k + 9, tl.sum(x, 0), 0.0)
            for j in tl.static_range(9):
                if j >= k:
                    product = tl.sum(x * _pixel(corner, j, inside, W), 0)
                    total += tl.where((slot == 10 * k + j) | (slot == 10 * j + k), product, 0.0)
    tl.store(sums + tl.program_id(0) * SLOTS + slot, total)


@triton.jit
def _weight(weight, k, f, used):
    return tl.load(weight + 9 * f + k, mask=used, other=0.0).to(tl.float64)


@triton.jit
def _mean(moments, k, share):
    """m_k; share: 1 / the number of patches"""
    return tl.load(moments + 10 * k + 9) * share


@triton.jit
def _spread(moments, k, share, weight, f, used):
    """(C w)_k of each filter"""
    total = tl.zeros((f.shape[0],), tl.float64)
    for j in tl.static_range(9):
        both = tl.load(moments + 10 * k + j) * share - _mean(moments, k, share) * _mean(moments, j, share)
        total += both * _weight(weight, j, f, used)
    return total


@triton.jit(do_not_specialize=["count"])
def _fold(
    weight, gamma, beta, running_mean, running_var, batches, moments, folded, count, eps, momentum,
    F: tl.constexpr, TRAINING: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """folded (12, F): a, b, 1 / sqrt(var + eps), mean. In training the running statistics move."""
    f = tl.program_id(0) * TILE + tl.arange(0, TILE)
    used = f < F
    mean = tl.load(running_mean + f, mask=used, other=0.0).to(tl.float64)
    var = tl.load(running_var + f, mask=used, other=0.0).to(tl.float64)
    if TRAINING:
        share = 1.0 / count.to(tl.float64)
        kept_mean, kept_var = (1.0 - momentum) * mean, (1.0 - momentum) * var
        mean, var = tl.zeros((TILE,), tl.float64), tl.zeros((TILE,), tl.float64)
        for k in tl.static_range(9):
            w = _weight(weight, k, f, used)
            mean += w * _mean(moments, k, share)
            var += w * _spread(moments, k, share, weight, f, used)
        var = tl.where(var < 0.0, 0.0, var)
        tl.store(running_mean + f, (kept_mean + momentum * mean).to(tl.float32), mask=used)
        unbiased = var / (1.0 - share)
        tl.store(running_var + f, (kept_var + momentum * unbiased).to(tl.float32), mask=used)
        if tl.program_id(0) == 0:
            tl.store(batches, tl.load(batches) + 1)
    inverse = 1.0 / tl.sqrt(var + eps)
    scale = tl.load(gamma + f, mask=used, other=0.0) * inverse
    for k in tl.static_range(9):
        tl.store(folded + k * F + f, (scale * _weight(weight, k, f, used)).to(tl.float32), mask=used)
    bias = tl.load(beta + f, mask=used, other=0.0) - scale * mean
    tl.store(folded + 9 * F + f, bias.to(tl.float32), mask=used)
    tl.store(folded + 10 * F + f, inverse.to(tl.float32), mask=used)
    tl.store(folded + 11 * F + f, mean.to(tl.float32), mask=used)


@triton.jit(do_not_specialize=["places"])
def _pool(
    images, folded, out, winners, places,
    H: tl.constexpr, W: tl.constexpr, F: tl.constexpr, KEEP: tl.constexpr,
    TILE: tl.constexpr, TILE_F: tl.constexpr,
):  # fmt: skip
    """out (N, H // 2, W // 2, F); winners: the first of the largest of four places, 4 if none is above 0. As in
    torch, NaN is larger than any number. Grid: programs, blocks of filters."""
    f = tl.program_id(1) * TILE_F + tl.arange(0, TILE_F)
    used = f < F
    each = tl.zeros((TILE, 1), tl.int32) + f[None, :]
    for first in range(tl.program_id(0) * TILE, places, tl.num_programs(0) * TILE):
        place = first + tl.arange(0, TILE)
        inside = place < places
        corner = images + _corner(place, H, W, 2)
        bias = tl.load(folded + 9 * F + each, mask=each < F, other=0.0)  # (TILE, TILE_F), for the layout of all
        best = tl.zeros((TILE, TILE_F), tl.float32)
        winner = tl.full((TILE, TILE_F), 4, tl.int32)
        for c in tl.static_range(4):
            total = bias
            for k in tl.static_range(9):
                x = tl.load(corner + (c // 2 + k // 3) * (W + 2) + c % 2 + k % 3, mask=inside, other=0.0)
                weight = tl.load(folded + k * F + f, mask=used, other=0.0)
                total += x[:, None] * weight[None, :]
            better = (total > best) | (total != total)
            best = tl.where(better, total, best)
            winner = tl.where(better, c, winner)
        at = place.to(tl.int64)[:, None] * F + f[None, :]
        both = inside[:, None] & used[None, :]
        tl.store(out + at, best.to(out.dtype.element_ty), mask=both)
        if KEEP:
            tl.store(winners + at, winner.to(tl.uint8), mask=both)


@triton.jit(do_not_specialize=["places"])
def _pool_back(
    images, grad, winners, sums, places,
    H: tl.constexpr, W: tl.constexpr, F: tl.constexpr, TILE: tl.constexpr, TILE_F: tl.constexpr,
):  # fmt: skip
    """sums[program] (10, F): the gradients of a and b. Grid: programs, blocks of filters."""
    f = tl.program_id(1) * TILE_F + tl.arange(0, TILE_F)
    used = f < F
    for_bias = tl.zeros((TILE, TILE_F), tl.float32)
    s0, s1, s2 = for_bias, for_bias, for_bias
    s3, s4, s5 = for_bias, for_bias, for_bias
    s6, s7, s8 = for_bias, for_bias, for_bias
    for first in range(tl.program_id(0) * TILE, places, tl.num_programs(0) * TILE):
        place = first + tl.arange(0, TILE)
        inside = place < places
        at = place.to(tl.int64)[:, None] * F + f[None, :]
        both = inside[:, None] & used[None, :]
        slope = tl.load(grad + at, mask=both, other=0.0).to(tl.float32)
        winner = tl.load(winners + at, mask=both, other=4).to(tl.int32)
        for_bias += tl.where(winner < 4, slope, 0.0)
        for c in tl.static_range(4):
            corner = images + _corner(place, H, W, 2) + (c // 2) * (W + 2) + c % 2
            part = tl.where(winner == c, slope, 0.0)
            s0 += part * _pixel(corner, 0, inside, W)[:, None]
            s1 += part * _pixel(corner, 1, inside, W)[:, None]
            s2 += part * _pixel(corner, 2, inside, W)[:, None]
            s3 += part * _pixel(corner, 3, inside, W)[:, None]
            s4 += part * _pixel(corner, 4, inside, W)[:, None]
            s5 += part * _pixel(corner, 5, inside, W)[:, None]
            s6 += part * _pixel(corner, 6, inside, W)[:, None]
            s7 += part * _pixel(corner, 7, inside, W)[:, None]
            s8 += part * _pixel(corner, 8, inside, W)[:, None]
    sums += tl.program_id(0) * (10 * F) + f
    tl.store(sums, tl.sum(s0, 0), mask=used)
    tl.store(sums + F, tl.sum(s1, 0), mask=used)
    tl.store(sums + 2 * F, tl.sum(s2, 0), mask=used)
    tl.store(sums + 3 * F, tl.sum(s3, 0), mask=used)
    tl.store(sums + 4 * F, tl.sum(s4, 0), mask=used)
    tl.store(sums + 5 * F, tl.sum(s5, 0), mask=used)
    tl.store(sums + 6 * F, tl.sum(s6, 0), mask=used)
    tl.store(sums + 7 * F, tl.sum(s7, 0), mask=used)
    tl.store(sums + 8 * F, tl.sum(s8, 0), mask=used)
    tl.store(sums + 9 * F, tl.sum(for_bias, 0), mask=used)


@triton.jit(do_not_specialize=["count"])
def _fold_back(
    sums, weight, gamma, folded, moments, for_weight, for_gamma, for_beta, count,
    F: tl.constexpr, TRAINING: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """sums (10, F): the gradients of a and b -> those of w, gamma and beta. Grid: blocks of filters, pixels."""
    f, pixel = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.program_id(1)
    used = f < F
    share = 1.0 / count.to(tl.float64)
    for_bias = tl.load(sums + 9 * F + f, mask=used, other=0.0)
    inverse = tl.load(folded + 10 * F + f, mask=used, other=0.0).to(tl.float64)
    for_scale = -for_bias * tl.load(folded + 11 * F + f, mask=used, other=0.0)
    for k in tl.static_range(9):
        for_scale += tl.load(sums + k * F + f, mask=used, other=0.0) * _weight(weight, k, f, used)
    if pixel == 0:
        tl.store(for_beta + f, for_bias.to(tl.float32), mask=used)
        tl.store(for_gamma + f, (for_scale * inverse).to(tl.float32), mask=used)
    slope = tl.load(sums + pixel * F + f, mask=used, other=0.0)
    if TRAINING:
        spread = _spread(moments, pixel, share, weight, f, used)
        slope -= for_bias * _mean(moments, pixel, share) + for_scale * inverse * inverse * spread
    slope *= tl.load(gamma + f, mask=used, other=0.0) * inverse
    tl.store(for_weight + 9 * f + pixel, slope.to(tl.float32), mask=used)


def fits(filter: nn.Conv2d, norm: nn.Module, x: Tensor) -> bool:
    """Whether the kernels compute this convolution and normalisation: 3 x 3 filters of one channel, and images in
    float32 without a gradient."""
    if type(norm) is not nn.BatchNorm2d or not norm.track_running_stats or norm.momentum is None:
        return False
    shape = (filter.in_channels, filter.kernel_size, filter.stride) == (1, (3, 3), (1, 1))
    filters = filter.out_channels % MULTIPLE == 0 and filter.out_channels <= WIDEST
    floats = x.dtype == filter.weight.dtype == norm.weight.dtype == torch.float32
    sizes = x.dim() == 4 and x.shape[1] == 1 and len(x) > 0 and min(x.shape[2:]) > 1 and x.numel() <= MOST
    return shape and filters and floats and sizes and not (x.requires_grad or torch.compiler.is_compiling())


@on_own_gpu
def pooled(x: Tensor, weight: Tensor, norm: nn.BatchNorm2d) -> Tensor:
    """relu(max_pool2d(norm(W * x), 2)): (N, 1, H, W) -> (N, F, H // 2, W // 2), channels last in memory"""
    keep = torch.is_grad_enabled() and any(each.requires_grad for each in (weight, norm.weight, norm.bias))
    states: Tensor = _Pooled.apply(x, weight, norm.weight, norm.bias, norm, keep)
    return states


class _Pooled(torch.autograd.Function):
    """Has gradients for the weight, gamma and beta, not for the images."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, gamma: Tensor, beta: Tensor, norm: nn.BatchNorm2d, keep: bool
    ) -> Tensor:
        (count, _, height, width), filters, kind = x.shape, len(weight), x.device.type
        images = pad(x[:, 0], (1, 1, 1, 1)).contiguous()
        weight, ctx.training = weight.reshape(filters, 9), norm.training
        moments = _sums_of_products(images) if norm.training else images  # these are not read
        folded = images.new_empty(12, filters)
        _fold[_grid(filters)](
            weight, gamma, beta, norm.running_mean, norm.running_var, norm.num_batches_tracked, moments, folded,
            x.numel(), norm.eps, norm.momentum, filters, norm.training, FILTERS, num_warps=2,
        )  # fmt: skip
        shape = (count, filters, height // 2, width // 2)
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
        out = torch.empty(shape, dtype=dtype, device=x.device, memory_format=torch.channels_last)
        winners = torch.empty_like(out, dtype=torch.uint8) if keep else out
        places = count * shape[2] * shape[3]
        _pool[_programs(places, PLACES), *_grid(filters)](
            images, folded, out, winners, places,
            height, width, filters, keep, PLACES, _tile(filters), num_warps=4,
        )  # fmt: skip
        if keep:
            ctx.save_for_backward(images, weight, gamma, folded, moments, winners)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        images, weight, gamma, folded, moments, winners = ctx.saved_tensors
        grad = grad.contiguous(memory_format=torch.channels_last)
        count, filters, rows, columns = grad.shape
        height, width = (side - 2 for side in images.shape[1:])
        places = count * rows * columns
        programs = _programs(places, PLACES)
        parts = images.new_empty(programs, 10, filters)
        _pool_back[programs, *_grid(filters)](
            images, grad, winners, parts, places,
            height, width, filters, PLACES, _tile(filters), num_warps=4,
        )  # fmt: skip
        sums = parts.sum(0, dtype=torch.float64)
        slopes = torch.empty_like(weight), torch.empty_like(gamma), torch.empty_like(gamma)
        _fold_back[*_grid(filters), 9](
            sums, weight, gamma, folded, moments, *slopes, count * height * width,
            filters, ctx.training, FILTERS, num_warps=2,
        )  # fmt: skip
        return None, slopes[0].view(filters, 1, 3, 3), *slopes[1:], None, None


def _sums_of_products(images: Tensor) -> Tensor:
    """(128,): of all patches, see `_moments`"""
    count, height, width = len(images), images.shape[1] - 2, images.shape[2] - 2
    programs = _programs(count * height * width, PATCHES)
    parts = images.new_empty(programs, SLOTS.value)
    _moments[(programs,)](images, parts, count * height * width, height, width, PATCHES, num_warps=1)
    return parts.sum(0, dtype=torch.float64)


def _programs(places: int, tile: int) -> int:
    return min(PROGRAMS, triton.cdiv(places, tile))


def _tile(filters: int) -> int:
    return min(FILTERS, triton.next_power_of_2(filters))


def _grid(filters: int) -> tuple[int]:
    """Blocks of filters."""
    return (triton.cdiv(filters, FILTERS),)
