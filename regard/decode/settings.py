"""How answers are searched for. No torch here, so that recipes can be checked and shown without it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from regard.base.arguments import checking
from regard.base.fields import check, setting
from regard.errors import BadInput

# Beyond these limits scores would overflow float32; useful values are far below.
MOST_PENALTY = 10
MOST_COVERAGE = 1000
MOST_REPETITION = 1e6
TOO_MANY_TOKENS = 1 << 20
MOST_PROPOSED = 64  # tokens


@dataclass(frozen=True)
class Decoding:
    """A recipe's [decode]: greedy, beam search, or, with a temperature above 0, sampling.

    The same object goes from a recipe, the command line, Python or a request to the search. It is checked here, and
    nowhere else."""

    beam: int = setting(1, at_least=1, below=1000)  # hypotheses kept in beam search; 1: greedy
    n_best: int = setting(1, at_least=1, below=1000)  # answers to give for each input
    # beam: rank by log p / length^X; 0 prefers short answers, 1 is the mean
    length_penalty: float = setting(1.0, at_least=-MOST_PENALTY, at_most=MOST_PENALTY)
    # beam: penalty for source tokens left unread (Wu 2016, eq. 14); translators
    coverage: float = setting(0.0, at_least=0, at_most=MOST_COVERAGE)
    min_length: int = setting(0, at_least=0, below=TOO_MANY_TOKENS)  # tokens written before an answer may end
    # most tokens of an answer, the end token included; 0: twice the source and 20
    max_length: int = setting(0, at_least=0, below=TOO_MANY_TOKENS)
    replace_unknown: bool = False  # translators: copy the source word most looked at in place of an unknown one
    # above 1, tokens written before become less likely (Keskar 2019)
    repetition_penalty: float = setting(1.0, at_least=1 / MOST_REPETITION, at_most=MOST_REPETITION)
    # no sequence of so many tokens is written twice; 0: off
    no_repeat_ngram: int = setting(0, at_least=0, below=TOO_MANY_TOKENS)
    renormalise: bool = False  # beam: renormalise log p after tokens were ruled out
    # generation ends before any of these texts
    stop: tuple[str, ...] = setting((), words="a text or a list of texts")
    # sample from logits divided by this; 0: no sampling, take the most likely token
    temperature: float = setting(0.0, at_least=0)
    top_k: int = setting(0, at_least=0, below=1 << 31)  # sample among the so many most likely tokens; 0: among all
    # sample among the most likely tokens that sum to this probability; 1: among all
    top_p: float = setting(1.0, above=0, at_most=1)
    # language models: so many tokens, looked up in the text so far, are verified in one pass; 0: off
    speculate: int = setting(0, at_least=0, at_most=MOST_PROPOSED)
    seed: int = setting(0, at_least=0, below=1 << 63)  # of sampling: the same seed gives the same text

    def __post_init__(self) -> None:
        if isinstance(self.stop, str):
            object.__setattr__(self, "stop", (self.stop,))
        check(self)
        if self.n_best > self.beam:
            raise BadInput(f"n_best must be at most beam = {self.beam}, got {self.n_best}; take a wider beam")
        if self.max_length and self.min_length >= self.max_length:
            raise BadInput(
                f"min_length must be below max_length = {self.max_length}, which counts the end token too, "
                f"got {self.min_length}"
            )
        if self.coverage and self.beam == 1:
            raise BadInput("coverage chooses among the answers of a beam; set beam above 1")
        if not all(self.stop):
            raise BadInput(f"stop must be a text or a list of texts, none empty, got {self.stop!r}")
        for text in self.stop:
            try:
                text.encode()
            except UnicodeEncodeError:
                raise BadInput(f"stop must be text that UTF-8 can encode, got {text!r:.80}") from None
        if self.speculate and self.is_beam:
            raise BadInput(
                f"speculate proposes the next tokens of one text, and beam = {self.beam} writes several; set "
                "beam = 1 or speculate = 0"
            )
        if self.temperature and self.n_best > 1:
            raise BadInput(f"sampling gives one answer, got n_best = {self.n_best}; set temperature = 0")

    @property
    def is_beam(self) -> bool:
        """Is it a beam search? A beam knows no answer before its end, so it is not written token by token."""
        return self.temperature == 0 and self.beam > 1

    @property
    def looks_back(self) -> bool:
        """Does a rule depend on what is written?"""
        return self.repetition_penalty != 1 or self.no_repeat_ngram > 0

    @cached_property
    def choice(self) -> Decoding:
        """What the choice of a next token depends on: rows with equal choices are computed together."""
        return Decoding(
            repetition_penalty=self.repetition_penalty,
            no_repeat_ngram=self.no_repeat_ngram,
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
        )


# An unknown setting is an error of ours too; values are checked by `check`.
Decoding.__init__ = checking(Decoding.__init__, unchecked=Decoding.__dataclass_fields__)  # type: ignore[method-assign]
