r"""Heads, and what "it" means

"The animal didn't cross the street because it was too *tired*": `it` is the animal. "... because it was too
*wide*": now it is the street. One word at the end decides, so whoever reads `it` has to look at both. A layer
with several heads looks several times at once, each head in its own way.

$$head_j = attend(X W_j^Q, X W_j^K, X W_j^V), \quad out = [head_1; \ldots; head_h]\, W^O$$

An encoder of two layers with four heads each is trained now, on made-up sentences of this kind. It is asked
one thing: which noun does `it` stand for?

Try: Type the sentence with `hungry` or `narrow` at the end. Does `it` look elsewhere?

In the package: `answer.heads()` and `--sites '*'` draw every head of any model, also of pretrained ones:
`regard.load` of a BERT folder. `results/coreference.md` asks this question of a real encoder, and its answer
is sobering: the best head is right in 56 % of real sentences, with 50 by chance."""

from __future__ import annotations

from functools import cache

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from regard.attention import MultiHead, trace
from regard.layers.block import Block
from regard.layers.positions import sinusoids
from regard.show import Curves, Heads, Table

BEINGS, PLACES = ["animal", "dog", "horse", "child", "cat"], ["street", "river", "bridge", "road", "field"]
ABOUT_BEINGS = ["tired", "hungry", "afraid", "lazy", "sick"]
ABOUT_PLACES = ["wide", "narrow", "deep", "steep", "busy"]
FORM = "the {} didn't cross the {} because it was too {}"
WORDS = sorted({*FORM.replace("{}", "").split(), *BEINGS, *PLACES, *ABOUT_BEINGS, *ABOUT_PLACES})
IT = FORM.split().index("it")
STEPS = 220


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
def trained(heads: int) -> tuple[Reader, list[float]]:
    """The reader, and the share of right answers every ten steps."""
    torch.manual_seed(3)
    model = Reader(heads)
    optimiser, right = torch.optim.Adam(model.parameters(), lr=2e-3), []
    for _ in range(STEPS):
        words, meant = sentences(64)
        logits, noun = model(words), words.gather(1, meant[:, None])[:, 0]
        optimiser.zero_grad()
        cross_entropy(logits, noun).backward()
        optimiser.step()
        right.append((logits.argmax(1) == noun).float().mean().item())
    return model.eval(), [sum(right[at : at + 10]) / 10 for at in range(0, STEPS, 10)]


def looks_of(text: str) -> dict[str, torch.Tensor]:
    """The weights of every head for one sentence."""
    model, _ = trained(4)
    words = torch.tensor([[WORDS.index(word) if word in WORDS else 0 for word in text.lower().split()]])
    with trace(model) as seen, torch.no_grad():
        model(words)
    return {site: seen[site][0] for site in seen.sites}


def what_it_looks_at(text: str = "the animal didn't cross the street because it was too tired") -> Heads:
    """The row of `it` alone, head by head. In the second layer look at head 0: it gives nearly all to
    `animal`. It has become the head that finds the one who is tired."""
    words = text.split()
    at = words.index("it") if "it" in words else len(words) - 1
    return Heads({site: heads[:, at : at + 1] for site, heads in looks_of(text).items()}, [words[at]], words)


def now_it_is_wide(text: str = "the animal didn't cross the street because it was too wide") -> Heads:
    """One word has changed. Head 0 of the second layer no longer looks at `animal`; now head 2 gives nearly
    all to `street`. The two have shared the work: one finds beings, the other places."""
    return what_it_looks_at(text)


def heads_scored() -> Table:
    """Every head over 200 sentences drawn anew: what share of the row of `it` goes to the noun that is meant,
    to the other noun, to the neighbours `because` and `was`, and to the last word. A head that gives the noun
    that is meant more than twice of what it gives the other follows the *entity*; the others follow the
    *syntax*: they look where nouns stand, whatever is meant."""
    torch.manual_seed(77)
    model, _ = trained(4)
    words, meant = sentences(200)
    with trace(model) as seen, torch.no_grad():
        noun = words.gather(1, meant[:, None])[:, 0]
        right = (model(words).argmax(1) == noun).float().mean().item()
    rows = []
    for site in seen.sites:
        for head in range(4):
            row = seen[site][:, head, IT]  # (sentences, words)
            entity, other = (row.gather(1, place[:, None]).mean().item() for place in (meant, 6 - meant))
            near, end = row[:, [IT - 1, IT + 1]].sum(1).mean().item(), row[:, -1].mean().item()
            rows.append(
                {
                    "head": f"{site}, {head}",
                    "the noun meant": entity,
                    "the other noun": other,
                    "neighbours": near,
                    "last word": end,
                    "follows": "entity" if entity > 2 * other else "syntax",
                }
            )
    return Table(rows, notes=f"what it means is told right in {100 * right:.1f} % of these sentences", digits=2)


def one_head_against_eight() -> Curves:
    """One head or eight, with the same number of weights: the projections have the same size, and are only
    cut into more parts. One head has one look in each layer for everything, and takes longer to find out what
    to look at."""
    steps = list(range(10, STEPS + 1, 10))
    return Curves({f"{heads} heads" if heads > 1 else "1 head": (steps, trained(heads)[1]) for heads in (1, 8)},
                  "What does it mean?", "training step", "right", from_zero=True)  # fmt: skip


def equal_parameters() -> Table:
    """The count: heads cost nothing."""
    return Table(
        [
            {"heads": heads, "weights": sum(part.numel() for part in MultiHead(32, heads).parameters())}
            for heads in (1, 2, 4, 8)
        ]
    )
