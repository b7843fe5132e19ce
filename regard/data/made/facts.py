"""A generated set of questions: short paragraphs of facts about people and towns, and questions whose answer stands
in the paragraph.

    Nora works as a baker. The market in Prague was built in 1874. Oskar Lindberg lives in Delm.
    Where does Oskar live?    ->  Delm

A paragraph tells facts of the same kind about others too, so the kind of answer is not enough: a reader must find
the sentence that the question is about, by a name or by what it says. A fact is asked from every side (who, where,
when, what). Names are common ones, or made up of syllables; a made-up name of one split is in no other. Every
question has an answer."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from regard.data.made.splits import generator_of, split_of
from regard.data.text.questions import AnswerIn, Question


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


FIRST = words(
    "Ada Alice Amir Anna Arthur Astrid Bella Ben Bruno Carla Carlos Cecilia Chen Clara Daniel David Diana Edith "
    "Elena Elias Ella Emil Emma Erik Eva Felix Fiona Frank Frida George Grace Greta Hana Hannah Harry Helen Henry "
    "Hugo Ida Igor Ines Irene Isaac Ivan Jack Jana Jane John Jonas Julia Karl Kate Kenji Laila Lara Laura Leo "
    "Lena Linda Lisa Louis Lucy Luis Maja Maria Mark Martha Martin Mary Max Mia Michael Mila Miriam Mona Nadia "
    "Nina Noah Nora Olga Oliver Omar Oskar Otto Paul Paula Peter Petra Philip Rachel Rita Robert Rosa Ruth Samir "
    "Sara Simon Sofia Stefan Susan Teresa Thomas Tim Tom Vera Victor Walter Yusuf Zoe"
)
LAST = words(
    "Adler Bauer Becker Berg Brown Clark Costa Dahl Evans Fischer Garcia Green Haas Hansen Hill Hoffman Holm "
    "Jensen Jones Kaya Keller Khan Klein Lang Larsen Lee Lindberg Lopez Marek Meyer Miller Moreau Nagy Nilsen "
    "Novak Olsen Park Peters Rossi Sato Schmidt Silva Singh Smith Stone Taylor Vogel Wagner Walker Weber White "
    "Wolf Wood Young"
)
TOWNS = words(
    "Amsterdam Athens Barcelona Basel Bergen Berlin Bern Boston Bremen Brussels Budapest Cairo Chicago Cologne "
    "Copenhagen Cork Dallas Delhi Dublin Florence Geneva Genoa Ghent Glasgow Graz Hamburg Helsinki Istanbul "
    "Krakow Kyoto Leeds Leipzig Lima Lisbon London Lyon Madrid Malmo Milan Moscow Munich Nairobi Naples Nice "
    "Osaka Oslo Oxford Paris Porto Prague Riga Rome Seoul Seville Sofia Stockholm Sydney Tallinn Tokyo Toronto "
    "Turin Utrecht Venice Vienna Vilnius Warsaw York Zagreb Zurich"
)
JOBS = words(
    "baker carpenter cook dancer dentist doctor driver farmer gardener judge lawyer librarian mechanic miner "
    "nurse painter pilot plumber poet sailor shepherd singer soldier tailor teacher waiter"
)
ANIMALS = words(
    "cat dog donkey duck fish frog goat goose hamster hen horse mouse parrot pig rabbit sheep snake turtle"
)
COLOURS = words("black blue brown golden green grey pink purple red silver white yellow")
FOOD = words(
    "apples beans bread butter carrots cheese cherries chocolate fish grapes honey lemons nuts onions pancakes "
    "pears plums potatoes rice soup"
)
INSTRUMENTS = words("cello drums flute guitar harp horn organ piano saxophone trombone trumpet violin")
THINGS = words(
    "basket bicycle book bottle camera candle chair clock coat cup guitar hat key knife lamp map mirror ring "
    "scarf shirt spoon table ticket umbrella watch"
)
BUILDINGS = words("bridge castle church harbour hospital library market museum school station theatre tower")
PARTS = words("bridges churches gardens hotels libraries markets museums parks schools squares stations towers")
GOODS = words("apples books bottles candles chairs cups eggs lamps lemons pears plates roses shirts spoons stamps")
ONSETS = words("b br d dr f fl g gr h j k kl l m n p pr r s sk st t tr v z")
VOWELS = words("a e i o u")
ENDS = {"person": words("l n r s k m o a i e"), "town": words("burg dorf ford ham holm mar ona stad vik ville")}
HOURS = ("o'clock", "in the morning", "in the evening")

MADE_UP = 0.15  # the share of names that are made of syllables
FULL_NAMES = 0.2  # the share of people with a second name, by which a question may call them too
SENTENCES = (2, 4)

# Each kind of fact: its sentence, with places by name, and what is asked of it: question -> what answers it.
FACTS: tuple[tuple[str, dict[str, str]], ...] = (
    ("{p} lives in {t}.", {"Where does {p} live?": "{t}", "Who lives in {t}?": "{p}"}),
    (
        "{p} was born in {t} in {y}.",
        {
            "Where was {p} born?": "{t}",
            "When was {p} born?": "{y}",
            "Who was born in {t}?": "{p}",
            "Who was born in {y}?": "{p}",
        },
    ),
    (
        "{p} works as a {job}.",
        {"What does {p} work as?": "{job}", "What is the job of {p}?": "{job}", "Who is a {job}?": "{p}"},
    ),
    ("{p} is {n} years old.", {"How old is {p}?": "{n}", "Who is {n} years old?": "{p}"}),
    (
        "{p} has a {c} {animal}.",
        {
            "Which animal does {p} have?": "{animal}",
            "What colour is the {animal}?": "{c}",
            "What does {p} have?": "a {c} {animal}",
            "Who has the {animal}?": "{p}",
        },
    ),
    (
        "{p} plays the {i}.",
        {"What does {p} play?": "the {i}", "Which instrument does {p} play?": "{i}", "Who plays the {i}?": "{p}"},
    ),
    ("{p} likes {food}.", {"What does {p} like?": "{food}", "Who likes {food}?": "{p}"}),
    (
        "{p} bought {n} {goods}.",
        {
            "What did {p} buy?": "{n} {goods}",
            "How many {goods} did {p} buy?": "{n}",
            "Who bought {goods}?": "{p}",
        },
    ),
    (
        "{p} gave the {thing} to {q}.",
        {
            "What did {p} give to {q}?": "the {thing}",
            "Who gave the {thing} to {q}?": "{p}",
            "Who got the {thing}?": "{q}",
            "What did {q} get?": "the {thing}",
        },
    ),
    (
        "In {y} {p} travelled to {t}.",
        {"Where did {p} travel?": "{t}", "When did {p} travel to {t}?": "{y}", "Who travelled to {t}?": "{p}"},
    ),
    (
        "The {building} in {t} was built in {y}.",
        {
            "When was the {building} in {t} built?": "{y}",
            "What was built in {y}?": "The {building} in {t}",
            "Where is the {building}?": "{t}",
        },
    ),
    (
        "The train to {t} leaves at {hour}.",
        {"When does the train to {t} leave?": "at {hour}", "Where does the train at {hour} go?": "{t}"},
    ),
    ("{t} has {n} {parts}.", {"How many {parts} does {t} have?": "{n}", "Which town has {n} {parts}?": "{t}"}),
)

PLACES = re.compile(r"{(\w+)}")
WORDS = {  # what stands in a place
    "job": JOBS,
    "animal": ANIMALS,
    "c": COLOURS,
    "i": INSTRUMENTS,
    "food": FOOD,
    "goods": GOODS,
    "thing": THINGS,
    "building": BUILDINGS,
    "parts": PARTS,
}


class Fact(NamedTuple):
    kind: int
    sentence: str
    values: dict[str, tuple[str, ...]]  # by the names of the places; a name has several forms, as it stands first


def facts(split: str, count: int, *, seed: int = 0) -> list[Question]:
    """A larger count begins with the questions of a smaller count."""
    dice = generator_of("facts", split, count, seed)
    made: list[Question] = []
    while len(made) < count:
        question = _question(split, dice)
        if split_of(question.context) == split:
            made.append(question)
    return made


def paragraphs(split: str, count: int, *, seed: int = 0) -> list[str]:
    """The same questions as lines of text: the question, the sentence that answers it, and the others."""
    made = []
    for row in facts(split, count, seed=seed):
        sentences = row.context.replace(". ", ".\n").split("\n")
        answering = row.context.count(". ", 0, row.answers[0].start)
        first = sentences.pop(answering)
        made.append("\n".join([row.text, first, *sentences]))
    return made


def _question(split: str, dice: random.Random) -> Question:
    told = _paragraph(split, dice)
    asked = dice.randrange(len(told))
    fact = told[asked]
    sentence, questions = FACTS[fact.kind]
    form, place = dice.choice([*questions.items()])
    question = form.format(**{name: dice.choice(forms) for name, forms in fact.values.items()})
    values = {name: forms[0] for name, forms in fact.values.items()}
    before = sum(len(fact.sentence) + 1 for fact in told[:asked])
    begin = before + len(sentence[: sentence.index(place)].format(**values))
    answer = AnswerIn(place.format(**values), begin)
    return Question(" ".join(fact.sentence for fact in told), question, (answer,))


def _paragraph(split: str, dice: random.Random) -> list[Fact]:
    """Facts of few kinds about few people; nothing is told twice, and no value is used twice."""
    used: set[str] = set()
    people = [_person(split, dice, used) for _ in range(dice.randint(2, 3))]
    kinds = dice.sample(range(len(FACTS)), dice.randint(2, 3))
    pairs = [(kind, person) for kind in kinds for person in people]
    told = dice.sample(pairs, min(len(pairs), dice.randint(*SENTENCES)))
    return [_fact(kind, person, split, dice, used) for kind, person in told]


def _fact(kind: int, person: tuple[str, ...], split: str, dice: random.Random, used: set[str]) -> Fact:
    sentence, _ = FACTS[kind]
    values: dict[str, tuple[str, ...]] = {}
    for place in PLACES.findall(sentence):
        if place == "p":
            values[place] = tuple(dice.sample(person, len(person)))
        elif place == "q":
            values[place] = _person(split, dice, used)
        else:
            values[place] = (_new(partial(_value, place, split, dice), used),)
    return Fact(kind, sentence.format(**{name: forms[0] for name, forms in values.items()}), values)


def _person(split: str, dice: random.Random, used: set[str]) -> tuple[str, ...]:
    """A first name, and for some the full name too."""
    first = _new(lambda: _name(FIRST, "person", split, dice), used)
    if dice.random() >= FULL_NAMES:
        return (first,)
    return first, f"{first} {_new(lambda: dice.choice(LAST), used)}"


def _value(place: str, split: str, dice: random.Random) -> str:
    match place:
        case "t":
            return _name(TOWNS, "town", split, dice)
        case "n":
            return str(dice.randint(2, 99))
        case "y":
            return str(dice.randint(1800, 2020))
        case "hour":
            return f"{dice.randint(1, 12)} {dice.choice(HOURS)}"
    return dice.choice(WORDS[place])


def _name(common: tuple[str, ...], kind: str, split: str, dice: random.Random) -> str:
    if dice.random() >= MADE_UP:
        return dice.choice(common)
    while True:
        syllables = "".join(dice.choice(ONSETS) + dice.choice(VOWELS) for _ in range(dice.randint(1, 2)))
        name = (syllables + (dice.choice(ENDS[kind]))).capitalize()
        if split_of(name) == split:
            return name


def _new(draw: Callable[[], str], used: set[str]) -> str:
    """A value that the paragraph does not have yet."""
    while (value := draw()) in used:
        pass
    used.add(value)
    return value
