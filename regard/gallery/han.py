r"""Which sentence decides

A long review is read in two steps. In each sentence, words are weighed and summed to a vector of the
sentence; then the sentences are weighed and summed to a vector of the review, from which its class is told.
Both use the same attention: a learned vector $u$ asks "is this important?"

$$u_i = tanh(W h_i + b), \quad a_i = softmax_i(u_i \cdot u), \quad s = \sum_i a_i h_i$$

The model shown here comes with the package. It read generated reviews, in which one sentence tells whether
the writer liked it.

Try: Type "It was not lovely." and then "It was not bad." behind a few sentences about something else.

In the package: The systems `han` and, for texts without sentences, `pooling` (attention, mean or maximum);
`regard classify reviews "..." --show -`; `results/documents.md` has IMDB, and what the mean of all words
reaches instead."""

from __future__ import annotations

import regard
from regard.data.made.reviews import reviews
from regard.show import Document, Table

REVIEW = "We went there on a Monday. The room had two windows. Everything about it was lovely. We paid by card."


def words_and_sentences(text: str = REVIEW) -> Document:
    """One review. The bar before a sentence is its weight, and words are shaded by theirs, within their
    sentence. Nearly all the weight is on the third sentence, the only one with an opinion, and in it on
    `lovely`."""
    return regard.load("reviews").classify(text).document()


def what_it_says(text: str = REVIEW) -> Table:
    """The class, with its probability."""
    told = regard.load("reviews").classify(text).probabilities
    return Table([{"class": name, "percent": 100 * share} for name, share in told.items()], digits=1)


def one_sentence_at_a_time() -> Table:
    """The test of an explanation: leave the sentence out. Without the one that has the weight the model has
    nothing to go by; without any of the others little changes."""
    run = regard.load("reviews")
    sentences = [f"{part.strip()}." for part in REVIEW.split(".") if part.strip()]
    whole = run.classify(REVIEW).probabilities
    best = next(iter(whole))
    rows = [{"left out": "nothing", best: 100 * whole[best]}]
    for at, sentence in enumerate(sentences):
        rest = " ".join(sentences[:at] + sentences[at + 1 :])
        rows.append({"left out": sentence, best: 100 * run.classify(rest).probabilities[best]})
    return Table(rows, digits=1)


def over_many_reviews() -> Table:
    """Is it always so? Of 200 generated reviews: how many are told right."""
    made = reviews("test", 200)
    told = regard.load("reviews").classify([review.text for review in made])
    right = sum(answer.label == review.label for answer, review in zip(told, made, strict=True))
    return Table([{"reviews": len(made), "told right": right}])
