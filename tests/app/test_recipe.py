"""Recipes are strict, and an error names what was meant."""

from __future__ import annotations

import dataclasses
import json
import math
import tomllib
from pathlib import Path
from typing import Any

import pytest
import small_models

from regard.decode.settings import Decoding
from regard.errors import RecipeError, RunError
from regard.learn.settings import AUTO, Training
from regard.models import MODELS
from regard.runs.folder import Folder, begin, find, save_weights
from regard.tasks.core.before_training import check_recipe
from regard.tasks.core.recipe import NOT_FOR_ALL, dump, read
from regard.tasks.core.recipe_files import recipes
from regard.tasks.core.settings import Tokens
from regard.tasks.translate.settings import PairSettings


def refused(recipe: str, *changes: str) -> str:
    with pytest.raises(RecipeError) as caught:
        read(recipe, changes)
    return str(caught.value)


def test_a_recipe_becomes_a_job(recipe: str) -> None:
    job, _ = read(recipe)
    assert job.model == "bahdanau"
    config = MODELS["bahdanau"].Config
    assert job.config == config(1, embed=8, encoder=8, decoder=16, readout=8, max_positions=40)
    assert job.data == PairSettings(
        made="reverse", train_count=200, valid_count=30, test_count=20, batch_tokens=512
    )
    assert (job.train.steps, job.train.learning_rate, job.train.eval_every, job.train.seed) == (4, 0.02, 2, 0)
    assert (job.tokens, job.decode) == (Tokens("character"), Decoding(max_length=20))


def test_the_text_of_a_job_gives_the_same_job(recipe: str, tmp_path: Path) -> None:
    odd = 'data.train="a \\"b\\" \\\\ \\t é 日.tsv"'
    job, text = read(
        recipe, ["data.made=", odd, "train.betas=[0.8, 0.9]", "tokens.lowercase=true", "decode.beam=3"]
    )
    assert job.data.train == ('a "b" \\ \t é 日.tsv',)
    assert job.train.betas == (0.8, 0.9)
    (tmp_path / "again.toml").write_text(text)
    assert read(str(tmp_path / "again.toml")) == (job, text)


def test_lists_of_numbers_go_through_recipes(tmp_path: Path) -> None:
    """By --set, from Python, from a run that training starts with, and from the recipe kept for --resume."""
    job, text = read("shapes-senet", ["model.depths=[1, 2]", "model.widths=[4, 8]", "train.device=cpu"])
    assert job.config.depths == (1, 2)
    changes = {"model.depths": (1, 2), "model.widths": (4, 8), "train.device": "cpu"}
    assert read("shapes-senet", changes) == (job, text)
    assert "\ndepths = [1, 2]\n" in text
    model = small_models.build("senet", depths=(1, 2), widths=(4, 8))
    begin(tmp_path / "run", model, small_models.artifacts(model), text)
    save_weights(tmp_path / "run", model)
    assert Folder(tmp_path / "run").config == model.config
    again, kept = read("shapes-senet", [], tmp_path / "run")
    assert again.config.depths == (1, 2)
    assert "\ndepths = [1, 2]\nwidths = [4, 8]\n" in kept
    assert read(tomllib.loads(kept))[1] == kept
    with pytest.raises(RecipeError, match=r"depths=\[1\] is not possible: .* only image_size and image_width may"):
        read("shapes-senet", ["model.depths=[1]"], tmp_path / "run")
    begin(tmp_path / "run", model, small_models.artifacts(model), kept)
    check_recipe(tmp_path / "run", kept, again.train)
    with pytest.raises(RunError, match=r"model.depths was \[1, 2\], now it is \[1, 3\]"):
        check_recipe(tmp_path / "run", kept.replace("depths = [1, 2]", "depths = [1, 3]"), again.train)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("model.depths=[1000000000, 1, 1]", "depths must add up to at most 1,000, got 1,000,000,002"),
        ("model.depths=[500, 500, 1]", "depths must add up to at most 1,000, got 1,001"),
        ("model.widths=[1, 1, 1000000000]", "widths must be at most 16,777,216, got 1,000,000,000"),
        ("model.depths=3", "depths must be a list of whole numbers, got 3"),
        ("model.depths=3,3,3", "depths must be a list of whole numbers, got '3,3,3'"),
        ("model.depths=[]", "depths and widths must have a number for each stage"),
    ],
)
def test_what_is_wrong_with_a_list_is_said(change: str, said: str) -> None:
    assert said in refused("shapes-senet", change)


@pytest.mark.parametrize("name", MODELS)
def test_settings_that_count_layers_say_so(name: str) -> None:
    """By this a configuration that asks for a billion of them is refused before they are built."""
    counts = {one.name for one in dataclasses.fields(MODELS[name].Config) if one.metadata.get("layers")}
    assert counts == {
        one for one in MODELS[name].Config.__dataclass_fields__ if one.endswith(("layers", "depths", "highways"))
    }
    assert counts or name == "ntm", "a controller has one layer"


# Recipes for one's own data: what is said without them, and a name that does.
NEEDS = {
    "gpt2-pairs": ("set data.train to a file of text", "pairs.tsv"),
    "-summaries": ("set either data.made to a generated set", "pairs.tsv"),
    "-pairs": ("set either data.made to a generated set", "pairs.tsv"),
    "bert-text": ("or data.train to a file of text", "text.txt"),
    "-text": ("set data.train to a file of text", "text.txt"),
    "-questions": ("or data.train to a file of questions", "questions.json"),
    "-labelled": ("data.train to a file of labelled texts", "texts.tsv"),
    "-images": ("or data.train to images", "folder"),
    "-captions": ("or data.train to a file of captions", "captions.tsv"),
}


@pytest.mark.parametrize("name", recipes())
def test_every_shipped_recipe_is_sound_and_says_what_it_is(name: str) -> None:
    assert recipes()[name].endswith(".")  # its first line is shown alone
    said, data = next((NEEDS[end] for end in NEEDS if name.endswith(end)), ("", ""))
    if said:
        assert said in refused(name)
    job, _ = read(name, [f"data.train={data}"] if data else [])
    assert job.model in MODELS
    assert len(recipes()[name]) > 20


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("model.dropuot=0.2", "unknown key of [model]: 'dropuot'; did you mean 'dropout'?"),
        ("train.stesp=3", "unknown key of [train]: 'stesp'; did you mean 'steps'?"),
        ("modle.dropout=0.2", "unknown section: 'modle'; did you mean 'model'?"),
        ("zebra.x=1", "unknown section: 'zebra'; there are data, tokens, model, train, decode"),
        ("model.vocabulary=9", "model.vocabulary follows from the tokenizer; set tokens.size and tokens.joint"),
        ("model.name=bahdanow", f"model.name must be one of {', '.join(MODELS)}, got 'bahdanow'"),
        ("model.name=[]", f"model.name must be one of {', '.join(MODELS)}, got []"),
        ("model.embed=eight", "[model]: embed must be a whole number, got 'eight'"),
        ("model.embed=8.0", "[model]: embed must be a whole number, got 8.0"),
        ("model.embed=true", "[model]: embed must be a whole number, got True"),
        ("model.embed=0", "[model]: embed must be at least 1, got 0"),
        ("model.dropout=much", "[model]: dropout must be a number, got 'much'"),
        ("model.dropout=1.5", "[model]: dropout must lie in [0, 1), got 1.5"),
        ("model.tied=1", "[model]: tied must be true or false, got 1"),
        ("model.cell=5", "[model]: cell must be one of 'rnn', 'gru', 'lstm', got '5'"),
        ("model.cell=5.0", "[model]: cell must be a text, got 5.0"),
        ("data.source=true", "[data]: source must be a text, got True"),
        ("model.score=dott", "[model]: score must be one of 'dot', 'scaled_dot'"),
        ("model.weigh=soggy", "[model]: weigh must be one of 'soft', 'hard'"),
        ("model.encoder_layers=1000000000", "[model]: encoder_layers must be at most 1,000"),
        ("data.made=dats", "[data]: unknown generated set 'dats'; there are dates"),
        ("data.made=1979-05-03", "[data]: made must be a text, got datetime.date(1979, 5, 3)"),
        (
            "tokens.kind=letters",
            "[tokens]: kind must be one of 'character', 'word', 'space', 'bpe', 'wordpiece', got 'letters'",
        ),
        ("tokens.kind=wordpiece", "tokens.kind must be character or word or space or bpe for bahdanau"),
        ("train.steps=0", "[train]: steps must be at least 1, got 0"),
        ("train.learning_rate=nan", "[train]: learning_rate must be a number, got nan"),
        ("train.betas=[0.9]", "[train]: betas must be a list of 2 numbers, got [0.9]"),
        ("train.r_drop=-1", "[train]: r_drop must be at least 0, got -1"),
        ("train.r_drop=nan", "[train]: r_drop must be a number, got nan"),
        ("train.r_drop=inf", "[train]: r_drop must be a number, got inf"),
        ("train.r_drop=much", "[train]: r_drop must be a number, got 'much'"),
        ("train.r_drop=true", "[train]: r_drop must be a number, got True"),
        ("train.schedule=zigzag", "[train]: schedule must be one of 'constant'"),
        ("decode.beam=0", "[decode]: beam must lie in [1, 1,000), got 0"),
        ("decode.n_best=2", "[decode]: n_best must be at most beam = 1"),
        ("model", "--set wants section.key=value, as in model.dropout=0.2; got 'model'"),
        ("model.dropout", "--set wants section.key=value"),
        ("dropout=0.2", "got 'dropout=0.2'; did you mean model.dropout=0.2?"),
        (
            "steps=5",
            "--set wants section.key=value, as in model.dropout=0.2; got 'steps=5'; did you mean train.steps=5",
        ),
        ("batch_tokens=5", "did you mean data.batch_tokens=5?"),
        ("nosuch=5", "--set wants section.key=value, as in model.dropout=0.2; got 'nosuch=5'"),
        ("model.steps=5", "unknown key of [model]: 'steps'; did you mean train.steps?"),
        ("train.beam=5", "unknown key of [train]: 'beam'; did you mean decode.beam?"),
        ("train.batch_tokens=5", "unknown key of [train]: 'batch_tokens'; did you mean data.batch_tokens?"),
        ("model.=0.2", "--set wants section.key=value"),
        ("model.a.b=1", "unknown key of [model]: 'a.b'"),
    ],
)
def test_what_is_wrong_is_said(recipe: str, change: str, said: str) -> None:
    assert said in refused(recipe, change)


def test_dot_needs_sides_of_one_size(recipe: str) -> None:
    assert "queries and keys of the same size, got 18 and 16" in refused(
        recipe, "model.score=dot", "model.decoder=18"
    )
    read(recipe, ["model.score=dot"])


@pytest.mark.parametrize(
    ("change", "key", "value"),
    [
        ("model.dropout=0.2", "dropout", 0.2),
        ("model.dropout=0", "dropout", 0),
        (" model.dropout = 0.2 ", "dropout", 0.2),
        ("model.score=general", "score", "general"),
        ('model.score="general"', "score", "general"),
        ("model.cell=lstm", "cell", "lstm"),
        ("model.tied=true", "tied", True),
        ("model.max_positions=1_000", "max_positions", 1000),
    ],
)
def test_forms_of_a_change(recipe: str, change: str, key: str, value: object) -> None:
    job, text = read(recipe, [change])
    assert getattr(job.config, key) == value
    assert type(getattr(job.config, key)) is type(value)
    assert tomllib.loads(text)["model"][key] == value


def test_a_column_may_be_a_number(tmp_path: Path) -> None:
    job, text = read("bahdanau-pairs", ["data.train=pairs.tsv", "data.source=3", "data.target=1"])
    assert (job.data.source, job.data.target) == ("3", "1")
    (tmp_path / "again.toml").write_text(text)
    assert read(str(tmp_path / "again.toml")) == (job, text)
    data = read("bert-labelled", ["data.train=a.tsv", "data.text=3", "data.second=2", "data.label=1"])[0].data
    assert (data.text, data.second, data.label) == ("3", "2", "1")


def test_of_two_changes_the_later_holds(recipe: str) -> None:
    assert read(recipe, ["model.embed=9", "model.embed=10"])[0].config.embed == 10


def test_a_change_may_hold_equals_signs_and_hashes(recipe: str) -> None:
    job, _ = read(recipe, ["data.made=", "data.train=a=b#c.tsv"])
    assert job.data.train == ("a=b#c.tsv",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[data\n", "is not valid TOML: "),
        ("[data]\nmade = copy\n", "is not valid TOML: "),
        ("[train]\nsteps = 1\n[train]\nsteps = 2\n", "is not valid TOML: "),
        ("steps = 5\n", "unknown section: 'steps'"),
        ("data = 5\n[model]\nname = 'bahdanau'\n", "data must be a section [data], got 5"),
        ("[[data]]\nmade = 'copy'\n", "data must be a section [data], got [{"),
        ("", f"model.name must be one of {', '.join(MODELS)}, got None"),
        ("[model]\nname = 'bahdanau'\n[train]\nsteps = 1\n", "[data]: set either data.made"),
        ("[model]\nname = 'bahdanau'\n[data]\nmade = 'copy'\n", "train.steps must be set"),
    ],
)
def test_files_that_are_no_recipe(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    assert said in refused(str(path))


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe\x00")
    assert "is not valid TOML" in refused(str(tmp_path / "bad.toml"))


def test_a_recipe_that_is_not_there_names_the_nearest(tmp_path: Path) -> None:
    assert refused("bahdanau-date") == (
        "there is no recipe 'bahdanau-date', neither a file nor shipped; did you mean 'bahdanau-dates'?"
    )
    assert refused("luong").endswith(
        "did you mean 'luong-dates', 'luong-pairs', 'multi30k-luong-raw', 'multi30k-luong' or 'recall-luong'?"
    )
    assert refused("transfomer").endswith("'transformer-dates', 'transformer-pairs' or 'transformer-summaries'?")
    assert "there is no recipe" in refused("../recipes/bahdanau-dates")
    assert "there is no recipe" in refused(str(tmp_path))


def test_dump_writes_what_toml_reads() -> None:
    table = {"a": {"text": 'q"\\\n\x01é', "number": 1e-5, "whole": 3, "yes": True, "many": [1, 2.5]}, "b": {}}
    assert tomllib.loads(dump(table)) == table


def test_a_size_takes_the_place_of_the_recipes_numbers() -> None:
    own = ["data.train=text.txt"]
    job, text = read("gpt2-text", [*own, "model.layers=2", "model.size=medium"])
    assert (job.config.dim, job.config.layers, job.config.heads) == (1024, 2, 16)
    assert read("shakespeare-gpt2", ["model.size=small"])[0].config.ff == MODELS["gpt2"].Config(1).ff
    assert tomllib.loads(text)["model"]["max_positions"] == 64, "what no size decides stays"
    assert read("transformer-pairs", [*own, "model.size=base"])[0].config.dim == 512


def test_a_run_to_begin_with_brings_its_model_and_tokens() -> None:
    start = find("shakespeare")
    own = ["data.train=text.txt", "model.dropout=0.4"]
    job, text = read("gpt2-text", own, start)
    assert (job.config.dim, job.config.layers, job.config.dropout) == (192, 5, 0.4)
    assert "tokens" not in tomllib.loads(text), "the recipe's own would be a lie"
    for change in ("model.layers=2", "model.size=small", "tokens.size=300"):
        with pytest.raises(RecipeError, match=f"--set {change} is not possible: with --from"):
            read("gpt2-text", [*own, change], start)
    with pytest.raises(RecipeError, match=r"trains 'gpt2' and .* has the model bahdanau"):
        read("gpt2-text", own, find("dates"))


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("shakespeare-gpt2", "gpt2"),
        ("wikitext2-rnnlm", "rnnlm"),
        ("wikitext2-bert", "bert"),
        ("sst2-bert", "bert"),
        ("shapes-vit", "vit"),
    ],
)
def test_r_drop_is_for_translators(name: str, model: str) -> None:
    task = read(name)[0].task
    said = f"[train]: r_drop is not for a {model} that is made to {task}; leave it out, or set train.r_drop=0"
    assert refused(name, "train.r_drop=1.0") == said
    assert read(name, ["train.r_drop=0"])[0].train.r_drop == 0


@pytest.mark.parametrize(("name", "model"), [("wikitext2-bert", "bert"), ("sst2-elmo", "elmo")])
def test_only_steps_on_batches_of_few_shapes_are_captured(name: str, model: str) -> None:
    task = read(name)[0].task
    said = f"[train]: capture is not for a {model} that is made to {task}; leave it out, or set train.capture=false"
    assert refused(name, "train.capture=true") == said
    for other in ("shapes-vit", "shakespeare-gpt2", "imdb-han", "sst2-pooling", "transformer-dates", "sst2-bert"):
        assert read(other, ["train.capture=true"])[0].train.capture


def test_a_plain_rnn_needs_packed_rows_which_cannot_be_captured() -> None:
    said = "[train]: capture is not for a han that is made to classify; leave it out, or set train.capture=false"
    assert refused("imdb-han", "train.capture=true", "model.cell=rnn") == said
    assert read("imdb-pooling", ["train.capture=true", "model.cell=rnn", "model.layers=0"])[0].train.capture


@pytest.mark.parametrize(("name", "off"), [("passes", 1), ("parts", 1), ("clip", 0.2)])
def test_only_agents_learn_from_the_same_trials_again(name: str, off: float) -> None:
    setting = f"train.ppo_{name}"
    said = f"[train]: ppo_{name} is not for a han that is made to classify; leave it out, or set {setting}={off}"
    assert refused("imdb-han", f"{setting}=2") == said


def test_updates_by_the_same_trials_accumulate_none() -> None:
    said = "[train]: accumulate_steps must be 1 with ppo_passes = 4 and ppo_parts = 4, got 2; use larger batches"
    assert refused("bandit-snail", "train.accumulate_steps=2", "train.capture=false") == said


@pytest.mark.parametrize(("name", "value", "off"), [("reward", "row", "token"), ("baseline", "moving", "rows")])
def test_rewards_of_looks_are_for_models_that_may_look_hard(name: str, value: str, off: str) -> None:
    """An agent has rewards of its own."""
    setting = f"train.reinforce_{name}"
    said = f"[train]: reinforce_{name} is not for a snail_agent that is made to play; leave it out, or set "
    assert refused("bandit-snail", f"{setting}={value}") == f"{said}{setting}={off}"
    assert getattr(read("bandit-snail", [f"{setting}={off}"])[0].train, f"reinforce_{name}") == off
    for other in ("bahdanau-dates", "scenes-show-attend-tell"):
        assert getattr(read(other, [f"{setting}={value}"])[0].train, f"reinforce_{name}") == value


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("scenes-show-and-tell", []),
        ("scenes-show-and-tell", ["model.frozen=true"]),
        ("scenes-show-attend-tell", ["model.image_size=8"]),
        ("shapes-senet", ["model.image_size=4"]),
        ("shapes-senet", ["model.stem=large", "model.image_size=16"]),
    ],
)
def test_batch_normalisation_needs_batches(name: str, changes: list[str]) -> None:
    """Of one image that is a single vector there are no statistics; that is told before any work."""
    told = refused(name, "data.batch_size=1", *changes)
    assert "batch_size must be at least 2 for this" in told
    assert read(name, ["data.batch_size=2", *changes])
    for fine in (["model.image_size=9"], ["model.image_size=8", "model.frozen=true"]):
        assert read("scenes-show-attend-tell", ["data.batch_size=1", *fine])
    assert read("shapes-senet", ["data.batch_size=1", "model.image_size=4", "model.image_width=5"])


def test_settings_that_are_not_for_all_are_off_unless_set() -> None:
    training = Training(steps=1)
    assert {name: getattr(training, name) for name in NOT_FOR_ALL} == NOT_FOR_ALL | {"capture": AUTO}


@pytest.mark.parametrize("name", ["transformer", "luong", "bahdanau", "seq2seq"])
def test_translators_train_with_r_drop(name: str) -> None:
    job, text = read(f"{name}-dates", ["train.r_drop=5"])
    assert job.train.r_drop == 5
    assert tomllib.loads(text)["train"]["r_drop"] == 5
    assert read(f"{name}-dates")[0].train.r_drop == 0


def test_a_translator_is_trained_with_r_drop(call: Any) -> None:
    small = ["train.steps=3", "train.eval_every=3", "data.train_count=60", "data.valid_count=20", "model.layers=1"]
    small += ["model.dim=32", "data.batch_tokens=512", "decode.max_length=6"]
    words = [word for change in small for word in ("--set", change)]
    for weight, folder in ((0.0, "plain"), (1.0, "agreed")):
        done = call("train", "transformer-dates", *words, "--set", f"train.r_drop={weight}", "--out", folder)
        assert (done.code, done.out) == (0, f"{folder}\n")
        assert f"{folder}: best at step 3 of 3  valid_loss " in done.err
    logs = [Path(folder, "log.jsonl").read_text().splitlines() for folder in ("plain", "agreed")]
    plain, agreed = ([row for row in map(json.loads, log) if "loss" in row] for log in logs)
    assert [row["step"] for row in agreed] == [1, 2, 3]
    assert all(math.isfinite(row["loss"]) for row in agreed)
    assert agreed[0]["loss"] > plain[0]["loss"], "two passes under dropout differ, and that is added"
    assert tomllib.loads(Path("agreed/recipe.toml").read_text())["train"]["r_drop"] == 1.0
    other = call("train", "transformer-dates", *words, "--out", "agreed", "--resume")
    assert other.code == 2
    assert "agreed was begun with other settings: train.r_drop was 1.0" in other.err
    assert call("translate", "agreed", "3 May 1979").code == 0
