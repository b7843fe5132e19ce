"""Answers, and what they looked at."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.data.text.special_tokens import END, START
from regard.decode.settings import Decoding
from regard.errors import RunError
from regard.tasks.core.table import load
from regard.tasks.translate.run import Translator

TEXTS = ["a b c", "q w e r t y", "z", "a b c", "l m n o p q r s t u v"]


def test_a_text_gives_an_answer_and_a_list_gives_a_list(run: Any) -> None:
    one, many = run.translator.translate("a b c"), run.translator.translate(["a b c"])
    assert many == [one]
    assert (one.source, one.others) == ("a b c", ())
    assert run.translator.translate([]) == []


@pytest.mark.parametrize(
    "decode",
    [Decoding(), Decoding(beam=3, max_length=20), Decoding(beam=4, n_best=2, length_penalty=0.5, max_length=20)],
)
def test_a_text_alone_or_among_others_has_the_same_answer(run: Any, decode: Decoding) -> None:
    together = run.translator.translate(TEXTS, decode)
    assert [answer.source for answer in together] == TEXTS
    for text, answer in zip(TEXTS, together, strict=True):
        alone = run.translator.translate(text, decode)
        assert alone.text == answer.text
        assert alone.score == pytest.approx(answer.score, abs=1e-4)
        assert [text for text, _ in alone.others] == [text for text, _ in answer.others]


def test_the_score_is_the_log_probability_of_the_answer(run: Any) -> None:
    translator = run.translator
    for answer in translator.translate(TEXTS, Decoding(beam=3, n_best=3)):
        source = [*translator.tokenizer.encode(answer.source), END]
        for text, score in ((answer.text, answer.score), *answer.others):
            target = translator.tokenizer.encode(text)
            with torch.no_grad():
                logits = translator.model(torch.tensor([source]), torch.tensor([[START, *target]]))
            known = logits[0].log_softmax(-1)
            wanted = float(known[range(len(target)), target].sum())
            cut = len(target) == 2 * len(source) + 20  # cut off by the limit: no end token
            assert score == pytest.approx(wanted + (0.0 if cut else float(known[-1, END])), abs=1e-3)


def test_the_best_answers_are_different_and_in_order(run: Any) -> None:
    answer = run.translator.translate("a b c", Decoding(beam=5, n_best=5, length_penalty=0.0))
    texts = [answer.text, *(text for text, _ in answer.others)]
    scores = [answer.score, *(score for _, score in answer.others)]
    assert len(set(texts)) == 5
    assert scores == sorted(scores, reverse=True)
    for penalty in (0.0, 1.0, 2.0):
        answer = run.translator.translate("a b c", Decoding(beam=5, n_best=5, length_penalty=penalty))
        printed = [float(line.split("\t")[0]) for line in answer.line().splitlines()]
        assert len(printed) == 5
        assert printed == sorted(printed, reverse=True)


def test_draws_follow_the_seed(run: Any) -> None:
    first, same, other = (
        run.translator.translate("a b c d", Decoding(temperature=1.0, seed=seed)).text for seed in (0, 0, 1)
    )
    assert first == same != other
    likeliest = run.translator.translate("a b c d", Decoding(temperature=1.0, top_k=1))
    assert likeliest.text == run.translator.translate("a b c d", Decoding()).text


def test_blank_texts_are_their_own_answers(run: Any) -> None:
    answers = run.translator.translate(["", "a b", "  \t", "z"])
    assert [answer.text == "" for answer in answers] == [True, False, True, False]
    assert answers[1].text == run.translator.translate("a b").text
    assert [answer.source for answer in answers] == ["", "a b", "  \t", "z"]
    with pytest.raises(ValueError, match="the empty text was not translated"):
        _ = answers[0].attention


def test_unknown_characters_are_read_as_unknown(run: Any) -> None:
    answer = run.translator.translate("a é 日 b")
    assert answer.attention.columns == ("a", " ", "<unk>", " ", "<unk>", " ", "b", "</s>")
    assert "<" not in answer.text


def test_a_text_too_long_is_named_and_refused(run: Any) -> None:
    most = "a" * 39  # and the end token
    assert run.translator.translate(most).attention.weights.shape[1] == 40
    with pytest.raises(ValueError, match=r"'a{40}'\.\.\. has 41 tokens with the end token and this model takes 40"):
        run.translator.translate(["b", most + "a"])


def test_text_that_is_not_unicode_is_refused(run: Any) -> None:
    with pytest.raises(ValueError, match="half a surrogate pair"):
        run.translator.translate("a \ud800 b")


@pytest.mark.parametrize("decode", [Decoding(), Decoding(beam=3), Decoding(temperature=1.0)])
def test_attention_has_a_row_for_each_token_and_the_end(run: Any, decode: Decoding) -> None:
    for answer in run.translator.translate(["a b c", "z"], decode):
        seen = answer.attention
        assert seen.columns == (*answer.source, "</s>")
        said = [row for row in seen.rows if row != "<unk>"]  # which a draw may take, and the text leaves out
        assert said == [*answer.text, "</s>"]
        np.testing.assert_allclose(seen.weights.sum(1), 1, atol=1e-5)
        assert answer.attention is seen, "computed once"


def test_attention_is_that_of_a_pass_over_the_answer(run: Any) -> None:
    from regard.attention import trace

    translator, answer = run.translator, run.translator.translate("q w e")
    source = torch.tensor([[*translator.tokenizer.encode("q w e"), END]])
    target = torch.tensor([[START, *translator.tokenizer.encode(answer.text)]])
    with torch.no_grad(), trace(translator.model, "attend") as seen:
        translator.model(source, target)
    np.testing.assert_allclose(answer.attention.weights, seen["attend"][0].numpy(), atol=1e-6)


# ---- how a run's own recipe has answers found


def test_a_run_decodes_as_its_recipe_says(run: Any, tmp_path: Path) -> None:
    folder = shutil.copytree(run.folder, tmp_path / "run")
    recipe = (folder / "recipe.toml").read_text()
    (folder / "recipe.toml").write_text(recipe.replace("[decode]", "[decode]\nbeam = 4\nn_best = 2"))
    loaded = load(folder)
    assert loaded.decode == Decoding(beam=4, n_best=2, max_length=20)
    assert len(loaded.translate("a b").others) == 1
    assert not loaded.translate("a b", Decoding()).others
    assert run.translator.decode == Decoding(max_length=20)
    (folder / "recipe.toml").unlink()
    assert load(folder).decode == Decoding()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[decode]\nbeam = 0", r"recipe\.toml: \[decode\]: beam must lie in"),
        ("[decode]\nbeam = 1000000000", r"recipe\.toml: \[decode\]: beam must lie in"),
        ('[decode]\nbeam = "3"', r"recipe\.toml: \[decode\]: beam must be a whole number"),
        ("[decode]\nbaem = 3", r"recipe\.toml: unknown key of \[decode\]: 'baem'; did you mean 'beam'"),
        ("[decode]\nbeam = ", r"recipe\.toml is not valid TOML"),
        ("decode = 3", r"recipe\.toml: decode must be a section \[decode\], got 3"),
    ],
)
def test_a_run_whose_recipe_decodes_nonsense_is_refused(run: Any, tmp_path: Path, text: str, said: str) -> None:
    folder = shutil.copytree(run.folder, tmp_path / "run", ignore=shutil.ignore_patterns("training"))
    (folder / "recipe.toml").write_text(f"{text}\n")
    with pytest.raises(RunError, match=said):
        load(folder)


def test_a_translator_may_be_built_of_parts(run: Any) -> None:
    translator = Translator(run.translator.model, run.translator.tokenizer, Decoding(beam=2))
    assert translator.translate("a b") == run.translator.translate("a b", Decoding(beam=2))
