"""From pairs of prompt and response to rows of a language model (`data.documents = "pairs"`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from regard.base.divided import in_parts
from regard.base.memory_rows import MemoryRows
from regard.data.artifacts import Artifacts
from regard.data.batches.batch import Pair as EncodedPair
from regard.data.text.pairs import read_pairs
from regard.data.text.prompted import PromptedData
from regard.data.text.tokenizer import Tokenizer
from regard.errors import DataError
from regard.learn.progress import counted
from regard.metrics.perplexity import count_words
from regard.models.protocols import LanguageModel as Model
from regard.tasks.core.settings import Job
from regard.tasks.generate.settings import TextSettings

PART = 1 << 12  # pairs that are tokenised at once
Pair = tuple[str, str]


def read(text: TextSettings, files: Iterable[str]) -> Iterator[Pair]:
    """The columns prompt and response of CSV, JSONL, parquet and rows in memory, the first two of a TSV."""
    names = text.prompt or "prompt", text.response or "response"
    for file in files:
        if isinstance(file, MemoryRows):
            yield from read_pairs(file.keyed(names), source=names[0], target=names[1])
        else:
            source, target = names if text.in_columns([file]) else (text.prompt, text.response)
            yield from read_pairs(file, source=source, target=target)


def survey(job: Job[TextSettings]) -> Artifacts:
    """A tokenizer trained on both sides of the training pairs."""
    pairs = counted(read(job.data, job.data.files_of("train")), "pairs read for the vocabulary")
    return Artifacts(job.tokens.learn(chain.from_iterable(pairs), job.numbering))


def split(text: TextSettings) -> tuple[list[Pair], list[Pair]]:
    """The training pairs, and those to validate on: of a file of their own, else the last of train."""
    train = list(read(text, text.files_of("train")))
    if not text.holds_out:
        return train, list(read(text, text.files_of("valid")))
    border = len(train) - int(len(train) * text.valid_fraction)
    if not 0 < border < len(train):
        raise DataError(f"{text.name} has too few pairs to hold some out for validation; set data.valid")
    return train[:border], train[border:]


def tested(text: TextSettings) -> list[Pair]:
    return split(text)[1] if text.is_part("test") else list(read(text, text.files_of("test")))


def encoded(pairs: Iterable[Pair], tokenizer: Tokenizer) -> Iterator[EncodedPair]:
    def work(part: list[Pair]) -> Iterable[EncodedPair]:
        sides = (tokenizer.encode_batch(list(side)) for side in zip(*part, strict=True))
        return zip(*sides, strict=True)

    return in_parts(pairs, PART, work)


def data(
    pairs: list[Pair],
    text: TextSettings,
    tokenizer: Tokenizer,
    model: Model,
    *,
    seed: int,
    few_shapes: bool = False,
) -> PromptedData:
    """DataError where a pair has more tokens than the model sees at once."""
    rows, end = list(encoded(counted(iter(pairs), "pairs read"), tokenizer)), tokenizer.special.end
    most = model.max_target_positions if few_shapes else 0
    prepared = PromptedData(rows, batch_tokens=text.batch_tokens, seed=seed, end=end, few_shapes=most)
    longest, most = prepared.longest, model.max_target_positions
    if longest > most:
        raise DataError(
            f"the longest pair has {longest} tokens and the model sees {most} at once (model.max_positions); "
            f"set model.max_positions={longest}, or leave that pair out"
        )
    return prepared


def amounts(pairs: list[Pair]) -> tuple[int, int]:
    """Words and characters of the responses; the token that ends one counts as one of each."""
    responses = [response for _, response in pairs]
    return sum(count_words([text]) + 1 for text in responses), sum(len(text) + 1 for text in responses)
