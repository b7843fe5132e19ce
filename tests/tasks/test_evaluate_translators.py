"""How good a run is: by one reference or several, by length, and beside another run."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.data.made.pairs import copy
from regard.data.text.special_tokens import END, START
from regard.decode.settings import Decoding
from regard.errors import DataError, RecipeError
from regard.metrics.bleu import MEASURES, bleu
from regard.metrics.rouge import ROUGE, rouge
from regard.tasks.core import training
from regard.tasks.core.recipe import read
from regard.tasks.core.results import Evaluation, Metric, Tick, no_tick
from regard.tasks.core.table import TASKS, load
from regard.tasks.shared.measuring import total_loss
from regard.tasks.translate import evaluate, prepare
from regard.tasks.translate.evaluate import Translated, compare
from regard.tasks.translate.prepare import pair_data
from regard.tasks.translate.run import Translator
from regard.tasks.translate.settings import Example

LEXICON = {"one": "eins", "two": "zwei", "three": "drei", "four": "vier"}
SOURCES = ["one two three four", "five six", "seven", "eight one two three four five", "two two Xyzzy two"]


def evaluated(
    translator: Translator, examples: list[Example], decoding: Decoding | None = None, tick: Tick = no_tick
) -> Evaluation:
    ids = pair_data(((source, references[0]) for source, references in examples), translator, 512)
    options = asdict(decoding) if decoding else None
    return evaluate.evaluate(translator, prepare.TestPairs(ids, examples), options=options, tick=tick)


def translated(found: Evaluation) -> Translated:
    assert isinstance(found.compared, Translated)
    return found.compared


def test_on_its_own_answers_a_run_is_perfect(run: Any) -> None:
    sources = [source for source, _ in copy("test", 12)]
    draw = Decoding(temperature=1.0)  # so young a run's likeliest answers are all alike
    own = [(answer.source, (answer.text,)) for answer in run.translator.translate(sources, draw)]
    ticks: list[int] = []
    found = evaluated(run.translator, own, draw, tick=lambda: ticks.append(1))
    assert len(translated(found).answers) == len(ticks) == 12
    assert found.metrics["exact_match"] == 100
    assert found.metrics["chrf"] == pytest.approx(100)
    worse = [(source, ("@",) if number % 3 == 0 else target) for number, (source, target) in enumerate(own)]
    lower = evaluated(run.translator, worse, draw)
    assert lower.metrics["exact_match"] == pytest.approx(100 * 8 / 12)
    assert lower.metrics["chrf"] < 100


def test_perplexity_is_that_of_the_references(run: Any) -> None:
    translator, pairs = run.translator, copy("test", 5)
    total, tokens = 0.0, 0
    for source, target in pairs:
        read, said = ([*translator.tokenizer.encode(text), END] for text in (source, target))
        with torch.no_grad():
            known = translator.model(torch.tensor([read]), torch.tensor([[START, *said[:-1]]]))[0].log_softmax(-1)
        total, tokens = total - float(known[range(len(said)), said].sum()), tokens + len(said)
    found = evaluated(translator, [(source, (target, "never counted")) for source, target in pairs])
    assert found.metrics["perplexity"] == pytest.approx(math.exp(total / tokens), rel=1e-4)


def test_no_pairs_to_evaluate_on_are_refused(run: Any, tmp_path: Path) -> None:
    for name, text in (("empty.tsv", ""), ("header.csv", "source,target\n")):
        (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match="at least one pair"):
            run.translator.evaluate(tmp_path / name)


def test_any_of_several_references_will_do(lexicon: Any) -> None:
    answers = [answer.text for answer in lexicon.translator.translate(SOURCES)]
    poor = [(source, ("falsch falsch falsch falsch",)) for source in SOURCES]
    rich = [(source, (*bad, text)) for (source, bad), text in zip(poor, answers, strict=True)]
    mixed = [rich[0], *poor[1:4], rich[4]]  # as many references as there are
    assert evaluated(lexicon.translator, poor).metrics["exact_match"] == 0
    found = evaluated(lexicon.translator, rich)
    assert translated(found).answers == answers
    for name in ("bleu", "tokenised_bleu", "chrf", "exact_match"):
        assert found.metrics[name] == pytest.approx(100)
    assert evaluated(lexicon.translator, mixed).metrics["exact_match"] == pytest.approx(40)


def test_an_evaluation_says_how_it_came_about(lexicon: Any) -> None:
    examples = [(source, ("eins zwei drei vier",)) for source in SOURCES]
    found = evaluated(lexicon.translator, examples, Decoding(beam=3))
    assert set(found.metrics) == set(TASKS["translate"].metrics) - set(ROUGE)
    assert found.metrics["bleu"] == pytest.approx(
        bleu(translated(found).answers, [("eins zwei drei vier",)] * 5)[0]
    )
    table = json.loads(json.dumps(found.to_dict()))
    assert table["pairs"] == 5
    assert {"bleu_signature", "tokenised_bleu_signature", "chrf_signature"} < set(table)
    assert "tok:13a" in table["bleu_signature"]
    assert "tok:none" in table["tokenised_bleu_signature"]
    assert "case:lc" in table["tokenised_bleu_signature"]
    assert all("version:" in table[f"{name}_signature"] for name in MEASURES)


def test_bleu_is_told_by_source_length(lexicon: Any) -> None:
    """Right for short sources, wrong for long ones."""
    short = [("one two three four", ("eins zwei drei vier",))] * 25
    long = [("one two three four five six seven eight one two", ("ganz und gar nicht so",))] * 25
    found = evaluated(lexicon.translator, [*short, *long])
    assert [(bucket.low <= 4 <= bucket.high, bucket.sentences) for bucket in translated(found).by_length] == [
        (True, 25),
        (False, 25),
    ]
    assert translated(found).by_length[0].bleu == pytest.approx(100)
    assert translated(found).by_length[1].bleu < 20
    assert [part["sentences"] for part in found.to_dict()["bleu_by_length"]] == [25, 25]


@pytest.fixture(scope="module")
def beginner(tmp_path_factory: pytest.TempPathFactory, words: str) -> Any:
    """Has learned next to nothing of what `lexicon` knows."""
    folder = tmp_path_factory.mktemp("beginner") / "run"
    job, text = read(words, ["train.steps=2"])
    training.train(job, folder, recipe=text, command="")
    return load(folder)


def test_short_targets_are_compared_by_exact_match(
    lexicon: Any, beginner: Any, words: str, tmp_path: Path, train: Any
) -> None:
    """BLEU is 0 of single words, however good they are."""
    examples = [(word, (target,)) for word, target in LEXICON.items()]
    young, grown = evaluated(beginner, examples), evaluated(lexicon.translator, examples)
    assert grown.metrics["exact_match"] == 100
    assert {"bleu", "tokenised_bleu"}.isdisjoint(grown.metrics)
    assert any("bleu, tokenised_bleu: cannot tell" in note for note in grown.notes)
    assert (grown.to_dict()["bleu_by_length"], "chrf" in grown.metrics) == ([], True)
    exact, chrf = compare(young, grown)
    assert (exact.metric, chrf.metric) == ("exact_match", "chrf")
    assert exact.difference == 100 - young.metrics["exact_match"] > 0
    with pytest.raises(DataError, match="BLEU cannot tell"):
        evaluate.plot({"run": grown})
    few = ["data.made=recall", "data.train=", "data.valid=", "data.train_count=60", "data.valid_count=10"]
    with pytest.raises(RecipeError, match=r"best_by is bleu, .* set train\.best_by=exact_match"):
        train(words, tmp_path / "other", *few, "train.best_by=bleu")


def test_short_targets_choose_the_best_weights_by_exact_match(words: str, tmp_path: Path, train: Any) -> None:
    """As a recipe for one's own pairs does that says nothing about it: codes and numbers have no BLEU."""
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{number}\t{number * number}\n" for number in range(60)))
    report = train(
        words, tmp_path / "run", f"data.train={pairs}", "data.valid=", "train.steps=4", "train.eval_every=2"
    )
    assert set(report.best) == {"valid_loss", "exact_match"}


def test_two_runs_are_compared(lexicon: Any, beginner: Any, words: str) -> None:
    examples = read(words)[0].data.examples("valid")
    young, grown = evaluated(beginner, examples), evaluated(lexicon.translator, examples)
    differences = compare(young, grown)
    for one in differences:
        assert (one.first, one.second) == (
            pytest.approx(young.metrics[one.metric]),
            pytest.approx(grown.metrics[one.metric]),
        )
        assert one.difference == pytest.approx(one.second - one.first)
        assert 0 < one.interval[0] <= one.difference <= one.interval[1]
        assert one.p < 0.05
    assert [one.metric for one in differences] == ["bleu", "tokenised_bleu", "chrf"]
    for one in compare(grown, grown):
        assert (one.difference, one.interval) == (0, (0, 0))
        assert one.p > 0.5
    for one, turned in zip(differences, compare(grown, young), strict=True):
        assert turned.difference == pytest.approx(-one.difference)


# ---- by what the best weights are chosen


@pytest.mark.parametrize(("best_by", "step"), [("valid_loss", 6), ("bleu", 4), ("exact_match", 2)])
def test_the_weights_kept_are_the_best_by_what_the_recipe_says(
    best_by: str, step: int, words: str, tmp_path: Path, train: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores are set, so that each of three validations is the best in one way."""
    counts: list[int] = []
    bleus, exact = iter([10.0, 30.0, 20.0]), iter([3.0, 1.0, 2.0])

    def score(answers: list[str], _: Any) -> tuple[float, str]:
        counts.append(len(answers))
        return next(bleus), ""

    monkeypatch.setitem(evaluate.SCORED, "bleu", score)
    monkeypatch.setattr(evaluate, "exact_match", lambda *_: next(exact))
    changes = [f"train.best_by={best_by}", "train.steps=6", "train.eval_every=2", "data.eval_pairs=7"]
    report = train(words, tmp_path, *changes)
    rows = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    losses = {row["step"]: row["valid_loss"] for row in rows if "valid_loss" in row}
    assert losses[2] > losses[4] > losses[6], "it learns"
    assert report.best_step == step
    assert counts == [7, 7, 7]
    translator = load(tmp_path)
    held = pair_data(read(words)[0].data.pairs("valid"), translator, 512)
    nats, tokens = total_loss(translator.model, map(held.batch, held.order(0)))
    assert nats / tokens == pytest.approx(losses[step], abs=1e-5)


@pytest.mark.parametrize(("better", "step"), [("max", 2), ("min", 4)])
def test_best_by_follows_the_direction_of_the_metric(
    better: Any, step: int, words: str, tmp_path: Path, train: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """min: as if fewer exact answers were better."""
    metrics = {**TASKS["translate"].metrics, "exact_match": Metric(better)}
    task = replace(TASKS["translate"], metrics=metrics)
    exact = iter([3.0, 1.0, 2.0])
    monkeypatch.setattr(evaluate, "exact_match", lambda *_: next(exact))
    monkeypatch.setitem(TASKS, "translate", task)
    changes = ["train.best_by=exact_match", "train.steps=6", "train.eval_every=2", "data.eval_pairs=1"]
    report = train(words, tmp_path, *changes)
    assert report.best_step == step
    assert report.best["exact_match"] == {2: 3.0, 4: 1.0}[step]


def test_from_python_it_is_evaluated_as_training_did(lexicon: Any, words: str) -> None:
    """On the recipe's own data, and on the same data as a file."""
    file = read(words)[0].data.valid
    for found in (lexicon.translator.evaluate(), lexicon.translator.evaluate(file)):
        for name in ("exact_match", "bleu"):
            assert found.metrics[name] == lexicon.report.best[name]
        assert found.metrics["loss"] == pytest.approx(lexicon.report.best["valid_loss"], rel=1e-6)
        assert found.counts == {"pairs": 40}


def test_the_best_by_bleu_is_what_the_run_answers(lexicon: Any, words: str) -> None:
    """Evaluating the loaded run greedily on all pairs gives what validation logged for the best weights."""
    found = evaluated(lexicon.translator, read(words)[0].data.examples("valid"), Decoding())
    assert found.metrics["bleu"] == pytest.approx(lexicon.report.best["bleu"], abs=1e-6)
    assert found.metrics["exact_match"] == lexicon.report.best["exact_match"]
    assert math.log(found.metrics["perplexity"]) == pytest.approx(lexicon.report.best["valid_loss"], abs=1e-5)


def test_an_unknown_metric_is_refused(words: str) -> None:
    with pytest.raises(
        ValueError, match="best_by must be valid_loss or exact_match or bleu or rougeL for bahdanau, got 'chrf'"
    ):
        read(words, ["train.best_by=chrf"])


def test_summaries_are_judged_by_rouge(words: str, tmp_path: Path, train: Any) -> None:
    changes = ["data.metrics=rouge", "train.best_by=rougeL", "train.steps=2"]
    report = train(words, tmp_path / "run", *changes)
    assert "rougeL" in report.best
    run, pairs = load(tmp_path / "run"), [("one two", "eins zwei"), ("three", "drei vier")]
    first = run.evaluate(pairs)
    assert set(first.metrics) == {"exact_match", "rouge1", "rouge2", "rougeL", "perplexity", "loss"}
    answers = run.translate([source for source, _ in pairs])
    texts, references = [answer.text for answer in answers], [(target,) for _, target in pairs]
    for name in ROUGE:
        assert first.metrics[name] == pytest.approx(rouge(name, texts, references))
    assert first.details["bleu_by_length"] == []
    compared = TASKS["translate"].desk.compare(first, first)
    assert [one.metric for one in compared] == ["exact_match", *ROUGE]
    with pytest.raises(RecipeError, match="best_by is rougeL, and answers are judged by bleu, tokenised"):
        train(words, tmp_path / "other", "train.best_by=rougeL", "train.steps=2")
