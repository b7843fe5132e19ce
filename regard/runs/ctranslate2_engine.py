"""CTranslate2 answers in the model's place, from a folder that is written once and kept; see `engines.py`.

Greedy answers are ours, token for token. A beam goes on until twice as many answers as it is wide have ended
(`PATIENCE`), which finds ours but for few (results/cpu_speed.md). Where the two mean different things by a setting,
it is refused by name."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.decode.generator import check_wanted, unwanted
from regard.decode.hypothesis import Hypothesis, normaliser
from regard.decode.rules import Rules
from regard.decode.search import Searching
from regard.decode.settings import Decoding
from regard.errors import BadInput
from regard.foreign.ctranslate2_files import positions_of
from regard.layers.loss import Loss
from regard.learn.progress import say
from regard.models.bert import Bert
from regard.models.gpt2 import GPT2
from regard.models.transformer import Transformer

PATIENCE = 2.0
FEW = 4  # rows that one worker computes with all threads; more are divided among workers of one thread


class CTranslate2:
    """What engines for all kinds of models share. `names` are those of its tokens in the folder."""

    kind: str  # its class in the package

    def __init__(
        self, model: Any, folder: Path, dtype: str, names: Sequence[str], end: int, sources: Sequence[str] = ()
    ):
        self.folder, self.dtype, self.names, self.sources = folder, dtype, names, sources or names
        self.end = end
        self.numbers = {name: number for number, name in enumerate(names)}
        self.positions = len(positions_of(model))
        self.opened: dict[bool, Any] = {}
        self.lock = threading.Lock()

    @property
    def title(self) -> str:
        return f"ctranslate2 {self.dtype}"

    def __deepcopy__(self, memo: Any) -> CTranslate2:
        return self  # it is not changed

    def workers(self, rows: int) -> Any:
        """For so many rows: one worker with all threads, or as many workers as threads."""
        import ctranslate2

        threads, many = torch.get_num_threads(), rows >= FEW
        with self.lock:
            if many not in self.opened:
                self.opened[many] = getattr(ctranslate2, self.kind)(
                    str(self.folder),
                    compute_type=self.dtype,
                    inter_threads=threads if many else 1,
                    intra_threads=1 if many else threads,
                )
            return self.opened[many]

    def at_once(self, rows: int) -> int:
        """Rows of each worker, where they are divided."""
        return max(1, -(-rows // torch.get_num_threads())) if rows >= FEW else 0


class WritingEngine(CTranslate2, ABC):
    """What engines that write answers share."""

    told = False
    looks_before = False  # do rules of repetition look at tokens that the engine does not?

    def search(self, source: Tensor, mask: Tensor, rules: Rules) -> Searching:
        """The answers to each row, best first. They come whole: no step is yielded."""
        yield from ()
        check_settings(rules.decoding, self.looks_before)
        if rules.decoding.temperature:
            self.told_of_seeds()
        texts = [row[real].tolist() for row, real in zip(source.cpu(), mask.cpu(), strict=True)]
        starts = rules.start.tolist()
        answers = [[Hypothesis([], 0.0, False)] for _ in texts]
        waiting = [row for row, limit in enumerate(rules.limits) if limit]
        while waiting:
            least, most = rules.minima[waiting].min(), rules.limits[waiting].max()
            rows = [row for row in waiting if rules.minima[row] == least]
            self._check_length([texts[row] for row in rows], int(most))
            found = self._answers([(texts[row], starts[row]) for row in rows], rules, int(least), int(most))
            check_wanted()
            for row, own in zip(rows, found, strict=True):
                answers[row] = own
            # An answer that is longer than its own row may be is searched for again, up to there.
            long = {row for row in rows if any(each.length > rules.limits[row] for each in answers[row])}
            waiting = [row for row in waiting if row in long or row not in rows]
        return answers

    def _answers(
        self, rows: list[tuple[list[int], int]], rules: Rules, least: int, most: int
    ) -> list[list[Hypothesis]]:
        decoding = rules.decoding
        options: dict[str, Any] = {
            "max_batch_size": self.at_once(len(rows)),
            "beam_size": decoding.beam if decoding.is_beam else 1,
            "patience": PATIENCE if decoding.is_beam else 1,
            "num_hypotheses": decoding.n_best,
            "length_penalty": decoding.length_penalty,
            "repetition_penalty": decoding.repetition_penalty,
            "no_repeat_ngram_size": decoding.no_repeat_ngram,
            "suppress_sequences": [[self.names[token]] for token in rules.never] or None,
            "return_end_token": True,
            "return_scores": True,
            **sampling(decoding),
            **self.lengths(least, most),
        }
        is_unwanted = unwanted.get(None)
        if not decoding.is_beam and (is_unwanted or rules.stop):
            options["callback"] = Stopping(rules, is_unwanted or (lambda: False))
        found = self.generate(rows, options)
        changed = least or decoding.looks_back or decoding.temperature  # then its scores are not the model's own
        answers = [
            [self._hypothesis(tokens, score, rules) for tokens, score in zip(*own, strict=True)] for own in found
        ]
        if decoding.is_beam or not (changed or rules.stop):
            return answers
        written = [own[0] for own in answers]
        logs = self.log_probabilities(rows, [answer.tokens for answer in written])
        return [[_cut(answer, log, rules)] for answer, log in zip(written, logs, strict=True)]

    def _hypothesis(self, tokens: list[int], score: float, rules: Rules) -> Hypothesis:
        finished = bool(tokens) and tokens[-1] == rules.end
        total = score * normaliser(max(1, len(tokens)), rules.decoding.length_penalty)
        return Hypothesis(tokens[: len(tokens) - finished], total, finished)

    def _check_length(self, texts: list[list[int]], limit: int) -> None:
        longest = self.longest(max(map(len, texts), default=0), limit)
        if longest > self.positions:
            raise BadInput(
                f"the engine ctranslate2 has {self.positions:,} positions here, and {longest:,} are asked for; "
                "shorten the text or the answer, or leave the engine out"
            )

    def told_of_seeds(self) -> None:
        """Once."""
        if not self.told:
            self.told = True
            say("ctranslate2 draws its own random numbers: the same seed does not sample the same answers")

    @abstractmethod
    def lengths(self, least: int, most: int) -> dict[str, int]:
        """How many tokens may be written, as the package calls it."""

    @abstractmethod
    def longest(self, source: int, limit: int) -> int:
        """The positions that a source of so many tokens and its answer take."""

    @abstractmethod
    def generate(self, rows: list[tuple[list[int], int]], options: Any) -> Iterator[tuple[list[list[int]], Any]]:
        """The tokens of the answers to each (source, start token), and their scores."""

    @abstractmethod
    def log_probabilities(self, rows: list[tuple[list[int], int]], answers: list[list[int]]) -> list[list[float]]:
        """Of each token of the answers, and of the end token behind them."""


class TranslatorEngine(WritingEngine):
    kind = "Translator"

    def lengths(self, least: int, most: int) -> dict[str, int]:
        return {"min_decoding_length": least, "max_decoding_length": most, "max_input_length": 0}

    def longest(self, source: int, limit: int) -> int:
        return max(source, limit)

    def _sources(self, rows: list[tuple[list[int], int]]) -> list[list[str]]:
        return [[self.sources[token] for token in source] for source, _ in rows]

    def generate(self, rows: list[tuple[list[int], int]], options: Any) -> Iterator[tuple[list[list[int]], Any]]:
        starts = [[self.names[start]] for _, start in rows]
        for answer in self.workers(len(rows)).translate_batch(self._sources(rows), starts, **options):
            yield [[self.numbers[name] for name in tokens] for tokens in answer.hypotheses], answer.scores

    def log_probabilities(self, rows: list[tuple[list[int], int]], answers: list[list[int]]) -> list[list[float]]:
        targets = [
            [self.names[token] for token in (start, *answer)]
            for (_, start), answer in zip(rows, answers, strict=True)
        ]
        size = self.at_once(len(rows))
        scored = self.workers(len(rows)).score_batch(
            self._sources(rows), targets, max_input_length=0, max_batch_size=size
        )
        return [each.log_probs for each in scored]

    def loss(self, batch: Any) -> Loss:
        """Of the targets, given their sources."""
        sources, targets = (
            [row[real].tolist() for row, real in zip(tokens, mask, strict=True)]
            for tokens, mask in ((batch.source, batch.source_mask), (batch.target, batch.target_mask))
        )
        rows = [(source, target[0]) for source, target in zip(sources, targets, strict=True)]
        logs = self.log_probabilities(rows, [target[1:-1] for target in targets])
        return _loss([sum(row) for row in logs], sum(map(len, logs)))


class LanguageModelEngine(WritingEngine):
    kind = "Generator"
    looks_before = True  # the prompt, which the engine reads at once

    def lengths(self, least: int, most: int) -> dict[str, int]:
        return {"min_length": least, "max_length": most}

    def longest(self, source: int, limit: int) -> int:
        return source + limit

    def _prompts(self, rows: list[tuple[list[int], int]]) -> list[list[str]]:
        return [[self.names[token] for token in (*source, start)] for source, start in rows]

    def generate(self, rows: list[tuple[list[int], int]], options: Any) -> Iterator[tuple[list[list[int]], Any]]:
        answers = self.workers(len(rows)).generate_batch(
            self._prompts(rows), include_prompt_in_result=False, **options
        )
        for answer in answers:
            yield answer.sequences_ids, answer.scores

    def log_probabilities(self, rows: list[tuple[list[int], int]], answers: list[list[int]]) -> list[list[float]]:
        texts = [[*source, start, *answer, self.end] for (source, start), answer in zip(rows, answers, strict=True)]
        named = [[self.names[token] for token in text] for text in texts]
        scored = self.workers(len(rows)).score_batch(
            named, max_input_length=0, max_batch_size=self.at_once(len(rows))
        )
        return [each.log_probs[len(source) :] for each, (source, _) in zip(scored, rows, strict=True)]

    def loss(self, batch: Any) -> Loss:
        """Of each next token."""
        if batch.since is not None:
            raise BadInput(
                "the engine ctranslate2 sees all of a window, and these windows hold documents that do not see "
                "each other; leave the engine out"
            )
        inputs, targets = batch.tokens[:, :-1].contiguous(), batch.tokens[:, 1:]
        lengths = np.full(len(inputs), inputs.shape[1], np.int32)
        view = self.workers(len(inputs)).forward_batch(_view(inputs.numpy().astype(np.int32)), _view(lengths))
        logs = torch.from_numpy(np.array(view)).log_softmax(-1).gather(-1, targets[..., None])[..., 0]
        logs = logs * batch.counted
        return _loss(logs.sum(1).tolist(), int(batch.counted.sum()))


class EncoderEngine(CTranslate2):
    kind = "Encoder"

    def states(self, tokens: Tensor, segments: Tensor | None, mask: Tensor | None) -> Tensor:
        """With a mask, padding is on the right."""
        width = tokens.shape[1]
        lengths = torch.full((len(tokens),), width) if mask is None else mask.sum(1)
        if mask is not None and not torch.equal(mask, torch.arange(width) < lengths[:, None]):
            raise BadInput("the engine ctranslate2 reads texts whose padding is on the right")
        kinds = torch.zeros_like(tokens) if segments is None else segments
        result = self.workers(len(tokens)).forward_batch(
            _view(tokens.numpy().astype(np.int32)), _view(lengths.numpy().astype(np.int32)), kinds.tolist()
        )
        return torch.from_numpy(np.array(result.last_hidden_state))


ENGINES: dict[type, type[CTranslate2]] = {
    Transformer: TranslatorEngine,
    GPT2: LanguageModelEngine,
    Bert: EncoderEngine,
}


class Stopping:
    """Called with each token of a row that is not searched by a beam: True ends the row."""

    def __init__(self, rules: Rules, is_unwanted: Callable[[], bool]):
        self.rules, self.is_unwanted = rules, is_unwanted
        self.written: dict[int, list[int]] = {}

    def __call__(self, step: Any) -> bool:
        written = self.written.setdefault(step.batch_id, [])
        written.append(step.token_id)
        return self.is_unwanted() or (self.rules.stop is not None and self.rules.stop(written))


def check_settings(decoding: Decoding, looks_before: bool) -> None:
    """BadInput where the engine means something else by a setting than we do."""
    beam = decoding.is_beam
    refused = {
        "speculate": (decoding.speculate > 0, "it has ways of its own to be fast"),
        "repetition_penalty": (
            decoding.repetition_penalty != 1 and (beam or looks_before),
            "it penalises logits of a beam, and does not look at a prompt",
        ),
        "no_repeat_ngram": (
            decoding.no_repeat_ngram > 0 and (beam or looks_before),
            "its beam ranks by other probabilities then, and it does not look at a prompt",
        ),
        "min_length": (decoding.min_length > 0 and beam, "its beam ranks by other probabilities then"),
        "stop": (bool(decoding.stop) and beam, "its beam knows no texts to stop at"),
        "top_p with top_k": (
            decoding.temperature > 0 and decoding.top_k > 0 and decoding.top_p < 1,
            "it takes them in another order; give one of them",
        ),
    }
    for name, (is_refused, why) in refused.items():
        if is_refused:
            raise BadInput(f"the engine ctranslate2 does not take {name}: {why}; leave it out, or the engine")


def sampling(decoding: Decoding) -> dict[str, float]:
    """How tokens are drawn; without a temperature the likeliest is taken."""
    if not decoding.temperature:
        return {"sampling_topk": 1}
    return {
        "sampling_temperature": decoding.temperature,
        "sampling_topk": decoding.top_k,
        "sampling_topp": decoding.top_p,
    }


def _cut(answer: Hypothesis, logs: Sequence[float], rules: Rules) -> Hypothesis:
    """The answer up to where the rules stop it, with the model's own score of it; `logs` of its tokens and of the
    end token."""
    tokens, stop = answer.tokens, rules.stop
    if stop is not None:
        for count in range(1, len(tokens) + 1):
            if stop(tokens[:count]):
                return Hypothesis(tokens[:count], sum(logs[:count]), False)
    return Hypothesis(tokens, sum(logs[: answer.length]), answer.finished)


def _loss(likelihoods: list[float], tokens: int) -> Loss:
    of_rows = torch.tensor(likelihoods)
    return Loss(-of_rows.sum(), of_rows, torch.tensor(tokens))


def _view(array: np.ndarray) -> Any:
    import ctranslate2

    return ctranslate2.StorageView.from_array(np.ascontiguousarray(array))
