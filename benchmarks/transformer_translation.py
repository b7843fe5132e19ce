"""Translating with the small Transformer on the CPU, greedily and with a beam of 5, compared with `transformers`
and CTranslate2 with the same weights, on the same sentences.

    pip install -c constraints.txt 'regard[bench]'
    [REGARD_DATA=...] python benchmarks/transformer_translation.py [SENTENCES]     # prints a Markdown table

The model is that of `transformer_training.py`, saved as a run by regard; `transformers` opens that folder as it
is, CTranslate2 uses its own converter. Sentences of Multi30k's test2016, English (without $REGARD_DATA: made-up
ones), sorted by length, in batches of 64. Random weights would not end a sentence at a sensible place, so all
outputs of a batch have the mean length of its references: every tool forbids the end token up to there, by its
own setting for the minimum length, and stops there. The gain from early stopping on trained models is not
measured. CTranslate2 has 2 workers with 1 thread, its best setting, and gets all batches at once; the others have
2 threads. The time is measured from lists of tokens to lists of tokens. `same` is the share of outputs that equal
those of `transformers` token for token: in float32 all should, except for ties; with int8 it is a different
model.
Each tool runs in its own processes, in turns; the better of two counts. On a shared machine only the ratio is
meaningful."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from measuring import machine, start, take_turns
from recurrent import VOCABULARY, Rows
from transformer_training import THREADS, sides, tokenizer, translator

BATCH, BEAM = 64, 5
END, PAD = 0, VOCABULARY - 1  # as Marian numbers them
Batches = list[tuple[Rows, int]]  # sources, each with its end token, and the length of the outputs
Translate = Callable[[Batches, int], Rows]


def ours(folder: str) -> Translate:
    from regard.data.batches.batch import pad
    from regard.decode.rules import Target
    from regard.decode.search import decode
    from regard.decode.settings import Decoding
    from regard.runs.folder import Folder

    model: Any = Folder(folder).model()

    def translate(batches: Batches, width: int) -> Rows:
        answers = []
        for rows, length in batches:
            source, mask = pad(rows, PAD)
            target = Target(PAD, END, max_length=length, min_length=length, never=(PAD,))
            answers += [best.tokens for (best,) in decode(model, source, mask, Decoding(beam=width), target)]
        return answers

    return translate


def marian(folder: str) -> Translate:
    from transformers import MarianMTModel

    from regard.data.batches.batch import pad

    model = MarianMTModel.from_pretrained(folder).eval()
    model.generation_config.forced_eos_token_id = None
    model.generation_config.max_length = None

    def translate(batches: Batches, width: int) -> Rows:
        answers = []
        for rows, length in batches:
            source, mask = pad(rows, PAD)
            tokens = model.generate(
                source,
                attention_mask=mask.long(),
                num_beams=width,
                min_new_tokens=length,
                max_new_tokens=length,
                do_sample=False,
            )
            answers += tokens[:, 1:].tolist()
        return answers

    return translate


def ctranslate(folder: str, kind: str) -> Translate:
    import ctranslate2

    from regard.data.text.tokenizer import Tokenizer

    vocabulary = Tokenizer.load(Path(folder) / "tokenizer.json").inner
    names = [vocabulary.id_to_token(number) for number in range(VOCABULARY)]
    numbers = {name: number for number, name in enumerate(names)}
    model = ctranslate2.Translator(
        f"{folder}/ctranslate2", compute_type=kind, inter_threads=THREADS, intra_threads=1
    )

    def translate(batches: Batches, width: int) -> Rows:
        waiting = [
            model.translate_batch(
                [[names[number] for number in row] for row in rows],
                beam_size=width,
                min_decoding_length=length,
                max_decoding_length=length,
                asynchronous=True,
            )
            for rows, length in batches
        ]
        return [
            [numbers[name] for name in future.result().hypotheses[0]] for futures in waiting for future in futures
        ]

    return translate


TOOLS = {
    "regard": ours,
    "transformers": marian,
    "CTranslate2 float32": lambda folder: ctranslate(folder, "float32"),
    "CTranslate2 int8": lambda folder: ctranslate(folder, "int8"),
}


def measure(folder: str, tool: str) -> dict:
    """Seconds for all sentences and the answers, by beam width."""
    torch.set_num_threads(THREADS)
    translate = TOOLS[tool](folder)
    batches = json.loads((Path(folder) / "batches.json").read_text())
    seconds, answers = {}, {}
    for width in (1, BEAM):
        translate(batches[:1], width)  # warm-up
        start = time.perf_counter()
        answers[width] = translate(batches, width)
        seconds[width] = time.perf_counter() - start
        if [len(answer) for answer in answers[width]] != [length for rows, length in batches for _ in rows]:
            raise RuntimeError(f"{tool}: the outputs do not have the lengths asked for and cannot be compared")
    return {"seconds": seconds, "answers": answers}


def prepare(folder: Path, sentences: int) -> None:
    """What all tools read: the batches, a run of regard, and its conversion for CTranslate2."""
    from ctranslate2.converters import TransformersConverter

    from regard.data.artifacts import Artifacts
    from regard.runs.folder import begin, save_weights

    words, model = tokenizer(), translator({})
    begin(folder, model, Artifacts(words), "")
    save_weights(folder, model)
    TransformersConverter(str(folder)).convert(str(folder / "ctranslate2"))
    pairs = sorted(zip(*sides(words, "test_2016_flickr", sentences), strict=True), key=lambda pair: len(pair[0]))
    batches = []
    for begin_at in range(0, len(pairs), BATCH):
        sources, references = zip(*pairs[begin_at : begin_at + BATCH], strict=True)
        length = round(sum(map(len, references)) / len(references))
        batches.append(([[*row, END] for row in sources], length))
    (folder / "batches.json").write_text(json.dumps(batches))


def main(sentences: int) -> None:
    import ctranslate2
    import transformers

    torch.set_num_threads(THREADS)
    command = " ".join(["python benchmarks/transformer_translation.py", *sys.argv[1:]])
    print(f"{machine()}, transformers {transformers.__version__}, CTranslate2 {ctranslate2.__version__}, ", end="")
    print(f"{sentences} sentences, seed 0, `{command}`\n")
    print("| search | tool | sentences/s | times transformers | times CTranslate2 float32 | same |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder), sentences)
        results = take_turns(__file__, TOOLS, folder)
    for search, width in (("greedy", "1"), (f"beam {BEAM}", str(BEAM))):  # JSON's keys are texts
        fastest = {tool: min(turn["seconds"][width] for turn in turns) for tool, turns in results.items()}
        right = results["transformers"][0]["answers"][width]
        for tool, seconds in fastest.items():
            same = sum(map(list.__eq__, results[tool][0]["answers"][width], right)) / len(right)
            print(
                f"| {search} | {tool} | {len(right) / seconds:,.1f} "
                f"| {fastest['transformers'] / seconds:.2f} | {fastest['CTranslate2 float32'] / seconds:.2f} "
                f"| {100 * same:.1f} % |"
            )


if __name__ == "__main__":
    start(measure, main, words=2, default=1000)
