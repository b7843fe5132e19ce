"""Options as keywords in Python: the names, ranges and errors of the command line; text as it is written."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import regard
from regard.decode.settings import Decoding
from regard.errors import BadInput
from regard.tasks.ask.run import QuestionReader
from regard.tasks.caption.run import Captioner
from regard.tasks.core.options import CAPTION, TRANSLATE, check_options
from regard.tasks.core.run import Run
from regard.tasks.core.table import TASKS, load_as
from regard.tasks.embed.run import Embedder
from regard.tasks.fewshot.run import FewShot
from regard.tasks.generate.continuation import Continuation
from regard.tasks.generate.run import LanguageModel
from regard.tasks.play.run import Agent
from regard.tasks.recall.run import Recaller
from regard.tasks.recognise.run import Recogniser
from regard.tasks.shared.reader import Reader
from regard.tasks.translate.run import Translator

KINDS: dict[str, type[Run]] = {
    "translate": Translator,
    "generate": LanguageModel,
    "fill": Reader,
    "ask": QuestionReader,
    "follows": Reader,
    "embed": Embedder,
    "classify": Reader,
    "recognise": Recogniser,
    "caption": Captioner,
    "fewshot": FewShot,
    "play": Agent,
    "recall": Recaller,
}
# A file of answers' .alignment; the other half of a pair, a tuple; a method of its own, embed_tokens.
WRITTEN_BY_COMMANDS = {"alignments", "second", "tokens"}


@pytest.fixture(scope="module")
def translator() -> Translator:
    return load_as("dates", Translator, "translate")


@pytest.fixture(scope="module")
def writer() -> LanguageModel:
    return load_as("shakespeare", LanguageModel, "generate")


# ---- the same options


@pytest.mark.parametrize("verb", list(TASKS))
def test_python_takes_the_options_of_the_command(verb: str) -> None:
    method = getattr(KINDS[verb], verb)
    inputs = 2 if TASKS[verb].inputs.what == "pairs" else 1  # two arguments
    taken = set(list(inspect.signature(method).parameters)[1 + inputs :]) - {"decode", "stream"}
    assert taken == {option.name for option in TASKS[verb].options} - WRITTEN_BY_COMMANDS


def test_vectors_of_tokens_take_the_same_options() -> None:
    taken = set(inspect.signature(Embedder.embed_tokens).parameters) - {"self", "text"}
    assert taken == {option.name for option in TASKS["embed"].options} - {"tokens", "pool"}


@pytest.mark.parametrize("verb", [verb for verb, task in TASKS.items() if task.metrics])
def test_python_evaluates_with_the_options_of_the_command(verb: str) -> None:
    taken = set(inspect.signature(KINDS[verb].evaluate).parameters) - {"self", "data", "columns"}
    options = TASKS[verb].evaluate_options
    flags = {option.flag.removeprefix("--").replace("-", "_") for option in options}
    assert taken == flags | {option.name for option in options}


def test_no_public_method_of_a_run_takes_any_keyword() -> None:
    for kind in set(KINDS.values()):
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            if not name.startswith("_"):
                kinds = [one.kind for one in inspect.signature(method).parameters.values()]
                assert inspect.Parameter.VAR_KEYWORD not in kinds, f"{kind.__name__}.{name}"


def test_a_beam_by_keyword(translator: Translator) -> None:
    answer = translator.translate("3 May 1979", beam=5, n_best=3)
    assert answer.text == "1979-05-03"
    assert len(answer.others) == 2
    assert translator.translate(["3 May 1979"], n_best=3)[0].text == answer.text, "the beam is as wide as need be"
    assert not translator.translate("3 May 1979").others, "the run's own settings are as before"


def test_a_dictionary_by_keyword(lexicon: Any) -> None:
    assert (
        lexicon.translator.translate("one Xyzzy three", dictionary={"Xyzzy": "Ksizzi"}).text == "eins Ksizzi drei"
    )


def test_sampling_by_keyword(writer: LanguageModel) -> None:
    drawn = [writer.generate("ROMEO:", max_tokens=12, temperature=1.5, seed=seed).text for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert all(len(text) <= 12 for text in drawn)
    whole = writer.generate("ROMEO:", max_tokens=30, temperature=0)
    one = writer.generate("ROMEO:", max_tokens=30, temperature=0, stop=whole.text[5:8])
    assert one.text == whole.text[: whole.text.index(whole.text[5:8])]
    assert len(writer.generate("ROMEO:", max_tokens=4, n_best=2).others) == 1, "a beam, though the recipe samples"


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        ("translate", {"beam": 0}),
        ("translate", {"beam": 2.5}),
        ("translate", {"n_best": True}),
        ("translate", {"max_length": -1}),
        ("translate", {"coverage": "much"}),
        ("generate", {"max_tokens": 0}),
        ("generate", {"max_tokens": 1 << 20}),
        ("generate", {"top_p": 1.5}),
        ("generate", {"temperature": float("nan")}),
    ],
)
def test_a_value_out_of_range_is_refused_as_on_the_command_line(
    verb: str, options: dict[str, Any], translator: Translator, writer: LanguageModel
) -> None:
    with pytest.raises(BadInput) as expected:
        check_options(TASKS[verb].options, options)
    run = translator if verb == "translate" else writer
    with pytest.raises(BadInput) as error:
        getattr(run, verb)("text", **options)
    assert str(error.value) == str(expected.value)


def refusal(call: Callable[..., object], *arguments: Any, **keywords: Any) -> str:
    try:
        call(*arguments, **keywords)
    except BadInput as error:
        return str(error)
    return ""


@pytest.mark.parametrize("value", [-1, 0, 1, 11, 1000, 1 << 20, 1 << 63, -0.5, 0.5, float("inf"), "a", True])
def test_ranges_are_those_of_decoding(value: Any) -> None:
    """What an option refuses, Decoding refuses in the same words, and the other way round."""
    options = [option for option in (*TRANSLATE, *CAPTION) if option.kind in (int, float)]
    for option in options:
        expected = refusal(Decoding, **{"beam": 999, option.name: value})  # n_best and coverage need one
        assert refusal(check_options, [option], {option.name: value}) == expected
        if isinstance(value, option.kind) and value is not True and not expected:
            assert option.min is None or value >= option.min
            assert option.max is None or value <= option.max


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0.5, "beam": 3}, "temperature samples an answer and beam searches for the likeliest"),
        ({"temperature": 0.5, "n_best": 3}, "sampling gives one answer"),
        ({"seed": -1}, "seed must"),
        ({"top_p": 0.0}, "top_p must lie in"),
        ({"replace_unknown": "yes"}, "replace_unknown must be true or false"),
        ({"beams": 5}, "translate has no option 'beams'; did you mean 'beam'"),
        ({"decode": 5}, "decode must be a Decoding, got 5; give options by name, as in beam=5"),
        ({"dictionary": "words.tsv"}, "dictionary must be a dict of words, source to target; got 'words.tsv'"),
        ({"temp": 5}, "translate has no option 'temp'; did you mean 'temperature'"),
        ({"nbest": 5}, "translate has no option 'nbest'; did you mean 'n_best'"),
    ],
)
def test_what_does_not_go_together_is_named(options: dict[str, Any], message: str, translator: Translator) -> None:
    with pytest.raises(BadInput, match=message):
        translator.translate("3 May 1979", **options)


def test_an_unknown_keyword_names_the_near_one_everywhere(translator: Translator, writer: LanguageModel) -> None:
    with pytest.raises(BadInput, match="generate has no option 'max_token'; did you mean 'max_tokens'"):
        writer.generate("ROMEO:", max_token=3)  # type: ignore[call-overload]
    with pytest.raises(BadInput, match="evaluate has no option 'beams'; did you mean 'beam'"):
        translator.evaluate(beams=3)  # type: ignore[call-arg]
    with pytest.raises(BadInput, match="recognise has no option 'tops'; did you mean 'top'"):
        regard.load("shapes").recognise("image.png", tops=3)


def test_settings_can_be_given_whole_and_changed_by_keyword(writer: LanguageModel) -> None:
    decode = Decoding(max_length=20, temperature=0.0)
    assert writer.generate("ROMEO:", decode).text == writer.generate("ROMEO:", max_tokens=20, temperature=0).text
    assert writer.generate("ROMEO:", decode, max_tokens=5).text == writer.generate("ROMEO:", decode).text[:5]


# ---- as it is written


def test_text_comes_as_it_is_written(writer: LanguageModel) -> None:
    pieces = writer.generate("ROMEO:", max_tokens=30, stream=True)
    assert iter(pieces) is pieces
    found = list(pieces)
    assert len(found) == 30
    assert "".join(found) == writer.generate("ROMEO:", max_tokens=30).text


def test_closing_the_iterator_stops_the_work(writer: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    step, steps = writer.model.step, []
    monkeypatch.setattr(writer.model, "step", lambda *args: (steps.append(1), step(*args))[1])
    pieces = writer.generate("ROMEO:", max_tokens=1000, stream=True)
    assert not steps, "nothing is written before it is asked for"
    assert len(list(itertools.islice(pieces, 3))) == 3
    assert len(steps) == 3
    assert not torch.is_inference_mode_enabled(), "the caller may train between two pieces"
    pieces.close()
    assert list(pieces) == []
    assert len(steps) == 3


def test_a_beam_streams_its_text_at_the_end_and_returns_the_answer(writer: LanguageModel) -> None:
    pieces = writer.generate("ROMEO:", max_tokens=8, beam=2, stream=True)
    text = next(pieces)
    with pytest.raises(StopIteration) as end:
        next(pieces)
    one = end.value.value
    assert isinstance(one, Continuation)
    assert text == one.text == writer.generate("ROMEO:", max_tokens=8, beam=2).text


def test_only_one_text_is_streamed_and_faults_are_told_at_the_call(writer: LanguageModel) -> None:
    with pytest.raises(BadInput, match="stream gives the text after one prompt"):
        writer.generate(["a", "b"], stream=True)  # type: ignore[call-overload]
    with pytest.raises(BadInput, match="n_best asks for 2"):
        writer.generate("a", n_best=2, stream=True)
    with pytest.raises(BadInput, match="keep its last part"):
        writer.generate("a" * 10_000, stream=True)
