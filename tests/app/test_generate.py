"""`regard generate`, `evaluate` of language models, `export`, and the Transformer, as people call them."""

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

from regard.app.recipe import read, recipes
from regard.models import MODELS
from regard.tasks import Decoding, load
from regard.tasks.folder import save_weights
from regard.tasks.training import train

LINES = "".join(f"{number} bottles of beer\n" for number in range(99, 0, -1))
REST = "[train]\nsteps = 20\nrate = 0.01\nevery = 10\n"
GPT2 = """[data]
train = "{folder}/text.txt"
valid = "{folder}/valid.txt"
batch_tokens = 256
[tokens]
kind = "character"
[model]
name = "gpt2"
dim = 16
layers = 2
heads = 2
longest = 32
[decode]
temperature = 0.8
top_k = 10
"""
RNNLM = """[data]
train = "{folder}/text.txt"
length = 32
batch_tokens = 256
[tokens]
kind = "character"
[model]
name = "rnnlm"
embed = 8
dim = 8
longest = 64
"""
TRANSFORMER = """[data]
made = "reverse"
train_count = 200
valid_count = 20
batch_tokens = 512
[tokens]
kind = "character"
[model]
name = "transformer"
dim = 16
layers = 2
heads = 2
ff = 32
longest = 40
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the texts, the recipes, and a run of each that tests only read."""
    folder = tmp_path_factory.mktemp("texts")
    (folder / "text.txt").write_text(LINES)
    (folder / "valid.txt").write_text("44 bottles of beer\n13 beers\n")
    for name, text in (("gpt2", GPT2), ("rnnlm", RNNLM), ("transformer", TRANSFORMER)):
        (folder / f"{name}.toml").write_text(text.format(folder=folder) + REST)
        job, recipe = read(str(folder / f"{name}.toml"))
        train(job, folder / name, recipe=recipe, command=f"regard train {name}.toml")
    job, recipe = read(str(folder / "transformer.toml"), ["model.norm=pre", "train.steps=1"])
    train(job, folder / "pre", recipe=recipe, command="regard train")
    return folder


@pytest.fixture
def gpt2(folder: Path) -> str:
    return str(folder / "gpt2")


# ---- generate


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
    for words in (("--beam", 3), ("--best", 2)):
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
    assert set(rows[0]) == {"prompt", "text", "score", "finished", "others"}
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


def test_repetition_controls_reach_the_model(call: Any, gpt2: str) -> None:
    words = ("--temperature", 0, "--max-tokens", 12, "--min-length", 11)
    plain, bound = (call("generate", gpt2, "9 b", *words, "--no-repeat", count) for count in (0, 1))
    assert plain.code == bound.code == 0
    assert plain.out != bound.out
    assert len(set(bound.out.strip("\n")[3:])) == len(bound.out.strip("\n")[3:])
    assert call("generate", gpt2, "9 b", *words, "--repetition-penalty", 100).out != plain.out


def test_where_it_looked_is_drawn(call: Any, gpt2: str) -> None:
    words = ("--temperature", 0, "--max-tokens", 8)
    done = call("generate", gpt2, "9 b", *words, "--show", "-")
    assert done.code == 0, done.err
    assert "blocks.1.attend, mean of 2 heads" in done.out
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
        ("x --show a.svg --sites decoder.*", "no attention named like 'decoder.*'; there are blocks.0.attend"),
        ("x --show nowhere/a.svg", "there is no folder nowhere"),
        ("x --input in.txt", "give texts or --input, not both"),
        ("--input nothing.txt", "nothing.txt"),
        ("x --max-tokens 0", "--max-tokens"),
        ("x --temperature 1 --best 2", "a draw gives one answer"),
        ("x --temperature 1 --beam 2", "--temperature draws an answer and --beam searches"),
        ("x --repetition-penalty 0", "repetition_penalty must be above 0"),
        ("x --max-tokens 5 --min-length 5", "min_length must be below max_length = 5"),
        ("x --top-p 0", "top_p must lie in (0, 1]"),
        ("x --stop=", "stop must be a text or a list of texts, none empty"),
    ],
)
def test_what_is_asked_wrongly(words: str, said: str, call: Any, gpt2: str) -> None:
    done = call("generate", gpt2, *words.split())
    assert done.code == 2
    assert said in " ".join(done.err.replace("│", " ").split())
    assert not list(Path().iterdir())


def test_a_prompt_too_long_is_named(call: Any, gpt2: str) -> None:
    Path("in.txt").write_text("9 b\n" + "x" * 33 + "\n")
    done = call("generate", gpt2, "--input", "in.txt")
    assert (done.code, done.out) == (2, "")
    assert "in.txt, line 2: the prompt 'xxx" in done.err
    assert "has 33 tokens and this model takes 32; keep its last part" in done.err
    done = call("generate", gpt2, "x" * 33)
    assert (done.code, done.out) == (1, "")
    assert "has 33 tokens" in done.err


def test_a_beam_of_too_many_tokens_is_refused(call: Any, gpt2: str) -> None:
    done = call("generate", gpt2, "9 b", "--beam", 2, "--max-tokens", 40)
    assert (done.code, done.out) == (1, "")
    assert "a beam may write 30 tokens after this prompt" in done.err


def test_a_recurrent_one_writes_and_has_nothing_to_show(call: Any, folder: Path) -> None:
    done = call("generate", folder / "rnnlm", "9 b", "--max-tokens", 8)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("9 b")
    done = call("generate", folder / "rnnlm", "9 b", "--show", "-")
    assert (done.code, done.out) == (2, "")
    assert "RNNLM keeps the whole text in one state and looks at nothing" in done.err


def test_runs_of_another_kind_are_refused_by_name(call: Any, folder: Path, run: str, gpt2: str) -> None:
    done = call("generate", run, "a")
    assert (done.code, done.out) == (2, "")
    assert "is a Bahdanau, which is for `regard translate` and not for `regard generate`" in done.err
    for command, *rest in (("translate", "a"), ("align", "--data", folder / "text.txt")):
        done = call(command, gpt2, *rest)
        assert (done.code, done.out) == (2, "")
        assert "is a GPT2, which is for `regard generate` and not for `regard translate`" in done.err


# ---- evaluate


def test_a_language_model_is_judged_by_its_validation_text(call: Any, gpt2: str) -> None:
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
    assert found == json.loads(call("evaluate", gpt2, "--data", "test.txt", "--json").out)


def test_a_training_begins_with_another_run_and_writes_over_none(call: Any, gpt2: str, folder: Path) -> None:
    few = ("--set", "train.steps=1", "--set", "train.every=1", "--set", "train.rate=1e-9")
    assert call("train", folder / "gpt2.toml", "--from", gpt2, *few, "--out", "more").code == 0
    before, after = (load_file(Path(run, "model.safetensors")) for run in (gpt2, "more"))
    assert all(torch.allclose(after[name], x, atol=1e-6) for name, x in before.items())
    assert call("export", gpt2, "--to", "apart").code == 0
    held = Path("apart/model.safetensors").read_bytes()
    done = call("train", folder / "gpt2.toml", "--from", "apart", *few, "--out", "apart")
    assert done.code == 2
    assert "apart holds a model already, whose weights would be lost; take another --out" in done.err
    assert Path("apart/model.safetensors").read_bytes() == held


def test_language_models_stand_side_by_side(call: Any, gpt2: str, folder: Path) -> None:
    Path("test.txt").write_text(LINES[:300])
    done = call("evaluate", gpt2, folder / "rnnlm", "--data", "test.txt", "--json")
    assert [row["run"] for row in json.loads(done.out)] == [gpt2, str(folder / "rnnlm")]
    lines = call("evaluate", gpt2, folder / "rnnlm", "--data", "test.txt").out.splitlines()
    assert lines[0].split() == ["run", gpt2, str(folder / "rnnlm")]
    assert ["tokens", "301", "301"] in [line.split() for line in lines]


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        ("{gpt2} {run}", "runs that are for different things cannot be judged by the same data", 2),
        ("{gpt2} --beam 3", "--show and --beam are for translators", 2),
        ("{gpt2} --show a.svg", "--show and --beam are for translators", 2),
        ("{gpt2} --columns 1,2", "--columns are for pairs and labelled data", 2),
        ("{run} --stride 3", "--stride is for language models", 2),
        ("{gpt2} --stride 33", "stride must be at most the length of a window, 32, got 33", 1),
        ("{gpt2} --data nothing.txt", "nothing.txt", 2),
        ("{rnnlm}", "was trained without a test or validation file; name data to judge by: --data FILE", 2),
    ],
)
def test_what_cannot_be_judged(
    words: str, said: str, code: int, call: Any, gpt2: str, run: str, folder: Path
) -> None:
    done = call("evaluate", *words.format(gpt2=gpt2, run=run, rnnlm=folder / "rnnlm").split())
    assert (done.code, done.out) == (code, "")
    assert said in " ".join(done.err.replace("│", " ").split())


def test_language_models_are_compared_by_what_they_foresee(call: Any, folder: Path) -> None:
    recipe = folder / "gpt2.toml"
    small = ("--set", "train.steps=2", "--set", "train.every=1", "--seeds", 1, "--out", "all")
    done = call("compare", recipe, "--vary", "model.heads=1,2", *small, "--metric", "bits_per_character")
    assert done.code == 0, done.err
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.out.splitlines() if "|" in line]
    assert table[0] == ["model.heads", "seed 0", "mean", "spread", "perplexity", "parameters"]
    judged = json.loads(call("evaluate", "all/1-0", "--json").out)
    assert table[2][:3] == ["1", *[f"{judged['bits_per_character']:.4f}"] * 2]
    assert table[2][4] == f"{judged['perplexity']:.4f}"
    for words, said in (
        (
            (recipe, "--metric", "bleu"),
            "--metric must be one of loss, perplexity, word_perplexity, bits_per_character",
        ),
        (
            (recipe, folder / "transformer.toml", "--metric", "loss"),
            "what is made to generate, translate cannot be compared",
        ),
        ((folder / "rnnlm.toml", "--metric", "loss"), "set data.test or data.valid to a file of text"),
    ):
        done = call("compare", *words)
        assert (done.code, done.out) == (2, "")
        assert said in done.err


# ---- export


@pytest.mark.parametrize("name", ["gpt2", "transformer"])
def test_an_exported_run_answers_the_same(name: str, call: Any, folder: Path) -> None:
    done = call("export", folder / name, "--to", "out")
    assert (done.code, done.out, done.err) == (0, "out\n", "")
    names = {path.name for path in Path("out").iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "generation_config.json", "README.md"} <= names
    assert not names & {"recipe.toml", "log.jsonl", "training", "loss.svg"}
    command, words = ("generate", ("--temperature", 0)) if name == "gpt2" else ("translate", ())
    first, second = (call(command, run, "9 b", "a c", *words) for run in (folder / name, "out"))
    assert first == second
    assert first.code == 0
    assert [path.name for path in Path().iterdir()] == ["out"]


def test_a_smaller_dtype_is_half_the_size(call: Any, gpt2: str) -> None:
    assert call("export", gpt2, "--to", "out", "--dtype", "bfloat16").code == 0
    small, large = (load_file(Path(name) / "model.safetensors") for name in ("out", gpt2))
    assert {tensor.dtype for tensor in small.values()} == {torch.bfloat16}
    assert all(torch.equal(small[name], tensor.bfloat16()) for name, tensor in large.items())
    assert json.loads(Path("out/config.json").read_text())["dtype"] == "bfloat16"
    assert call("generate", "out", "9 b", "--temperature", 0).code == 0


def test_what_cannot_be_exported_is_refused_by_name(call: Any, gpt2: str, run: str, folder: Path) -> None:
    for name, said in (
        (run, "cannot be exported: transformers has no model like bahdanau"),
        (folder / "pre", "cannot be exported: Marian norms after each part (model.norm = post), this model before"),
        (folder / "rnnlm", "cannot be exported: transformers has no model like rnnlm"),
        ("nothing", "there is no run 'nothing'"),
    ):
        done = call("export", name, "--to", "out")
        assert (done.code, done.out) == (2, "")
        assert said in done.err
    assert not list(Path().iterdir())
    Path("out").mkdir()
    done = call("export", gpt2, "--to", "out")
    assert (done.code, done.err) == (2, "error: out is there already; name a folder that is not\n")
    done = call("export", gpt2, "--to", "other", "--dtype", "int8")
    assert (done.code, done.out) == (2, "")
    assert "dtype must be one of float32, bfloat16, float16, got 'int8'" in done.err
    assert [path.name for path in Path().iterdir()] == ["out"]
    assert not list(Path("out").iterdir())


# ---- the Transformer


def test_a_transformer_trains_translates_and_shows_its_heads(call: Any, folder: Path) -> None:
    done = call("train", folder / "transformer.toml", "--out", "run")
    assert (done.code, done.out) == (0, "run\n")
    assert Path("run/model.safetensors").read_bytes() == (folder / "transformer/model.safetensors").read_bytes()
    done = call("translate", "run", "a b c", "--show", "x.html", "--sites", "decoder.*.cross")
    assert (done.code, done.err) == (0, "wrote x.html\n")
    page = Path("x.html").read_text()
    assert "decoder.0.cross" in page
    assert "decoder.1.cross" in page
    assert "encoder.0.attend" not in page
    for words in (("--show", "-"), ("--show", "-", "--sites", "*"), ("--beam", 3, "--best", 2)):
        assert call("translate", "run", "a b c", *words).code == 0
    done = call("translate", "run", "a b c", "--show", "y.html", "--sites", "blocks.*")
    assert done.code == 2
    assert "no attention named like 'blocks.*'; there are encoder.0.attend, encoder.1.attend, decoder.0" in done.err


def test_words_are_aligned_by_the_head_that_is_named(call: Any, folder: Path) -> None:
    """With drawn weights heads differ."""
    run = shutil.copytree(folder / "transformer", "run", ignore=shutil.ignore_patterns("training"))
    model = load(run).model.cpu()
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter))
    save_weights(Path(run), model)
    Path("pairs.tsv").write_text("a b c d e f\tf e d c b a\nq w e r t y u\ty t r e w q a\n")
    found = set()
    for words in (
        ("--site", "decoder.1.cross", "--head", 0),
        ("--site", "decoder.1.cross", "--head", 1),
        (),
        ("--head", 0),
    ):
        done = call("align", run, "--data", "pairs.tsv", *words)
        assert done.code == 0, done.err
        assert len(done.out.splitlines()) == 2
        found.add(done.out)
    assert len(found) == 4
    assert "by the attention `decoder.0.cross`" in done.err
    assert "head 0" in done.err
    for words, said in (
        (("--head", 2), "decoder.0.cross has heads 0 to 1, got 2"),
        (("--site", "decoder.7.cross"), "no attention from target to source is named 'decoder.7.cross'; there is"),
        (("--site", "encoder.0.attend"), "there is decoder.0.cross, decoder.1.cross"),
        (("--site", "decoder.*.cross"), "no attention from target to source is named 'decoder.*.cross'"),
    ):
        done = call("align", run, "--data", "pairs.tsv", *words)
        assert (done.code, done.out) == (2, "")
        assert said in done.err


# ---- what there is


def test_models_lists_every_system_with_its_recipes(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    done = call("models")
    assert (done.code, done.err) == (0, "")
    for word in (*MODELS, *recipes(), "Vaswani et al. 2017", "Radford et al. 2019"):
        assert word in done.out
    assert {read_model(name) for name in recipes()} == set(MODELS)


def read_model(name: str) -> str:
    own = name.endswith(("-pairs", "-text", "-labelled", "-pictures"))
    return read(name, ["data.train=x"] if own else [])[0].model
