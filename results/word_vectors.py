"""Word vectors of a recipe's training texts by word2vec, for `--set data.vectors=...`.

    pip install gensim
    python results/word_vectors.py imdb-han vectors.txt          # ten minutes on two cores

The words are those of the recipe's tokenizer. Skip-gram, 8 negative samples, a window of 6, 8 epochs, seed 0 (with
two threads the numbers differ a little from run to run)."""

from __future__ import annotations

import sys
from pathlib import Path

from gensim.models import Word2Vec

from regard.tasks.core.recipe import read


def main(recipe: str, out: str) -> None:
    job, _ = read(recipe)
    texts = [text for text, *_ in job.data.rows("train")]
    tokenizer = job.tokens.learn(texts, job.numbering)
    words = tokenizer.tokens(range(len(tokenizer)))
    rows = [
        [words[token] for token in ids if token not in tokenizer.white_space]
        for ids in tokenizer.encode_batch(texts)
    ]
    model = Word2Vec(
        rows,
        vector_size=job.config.embed,
        window=6,
        min_count=5,
        sg=1,
        negative=8,
        sample=1e-4,
        epochs=8,
        workers=2,
        seed=0,
    )
    with Path(out).open("w") as file:
        for word in model.wv.index_to_key:
            file.write(f"{word} {' '.join(f'{number:.4f}' for number in model.wv[word])}\n")
    print(f"{out}: {len(model.wv):,} words of {len(rows):,} texts")


if __name__ == "__main__":
    main(*sys.argv[1:])
