"""Whole trials of `agent.py` on CUDA: one Triton kernel plays all steps.

Step by step a trial is hundreds of tiny kernels for each action. Trials do not depend on one another, so here a
program plays a few of them from the first step to the last: environment, network and choice. It computes in float32
whatever the autocast, products as three of TF32 (error about 1e-6).

Letters: N trials, T steps, W channels of all convolutions' outputs behind those of the first layer, P projections
(query, key, value), C input channels of a layer."""

from __future__ import annotations

import os
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from regard.base.device import on_own_gpu
from regard.base.with_triton import tl, triton
from regard.data.made.environments import Environments, MDPs, World
from regard.models.snail.blocks import AttentionBlock, CausalConv, CausalStack

ROWS = 16  # trials of a program: the fewest that a tensor core multiplies
CHANNELS, PLACES = 32, 16  # of an input in one product; of the memory in one part of a look
WARPS, STAGES = 8, 4
ALIGNED = 4  # sizes of layers are multiples of it: with 7 keys, loads of several numbers were misaligned
WIDEST = 256  # of any layer's output, to bound the registers
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # Triton runs its kernels on a CPU, for tests


@triton.jit
def _dot(x, y, total):
    return tl.dot(x, y, total, input_precision="tf32x3")


@triton.jit
def _product(
    total, x, weight, count, rows, inside,
    WIDTH: tl.constexpr, OUT: tl.constexpr, TILE: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """total + x[rows, :count] @ weight[:count, :OUT]"""
    o = tl.arange(0, TILE)
    for first in range(0, count, CHANNELS):
        c = first + tl.arange(0, CHANNELS)
        part = tl.load(x + rows[:, None] * WIDTH + c[None, :], mask=inside & (c[None, :] < count), other=0.0)
        used = (c[:, None] < count) & (o[None, :] < OUT)
        total = _dot(part, tl.load(weight + c[:, None] * OUT + o[None, :], mask=used, other=0.0), total)
    return total


@triton.jit
def _dense(
    now, before, reached, weight, bias, C, rows, inside,
    WIDTH: tl.constexpr, F: tl.constexpr, TILE: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """tanh(conv_f(x)) * sigmoid(conv_g(x)) of x at this step and, where it was reached, at an earlier one.
    weight (2 C, 2 F): [W_0; W_1], the filters of f and g in turns."""
    o = tl.arange(0, 2 * TILE)[None, :]
    total = tl.zeros((rows.shape[0], 2 * TILE), tl.float32) + tl.load(bias + o, mask=o < 2 * F, other=0.0)
    earlier = tl.zeros((rows.shape[0], 2 * TILE), tl.float32)
    for first in range(0, C, CHANNELS):
        c = first + tl.arange(0, CHANNELS)
        place = rows[:, None] * WIDTH + c[None, :]
        newer = tl.load(now + place, mask=inside & (c[None, :] < C), other=0.0)
        older = tl.load(before + place, mask=reached & (c[None, :] < C), other=0.0)
        used = (c[:, None] < C) & (o < 2 * F)
        at = weight + c[:, None] * (2 * F) + o
        total = _dot(newer, tl.load(at + C * (2 * F), mask=used, other=0.0), total)
        earlier = _dot(older, tl.load(at, mask=used, other=0.0), earlier)
    content, gate = tl.split(tl.reshape(total + earlier, (rows.shape[0], TILE, 2)))
    return (2 * tl.sigmoid(2 * content) - 1) * tl.sigmoid(gate)


@triton.jit
def _look(
    cache, t, N, rows, inside, scale,
    K: tl.constexpr, V: tl.constexpr, KEYS: tl.constexpr, VALUES: tl.constexpr, PLACES: tl.constexpr,
):  # fmt: skip
    """What the query of step t reads of steps 0 .. t, with a running softmax. cache (T, N, P)"""
    P: tl.constexpr = 2 * K + V
    M: tl.constexpr = rows.shape[0]
    k, v = tl.arange(0, KEYS), tl.arange(0, VALUES)
    at_query = cache + t * N.to(tl.int64) * P + rows[:, None] * P + k[None, :]
    query = tl.load(at_query, mask=inside & (k[None, :] < K), other=0.0) * scale
    most = tl.full((M,), float("-inf"), tl.float32)
    total = tl.zeros((M,), tl.float32)
    read = tl.zeros((M, VALUES), tl.float32)
    for first in range(0, t + 1, PLACES):
        place = first + tl.arange(0, PLACES)
        past = (place <= t)[None, :]
        at = cache + (place[None, :] * N.to(tl.int64) + rows[:, None]) * P + K
        here = (past & inside)[:, :, None]
        keys = tl.load(at[:, :, None] + k[None, None, :], mask=here & (k[None, None, :] < K), other=0.0)
        score = tl.where(past, tl.sum(query[:, None, :] * keys, 2), float("-inf"))
        higher = tl.maximum(most, tl.max(score, 1))
        weight = tl.exp(score - higher[:, None])
        values = tl.load(at[:, :, None] + K + v[None, None, :], mask=here & (v[None, None, :] < V), other=0.0)
        shrink = tl.exp(most - higher)
        read = read * shrink[:, None] + tl.sum(weight[:, :, None] * values, 1)
        total = total * shrink + tl.sum(weight, 1)
        most = higher
    return read / total[:, None]


@triton.jit
def _embedded(
    weight, bias, begun, action, reward, state, ended,
    A: tl.constexpr, S: tl.constexpr, D: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """The first layer: its inputs are one-hot but for the reward, so it adds rows of its weight (I, D)."""
    d = tl.arange(0, TILE)[None, :]
    used = d < D
    x = tl.load(bias + d, mask=used, other=0.0) + reward[:, None] * tl.load(
        weight + A * D + d, mask=used, other=0.0
    )
    x += tl.load(weight + action[:, None] * D + d, mask=used & begun, other=0.0)
    if S > 0:
        x += tl.load(weight + (A + 1 + state[:, None]) * D + d, mask=used, other=0.0)
        x += ended * tl.load(weight + (A + 1 + S) * D + d, mask=used, other=0.0)
    return x


@triton.jit
def _choice(logits, chance, A: tl.constexpr, TILE: tl.constexpr, GREEDY: tl.constexpr):
    """As `choose`, or the likeliest."""
    a = tl.arange(0, TILE)[None, :]
    logits = tl.where(a < A, logits, float("-inf"))
    if GREEDY:
        return tl.argmax(logits, 1)
    likely = tl.exp(logits - tl.max(logits, 1)[:, None])
    below = tl.cumsum(likely, 1) < (chance * tl.sum(likely, 1))[:, None]
    return tl.minimum(tl.sum(below.to(tl.int32), 1), A - 1)


@triton.jit
def _convolve(
    now, history, t, moment, weights, biases, N, LAYERS, CYCLE, rows, inside,
    D: tl.constexpr, F: tl.constexpr, WIDTH: tl.constexpr, TILE: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """All dense blocks of step t: each appends its output to what `now` holds of this step."""
    f = tl.arange(0, TILE)[None, :]
    for layer in range(LAYERS):
        C = D + layer * F
        weight = weights + 4 * F * (layer * D + F * (layer * (layer - 1) // 2))
        back = 1 << (layer % CYCLE)
        before = history + (t - back) * N.to(tl.int64) * WIDTH
        y = _dense(
            now, before, inside & (moment >= back), weight, biases + layer * 2 * F, C, rows, inside,
            WIDTH, F, TILE, CHANNELS,
        )  # fmt: skip
        tl.store(now + rows[:, None] * WIDTH + C + f, y, mask=inside & (f < F))
        tl.debug_barrier()  # the next product reads what other threads have stored


@triton.jit
def _environment(
    means, moves, luck, turns, t, place, rows, real, state, action, HORIZON,
    A: tl.constexpr, S: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """The reward of an action, and the state after it; S = 0: a bandit, whose state stays 0."""
    chance = tl.load(luck + place, mask=real, other=0.0)
    if S > 0:
        pair = (rows.to(tl.int64) * S + state) * A + action
        reward = tl.load(means + pair, mask=real, other=0.0) + chance
        s = tl.arange(0, TILE)[None, :]
        row = tl.load(moves + pair[:, None] * S + s, mask=real[:, None] & (s < S), other=2.0)
        turn = tl.load(turns + place, mask=real, other=0.0)
        later = tl.minimum(tl.sum((row < turn[:, None]).to(tl.int32), 1), S - 1)
        state = tl.where((t + 1) % HORIZON == 0, 0, later)
    else:
        reward = (chance < tl.load(means + rows * A + action, mask=real, other=0.0)).to(tl.float32)
    return reward, state


@triton.jit(do_not_specialize=["N"])  # else a single trial is a number of Python's
def _play(
    embed, embed_bias, convs, conv_biases, project, project_bias, policy, policy_bias,
    means, moves, luck, turns, chances, history, cache, actions, rewards, states,
    N, T, LAYERS, CYCLE, HORIZON, scale,
    D: tl.constexpr, F: tl.constexpr, K: tl.constexpr, V: tl.constexpr, A: tl.constexpr, S: tl.constexpr,
    WIDTH: tl.constexpr, TILE_D: tl.constexpr, TILE_F: tl.constexpr, TILE_K: tl.constexpr, TILE_V: tl.constexpr,
    TILE_P: tl.constexpr, TILE_A: tl.constexpr, TILE_S: tl.constexpr, M: tl.constexpr, CHANNELS: tl.constexpr,
    PLACES: tl.constexpr, GREEDY: tl.constexpr,
):  # fmt: skip
    """S: the states of an MDP, 0 for a bandit. history (T, N, W), cache (T, N, P)"""
    P: tl.constexpr = 2 * K + V
    rows = tl.program_id(0) * M + tl.arange(0, M)
    real = rows < N
    inside = real[:, None]
    d, p = tl.arange(0, TILE_D)[None, :], tl.arange(0, TILE_P)[None, :]
    a, v = tl.arange(0, TILE_A)[None, :], tl.arange(0, TILE_V)[:, None]
    action, state, reward = tl.zeros((M,), tl.int32), tl.zeros((M,), tl.int32), tl.zeros((M,), tl.float32)
    for t in range(T):
        now = history + t * N.to(tl.int64) * WIDTH
        ended = ((t > 0) & (t % HORIZON == 0)).to(tl.float32)
        moment = tl.zeros((M, 1), tl.int32) + t
        x = _embedded(embed, embed_bias, moment > 0, action, reward, state, ended, A, S, D, TILE_D)
        tl.store(now + rows[:, None] * WIDTH + d, x, mask=inside & (d < D))
        tl.debug_barrier()  # the next product reads what other threads have stored
        _convolve(
            now, history, t, moment, convs, conv_biases, N, LAYERS, CYCLE, rows, inside,
            D, F, WIDTH, TILE_F, CHANNELS,
        )  # fmt: skip
        projected = tl.zeros((M, TILE_P), tl.float32) + tl.load(project_bias + p, mask=p < P, other=0.0)
        projected = _product(projected, now, project, WIDTH, rows, inside, WIDTH, P, TILE_P, CHANNELS)
        tl.store(cache + t * N.to(tl.int64) * P + rows[:, None] * P + p, projected, mask=inside & (p < P))
        tl.debug_barrier()
        read = _look(cache, t, N, rows, inside, scale, K, V, TILE_K, TILE_V, PLACES)
        logits = tl.zeros((M, TILE_A), tl.float32) + tl.load(policy_bias + a, mask=a < A, other=0.0)
        logits = _product(logits, now, policy, WIDTH, rows, inside, WIDTH, A, TILE_A, CHANNELS)
        of_read = tl.load(policy + (WIDTH + v) * A + a, mask=(v < V) & (a < A), other=0.0)
        logits = _dot(read, of_read, logits)
        place = rows * T + t
        action = _choice(logits, tl.load(chances + place, mask=real, other=0.5), A, TILE_A, GREEDY)
        tl.store(actions + place, action.to(tl.int64), mask=real)
        tl.store(states + place, state.to(tl.int64), mask=real)
        reward, state = _environment(
            means, moves, luck, turns, t, place, rows, real, state, action, HORIZON, A, S, TILE_S
        )
        tl.store(rewards + place, reward, mask=real)


class Agent(Protocol):
    """What the kernel plays: the parts of a SNAILAgent."""

    embed: nn.Linear
    blocks: CausalStack
    policy: nn.Linear

    @property
    def environments(self) -> Environments: ...


class Sizes(NamedTuple):
    """The sizes of each layer's output; `states` is 0 for a bandit."""

    dim: int
    filters: int
    keys: int
    values: int
    actions: int
    states: int


def fits(agent: Agent) -> bool:
    """Whether the kernel plays this agent: on a GPU (or in Triton's interpreter), in float32, of common sizes."""
    weight, (sizes, convs, look) = agent.policy.weight, _parts(agent)
    widest = max(*sizes, len(look.project.weight))
    used = (sizes.dim, sizes.keys, sizes.values, *([sizes.filters] if convs else []))
    aligned = not any(size % ALIGNED for size in used)
    return weight.dtype == torch.float32 and widest <= WIDEST and aligned and (weight.is_cuda or INTERPRETED)


@on_own_gpu
def play(agent: Agent, world: World, chances: Tensor, *, greedy: bool) -> tuple[Tensor, Tensor, Tensor]:
    """One trial in each environment, with uniform numbers (N, T): states, actions and rewards (N, T)."""
    kind, (count, steps), (sizes, convs, look) = agent.environments, chances.shape, _parts(agent)
    empty, projected = look.project.weight.new_empty, len(look.project.weight)
    weights = torch.cat([_turns(x.weight).mT.flatten() for x in convs]) if convs else empty(0)
    biases = torch.cat([_turns(x.bias) for x in convs]) if convs else empty(0)
    width = look.width - look.values
    actions, states = (torch.empty_like(chances, dtype=torch.int64) for _ in range(2))
    rewards = torch.empty_like(chances)
    tiles = (*sizes[:4], projected, sizes.actions, sizes.states)
    _play[(triton.cdiv(count, ROWS),)](
        *(agent.embed.weight.mT.contiguous(), agent.embed.bias, weights, biases),
        *(look.project.weight.mT.contiguous(), look.project.bias),
        *(agent.policy.weight.mT.contiguous(), agent.policy.bias),
        *(x.contiguous() for x in (world.rewards, world.moves, world.luck, world.turns, chances)),
        *(empty(steps, count, width), empty(steps, count, projected), actions, rewards, states),
        *(count, steps, len(convs), max(1, len(convs) // max(1, len(agent.blocks) - 1))),
        *(kind.horizon if isinstance(kind, MDPs) else steps + 1, look.keys**-0.5),
        *(*sizes, width),
        *(max(16, triton.next_power_of_2(x)) for x in tiles),
        *(ROWS, CHANNELS, PLACES, greedy),
        num_warps=WARPS,
        num_stages=STAGES,
    )
    return states, actions, rewards


def _parts(agent: Agent) -> tuple[Sizes, list[CausalConv], AttentionBlock]:
    """The sizes, the convolutions in their order, and the look behind them."""
    kind, look = agent.environments, agent.blocks[-1]
    convs = [part for part in agent.blocks.modules() if isinstance(part, CausalConv)]
    assert isinstance(look, AttentionBlock)
    filters = convs[0].out_features // 2 if convs else 1
    states = kind.states if isinstance(kind, MDPs) else 0
    return Sizes(agent.embed.out_features, filters, look.keys, look.values, kind.actions, states), convs, look


def _turns(x: Tensor) -> Tensor:
    """The two halves of the rows in turns: 0, n, 1, n + 1 .."""
    return x.unflatten(0, (2, -1)).transpose(0, 1).flatten(0, 1)
