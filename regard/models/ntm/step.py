"""One step of all heads at a memory, as one autograd function with its gradient written out.

It computes what a look of `Heads` (`Attend` with an `Address`), `rewrite` and a read by the new weights compute,
and reads and writes the memory (B, K, W) fewer times: the cosine divides scores by the norms, and no places are
normalised. The products with it keep nothing for the gradient but the memory before and after the step.

Letters: B rows, Q heads, H of them write heads, which come last, K places, W width of a place, S moves."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.models.ntm.address import rotate

EPS = 1e-6  # the least norm, as in `attention.Cosine`


class Addressed(NamedTuple):
    """The weights of a step (B, Q, K), and on the way to them:"""

    weights: Tensor
    norms: Tensor  # (B, 1, K): |M_i|
    scores: Tensor  # (B, Q, K): beta cos(k, M_i)
    content: Tensor  # their softmax
    gated: Tensor  # (B, Q, K): g content + (1 - g) previous
    moved: Tensor  # (B, Q, K): that, rotated


class AddressInputs(NamedTuple):
    """What the heads ask; see `HeadQuestion`."""

    keys: Tensor  # (B, Q, W)
    beta: Tensor  # (B, Q, 1), as the other numbers
    previous: Tensor  # (B, Q, K)
    gate: Tensor
    shift: Tensor  # (B, Q, S)
    gamma: Tensor


def turn(matrix: Tensor, inputs: AddressInputs, erase: Tensor, add: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """matrix (B, K, W), erase and add (B, H, W) -> weights (B, Q, K), the matrix after writing, and what the other
    heads read from it (B, Q - H, W)"""
    return _Turn.apply(matrix, *inputs, erase, add)


def rewrite(matrix: Tensor, weights: Tensor, erase: Tensor, add: Tensor) -> Tensor:
    """M_i prod_h (1 - w_hi e_h) + sum_h w_hi a_h   (Graves 2014, eq. 3-4, for H write heads at once).

    matrix (B, K, W), weights (B, H, K), erase and add (B, H, W)."""
    (rows, places, width), heads = matrix.shape, weights.shape[1]
    wanted = [(rows, heads, places), (rows, heads, width), (rows, heads, width)]
    if [tuple(x.shape) for x in (weights, erase, add)] != wanted:
        raise ValueError(
            f"to rewrite a memory of {tuple(matrix.shape)}, weights, erase and add have the shapes {wanted}; "
            f"got {[tuple(x.shape) for x in (weights, erase, add)]}"
        )
    # Head by head: the gradient of `prod` needs a GPU sync.
    for share, erased in zip(weights.mT.split(1, -1), erase.split(1, -2), strict=True):
        matrix = torch.addcmul(matrix, matrix, share * erased, value=-1)
    return torch.baddbmm(matrix, weights.mT, add)


def scaled_keys(inputs: AddressInputs) -> Tensor:
    return inputs.keys * (inputs.beta / inputs.keys.norm(dim=-1, keepdim=True).clamp_min(EPS))


def address(matrix: Tensor, inputs: AddressInputs) -> Addressed:
    """Equations 5 to 9 of Graves 2014; see `Address`."""
    norms = matrix.norm(dim=-1).clamp_min(EPS)[:, None]
    scores = torch.bmm(scaled_keys(inputs), matrix.mT) / norms
    content = scores.softmax(-1)
    gated = torch.lerp(inputs.previous, content, inputs.gate)
    moved = rotate(gated, inputs.shift).clamp_min(torch.finfo(gated.dtype).tiny)
    return Addressed((moved.log() * inputs.gamma).softmax(-1), norms, scores, content, gated, moved)


class _Turn(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor, *tensors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        *inputs, erase, add = tensors
        addressed = address(matrix, AddressInputs(*inputs))
        reading, writing = addressed.weights.tensor_split([-erase.shape[1]], 1)
        after = rewrite(matrix, writing, erase, add)
        ctx.save_for_backward(matrix, after, erase, add, *inputs, *addressed)
        return addressed.weights, after, torch.bmm(reading, after)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, for_weights: Tensor, for_after: Tensor, for_reads: Tensor) -> tuple[Tensor, ...]:
        matrix, after, erase, add, *rest = ctx.saved_tensors
        inputs, addressed = AddressInputs(*rest[:6]), Addressed(*rest[6:])
        reading, writing = addressed.weights.tensor_split([-erase.shape[1]], 1)
        for_after = torch.baddbmm(for_after, reading.mT, for_reads)
        for_add = torch.bmm(writing, for_after)
        for_writing = torch.bmm(add, for_after.mT)
        by_erasing, for_erase, for_matrix = _erase_slopes(matrix, writing, erase, for_after)
        for_weights = for_weights + torch.cat([torch.bmm(for_reads, after.mT), for_writing - by_erasing], 1)
        for_matrix, for_inputs = _address_slopes(matrix, inputs, addressed, for_weights, for_matrix)
        return for_matrix, *for_inputs, -for_erase, for_add


def _erase_slopes(matrix: Tensor, writing: Tensor, erase: Tensor, slope: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """M prod_h (1 - w_h e_h): minus the gradients of w (B, H, K) and e (B, H, W), and that of M."""
    outers = [writing[:, h, :, None] * erase[:, h, None] for h in range(erase.shape[1])]
    before = [matrix]
    for outer in outers[:-1]:
        before.append(torch.addcmul(before[-1], before[-1], outer, value=-1))
    for_writing, for_erase = [], []
    for h in reversed(range(len(outers))):
        both = slope * before[h]  # (B, K, W)
        for_writing.append(torch.bmm(erase[:, h, None], both.mT))
        for_erase.append(torch.bmm(writing[:, h, None], both))
        slope = torch.addcmul(slope, slope, outers[h], value=-1)
    return torch.cat(for_writing[::-1], 1), torch.cat(for_erase[::-1], 1), slope


def _address_slopes(
    matrix: Tensor, inputs: AddressInputs, addressed: Addressed, slope: Tensor, for_matrix: Tensor
) -> tuple[Tensor, AddressInputs]:
    """The gradients of the matrix, added to `for_matrix`, and of the question, from that of the weights."""
    slope = _through_softmax(addressed.weights, slope)
    for_gamma = _sum(slope * addressed.moved.log())
    slope = slope * inputs.gamma / addressed.moved
    for_shift = _moves(addressed.gated, slope, inputs.shift.shape[-1])
    slope = rotate(slope, inputs.shift.flip(-1))
    for_gate = _sum(slope * (addressed.content - inputs.previous))
    for_content = slope * inputs.gate
    for_previous = slope - for_content
    slope = _through_softmax(addressed.content, for_content) / addressed.norms  # of the products of keys and places
    for_norms = (slope * addressed.scores).sum(1, keepdim=True).neg() / addressed.norms * (addressed.norms > EPS)
    for_matrix = torch.baddbmm(for_matrix, slope.mT, scaled_keys(inputs))
    for_matrix = torch.addcmul(for_matrix, matrix, for_norms.mT)
    for_scaled = torch.bmm(slope, matrix)
    length = inputs.keys.norm(dim=-1, keepdim=True)
    inside, length = length > EPS, length.clamp_min(EPS)
    for_beta = _sum(for_scaled * inputs.keys) / length
    for_keys = (for_scaled - inputs.keys * (for_beta / length * inside)) * (inputs.beta / length)
    return for_matrix, AddressInputs(for_keys, for_beta, for_previous, for_gate, for_shift, for_gamma)


def _sum(x: Tensor) -> Tensor:
    return x.sum(-1, keepdim=True)


def _through_softmax(p: Tensor, slope: Tensor) -> Tensor:
    """The gradient of the logits."""
    return p * (slope - _sum(p * slope))


def _moves(weights: Tensor, slope: Tensor, moves: int) -> Tensor:
    """The gradient of each move of `rotate`: sum_i slope_i w_{i - move}"""
    reach = moves // 2
    around = torch.cat([weights[..., weights.shape[-1] - reach :], weights, weights[..., :reach]], -1)
    return (around.unfold(-1, weights.shape[-1], 1) * slope.unsqueeze(-2)).sum(-1).flip(-1)
