"""What users write, as a type checker sees it: tests/test_project.py checks it against an installed copy.

It is not run. A wrong type is an error of mypy, and so is a `type: ignore` that is not needed."""

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, assert_type

import numpy as np

import regard
from regard.attention import Additive, Attend, Look, Memory, trace
from regard.decode.settings import Decoding
from regard.metrics.alignment import Links
from regard.show import Examples, Heads, Looks, Map, Overlay, ShadedText, Tape
from regard.tasks.caption.run import Caption
from regard.tasks.core.results import Evaluation
from regard.tasks.fewshot.run import Told
from regard.tasks.generate.continuation import Continuation
from regard.tasks.generate.run import LanguageModel
from regard.tasks.recall.run import Recalled
from regard.tasks.recognise.run import Recognised, Recogniser
from regard.tasks.shared.reader import Reader
from regard.tasks.shared.reader_answers import Classified, Filled
from regard.tasks.translate.run import Translator
from regard.tasks.translate.translation import Translation


def translating() -> None:
    run: Translator = regard.load("dates")
    assert_type(run.translate("3 May 1979"), Translation)
    assert_type(run.translate("3 May 1979", beam=5, n_best=3), Translation)
    assert_type(
        run.translate(["3 May 1979"], Decoding(beam=5), coverage=0.2, dictionary={"a": "b"}), list[Translation]
    )
    answer = run.translate("3 May 1979", temperature=0.7, seed=1)
    assert_type(answer.text, str)
    assert_type(answer.score, float)
    assert_type(answer.others, tuple[tuple[str, float], ...])
    assert_type(answer.attention, Map)
    assert_type(answer.attention.pieces, Map)
    assert_type(answer.attention.shaded(), ShadedText)
    assert_type(answer.heads("decoder.*"), Heads)
    assert_type(answer.heads().map("attend"), Map)
    assert_type(answer.alignment, Links)
    assert_type(answer.to_dict(), dict[str, object])
    found = run.evaluate(Path("test.tsv"), columns="source,target", beam=5)
    assert_type(found, Evaluation)
    assert_type(found.metrics, dict[str, float])
    run.translate("3 May 1979", beam="5")  # type: ignore[call-overload]
    run.translate("3 May 1979", beams=5)  # type: ignore[call-overload]
    run.evaluate(stride=3)  # type: ignore[call-arg]
    answer.attentions  # type: ignore[attr-defined] # noqa: B018


def generating() -> None:
    run: LanguageModel = regard.load("shakespeare")
    assert_type(run.generate("ROMEO:", max_tokens=100, temperature=0.8, top_p=0.9, seed=1), Continuation)
    assert_type(run.generate(["ROMEO:", "JULIET:"], stop="\n"), list[Continuation])
    assert_type(run.generate("ROMEO:", stop=["\n", "."], stream=False), Continuation)
    assert_type(run.generate("ROMEO:", stream=True), Generator[str, None, Continuation])
    pieces: Iterator[str] = run.generate("ROMEO:", stream=True)
    for piece in pieces:
        assert_type(piece, str)
    assert_type(run.generate("ROMEO:").finished, bool)
    assert_type(run.generate("ROMEO:").attention, Map)
    assert_type(run.evaluate("book.txt", stride=64), Evaluation)
    run.generate(["ROMEO:"], stream=True)  # type: ignore[call-overload]
    run.generate("ROMEO:", max_length=3)  # type: ignore[call-overload]


def reading(run: Reader, texts: list[str], pairs: list[tuple[str, str]]) -> None:
    assert_type(run.classify("A film to remember."), Classified)
    assert_type(run.classify(("A film.", "A book.")), Classified)
    assert_type(run.classify(texts), list[Classified])
    assert_type(run.classify(pairs), list[Classified])
    assert_type(run.classify("A film.").probabilities, dict[str, float])
    assert_type(run.classify("A film.").attention, Map)
    assert_type(run.fill("The [MASK] sat.", top=3), Filled)
    assert_type(run.fill(texts), list[Filled])
    assert_type(run.embed(texts, pool="cls", normalise=True), np.ndarray[tuple[Any, ...], np.dtype[Any]])
    assert_type(run.evaluate("more.tsv", columns="text,label"), Evaluation)
    run.embed("A film.", pool="max")  # type: ignore[arg-type]


def recognising(files: list[Path], pixels: np.ndarray) -> None:
    run: Recogniser = regard.load("shapes")
    assert_type(run.recognise(pixels, top=3), Recognised)
    assert_type(run.recognise(files), list[Recognised])
    assert_type(run.recognise(["a.png", "b.png"]), list[Recognised])
    assert_type(run.recognise("a.png").label, str)
    assert_type(run.recognise("a.png").overlay("blocks.*"), Overlay)
    assert_type(run.evaluate(), Evaluation)


def showing(files: list[Path], pixels: np.ndarray) -> None:
    run = regard.load("runs/mine", task="fewshot")
    assert_type(run, regard.FewShot)
    assert_type(regard.load("omniglot"), regard.FewShot)
    assert_type(run.fewshot(pixels, "examples", top=3), Told)
    assert_type(run.fewshot(files, {"cat": files, "dog": pixels}), list[Told])
    assert_type(run.fewshot("a.png", run.learn("examples")).examples("*"), Examples)
    assert_type(run.evaluate(episodes=100), Evaluation)


def remembering() -> None:
    run = regard.load("runs/mine", task="recall")
    assert_type(run, regard.Recaller)
    assert_type(run.recall("01010101 11001100"), Recalled)
    assert_type(run.recall(length=20, seed=3).picture(), Tape)
    assert_type(run.recall(["01010101", "11001100"]), list[Recalled])
    assert_type(run.evaluate(lengths=[20, 40]), Evaluation)


def captioning(files: list[Path], pixels: np.ndarray) -> None:
    run = regard.load("runs/mine", task="caption")
    assert_type(run, regard.Captioner)
    assert_type(run.caption(pixels, beam=5, n_best=3), Caption)
    assert_type(run.caption(files), list[Caption])
    assert_type(run.caption("a.png").attention, Looks)
    assert_type(run.caption("a.png").gates(), Heads)
    assert_type(run.evaluate("captions.tsv", images="photos", beam=5), Evaluation)
    run.caption("a.png", coverage=0.2)  # type: ignore[call-overload]


def looking(translator: Translator, states: Any) -> None:
    attend = Attend(Additive(16, 32))
    assert_type(attend.remember(states), Memory)
    assert_type(attend.look(states, attend.remember(states)), Look)
    with trace(translator.model, "attend") as seen:
        translator.translate("3 May 1979")
    assert_type(seen.sites, list[str])
    Map([[0.7, 0.3]], rows=["chat"], columns=["the", "cat"]).save("mine.png")
