"""Splits Tatoeba's pairs (deu-eng.zip: English TAB German) into train, valid and test, German to English.

    python results/tatoeba.py deu-eng.zip $REGARD_DATA/tatoeba

The split is by distinct English sentence: several German sentences share a translation, which must not be in the
training data too. Where a German sentence has several translations, the test file has them all as references.

The English sentences alone, one a line, in mixed order and split alike, are english.{train,valid,test}.txt.gz."""

from __future__ import annotations

import gzip
import sys
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path


def split(english: str) -> str:
    """One sentence in fifty is for testing, one in fifty for validation; a hash of its text decides."""
    return {0: "test", 1: "valid"}.get(zlib.crc32(english.encode()) % 50, "train")


def mixed(sentences: Iterable[str]) -> list[str]:
    """Each once. The file has them by length; a hash of their text decides here too."""
    return sorted(dict.fromkeys(sentences), key=lambda english: zlib.crc32(english.encode()[::-1]))


def main(archive: str, folder: str) -> None:
    text = zipfile.ZipFile(archive).read("deu.txt").decode("utf-8")
    Path(folder).mkdir(parents=True, exist_ok=True)
    pairs = [line.split("\t")[:2] for line in text.splitlines()]
    train = {(german, english) for english, german in pairs if split(english) == "train"}
    learned = {german for german, _ in train}
    for name in ("train", "valid", "test"):
        translations: dict[str, list[str]] = {}
        for english, german in pairs:
            if split(english) == name and (name == "train" or german not in learned):
                translations.setdefault(german, []).append(english)
        if name == "train":
            rows = [
                [german, english] for german, answers in translations.items() for english in dict.fromkeys(answers)
            ]
        else:
            rows = [[german, *dict.fromkeys(answers)] for german, answers in translations.items()]
        Path(folder, f"{name}.tsv").write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
        sentences = mixed(english for english, _ in pairs if split(english) == name)
        lines = "".join(f"{english}\n" for english in sentences)
        Path(folder, f"english.{name}.txt.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))
        print(f"{name}: {len(rows):,} pairs, {len(sentences):,} English sentences")


if __name__ == "__main__":
    main(*sys.argv[1:])
