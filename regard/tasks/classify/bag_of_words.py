"""A bag of words: logistic regression on TF-IDF of words and pairs of neighbours. What a classifier of texts should
reach at least; it takes seconds.

    x_w = n_w log((1 + texts) / (1 + texts with w)), scaled to length 1;  p = softmax(W x + b)"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.learn.optimise import uncompiled

MOST_WORDS = 2_000_000  # and pairs, of the training texts: enough to know what a bag of words is worth
MOST_WEIGHTS = 20_000_000
FEW = 100  # texts; of more, a word that only one of them has is left out
MOST_TESTED = 2000  # texts
C = 10.0  # as in scikit-learn: the larger, the less the weights are pulled to 0
WORD = re.compile(r"\w+|[^\w\s]")


def bag_accuracy(
    train: Sequence[str], train_labels: Sequence[str], test: Sequence[str], test_labels: Sequence[str]
) -> float:
    """In percent, of the test texts."""
    bags = [words_of(text) for text in train]
    while len(bags) > 1 and sum(map(len, bags)) > MOST_WORDS:
        bags, train_labels = bags[::2], train_labels[::2]
    classes = {label: number for number, label in enumerate(sorted(set(train_labels)))}
    targets = torch.tensor([classes[label] for label in train_labels])
    counts = Counter(word for bag in bags for word in set(bag))
    kept = [(word, n) for word, n in counts.most_common(MOST_WEIGHTS // len(classes)) if n > 1 or len(bags) < FEW]
    rarity = {word: math.log((1 + len(bags)) / (1 + n)) + 1 for word, n in kept}
    places = {word: place for place, word in enumerate(rarity)}
    weights = fit(vectors(bags, places, rarity), targets, len(places), len(classes))
    read = vectors([words_of(text) for text in test[:MOST_TESTED]], places, rarity)
    answers = logits(read, *weights).argmax(1).tolist()
    right = [classes.get(label) == answer for label, answer in zip(test_labels, answers, strict=False)]
    return 100 * sum(right) / len(right)


def words_of(text: str) -> list[str]:
    words = WORD.findall(text.lower())
    return [*words, *(f"{first} {second}" for first, second in pairwise(words))]


Bags = tuple[Tensor, Tensor, Tensor]  # places of words (N), where each text begins (B), values (N)


def vectors(bags: Sequence[Sequence[str]], places: dict[str, int], rarity: dict[str, float]) -> Bags:
    """TF-IDF of each text, of the words that have a place."""
    ids: list[int] = []
    begins: list[int] = []
    values: list[float] = []
    for bag in bags:
        tfidf = {word: count * rarity[word] for word, count in Counter(bag).items() if word in places}
        length = math.sqrt(sum(value * value for value in tfidf.values())) or 1.0
        begins.append(len(ids))
        ids += [places[word] for word in tfidf]
        values += [value / length for value in tfidf.values()]
    return torch.tensor(ids, dtype=torch.long), torch.tensor(begins), torch.tensor(values)


def logits(bags: Bags, weight: Tensor, bias: Tensor) -> Tensor:
    ids, begins, values = bags
    return F.embedding_bag(ids, weight, begins, mode="sum", per_sample_weights=values) + bias


@torch.enable_grad()
def fit(bags: Bags, targets: Tensor, words: int, classes: int) -> tuple[Tensor, Tensor]:
    weight, bias = torch.zeros(words, classes, requires_grad=True), torch.zeros(classes, requires_grad=True)
    optimiser = uncompiled(torch.optim.LBFGS)(
        [weight, bias], max_iter=60, history_size=6, line_search_fn="strong_wolfe"
    )

    def loss() -> Tensor:
        optimiser.zero_grad()
        value = F.cross_entropy(logits(bags, weight, bias), targets) + weight.square().sum() / (
            2 * C * len(targets)
        )
        value.backward()
        return value

    optimiser.step(loss)
    return weight.detach(), bias.detach()
