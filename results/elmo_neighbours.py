"""The same word in two sentences: its nearest words in a corpus, by the cosine of their vectors.

    python results/elmo_neighbours.py RUN CORPUS WORD SENTENCE...

RUN is an encoder, as of `regard train wikitext2-elmo`; CORPUS a text file, plain or compressed, here or under
$REGARD_DATA, of which the first 5,000 sentences are read. For each sentence with the word and for two layers, the
words alone (layer 0) and the last layer, it prints the nearest words of other sentences as a Markdown table: layer
0 finds the same word everywhere, in the last layer its neighbours are those in a similar place or of a similar
meaning (Peters et al. 2018, table 4)."""

from __future__ import annotations

import sys
from itertools import chain, islice

from regard.data.text.documents import read_documents, read_sentences
from regard.tasks.core.table import load_as
from regard.tasks.embed.neighbours import Neighbour
from regard.tasks.embed.run import Embedder

SENTENCES, TOP, AROUND = 5000, 5, 6  # AROUND: words shown on each side


def shown(neighbour: Neighbour) -> str:
    """The word between the words around it."""
    words = neighbour.text.split()
    begin = max(0, neighbour.place - AROUND)
    return " ".join(
        [
            *words[begin : neighbour.place],
            f"**{neighbour.token}**",
            *words[neighbour.place + 1 : neighbour.place + 1 + AROUND],
        ]
    )


def main(run: str, corpus: str, word: str, *sentences: str) -> None:
    reader = load_as(run, Embedder, "embed")
    sentences = chain.from_iterable(read_sentences(read_documents(corpus, documents="line")))
    texts = list(islice((text for text in sentences if len(text.split()) > 2), SENTENCES))
    print("| sentence | layer | cosine | nearest |\n|---|---|---|---|")
    for sentence in sentences:
        for layer in (0, reader.model.config.layers):
            for near in reader.neighbours(sentence, word, texts, top=TOP, layer=layer):
                print(f"| {sentence} | {layer} | {near.similarity:.3f} | {shown(near)} |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 5:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
