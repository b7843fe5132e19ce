"""Attention as a function, beside the module `Attend`: nothing to build, nothing to learn.

    read = attention(query, keys, values, score="additive", mask=mask)
    weights = look(query, keys, values, score="additive", mask=mask).weights

A score by name has no weights of its own: project query and keys first, as for torch's
`scaled_dot_product_attention`. A score or weighing with weights is a module, made once and passed as it is:
`score=General(16, 32)`, `weigh=LocalPredictive(16, window=3)`. `trace` sees modules only, so not these calls."""

from __future__ import annotations

from torch import Tensor

from regard.attention.attend import Attend, Look
from regard.attention.kernels.additive import exponentials, sum_of_tanh
from regard.attention.memory import Memory
from regard.attention.question import Question
from regard.attention.score import SCORES, Cosine, Dot, ScaledDot, Score
from regard.attention.shapes import check_width
from regard.attention.weigh import WAYS, Hard, Weigh
from regard.errors import BadInput, WrongArgument


class PlainAdditive(Dot):
    """sum_d tanh(q_d + k_d): the additive score of a query and keys that are already projected (W q and U k), with
    v = 1, as Keras' AdditiveAttention(use_scale=False)."""

    inner = False

    def query(self, question: Question) -> Tensor:
        return exponentials(question.query)

    def keys(self, keys: Tensor) -> Tensor:
        return exponentials(keys)

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        return sum_of_tanh(query, keys, query.new_ones(query.shape[-1]))


class PlainCosine(Cosine):
    """cos(q, k): the cosine score with beta = 1."""

    def __init__(self, query_dim: int, key_dim: int):
        super().__init__(query_dim, key_dim, beta=1.0)


PLAIN: dict[str, type[Dot]] = {
    "dot": Dot,
    "scaled_dot": ScaledDot,
    "additive": PlainAdditive,
    "cosine": PlainCosine,
}


def attention(
    query: Tensor,
    keys: Tensor,
    values: Tensor | None = None,
    *,
    score: str | Score = "scaled_dot",
    weigh: str | Weigh = "soft",
    mask: Tensor | None = None,
    query_mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
) -> Tensor:
    """What each query (B, .., Q, D) reads from the values (B, .., K, V), which default to the keys (B, .., K, D).

    score: "dot", "scaled_dot", "additive" (sum of tanh(q + k)), "cosine" (with another factor than 1:
    `Cosine(D, D, beta=5.0)`), or a Score. weigh: "soft", "hard" (the most likely place), or a Weigh. mask (B, K),
    True = may look; query_mask, the same for each query, (Q, K), (B, Q, K) or (B, H, Q, K); bias, a float of such a
    shape, is added to the scores."""
    attend, question, memory = _prepared(query, keys, values, score, weigh, mask, query_mask, bias, causal)
    read: Tensor = attend(question, memory)
    return read


def look(
    query: Tensor,
    keys: Tensor,
    values: Tensor | None = None,
    *,
    score: str | Score = "scaled_dot",
    weigh: str | Weigh = "soft",
    mask: Tensor | None = None,
    query_mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
) -> Look:
    """As `attention`, with the weights (`.weights`) and scores of the read (`.read`)."""
    attend, question, memory = _prepared(query, keys, values, score, weigh, mask, query_mask, bias, causal)
    return attend.look(question, memory)


def _prepared(
    query: Tensor,
    keys: Tensor,
    values: Tensor | None,
    score: str | Score,
    weigh: str | Weigh,
    mask: Tensor | None,
    query_mask: Tensor | None,
    bias: Tensor | None,
    causal: bool,
) -> tuple[Attend, Question, Memory]:
    # Not by `checked`: this is traced by torch.compile and torch.export.
    tensors = {"query": query, "keys": keys, "values": values, "mask": mask, "query_mask": query_mask, "bias": bias}
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor) and (tensor is not None or name in ("query", "keys")):
            raise WrongArgument(f"{name} must be a tensor, got {type(tensor).__name__}")
    for name, given, kind in (("score", score, Score), ("weigh", weigh, Weigh)):
        if not isinstance(given, str | kind):
            raise WrongArgument(f"{name} must be a name or a {kind.__name__}, got {type(given).__name__}")
    if type(causal) is not bool:
        raise WrongArgument(f"causal must be True or False, got {type(causal).__name__}")
    for name, tensor in (("query", query), ("keys", keys)):
        if not tensor.dim():  # other shapes are checked where they are used
            check_width(name, tensor, None)
        if not tensor.is_floating_point():
            raise BadInput(f"{name} must be floats, got {tensor.dtype}")
    if isinstance(score, str):
        score = _plain_score(score, query.shape[-1], keys.shape[-1])
    if isinstance(weigh, str):
        weigh = _plain_weigh(weigh)
    attend = Attend(score, weigh, causal=causal)
    return attend, Question(query, mask=query_mask, bias=bias), attend.remember(keys, values, mask)


def _plain_score(name: str, query_dim: int, key_dim: int) -> Score:
    if name in PLAIN:
        return PLAIN[name](query_dim, key_dim)
    if name in SCORES:
        raise BadInput(
            f"the score {name!r} has weights to learn, and a function keeps none; make it once, score = "
            f"build_score({name!r}, {query_dim}, {key_dim}, max_positions=...), and pass score=score"
        )
    raise BadInput(f"unknown score {name!r}; there are {', '.join(PLAIN)}, or pass a Score")


def _plain_weigh(name: str) -> Weigh:
    if name == "soft":
        return Weigh()
    if name == "hard":
        return Hard().eval()
    if name in WAYS:
        raise BadInput(
            f"the weighing {name!r} needs a window; make it once, weigh = build_weigh({name!r}, query_dim, "
            "window=...), and pass weigh=weigh"
        )
    raise BadInput(f"unknown way to weigh {name!r}; there are soft and hard, or pass a Weigh")
