"""How good a run is: by one reference or several, by length, and beside another run."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.app.recipe import read
from regard.data.made import copy
from regard.data.text import END, START
from regard.metrics.bleu import bleu
from regard.tasks import Decoding, load, pairs
from regard.tasks.judge import MEASURES, compare, judge

SOURCES = ["one two three four", "five six", "seven", "eight one two three four five", "two two Xyzzy two"]


def test_judged_by_its_own_answers_a_run_is_perfect(run: Any) -> None:
    sources = [source for source, _ in copy("test", 12)]
    draw = Decoding(temperature=1.0)  # so young a run's likeliest answers are all alike
    own = [(answer.source, (answer.text,)) for answer in run.translator.translate(sources, draw)]
    ticks: list[int] = []
    verdict = judge(run.translator, own, draw, tick=lambda: ticks.append(1))
    assert len(verdict.answers) == len(ticks) == 12
    assert verdict.scores["exact_match"] == 100
    assert verdict.scores["chrf"] == pytest.approx(100)
    worse = [(source, ("@",) if number % 3 == 0 else target) for number, (source, target) in enumerate(own)]
    judged = judge(run.translator, worse, draw)
    assert judged.scores["exact_match"] == pytest.approx(100 * 8 / 12)
    assert judged.scores["chrf"] < 100


def test_perplexity_is_that_of_the_references(run: Any) -> None:
    translator, pairs = run.translator, copy("test", 5)
    total, tokens = 0.0, 0
    for source, target in pairs:
        read, said = ([*translator.tokenizer.encode(text), END] for text in (source, target))
        with torch.no_grad():
            known = translator.model(torch.tensor([read]), torch.tensor([[START, *said[:-1]]]))[0].log_softmax(-1)
        total, tokens = total - float(known[range(len(said)), said].sum()), tokens + len(said)
    found = judge(translator, [(source, (target, "never counted")) for source, target in pairs])
    assert found.scores["perplexity"] == pytest.approx(math.exp(total / tokens), rel=1e-4)


def test_no_pairs_to_judge_by_are_refused(run: Any) -> None:
    with pytest.raises(ValueError, match="at least one pair to judge by"):
        judge(run.translator, [])


def test_any_of_several_references_will_do(lexicon: Any) -> None:
    answers = [answer.text for answer in lexicon.translator.translate(SOURCES)]
    poor = [(source, ("falsch falsch falsch falsch",)) for source in SOURCES]
    rich = [(source, (*bad, text)) for (source, bad), text in zip(poor, answers, strict=True)]
    mixed = [rich[0], *poor[1:4], rich[4]]  # as many references as there are
    assert judge(lexicon.translator, poor).scores["exact_match"] == 0
    verdict = judge(lexicon.translator, rich)
    assert verdict.answers == answers
    for name in ("bleu", "tokenised_bleu", "chrf", "exact_match"):
        assert verdict.scores[name] == pytest.approx(100)
    assert judge(lexicon.translator, mixed).scores["exact_match"] == pytest.approx(40)


def test_a_verdict_says_how_it_came_about(lexicon: Any) -> None:
    examples = [(source, ("eins zwei drei vier",)) for source in SOURCES]
    verdict = judge(lexicon.translator, examples, Decoding(beam=3))
    assert set(verdict.scores) == set(MEASURES)
    assert verdict.scores["bleu"] == pytest.approx(bleu(verdict.answers, [("eins zwei drei vier",)] * 5)[0])
    table = json.loads(json.dumps(verdict.table()))
    assert table["pairs"] == 5
    assert {"bleu_signature", "tokenised_bleu_signature", "chrf_signature"} < set(table)
    assert "tok:13a" in table["bleu_signature"]
    assert "tok:none" in table["tokenised_bleu_signature"]
    assert "case:lc" in table["tokenised_bleu_signature"]
    assert all("version:" in text for text in verdict.signatures.values())


def test_bleu_is_told_by_source_length(lexicon: Any) -> None:
    """Right for short sources, wrong for long ones."""
    short = [("one two three four", ("eins zwei drei vier",))] * 25
    long = [("one two three four five six seven eight one two", ("ganz und gar nicht so",))] * 25
    verdict = judge(lexicon.translator, [*short, *long])
    assert [(bucket.low <= 4 <= bucket.high, bucket.sentences) for bucket in verdict.by_length] == [
        (True, 25),
        (False, 25),
    ]
    assert verdict.by_length[0].bleu == pytest.approx(100)
    assert verdict.by_length[1].bleu < 20
    assert [part["sentences"] for part in verdict.table()["bleu_by_length"]] == [25, 25]


def test_two_runs_are_compared(lexicon: Any, words: str, tmp_path: Path, train: Any) -> None:
    train(words, tmp_path, "train.steps=2")
    examples = read(words)[0].data.examples("valid")
    young, grown = judge(load(tmp_path), examples), judge(lexicon.translator, examples)
    for one in compare(young, grown, examples):
        assert (one.first, one.second) == (
            pytest.approx(young.scores[one.metric]),
            pytest.approx(grown.scores[one.metric]),
        )
        assert one.difference == pytest.approx(one.second - one.first)
        assert 0 < one.interval[0] <= one.difference <= one.interval[1]
        assert one.p < 0.05
    assert [one.metric for one in compare(young, grown, examples)] == ["bleu", "tokenised_bleu", "chrf"]
    for one in compare(grown, grown, examples):
        assert (one.difference, one.interval) == (0, (0, 0))
        assert one.p > 0.5
    for one, turned in zip(compare(young, grown, examples), compare(grown, young, examples), strict=True):
        assert turned.difference == pytest.approx(-one.difference)


# ---- by what the best weights are chosen


@pytest.mark.parametrize(("best_by", "step"), [("valid_loss", 6), ("bleu", 4), ("exact_match", 2)])
def test_the_weights_kept_are_the_best_by_what_the_recipe_says(
    best_by: str, step: int, words: str, tmp_path: Path, train: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores are set, so that each of three validations is the best in one way."""
    judged: list[int] = []
    bleus, exact = iter([10.0, 30.0, 20.0]), iter([3.0, 1.0, 2.0])

    def score(answers: list[str], _: Any) -> tuple[float, str]:
        judged.append(len(answers))
        return next(bleus), ""

    monkeypatch.setattr(pairs, "bleu", score)
    monkeypatch.setattr(pairs, "exact_match", lambda *_: next(exact))
    changes = [f"train.best_by={best_by}", "train.steps=6", "train.every=2", "data.judged=7"]
    report = train(words, tmp_path, *changes)
    rows = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    losses = {row["step"]: row["valid_loss"] for row in rows if "valid_loss" in row}
    assert losses[2] > losses[4] > losses[6], "it learns"
    assert report.best_step == step
    assert judged == [7, 7, 7]
    translator = load(tmp_path)
    held = pairs.pair_data(read(words)[0].data.pairs("valid"), translator, 512)
    assert pairs.mean_loss(translator.model, held) == pytest.approx(losses[step], abs=1e-5)


def test_the_best_by_bleu_is_what_the_run_answers(lexicon: Any, words: str) -> None:
    """What validation said of the best weights is what judging the loaded run says, greedily and on all pairs."""
    verdict = judge(lexicon.translator, read(words)[0].data.examples("valid"), Decoding())
    assert verdict.scores["bleu"] == pytest.approx(lexicon.report.best["bleu"], abs=1e-6)
    assert verdict.scores["exact_match"] == lexicon.report.best["exact_match"]
    assert math.log(verdict.scores["perplexity"]) == pytest.approx(lexicon.report.best["valid_loss"], abs=1e-5)


def test_an_unknown_measure_is_refused(words: str) -> None:
    with pytest.raises(
        ValueError, match="best_by must be one of valid_loss, bleu, exact_match, accuracy, got 'chrf'"
    ):
        read(words, ["train.best_by=chrf"])
