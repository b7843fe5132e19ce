"""Greedy decoding with GPT-2 124M on the CPU, compared with `transformers` and CTranslate2 with the same weights.

    pip install -c constraints.txt 'regard[bench]'
    python benchmarks/gpt2_decoding.py [TOKENS]          # prints a Markdown table

Random weights, saved as a run by regard; `transformers` opens that folder as it is, CTranslate2 uses its own
converter. 128 tokens after a random prompt of 32, for 1 and for 8 rows, and one token after a prompt of 512. The
end token is forbidden throughout, by each tool's setting for the minimum length. The time is measured from tokens
to tokens and includes the prefill. `same` is the share of rows that equal those of `transformers` token for
token.
Each tool runs in its own processes with 2 threads, in turns; the better of two counts. On a shared machine only
the ratio is meaningful."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from measuring import machine, start, take_turns
from recurrent import Rows

THREADS, VOCABULARY, END = 2, 50257, 0
Write = Callable[[Rows, int], Rows]
WORK = {  # rows, the prompt's tokens, and whether many tokens follow or one
    "1 row after 32": (1, 32, True),
    "8 rows after 32": (8, 32, True),
    "prompt of 512": (1, 512, False),
}


def ours(folder: str) -> Write:
    from regard.decode.rules import Target
    from regard.decode.search import decode
    from regard.decode.settings import Decoding
    from regard.runs.folder import Folder

    model: Any = Folder(folder).model()

    def write(prompts: Rows, length: int) -> Rows:
        prompt = torch.tensor(prompts)
        before, mask = prompt[:, :-1], torch.ones_like(prompt[:, :-1], dtype=torch.bool)
        target = Target(prompt[:, -1], END, max_length=length, min_length=length)
        return [answer.tokens for (answer,) in decode(model, before, mask, Decoding(), target)]

    return write


def transformers_own(folder: str) -> Write:
    from transformers import GPT2LMHeadModel

    model = GPT2LMHeadModel.from_pretrained(folder).eval()

    def write(prompts: Rows, length: int) -> Rows:
        prompt = torch.tensor(prompts)
        tokens = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=False,
            min_new_tokens=length,
            max_new_tokens=length,
        )
        return tokens[:, prompt.shape[1] :].tolist()

    return write


def ctranslate(folder: str, kind: str) -> Write:
    import ctranslate2

    from regard.data.text.tokenizer import Tokenizer

    vocabulary = Tokenizer.load(Path(folder) / "tokenizer.json").inner
    names = [vocabulary.id_to_token(number) for number in range(VOCABULARY)]
    model = ctranslate2.Generator(f"{folder}/ctranslate2", compute_type=kind, intra_threads=THREADS)

    def write(prompts: Rows, length: int) -> Rows:
        answers = model.generate_batch(
            [[names[number] for number in row] for row in prompts],
            beam_size=1,
            min_length=length,
            max_length=length,
            include_prompt_in_result=False,
        )
        return [answer.sequences_ids[0] for answer in answers]

    return write


TOOLS = {
    "regard": ours,
    "transformers": transformers_own,
    "CTranslate2 float32": lambda folder: ctranslate(folder, "float32"),
    "CTranslate2 int8": lambda folder: ctranslate(folder, "int8"),
}


def measure(folder: str, tokens: str, tool: str) -> dict:
    """Seconds and answers of each work."""
    torch.set_num_threads(THREADS)
    write = TOOLS[tool](folder)
    results: dict[str, Any] = {}
    for work, (rows, before, many) in WORK.items():
        dice = torch.Generator().manual_seed(0)
        prompts = torch.randint(2, VOCABULARY, (rows, before), generator=dice).tolist()
        write(prompts, 2)  # warm-up
        start = time.perf_counter()
        answers = write(prompts, int(tokens) if many else 1)
        results[work] = {"seconds": time.perf_counter() - start, "answers": answers}
    return results


def prepare(folder: Path) -> None:
    """What all tools read: a run of regard, and its conversion for CTranslate2."""
    from ctranslate2.converters import TransformersConverter

    from regard.data.artifacts import Artifacts
    from regard.data.text.tokenizer import Tokenizer
    from regard.models.gpt2 import GPT2, GPT2Config
    from regard.runs.folder import begin, save_weights

    torch.manual_seed(0)
    size: Any = GPT2.SIZES["small"]
    model = GPT2(GPT2Config(VOCABULARY, **size))
    words = Tokenizer.train(
        [" ".join(map(str, range(VOCABULARY)))], kind="space", size=VOCABULARY, numbering="gpt2"
    )
    begin(folder, model, Artifacts(words), "")
    save_weights(folder, model)
    TransformersConverter(str(folder)).convert(str(folder / "ctranslate2"))


def main(tokens: int) -> None:
    import ctranslate2
    import transformers

    torch.set_num_threads(THREADS)
    command = " ".join(["python benchmarks/gpt2_decoding.py", *sys.argv[1:]])
    print(f"{machine()}, transformers {transformers.__version__}, CTranslate2 {ctranslate2.__version__}, ", end="")
    print(f"{tokens} tokens, seed 0, `{command}`\n")
    print("| work | tool | tokens/s | ms | times transformers | times CTranslate2 float32 | same |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        results = take_turns(__file__, TOOLS, folder, str(tokens))
    for work, (rows, before, many) in WORK.items():
        fastest = {tool: min(turn[work]["seconds"] for turn in turns) for tool, turns in results.items()}
        right = results["transformers"][0][work]["answers"]
        for tool, seconds in fastest.items():
            count = rows * tokens if many else before  # for the prompt: the tokens it has
            same = sum(map(list.__eq__, results[tool][0][work]["answers"], right)) / rows
            print(
                f"| {work} | {tool} | {count / seconds:,.1f} | {1000 * seconds:,.0f} "
                f"| {fastest['transformers'] / seconds:.2f} | {fastest['CTranslate2 float32'] / seconds:.2f} "
                f"| {100 * same:.0f} % |"
            )


if __name__ == "__main__":
    start(measure, main, words=3, default=128)
