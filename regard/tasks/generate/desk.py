"""What a language model does: trained, opened, evaluated, asked."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from regard.attention.trace import sites_of
from regard.base.patterns import COLUMNED, form_by_name
from regard.data.artifacts import Artifacts
from regard.data.text.tokenizer import Tokenizer
from regard.decode.settings import Decoding
from regard.metrics.perplexity import Perplexity
from regard.models.protocols import Model
from regard.runs.folder import Folder
from regard.tasks.core.card import Options
from regard.tasks.core.desk import Stream, ticked
from regard.tasks.core.options import GENERATE
from regard.tasks.core.results import Evaluation, Tick, no_tick
from regard.tasks.generate.continuation import Continuation
from regard.tasks.generate.prepare import TestText, prepare, survey, test_text
from regard.tasks.generate.run import LanguageModel, Prompt
from regard.tasks.generate.settings import PAIRS, TextSettings
from regard.tasks.shared.measuring import total_loss
from regard.tasks.shared.writing_desk import WritingDesk

LOOKED_AT, WRITTEN = 24, 12  # tokens of a held-out text, and tokens that continue it


class GenerateDesk(WritingDesk[TextSettings, LanguageModel, TestText]):
    kind = LanguageModel
    decodes_with = GENERATE
    survey = staticmethod(survey)
    prepare = staticmethod(prepare)

    # -- a run

    def artifacts(self, folder: Folder) -> Artifacts:
        return Artifacts(folder.tokenizer())

    def open(self, folder: Folder, model: Model, artifacts: Artifacts) -> LanguageModel:
        tokenizer = artifacts.own_tokenizer
        data = (folder.recipe or {}).get("data")
        responds = isinstance(data, dict) and data.get("documents") == PAIRS
        first = [] if responds else opening(folder, tokenizer)
        return LanguageModel(model, tokenizer, folder.decoding(), opening=first, responds=responds)

    # -- evaluation

    @contextmanager
    def test_data(self, run: LanguageModel, settings: TextSettings) -> Iterator[TestText]:
        with tempfile.TemporaryDirectory() as folder:
            yield test_text(settings, run, Path(folder))

    def has_columns(self, settings: TextSettings) -> bool:
        return settings.in_columns(settings.test_files)

    def evaluate(
        self,
        run: LanguageModel,
        data: TestText,
        *,
        only: Sequence[str] = (),
        options: Options | None = None,
        tick: Tick = no_tick,
    ) -> Evaluation:
        """How well a text is predicted."""
        nats, tokens = total_loss(run.model, data.windows.order(), data.windows.batch, tick=tick)
        if set(only) == {"loss"}:  # in training, where words and characters are not counted
            return Evaluation({"loss": nats / tokens})
        perplexity = Perplexity(nats, tokens, data.words, data.characters)
        return Evaluation(
            {
                "loss": perplexity.loss,
                "perplexity": perplexity.per_token,
                "word_perplexity": perplexity.per_word,
                "bits_per_character": perplexity.bits_per_character,
            },
            {
                "tokens": tokens,
                "words": data.words,
                "characters": data.characters,
                "length": data.length,
                "stride": data.stride,
            },
        )

    def held_out(self, run: LanguageModel, data: TestText, count: int) -> Iterator[Continuation]:
        """What each window of the text begins with is a prompt."""
        windows: Any = data.windows  # of text or of pairs
        for batch in map(windows.batch, islice(windows.order(), count)):
            words = batch.tokens[0, :LOOKED_AT].tolist()
            decode = Decoding(max_length=WRITTEN)
            yield next(run.continuations([Prompt(run.tokenizer.decode(words), words)], decode))

    # -- asking

    def check(self, run: LanguageModel, *, drawing: bool = False) -> None:
        if drawing and not sites_of(run.model):  # neither attention nor gates
            run.check_looks()

    def settled(self, run: LanguageModel, options: Options) -> Options:
        """On the command line, [] is no --stop."""
        return super().settled(run, {**options, "stop": options.get("stop") or None})

    def reader(self, run: LanguageModel, options: Options) -> Callable[[str], Prompt]:
        return partial(run.begin, decode=options["decoding"])

    def streams(self, run: LanguageModel, options: Options) -> bool:
        return options["decoding"].n_best == 1 and not run.responds

    def ask(
        self,
        run: LanguageModel,
        inputs: Iterable[Prompt],
        options: Options,
        *,
        tick: Tick = no_tick,
        stream: Stream | None = None,
    ) -> Iterator[Continuation]:
        if stream is None:
            return ticked(run.continuations(inputs, options["decoding"]), tick)
        return ticked(streamed(run, inputs, options["decoding"], stream), tick)


def opening(folder: Folder, tokenizer: Tokenizer) -> list[int]:
    """What a new text follows: a line break, where a run learned from files that are each one long document and has
    hardly seen the token that begins one; [] for others."""
    data = (folder.recipe or {}).get("data")
    if not isinstance(data, dict) or data.get("documents", "file") != "file":
        return []
    names = data.get("train", "")
    if any(form_by_name(Path(str(name))) in COLUMNED for name in (names if isinstance(names, list) else [names])):
        return []
    ids = tokenizer.encode("\n")
    return [] if tokenizer.special.unknown in ids else ids


def streamed(
    run: LanguageModel, prompts: Iterable[Prompt], decode: Decoding, write: Stream
) -> Iterator[Continuation]:
    """Each prompt by itself, its text given to `write` piece by piece."""
    for prompt in prompts:
        pieces = run.stream(prompt, decode)
        try:
            while True:
                write(next(pieces))
        except StopIteration as end:
            yield end.value
