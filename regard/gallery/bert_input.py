r"""BERT's input

BERT reads two sentences at once: `[CLS] my dog is cute [SEP] he likes play ##ing [SEP]`. Each token gets
three vectors, which are added: which token it is, which sentence it is in (A or B), and where it stands.

$$x_i = token_i + segment_i + position_i$$

It learns from text alone, by two tasks. Some tokens are hidden, and it has to find them. And it has to say
whether B really follows A, or comes from elsewhere.

Try: Type two sentences of your own into *Three vectors each*, as "the cat sat [SEP] it slept". Which columns
of the picture change where A ends?

In the package: The system `bert`; `regard/data/text/masking.py` prepares both tasks, counted here; `regard train
bert-text` learns from a text of your own, `regard fill` asks for hidden words."""

from __future__ import annotations

from collections import Counter

import torch
from torch import nn

from regard.data.text.masking import MaskedData, encode_sentences
from regard.data.text.tokenizer import Tokenizer
from regard.show import Barcode, Table

SENTENCES = "my dog is cute [SEP] he likes play ##ing"


def tokens_of(text: str) -> tuple[list[str], list[int]]:
    """Two sentences with their marks, and for each token the number of its sentence."""
    first, _, second = text.partition("[SEP]")
    a, b = ["[CLS]", *first.split(), "[SEP]"], [*second.split(), "[SEP]"]
    return a + b, [0] * len(a) + [1] * len(b)


def the_row(text: str = "my dog is cute [SEP] he likes play ##ing") -> Table:
    """The row, token by token. `[CLS]` is read for answers about the whole, `[SEP]` ends a sentence, and
    `##ing` goes on where `play` ends: rare words are written in pieces. All tokens up to the first `[SEP]`
    are of segment A."""
    tokens, segments = tokens_of(text)
    rows = zip(tokens, segments, strict=True)
    return Table([{"token": word, "segment": "AB"[part], "position": at} for at, (word, part) in enumerate(rows)])


def three_vectors_each(text: str = "my dog is cute [SEP] he likes play ##ing") -> Barcode:
    """The same as a picture: a row for each token, a column for each number of its vectors. BERT reads the part at
    the right, the sum of the other three. In `segment` there are two kinds of rows only, A and B. Look at both
    rows `[SEP]`: under `token` they are equal, and their sums are not."""
    tokens, segments = tokens_of(text)
    torch.manual_seed(0)
    names = list(dict.fromkeys(tokens))
    token, segment, position = (nn.Embedding(count, 12) for count in (len(names), 2, len(tokens)))
    parts = [token(torch.tensor([names.index(name) for name in tokens])), segment(torch.tensor(segments))]
    parts.append(position(torch.arange(len(tokens))))
    whole = torch.cat([*parts, sum(parts)], 1).detach().numpy()
    named = dict.fromkeys(("token", "segment", "position", "their sum"), 12)
    return Barcode(whole, rows=tokens, parts=named)


def documents(count: int = 300) -> MaskedData:
    """A made-up text: documents of eight sentences, in rows of up to 64 tokens."""
    words = ["the", "a", "dog", "cat", "bird", "sees", "likes", "hears", "small", "old", "house", "tree", "near"]
    torch.manual_seed(0)
    texts = []
    for _ in range(count):
        picked = torch.randint(len(words), (8, 7)).tolist()
        texts.append(" ".join(" ".join(words[i] for i in line).capitalize() + "." for line in picked))
    tokenizer = Tokenizer.train(texts, kind="wordpiece", size=200, numbering="bert")
    encoded = encode_sentences((iter([text]) for text in texts), tokenizer)
    return MaskedData(encoded, tokenizer=tokenizer, length=64, batch_tokens=2048, seed=0)


def the_masks_counted() -> Table:
    """The task of hidden tokens as regard prepares it, counted over 26,000 tokens. About 15 % are to
    be found. Of these 80 % are replaced by `[MASK]`, 10 % by any token, and 10 % stay as they are: when BERT
    is used there is no `[MASK]`, so it must not believe that a word is right just because it can be seen."""
    data, counts = documents(), Counter[str]()
    for batch in map(data.batch, data.order(0)):
        given, true = batch.tokens[batch.predicted], batch.targets[batch.predicted]
        masked, same = given == data.special.mask, given == true
        counts["tokens that may be chosen"] += int(data.is_ordinary[batch.targets].sum())
        counts["chosen"] += len(given)
        counts["of these [MASK]"] += int(masked.sum())
        counts["another token"] += int((~masked & ~same).sum())
        counts["left as it was"] += int(same.sum())
    whole = [counts["tokens that may be chosen"]] * 2 + [counts["chosen"]] * 3
    parts = zip(counts.items(), whole, strict=True)
    return Table([{"": name, "count": n, "percent": 100 * n / of} for (name, n), of in parts], digits=1)


def next_sentences_counted() -> Table:
    """The task of next sentences: in about half of the rows B follows A in the text, in the others B is from
    another document. What BERT says is read from `[CLS]` alone."""
    data = documents()
    follows = torch.cat([data.batch(item).follows for item in data.order(0)])
    rows = [
        {"B": "follows A", "rows": int((follows == 0).sum())},
        {"B": "is from elsewhere", "rows": int(follows.sum())},
    ]
    return Table([row | {"percent": 100 * row["rows"] / len(follows)} for row in rows], digits=1)
