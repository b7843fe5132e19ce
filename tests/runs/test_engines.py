"""CTranslate2 answers as we do, from a folder that is kept; int8 answers nearly so."""

from __future__ import annotations

import os
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import build

import regard
from regard.base.tensors import named_tensors
from regard.errors import BadInput, RunError
from regard.foreign.ctranslate2_files import why_not
from regard.layers.int8 import Int8Linear, take_int8
from regard.runs.engines import KEPT
from regard.runs.shipped import SHIPPED

ctranslate2 = pytest.importorskip("ctranslate2")
GERMAN = [
    "Zwei Kinder spielen im Park.",
    "Ein Mann schläft im Gras.",
    "Eine Frau liest ein Buch.",
    "Ich habe heute keine Zeit.",
    "Der Hund läuft über die Straße, und die Katze schläft auf dem Stuhl.",
    "Ja.",
    "Wo ist der Bahnhof?",
    "Tom wollte gestern mit Maria nach Boston fahren.",
]


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What is written for shipped runs is kept here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def plain() -> Any:
    return regard.load("de-en", device="cpu")


@pytest.fixture(scope="module")
def fast(cache: None) -> Any:
    return regard.load("de-en", engine="ctranslate2")


def tokens(answers: list[Any]) -> list[tuple[int, ...]]:
    return [answer.written for answer in answers]


@pytest.mark.parametrize(
    "options",
    [
        {"beam": 1},
        {"beam": 5},
        {"beam": 5, "length_penalty": 0.6},
        {"beam": 1, "max_length": 4},
        {"beam": 1, "min_length": 12},
        {"beam": 1, "repetition_penalty": 1.5},
        {"beam": 1, "no_repeat_ngram": 1},
    ],
    ids=str,
)
def test_a_translator_answers_the_same(plain: Any, fast: Any, options: Any) -> None:
    ours, theirs = plain.translate(GERMAN, **options), fast.translate(GERMAN, **options)
    assert tokens(ours) == tokens(theirs)
    for mine, its in zip(ours, theirs, strict=True):
        assert its.score == pytest.approx(mine.score, abs=2e-3)


def test_n_best_answers_and_their_order(plain: Any, fast: Any) -> None:
    ours, theirs = (run.translate(GERMAN[1], beam=4, n_best=3) for run in (plain, fast))
    assert [text for text, _ in theirs.others] == [text for text, _ in ours.others]
    assert theirs.ranks == pytest.approx(ours.ranks, abs=1e-3)


def test_an_answer_does_not_depend_on_the_longer_ones_beside_it(fast: Any) -> None:
    """Every row has a limit of its own, twice its source."""
    never_ends = {"beam": 1, "min_length": 30}
    together = fast.translate(GERMAN, **never_ends)
    assert tokens([fast.translate(text, **never_ends) for text in GERMAN]) == tokens(together)


def test_pictures_are_ours_of_its_answer(plain: Any, fast: Any) -> None:
    text = GERMAN[0]
    ours, theirs = plain.translate(text, beam=1), fast.translate(text, beam=1)
    assert theirs.attention.rows == ours.attention.rows
    torch.testing.assert_close(torch.tensor(theirs.attention.weights), torch.tensor(ours.attention.weights))


def test_coverage_reranks_its_answers(plain: Any, fast: Any) -> None:
    sources, options = GERMAN[:4], {"beam": 4, "coverage": 2.0}
    assert tokens(plain.translate(sources, **options)) == tokens(fast.translate(sources, **options))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"beam": 3, "repetition_penalty": 1.2}, "repetition_penalty"),
        ({"beam": 3, "no_repeat_ngram": 2}, "no_repeat_ngram"),
        ({"beam": 3, "min_length": 5}, "min_length"),
        ({"beam": 1, "temperature": 1.0, "top_k": 5, "top_p": 0.5}, "top_p with top_k"),
    ],
    ids=str,
)
def test_what_means_something_else_there_is_refused(fast: Any, options: Any, named: str) -> None:
    with pytest.raises(BadInput, match=f"does not take .*{named}"):
        fast.translate("Ja.", **options)


def test_sampling_says_that_its_seeds_are_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    fast = regard.load("de-en", engine="ctranslate2")
    answer = fast.translate("Ja.", temperature=0.7, top_k=5, seed=3)
    assert answer.text
    assert answer.score < 0
    assert "the same seed does not sample the same answers" in capsys.readouterr().err


def test_a_language_model_writes_the_same() -> None:
    prompts = ["ROMEO:\nO, ", "KING HENRY:", "What a day, my lord. "]
    plain, fast = regard.load("shakespeare", device="cpu"), regard.load("shakespeare", engine="ctranslate2")
    for options in ({"temperature": 0.0}, {"beam": 3}, {"temperature": 0.0, "stop": ["the", "\n\n"]}):
        ours, theirs = (run.generate(prompts, max_tokens=30, **options) for run in (plain, fast))
        assert [answer.text for answer in theirs] == [answer.text for answer in ours]
        for mine, its in zip(ours, theirs, strict=True):
            assert its.score == pytest.approx(mine.score, abs=2e-3)
    long = {"max_tokens": 270, "temperature": 0.0}  # more than it sees at once
    assert fast.generate(prompts[1], **long).text == plain.generate(prompts[1], **long).text
    assert "".join(fast.generate(prompts[0], stream=True, max_tokens=9, temperature=0.0))
    for refused in ({"repetition_penalty": 1.2}, {"no_repeat_ngram": 2}, {"speculate": 4}):
        with pytest.raises(BadInput, match=f"does not take {next(iter(refused))}"):
            fast.generate("a", max_tokens=3, temperature=0.0, **refused)


def test_a_language_model_is_as_perplexed(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("What is the matter, my lord?\n" * 20)
    plain, fast = regard.load("shakespeare", device="cpu"), regard.load("shakespeare", engine="ctranslate2")
    ours, theirs = (run.evaluate(tmp_path / "text.txt").metrics for run in (plain, fast))
    assert theirs["bits_per_character"] == pytest.approx(ours["bits_per_character"], rel=1e-4)


def test_a_reader_sees_the_same() -> None:
    plain, fast = (
        regard.load("sentences-bert", device="cpu"),
        regard.load("sentences-bert", engine="ctranslate2"),
    )
    texts = ["Tom is a [MASK] man.", "I [MASK] you very much, but not today."]
    for mine, its in zip(plain.fill(texts), fast.fill(texts), strict=True):
        ours, theirs = mine.to_dict()["blanks"], its.to_dict()["blanks"]
        assert str(theirs)[:40] == str(ours)[:40]
    assert fast.fill(texts[0]).attention.rows == plain.fill(texts[0]).attention.rows


def test_the_evaluation_stands_beside_that_in_float32(tmp_path: Path) -> None:

    from regard.tasks.core.evaluation import evaluate_runs

    (tmp_path / "pairs.tsv").write_text("".join(f"{text}\tA man sleeps .\n" for text in GERMAN))
    found = evaluate_runs(
        ["de-en"],
        str(tmp_path / "pairs.tsv"),
        options={"beam": 1},
        engine="ctranslate2",
        dtype="int8",
        progress=lambda run, count: nullcontext(lambda: None),
    )
    assert list(found.evaluations) == ["de-en", "de-en (ctranslate2 int8)"]
    ours, theirs = (evaluation.metrics["perplexity"] for evaluation in found.evaluations.values())
    assert theirs == pytest.approx(ours, rel=0.05)
    assert theirs != ours


@pytest.fixture
def own_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of a user, and a cache without anything."""
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    shutil.copytree(SHIPPED / "shakespeare", tmp_path / "run")
    return tmp_path / "run"


def kept_of(run: Path) -> set[Path]:
    assert {path.name for path in run.iterdir()} == {path.name for path in (SHIPPED / "shakespeare").iterdir()}
    return set((run.parent / "cache" / KEPT).iterdir())


def test_the_folder_is_written_once_into_the_cache(own_run: Path) -> None:
    """And nothing into the run's folder."""
    regard.load(own_run, engine="ctranslate2")
    (kept,) = kept_of(own_run)
    before = (kept / "model.bin").stat().st_mtime_ns
    regard.load(own_run, engine="ctranslate2")
    assert (kept / "model.bin").stat().st_mtime_ns == before
    regard.load(own_run, engine="ctranslate2", dtype="int8")
    assert len(kept_of(own_run)) == 2


def test_other_weights_are_written_again(own_run: Path, tmp_path: Path) -> None:
    """What was not used for a month goes then."""
    regard.load(own_run, engine="ctranslate2")
    (old,) = kept_of(own_run)
    other = regard.load(own_run)
    with torch.no_grad():
        other.model.embed.weight += 0.01
    other.save(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "model.safetensors", own_run / "model.safetensors")
    os.utime(old, (0, 0))
    regard.load(own_run, engine="ctranslate2")
    (new,) = kept_of(own_run)
    assert new != old


def test_an_export_is_translated_by_ctranslate2_itself(plain: Any, tmp_path: Path) -> None:
    before = plain.model.target_embed.weight.clone()
    plain.export(tmp_path / "out", format="ctranslate2", dtype="int8")
    assert torch.equal(plain.model.target_embed.weight, before)  # the package quantises in place
    source = plain.read(GERMAN[1]).ids
    special = plain.tokenizer.special
    translator = ctranslate2.Translator(str(tmp_path / "out"))
    vocabulary = [plain.tokenizer.inner.id_to_token(number) for number in range(len(plain.tokenizer))]
    (answer,) = translator.translate_batch(
        [[vocabulary[token] for token in source]], [[vocabulary[special.start]]], beam_size=1
    )
    ids = [vocabulary.index(name) for name in answer.hypotheses[0]]
    assert plain.tokenizer.decode(ids) == plain.translate(GERMAN[1], beam=1).text
    assert (tmp_path / "out" / "tokenizer.json").is_file()
    with pytest.raises(RunError, match="already exists"):
        plain.export(tmp_path / "out", format="ctranslate2")
    with pytest.raises(BadInput, match="format must be one of library, ctranslate2"):
        plain.export(tmp_path / "other", format="onyx")
    with pytest.raises(BadInput, match="dtype must be one of"):
        plain.export(tmp_path / "other", dtype="int8")


def test_models_that_it_has_not_are_refused_by_name() -> None:
    with pytest.raises(RunError, match="CTranslate2 has no Bahdanau"):
        regard.load("dates", engine="ctranslate2")
    with pytest.raises(BadInput, match="engine must be one of torch, ctranslate2"):
        regard.load("dates", engine="fast")
    with pytest.raises(BadInput, match="dtype must be one of float32, int8"):
        regard.load("dates", dtype="int4")
    for changes, named in (
        ({"norm": "batch"}, "norm"),
        ({"residual": False}, "residual"),
        ({"score": "dot"}, "score"),
        ({"positions": "none"}, "positions"),
        ({"ff": 0}, "feed-forward"),
    ):
        assert named in why_not(build("transformer", **changes))


@pytest.mark.parametrize("name", ["transformer", "gpt2", "bert"])
def test_int8_is_near_and_rounds_the_weights(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.layers.int8.LARGE", 1)
    model = build(name).eval()
    before = {key: tensor.clone() for key, tensor in named_tensors(model).items()}
    assert take_int8(model) > 3
    for key, tensor in named_tensors(model).items():
        assert (tensor - before[key]).abs().max() <= before[key].abs().max() / 127
    part = next(part for part in model.modules() if isinstance(part, Int8Linear))
    x = torch.randn(5, part.in_features)
    with torch.no_grad():
        near = part(x)
    exact = torch.nn.functional.linear(x, part.weight, part.bias)
    assert 0 < (near - exact).abs().max() < 0.05 * exact.abs().max()
    with torch.no_grad():
        part.weight.mul_(2)
        assert (part(x) - 2 * near + part.bias).abs().max() < 0.1 * exact.abs().max()


def test_a_run_in_int8_answers() -> None:
    run = regard.load("de-en", dtype="int8")
    assert run.translate(GERMAN[1], beam=1).text == "A man is sleeping in the grass."
    assert run.translate(GERMAN[1], beam=1).attention.weights.sum(1) == pytest.approx(1, abs=1e-5)
    with pytest.raises(BadInput, match="no product that is large enough"):
        regard.load("copy", dtype="int8")
