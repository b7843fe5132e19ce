"""A generated set of documents: short reviews of several sentences, one of which says what the writer thought.

The other sentences tell facts, or what other people thought, who may disagree. Counting good and bad words does not
help: a reader must find the writer's own sentence, and see whether it is negated."""

from __future__ import annotations

import random
from typing import NamedTuple

from regard.data.made.splits import generator_of, split_of

LABELS = ("positive", "negative")
ADJECTIVES = {
    "positive": [
        "wonderful",
        "superb",
        "charming",
        "brilliant",
        "delightful",
        "clever",
        "moving",
        "funny",
        "gripping",
        "splendid",
        "warm",
        "lovely",
    ],
    "negative": [
        "dreadful",
        "awful",
        "boring",
        "dull",
        "clumsy",
        "silly",
        "tedious",
        "poor",
        "lifeless",
        "terrible",
        "cold",
        "hollow",
    ],
}
OWN = (
    "I thought it was {word}.",
    "For me it was {word} from beginning to end.",
    "We found it {word}.",
    "In the end I can only call it {word}.",
    "To me {thing} was {word}.",
    "I have rarely seen anything so {word}.",
    "I went home thinking how {word} it had been.",
)
NEGATED = (
    "I did not find it {word} at all.",
    "I would never call it {word}.",
    "To me {thing} was anything but {word}.",
    "We could not see what should be {word} about it.",
)
OTHERS = (
    "My {person} thought it was {word}.",
    "The critics called it {word}.",
    "My {person} had told me it would be {word}.",
    "The woman beside me did not find it {word}.",
    "According to the poster it is {word}.",
    "Somebody behind us said how {word} {thing} was.",
    "My {person} would never call it {word}.",
)
FACTS = (
    "It lasted {number} minutes.",
    "We sat in row {number}.",
    "There were {number} people in the room.",
    "It was shown on a {day}.",
    "We took the bus home.",
    "The interval came after {number} minutes.",
    "It was raining when we left.",
    "The tickets were {number} crowns each.",
    "I went there with my {person}.",
    "They show it again on {day}.",
    "The story begins on a {day} in winter.",
)
PEOPLE = ["brother", "sister", "neighbour", "colleague", "teacher", "friend", "father", "aunt", "dentist"]
THINGS = ["the film", "the play", "the story", "the music", "the whole evening"]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


class Review(NamedTuple):
    text: str
    label: str
    decides: int  # the index of the sentence that does


def reviews(split: str, count: int, *, seed: int = 0) -> list[Review]:
    """Labels take turns. A larger count begins with the reviews of a smaller count."""
    dice = generator_of("reviews", split, count, seed)
    made: list[Review] = []
    while len(made) < count:
        review = _review(LABELS[len(made) % 2], dice)
        if split_of(review.text) == split:
            made.append(review)
    return made


def _review(label: str, dice: random.Random) -> Review:
    sentences = [_filled(dice.choice(FACTS), dice.choice(LABELS), dice) for _ in range(dice.randint(2, 5))]
    sentences += [_filled(dice.choice(OTHERS), dice.choice(LABELS), dice) for _ in range(dice.randint(1, 3))]
    dice.shuffle(sentences)
    negated = dice.random() < 0.3
    other = LABELS[1 - LABELS.index(label)]
    own = _filled(dice.choice(NEGATED if negated else OWN), other if negated else label, dice)
    decides = dice.randint(0, len(sentences))
    sentences.insert(decides, own)
    return Review(" ".join(sentences), label, decides)


def _filled(form: str, opinion: str, dice: random.Random) -> str:
    return form.format(
        word=dice.choice(ADJECTIVES[opinion]),
        person=dice.choice(PEOPLE),
        thing=dice.choice(THINGS),
        day=dice.choice(DAYS),
        number=dice.randint(2, 180),
    )
