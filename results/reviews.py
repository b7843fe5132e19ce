"""Does the shipped HAN look at the sentence that decides?

    python results/reviews.py        # a minute on two cores

For 1,000 unseen generated reviews: how often the sentence with the most weight is the writer's own, and how often
the word with the most weight in it is the adjective that decides; beside what a random choice would have."""

from __future__ import annotations

import numpy as np

import regard
from regard.data.made.reviews import ADJECTIVES, reviews


def main() -> None:
    adjectives = {word for words in ADJECTIVES.values() for word in words}
    told = reviews("test", 1000)
    sentences, words, chances, word_chances, weights = [], [], [], [], []
    for review, answer in zip(told, regard.load("reviews").classify([review.text for review in told]), strict=True):
        picture = answer.document()
        of_sentences = picture.sentence_weights
        sentences.append(of_sentences.argmax() == review.decides)
        weights.append(of_sentences[review.decides])
        chances.append(1 / len(of_sentences))
        own = picture.sentences[review.decides]
        words.append(own[picture.weights[review.decides].argmax()] in adjectives)
        word_chances.append(1 / len(own))
    print("| | share of reviews, % | by chance |\n|---|---|---|")
    rows = {"the writer's sentence has the most weight": (sentences, chances)}
    rows["the adjective has the most weight in it"] = (words, word_chances)
    for name, numbers in rows.items():
        print(f"| {name} | " + " | ".join(f"{100 * np.mean(shares):.1f}" for shares in numbers) + " |")
    print(f"\nMean weight of the writer's sentence: {np.mean(weights):.3f}")


if __name__ == "__main__":
    main()
