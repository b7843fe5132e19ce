"""Multi30k with long sentences: each sentence alone, and joined with its neighbours in groups of two to four.

    python results/joined.py OUT        # OUT/train.tsv, OUT/valid.tsv, OUT/test.tsv

Multi30k has few sentences above 25 words. To see how length affects a translator that was trained on long inputs
as well as short ones, every sentence of the (lower-cased, tokenised) sets is used once alone and once in a group
of neighbours. The sizes of the groups are drawn with seed 0."""

from __future__ import annotations

import random
import sys
from pathlib import Path

from regard.base.files import write_file
from regard.data.text.pairs import read_pairs

SETS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}


def join(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    generator, groups, begin = random.Random(0), list(pairs), 0
    while begin < len(pairs):
        part = pairs[begin : begin + generator.randint(2, 4)]
        groups.append((" ".join(source for source, _ in part), " ".join(target for _, target in part)))
        begin += len(part)
    return groups


def main(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for name, file in SETS.items():
        pairs = join(list(read_pairs(f"multi30k/tok/{file}.lc.norm.tok.{{en,de}}.gz")))
        text = "".join(f"{source}\t{target}\n" for source, target in pairs)
        write_file(out / f"{name}.tsv", text.encode())
        print(f"{out / name}.tsv: {len(pairs):,} pairs")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
