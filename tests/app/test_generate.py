"""`regard generate`, and `evaluate`, `train --from` and `compare` of language models."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import threading
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from safetensors.torch import load_file

from regard.decode.settings import Decoding
from regard.metrics.perplexity import count_words
from regard.tasks.core.table import load

LINES = "".join(f"{number} bottles of beer\n" for number in range(99, 0, -1))


def test_a_prompt_comes_back_with_its_continuation(call: Any, gpt2: str) -> None:
    done = call("generate", gpt2, "9 bott", "", "--temperature", 0, "--max-tokens", 20)
    model = load(gpt2)
    first, second = model.generate(["9 bott", ""], Decoding(max_length=20))
    assert (done.code, done.err) == (0, "")
    assert done.out == f"9 bott{first.text}\n{second.text}\n"
    assert first.text


def test_the_recipe_says_how_unless_told(call: Any, gpt2: str) -> None:
    """It draws at 0.8: seeds differ, and a beam draws nothing."""
    draws = {call("generate", gpt2, "9", "--max-tokens", 15, "--seed", seed).out for seed in range(4)}
    assert len(draws) > 1
    assert call("generate", gpt2, "9", "--max-tokens", 15, "--seed", 1).out in draws
    for words in (("--beam", 3), ("--n-best", 2)):
        first, second = (call("generate", gpt2, "9", "--max-tokens", 15, "--seed", seed, *words) for seed in (0, 1))
        assert first.code == 0, first.err
        assert first == second
    scores = [line for line in first.out.splitlines() if "\t9" in line]
    assert len(scores) == 2
    assert float(scores[0].split("\t")[0]) <= 0


def test_prompts_from_a_file_and_stdin_are_answered_in_order(
    call: Any, gpt2: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("in.txt").write_text("9 b\n\n13 bottles\n")
    words = ("--temperature", 0, "--max-tokens", 8, "--json")
    done = call("generate", gpt2, "--input", "in.txt", "--output", "out.jsonl", *words)
    assert (done.code, done.out) == (0, "")
    rows = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [row["prompt"] for row in rows] == ["9 b", "", "13 bottles"]
    with open("in.txt") as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert call("generate", gpt2, *words).out == Path("out.jsonl").read_text()
    assert set(rows[0]) == {"input", "prompt", "text", "score", "finished", "others"}
    assert rows[0]["score"] < 0
    assert isinstance(rows[0]["finished"], bool)


def test_stop_strings_may_be_several(call: Any, gpt2: str) -> None:
    words = ("--temperature", 0, "--max-tokens", 20, "--json")
    text = json.loads(call("generate", gpt2, "9 b", *words).out)["text"]
    stopped = json.loads(call("generate", gpt2, "9 b", *words, "--stop", "zzz", "--stop", text[4:6]).out)
    assert stopped["text"] == text[: text.index(text[4:6])]
    assert not stopped["finished"]


@pytest.mark.parametrize("stop", ["zzz", "o"])
def test_before_a_person_text_comes_as_it_is_written(
    stop: str, call: Any, gpt2: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lost or printed twice; from a file of one prompt, the prompt is printed too."""
    words = ("--temperature", 0, "--max-tokens", 20, "--stop", stop)
    Path("in.txt").write_text("9 b\n")
    plain = call("generate", gpt2, "9 b", *words)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert call("generate", gpt2, "9 b", *words) == plain
    assert call("generate", gpt2, "--input", "in.txt", *words) == plain


def test_before_a_person_several_answers_come_at_once(
    call: Any, gpt2: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Asked for by the command or by the run's recipe."""
    folder = shutil.copytree(gpt2, tmp_path / "run", ignore=shutil.ignore_patterns("training"))
    recipe = (folder / "recipe.toml").read_text()
    several = recipe.replace("temperature = 0.8\ntop_k = 10", "beam = 2\nn_best = 2")
    assert several != recipe
    (folder / "recipe.toml").write_text(several)
    plain = call("generate", folder, "9 b", "--max-tokens", 8)
    assert (plain.code, plain.out.count("\t9 b")) == (0, 2)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert call("generate", folder, "9 b", "--max-tokens", 8) == plain
    asked = ("--temperature", 0, "--n-best", 2)
    assert call("generate", gpt2, "9 b", "--max-tokens", 8, *asked).out == plain.out


def test_repetition_controls_reach_the_model(call: Any, gpt2: str) -> None:
    words = ("--temperature", 0, "--max-tokens", 12, "--min-length", 11)
    plain, bound = (call("generate", gpt2, "9 b", *words, "--no-repeat-ngram", count) for count in (0, 1))
    assert plain.code == bound.code == 0
    assert plain.out != bound.out
    assert len(set(bound.out.strip("\n")[3:])) == len(bound.out.strip("\n")[3:])
    assert call("generate", gpt2, "9 b", *words, "--repetition-penalty", 100).out != plain.out


def test_where_it_looked_is_drawn(call: Any, gpt2: str) -> None:
    words = ("--temperature", 0, "--max-tokens", 8)
    done = call("generate", gpt2, "9 b", *words, "--show", "-")
    assert done.code == 0, done.err
    assert "its own input, mean of 2 heads · blocks.1.attend" in done.out
    for name in ("a.png", "a.svg", "a.html"):
        done = call("generate", gpt2, "9 b", *words, "--show", name, "--sites", "*")
        assert (done.code, done.err) == (0, f"wrote {name}\n")
    text = Path("a.svg").read_text()
    assert ElementTree.fromstring(text).tag.endswith("svg")
    assert "blocks.0.attend" in text
    assert "blocks.1.attend" in text
    call("generate", gpt2, "9 b", "13", *words, "--show", "b.svg", "--sites", "blocks.0.*")
    assert sorted(path.name for path in Path().glob("b*")) == ["b-1.svg", "b-2.svg"]
    assert "blocks.1.attend" not in Path("b-1.svg").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("x --sites *", "--sites says what to draw"),
        ("x --show a.gif", ".gif"),
        ("x --show - --json", "--json is for machines"),
        ("x --show a.svg --sites decoder.*", "no attention has a name like 'decoder.*'; there are blocks.0.attend"),
        ("x --show nowhere/a.svg", "there is no folder nowhere"),
        ("x --input in.txt", "give texts or --input, not both"),
        ("--input nothing.txt", "nothing.txt"),
        ("x --max-tokens 0", "--max-tokens"),
        ("x --temperature 1 --n-best 2", "sampling gives one answer"),
        ("x --temperature 1 --beam 2", "temperature samples an answer and beam searches for the likeliest"),
        ("x --repetition-penalty 0", "repetition_penalty must lie in"),
        ("x --max-tokens 5 --min-length 5", "min_length must be below max_length = 5"),
        ("x --top-p 0", "top_p must lie in (0, 1]"),
        ("x --stop=", "stop must be a text or a list of texts, none empty"),
    ],
)
def test_what_is_asked_wrongly(
    words: str, said: str, call: Any, gpt2: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)  # where the prompt is printed before its continuation
    done = call("generate", gpt2, *words.split())
    assert (done.code, done.out) == (2, "")
    assert said in " ".join(done.err.replace("│", " ").split())
    assert not list(Path().iterdir())


def test_a_prompt_too_long_is_named(call: Any, gpt2: str) -> None:
    Path("in.txt").write_text("9 b\n" + "x" * 33 + "\n")
    done = call("generate", gpt2, "--input", "in.txt", "--strict")
    assert (done.code, done.out) == (2, "")
    assert "in.txt, line 2: the prompt 'xxx" in done.err
    assert "has 33 tokens and this model takes 32; keep its last part" in done.err
    done = call("generate", gpt2, "x" * 33)
    assert (done.code, done.out) == (2, "")
    assert "has 33 tokens" in done.err


def test_a_beam_of_too_many_tokens_is_refused(call: Any, gpt2: str) -> None:
    done = call("generate", gpt2, "9 b", "--beam", 2, "--max-tokens", 40)
    assert (done.code, done.out) == (2, "")
    assert "a beam may write 30 tokens after this prompt" in done.err
    for words in (["9 b", "--min-length", 201], ["9 b", "--beam", 2, "--min-length", 99999]):
        done = call("generate", gpt2, *words)
        assert (done.code, done.out) == (2, "")
        assert "min_length must be at most 200, got" in done.err


def test_a_recurrent_one_writes_and_shows_its_gates(call: Any, rnnlm: str) -> None:
    done = call("generate", rnnlm, "9 b", "--max-tokens", 8)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("9 b")
    done = call("generate", rnnlm, "9 b", "--show", "-", "--max-tokens", 8)
    assert done.code == 0
    assert "gates of layer 1, forget" in done.out
    done = call("generate", rnnlm, "9 b", "--show", "-", "--max-tokens", 8, "--sites", "stack.l1")
    assert done.code == 0
    assert "gates of layer 2, forget" in done.out
    assert "stack.l0" not in done.out


def test_runs_of_another_kind_are_refused_by_name(call: Any, texts: Path, run: str, gpt2: str) -> None:
    done = call("generate", run, "a")
    assert (done.code, done.out) == (2, "")
    assert "has the model Bahdanau, for `regard translate` and not for `regard generate`" in done.err
    for command, *rest in (("translate", "a"), ("align", "--data", texts / "text.txt")):
        done = call(command, gpt2, *rest)
        assert (done.code, done.out) == (2, "")
        assert f"has the model GPT2, for `regard generate` and not for `regard {command}`" in done.err


# ---- evaluate


def test_a_language_model_is_evaluated_on_its_validation_text(call: Any, gpt2: str) -> None:
    found = json.loads(call("evaluate", gpt2, "--json").out)
    assert (found["run"], found["length"], found["stride"]) == (gpt2, 32, 32)
    assert (found["tokens"], found["characters"], found["words"]) == (29, 28, 4 + 2 + 2)
    assert found["perplexity"] == pytest.approx(math.exp(found["loss"]))
    assert found["word_perplexity"] == pytest.approx(math.exp(found["loss"] * 29 / 8))
    card = Path(gpt2, "README.md").read_text()
    assert f"valid_loss {found['loss']:.4f}" in card
    text = call("evaluate", gpt2).out
    assert f"{found['perplexity']:.4f}" in text
    assert "word_perplexity" in text


def test_a_smaller_stride_gives_more_context(call: Any, gpt2: str) -> None:
    Path("test.txt").write_text(LINES[:300])
    whole, close = (
        json.loads(call("evaluate", gpt2, "--data", "test.txt", "--stride", stride, "--json").out)
        for stride in (32, 4)
    )
    assert (whole["stride"], close["stride"]) == (32, 4)
    assert whole["tokens"] == close["tokens"] == 301
    assert whole["loss"] != close["loss"]


def test_a_text_may_come_through_a_pipe(call: Any, gpt2: str) -> None:
    Path("test.txt").write_text(LINES)
    os.mkfifo("pipe")
    writer = threading.Thread(target=lambda: Path("pipe").write_text(LINES), daemon=True)
    writer.start()
    found = json.loads(call("evaluate", gpt2, "--data", "pipe", "--json").out)
    wanted = json.loads(call("evaluate", gpt2, "--data", "test.txt", "--json").out)
    assert found == {**wanted, "data": "pipe"}


def test_a_training_begins_with_another_run_and_writes_over_none(call: Any, gpt2: str, texts: Path) -> None:
    few = ("--set", "train.steps=1", "--set", "train.eval_every=1", "--set", "train.learning_rate=1e-9")
    assert call("train", texts / "gpt2.toml", "--from", gpt2, *few, "--out", "more").code == 0
    before, after = (load_file(Path(run, "model.safetensors")) for run in (gpt2, "more"))
    assert all(torch.allclose(after[name], x, atol=1e-6) for name, x in before.items())
    assert call("export", gpt2, "--to", "apart").code == 0
    held = Path("apart/model.safetensors").read_bytes()
    done = call("train", texts / "gpt2.toml", "--from", "apart", *few, "--out", "apart")
    assert done.code == 2
    assert "apart already holds a model, whose weights would be lost; take another --out" in done.err
    assert Path("apart/model.safetensors").read_bytes() == held


def test_language_models_stand_side_by_side(call: Any, gpt2: str, rnnlm: str) -> None:
    Path("test.txt").write_text(LINES[:300])
    done = call("evaluate", gpt2, rnnlm, "--data", "test.txt", "--json")
    assert [row["run"] for row in json.loads(done.out)] == [gpt2, rnnlm]
    lines = call("evaluate", gpt2, rnnlm, "--data", "test.txt").out.splitlines()
    assert lines[0].split() == ["run", gpt2, rnnlm]
    assert ["tokens", "301", "301"] in [line.split() for line in lines]


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        ("{gpt2} {run}", "runs of different tasks cannot be evaluated on the same data", 2),
        ("{gpt2} --beam 3", "--beam is not for runs that generate", 2),
        ("{gpt2} --show a.svg", "there is no picture of how well runs generate; leave --show out", 2),
        ("{gpt2} --columns 1,2", "columns must be COLUMN, got '1,2'", 2),
        ("{run} --stride 3", "--stride is not for runs that translate", 2),
        ("{gpt2} --stride 33", "stride must be at most the length of a window, 32, got 33", 2),
        ("{gpt2} --stride 100000", "stride must be at most the length of a window, 32, got 100000", 2),
        ("{gpt2} --columns text", "columns text are named, and", 2),
        ("{gpt2} --data nothing.txt", "nothing.txt", 2),
    ],
)
def test_what_cannot_be_evaluated(
    words: str, said: str, code: int, call: Any, gpt2: str, run: str, rnnlm: str
) -> None:
    done = call("evaluate", *words.format(gpt2=gpt2, run=run, rnnlm=rnnlm).split())
    assert (done.code, done.out) == (code, "")
    assert said in " ".join(done.err.replace("│", " ").split())


def test_language_models_are_compared_by_what_they_predict(call: Any, inline: None, texts: Path) -> None:
    recipe = texts / "gpt2.toml"
    small = ("--set", "train.steps=2", "--set", "train.eval_every=1", "--seeds", 1, "--out", "all")
    done = call("compare", recipe, "--vary", "model.heads=1,2", *small, "--metric", "bits_per_character")
    assert done.code == 0, done.err
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.out.splitlines() if "|" in line]
    assert table[0] == ["model.heads", "seed 0", "mean", "spread", "perplexity", "parameters"]
    found = json.loads(call("evaluate", "all/1-0", "--json").out)
    assert table[2][:3] == ["1", *[f"{found['bits_per_character']:.4f}"] * 2]
    assert table[2][4] == f"{found['perplexity']:.4f}"
    for words, said in (
        (
            (recipe, "--metric", "bleu"),
            "--metric must be one of perplexity, loss, word_perplexity, bits_per_character",
        ),
        (
            (recipe, texts / "transformer.toml", "--metric", "loss"),
            "models made to generate, translate cannot be compared",
        ),
    ):
        done = call("compare", *words)
        assert (done.code, done.out) == (2, "")
        assert said in done.err


def test_without_a_test_file_the_held_out_part_is_evaluated_on(call: Any, inline: None, texts: Path) -> None:
    """The same text as in training: its loss is that of the best validation. Words and characters are its own."""
    out = Path("all")
    words = ("--set", "train.steps=2", "--set", "train.eval_every=1", "--seeds", 1, "--out", out)
    done = call("compare", texts / "rnnlm.toml", *words, "--metric", "loss")
    assert done.code == 0, done.err
    assert "loss on the validation data, by which the weights were chosen" in done.out
    found = json.loads(call("evaluate", out / "0", "--json").out)
    log = [json.loads(line) for line in (out / "0" / "log.jsonl").read_text().splitlines()]
    assert found["loss"] == pytest.approx(min(row["valid_loss"] for row in log if "valid_loss" in row), abs=1e-5)
    assert found["data"].startswith(f"the part held out of {texts}/text.txt (validation data")
    held = LINES[len(LINES) + 1 - found["tokens"] :]  # a character is a token, and so is the end of the text
    assert (found["characters"], found["words"]) == (len(held), count_words([held]))


def test_a_new_text_begins_with_a_line(call: Any, gpt2: str, tmp_path: Path) -> None:
    """A run that learned from one long file has hardly seen the token that begins a text."""
    run = load(gpt2)
    newline = run.tokenizer.encode("\n")
    assert run.begin("").ids == newline
    asked = ["--temperature", "0", "--max-tokens", "8"]
    written = call("generate", gpt2, "", *asked).out
    assert written == call("generate", gpt2, "\n", *asked).out.removeprefix("\n")
    folder = tmp_path / "lines"
    shutil.copytree(gpt2, folder, ignore=shutil.ignore_patterns("training"))
    recipe = (folder / "recipe.toml").read_text()
    (folder / "recipe.toml").write_text(recipe.replace("[data]", '[data]\ndocuments = "line"', 1))
    assert load(folder).begin("").ids == [run.tokenizer.special.start]


def test_unknown_characters_of_a_prompt_are_named(call: Any, gpt2: str) -> None:
    done = call("generate", gpt2, "9 ☃ bottlés ☃", "9 b", "--max-tokens", "2", "--json")
    assert done.err == "1 text has characters that this model does not know and cannot read: '☃', 'é'\n"
    first, second = map(json.loads, done.out.splitlines())
    assert (first["unknown"], first["input"], "unknown" in second) == (["☃", "é"], "9 ☃ bottlés ☃", False)
    assert load(gpt2).generate("é 9", max_tokens=1).unknown == ("é",)
