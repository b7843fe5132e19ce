"""Encoding with BERT-base on the CPU, compared with `transformers` and CTranslate2 with the same weights.

    pip install -c constraints.txt 'regard[bench]'
    python benchmarks/bert_encoding.py [REPEATS]          # prints a Markdown table

Random weights, saved as a run by regard; `transformers` opens that folder as it is, CTranslate2 uses its own
converter. 32 rows of random tokens in two segments: all of length 128, or of lengths drawn uniformly from 24 to
128. The time is measured from lists of tokens to the states of the last layer. regard runs without oneDNN on ARM,
as `regard embed` does; a separate row shows it with oneDNN. CTranslate2 skips padding too; it has 1 worker with 2
threads, and in a separate row 2 workers with 1 thread, each with half of the rows. With int8 it is a different
model. `off` is the largest difference from the states of `transformers` at real tokens, as a share of the largest
of those.
Each tool runs in its own processes, in turns; the median of the calls counts, and the better of two such. On a
shared machine only the ratio is meaningful."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring import machine, start, take_turns
from recurrent import Rows

THREADS, VOCABULARY, ROWS, MAX_LENGTH = 2, 30522, 32, 128
PAD, FIRST = 0, 5  # the first tokens are special
Read = Callable[[Rows, Rows], np.ndarray]  # tokens and segments -> states (B, T, dim)
LENGTHS = {
    "full: 128": [MAX_LENGTH] * ROWS,
    "real: 24-128": np.random.default_rng(0).integers(24, MAX_LENGTH + 1, ROWS).tolist(),
}


def tokenizer() -> Any:
    """As many made-up words as BERT has pieces."""
    from regard.data.text.special_tokens import BERT
    from regard.data.text.tokenizer import Tokenizer
    from regard.data.text.wordpiece import NAMES, word_pieces

    names = [*NAMES, *(f"word{number}" for number in range(FIRST, VOCABULARY))]
    inner = word_pieces({name: number for number, name in enumerate(names)}, lowercase=True)
    special = BERT.ids(inner)
    assert special is not None
    return Tokenizer(inner, special)


def texts(lengths: list[int], seed: int = 0) -> tuple[Rows, Rows]:
    """Random tokens, and the segment of each: the second begins in the middle."""
    dice = np.random.default_rng(seed)
    tokens = [dice.integers(FIRST, VOCABULARY, length).tolist() for length in lengths]
    return tokens, [[0] * (length // 2) + [1] * (length - length // 2) for length in lengths]


def ours(folder: str, *, plain: bool) -> Read:
    from regard.data.batches.batch import pad
    from regard.layers.onednn import without_onednn
    from regard.runs.folder import Folder

    model: Any = Folder(folder).model()

    def read(rows: Rows, segments: Rows) -> np.ndarray:
        tokens, mask = pad(rows, PAD)
        with torch.inference_mode(), without_onednn(model) if plain else nullcontext():
            return model.states(tokens, pad(segments, 0)[0], mask).numpy()

    return read


def transformers_own(folder: str) -> Read:
    from transformers import BertModel

    from regard.data.batches.batch import pad

    model = BertModel.from_pretrained(folder).eval()

    def read(rows: Rows, segments: Rows) -> np.ndarray:
        tokens, mask = pad(rows, PAD)
        with torch.inference_mode():
            outputs = model(input_ids=tokens, attention_mask=mask.long(), token_type_ids=pad(segments, 0)[0])
        return outputs.last_hidden_state.numpy()

    return read


def ctranslate(folder: str, kind: str, workers: int) -> Read:
    """With several workers, rows are sorted by length and dealt out to them in turns, the longest first."""
    import ctranslate2

    model = ctranslate2.Encoder(
        f"{folder}/ctranslate2", compute_type=kind, inter_threads=workers, intra_threads=THREADS // workers
    )

    def part(rows: Rows, segments: Rows) -> np.ndarray:
        return np.array(model.forward_batch(rows, token_type_ids=segments).last_hidden_state)

    def read(rows: Rows, segments: Rows) -> np.ndarray:
        if workers == 1:
            return part(rows, segments)
        order = sorted(range(len(rows)), key=lambda row: -len(rows[row]))
        shares = [order[worker::workers] for worker in range(workers)]
        with ThreadPoolExecutor(workers) as pool:
            parts = list(
                pool.map(lambda share: part([rows[i] for i in share], [segments[i] for i in share]), shares)
            )
        states = np.zeros((len(rows), len(rows[order[0]]), parts[0].shape[-1]), np.float32)
        for share, encoded in zip(shares, parts, strict=True):
            states[share, : encoded.shape[1]] = encoded
        return states

    return read


TOOLS: dict[str, Callable[[str], Read]] = {
    "regard": lambda folder: ours(folder, plain=True),
    "regard with oneDNN": lambda folder: ours(folder, plain=False),
    "transformers": transformers_own,
    "CTranslate2 float32": lambda folder: ctranslate(folder, "float32", 1),
    "CTranslate2 float32, 2 workers": lambda folder: ctranslate(folder, "float32", 2),
    "CTranslate2 int8": lambda folder: ctranslate(folder, "int8", 1),
}


def measure(folder: str, repeats: str, tool: str) -> dict[str, float]:
    """Seconds of each work; the states are left in the folder."""
    torch.set_num_threads(THREADS)
    read = TOOLS[tool](folder)
    seconds = {}
    for work, lengths in LENGTHS.items():
        rows, segments = texts(lengths)
        read(rows[:4], segments[:4])  # warm-up
        times = []
        for _ in range(int(repeats)):
            start = time.perf_counter()
            states = read(rows, segments)
            times.append(time.perf_counter() - start)
        seconds[work] = statistics.median(times)
        real = [state[: len(row)] for state, row in zip(states, rows, strict=True)]
        np.save(Path(folder) / f"{tool} {work}.npy", np.concatenate(real))
    return seconds


def prepare(folder: Path) -> None:
    """What all tools read: a run of regard, and its conversion for CTranslate2."""
    from ctranslate2.converters import TransformersConverter

    from regard.data.artifacts import Artifacts
    from regard.models.bert import Bert, BertConfig
    from regard.runs.folder import begin, save_weights

    torch.manual_seed(0)
    model = Bert(BertConfig(VOCABULARY, head="none"))
    begin(folder, model, Artifacts(tokenizer()), "")
    save_weights(folder, model)
    TransformersConverter(str(folder)).convert(str(folder / "ctranslate2"))


def main(repeats: int) -> None:
    import ctranslate2
    import transformers

    torch.set_num_threads(THREADS)
    command = " ".join(["python benchmarks/bert_encoding.py", *sys.argv[1:]])
    print(f"{machine()}, transformers {transformers.__version__}, CTranslate2 {ctranslate2.__version__}, ", end="")
    print(f"seed 0, `{command}`\n")
    print("| lengths | tool | sequences/s | ms | times transformers | times CTranslate2 float32 | off |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        results = take_turns(__file__, TOOLS, name, str(repeats))
        for work in LENGTHS:
            fastest = {tool: min(turn[work] for turn in turns) for tool, turns in results.items()}
            right = np.load(folder / f"transformers {work}.npy", allow_pickle=False)
            for tool, seconds in fastest.items():
                states = np.load(folder / f"{tool} {work}.npy", allow_pickle=False)
                off = abs(states - right).max() / abs(right).max()
                print(
                    f"| {work} | {tool} | {ROWS / seconds:,.2f} | {1000 * seconds:,.0f} "
                    f"| {fastest['transformers'] / seconds:.2f} | {fastest['CTranslate2 float32'] / seconds:.2f} "
                    f"| {off:.0e} |"
                )


if __name__ == "__main__":
    start(measure, main, words=3, default=1)
