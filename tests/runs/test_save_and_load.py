"""Every model trains, is stopped, goes on, is saved and loaded, by the same few lines."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.data.made.glyphs import glyphs
from regard.data.made.scenes import scenes
from regard.data.made.shapes import shapes
from regard.decode.settings import Decoding
from regard.learn.loop import Report
from regard.models import MODELS
from regard.tasks.core import training
from regard.tasks.core.recipe import read
from regard.tasks.core.table import TASKS, load

SMALL = {
    "seq2seq": ["model.embed=8", "model.dim=12"],
    "bahdanau": ["model.embed=8", "model.encoder=8", "model.decoder=12", "model.readout=8"],
    "luong": ["model.embed=8", "model.dim=12"],
    "transformer": ["model.dim=8", "model.layers=2", "model.heads=2", "model.ff=12"],
    "rnnlm": ["model.embed=8", "model.dim=12"],
    "lstmn": ["model.embed=8", "model.dim=12"],
    "gpt2": ["model.dim=8", "model.layers=2", "model.heads=2"],
    "bert": ["model.dim=8", "model.layers=2", "model.heads=2", "tokens.kind=wordpiece"],
    "vit": ["model.dim=8", "model.layers=2", "model.heads=2", "model.image_size=32", "model.patch_size=8"],
    "senet": ["model.depths=[1,1]", "model.widths=[4,8]"],
    "pooling": ["model.embed=8", "model.dim=4"],
    "han": ["model.embed=8", "model.dim=4"],
    "elmo": ["model.widths=[1,2]", "model.filters=[4,4]", "model.dim=4", "model.reader=4"],
    "show_and_tell": ["model.depths=[1,1]", "model.widths=[4,8]", "model.embed=8", "model.decoder=12"],
    "show_attend_tell": ["model.depths=[1,1]", "model.widths=[4,8]", "model.embed=8", "model.decoder=12"],
    "snail": ["model.conv_filters=4", "model.embed=8", "model.keys=[8,8]", "model.values=[8,8]", "model.ways=3"],
    "snail_agent": ["model.dim=4", "model.tc_filters=4", "model.keys=4", "model.values=4", "model.actions=3"],
    "ntm": ["model.dim=8", "model.places=6", "model.width=4"],
    "bit_lstm": ["model.dim=8", "model.layers=2"],
}
TRAIN = "[train]\nsteps = 2\neval_every = 1\n"
REST = f'[tokens]\nkind = "character"\n[model]\nmax_positions = 40\n{TRAIN}'
BRIEF = "[decode]\nmax_length = 5\n"  # models that have learned nothing write as long as they may
SEARCH = Decoding(beam=2, n_best=2, min_length=1, max_length=5)


# ---- kinds of training: a recipe, its data, what a run is asked, and what is true of its answers


@dataclass(frozen=True)
class Kind:
    """recipe: {data} is a file with `text`. check: is given the answers, the model's name and its settings."""

    recipe: str
    ask: Callable[[Any], Any]
    check: Callable[[Any, str, list[str]], None]
    text: str = ""

    def write(self, folder: Path) -> str:
        data, path = folder / "text.tsv", folder / "tiny.toml"
        data.write_text(self.text)
        path.write_text(self.recipe.replace("{data}", str(data)))
        return str(path)


def check_translations(answers: Any, name: str, changes: list[str]) -> None:
    assert all(len(answer.others) == 1 for answer in answers)
    if MODELS[name].alignment:
        assert answers[0].attention.columns == ("a", " ", "b", " ", "c", "</s>")


def check_texts(answers: Any, name: str, changes: list[str]) -> None:
    assert all(len(answer.others) == 1 for answer in answers)


def check_filled(answers: Any, name: str, changes: list[str]) -> None:
    filled, vectors = answers
    assert [len(answer.blanks) for answer in filled] == [1, 2]
    assert all(len(blank) == 3 for answer in filled for blank in answer.blanks)
    assert filled[0].attention.rows == ("[MASK]",)
    assert np.shape(vectors) == (2, 8)


def check_vectors(answers: Any, name: str, changes: list[str]) -> None:
    vectors, of_tokens = answers
    assert np.shape(vectors) == (3, 8)
    assert [(shape, np.size(tokens)) for shape, tokens in of_tokens] == [((5, 8), 40), ((0, 8), 0), ((2, 8), 16)]


def check_classes(answers: Any, name: str, changes: list[str]) -> None:
    assert all(set(answer.probabilities) == {"even", "odd"} for answer in answers)
    assert answers[0].attention.rows == ("[CLS]",)


def check_documents(answers: Any, name: str, changes: list[str]) -> None:
    assert all(set(answer.probabilities) == {"even", "odd"} for answer in answers)
    if name == "lstmn":
        assert answers[0].attention.rows == ("3", "bottles", ".", "4", "!")
        assert answers[0].attention.columns == ("3", "bottles", ".", "4")
        assert answers[1].picture() is None  # an empty text
    elif "model.pool=mean" not in changes:
        assert "bottles" in answers[0].document().svg()


def check_images(answers: Any, name: str, changes: list[str]) -> None:
    assert len(answers[0].probabilities) == 5
    if MODELS[name].alignment:
        assert answers[0].overlay().panels["rollout"].shape == (4, 4)
        assert len(answers[0].overlay("blocks.0.*").panels) == 2


def check_captions(answers: Any, name: str, changes: list[str]) -> None:
    assert all(len(answer.others) == 1 for answer in answers)
    if MODELS[name].alignment:
        rows = 16 if "model.stage=0" in changes else 8
        assert answers[0].attention.lines[0].weights.shape[1:] == (rows, rows)


@cache
def two_shapes() -> list[Any]:
    images = shapes("test", 2)
    return [images.read(number) for number in range(2)]


@cache
def two_scenes() -> list[Any]:
    images = scenes("test", 2).images
    return [images.read(number) for number in range(2)]


def ask_few_shot(run: Any) -> Any:
    images = glyphs("test", 2, examples=2).pixels
    return run.fewshot([images[1], images[3]], {"a": images[0], "b": images[2]})


def check_few_shot(answers: Any, name: str, changes: list[str]) -> None:
    assert all(set(answer.probabilities) == {"a", "b"} for answer in answers)
    assert len(answers[0].examples().examples) == 2


def check_episodes(answers: Any, name: str, changes: list[str]) -> None:
    steps = len(answers[0].actions)
    assert answers[0].attention().weights.shape == (steps, steps)


def check_sequence(answer: Any, name: str, changes: list[str]) -> None:
    heads = answer.looks()
    assert len(heads) == {"bit_lstm": 0, "ntm": 4 if "model.heads=2" in changes else 2}[name]
    assert all(head.shape == (len(answer.batch.mask[0]), 6) for head in heads.values())


PAIRS = (
    '[data]\nmade = "reverse"\ntrain_count = 200\ndrop_longer = 7\nvalid_count = 4\nbatch_tokens = 64\n'
    f"{REST}{BRIEF}"
)
TEXT = f'[data]\ntrain = "{{data}}"\nlength = 24\nbatch_tokens = 96\n{REST}'
LABELLED = f'[data]\ntrain = "{{data}}"\nbatch_tokens = 100\n{REST}'
WORDS = '[tokens]\nkind = "word"\n[model]\n'
VERSES = "".join(f"{number} bottles of beer .\nOn the wall they stand .\n\n" for number in range(60))
KINDS = {
    "translate": Kind(
        PAIRS, lambda run: run.translate(["a b c", "z", "", "q w e r t y"], SEARCH), check_translations
    ),
    "generate": Kind(
        TEXT.replace("length = 24", "length = 12"),
        lambda run: run.generate(["9 bottles", "", "b"], SEARCH),
        check_texts,
        "".join(f"{number} bottles of beer\n" for number in range(99, 0, -1)),
    ),
    "fill": Kind(
        TEXT,
        lambda run: (
            run.fill(["[MASK] bottles of beer .", "On the [MASK] they [MASK] ."], 3),
            run.embed(["[MASK] bottles of beer .", "On the [MASK] they [MASK] ."]).tolist(),
        ),
        check_filled,
        VERSES,
    ),
    "embed": Kind(  # a bidirectional language model has no positions
        TEXT.replace("max_positions = 40\n", "").replace('"character"', '"word"'),
        lambda run: (
            run.embed(["3 bottles of beer .", "", "They stand"]).tolist(),
            [
                (text.vectors.shape, text.vectors.tolist())
                for text in run.embed_tokens(["3 bottles of beer .", "", "They stand"])
            ],
        ),
        check_vectors,
        VERSES,
    ),
    "classify": Kind(
        LABELLED.replace("[train]", 'head = "classify"\n[train]'),
        lambda run: run.classify(["3 bottles", ("4", "bottles")]),
        check_classes,
        "".join(f"{number} bottles\t{'even' if number % 2 == 0 else 'odd'}\n" for number in range(200)),
    ),
    "classify documents": Kind(
        f'[data]\ntrain = "{{data}}"\nbatch_tokens = 100\n{WORDS}{TRAIN}',
        lambda run: run.classify(["3 bottles. 4!", "5"]),
        check_documents,
        "".join(
            f"{number} bottles. On the wall!\t{'even' if number % 2 == 0 else 'odd'}\n" for number in range(200)
        ),
    ),
    "recognise": Kind(
        '[data]\nmade = "shapes"\ntrain_count = 16\nvalid_count = 6\ntest_count = 6\nbatch_size = 5\n'
        f"[model]\n{TRAIN}",
        lambda run: run.recognise(two_shapes()),
        check_images,
    ),
    "caption": Kind(
        '[data]\nmade = "scenes"\ntrain_count = 12\nvalid_count = 2\nbatch_size = 4\n'
        f"{WORDS}image_size = 16\n{TRAIN}{BRIEF}",
        lambda run: run.caption(two_scenes(), SEARCH),
        check_captions,
    ),
    "fewshot": Kind(
        '[data]\nmade = "glyphs"\ntrain_count = 4\nvalid_count = 4\nbatch_size = 4\nvalid_episodes = 6\n'
        f"[model]\n{TRAIN}",
        ask_few_shot,
        check_few_shot,
    ),
    "play": Kind(
        f'[data]\nbatch_size = 4\nvalid_count = 4\ntest_count = 4\n[model]\n{TRAIN}best_by = "reward"\n'
        'ppo_passes = 2\nppo_parts = 2\nentropy_schedule = "linear"\n',
        lambda run: run.play([0, 5]),
        check_episodes,
    ),
    "recall": Kind(
        "[data]\nbits = 2\nmax_length = 3\nbatch_size = 4\nvalid_count = 5\ntest_count = 4\n[model]\n"
        f'{TRAIN}best_by = "bit_errors"\n',
        lambda run: run.recall(length=4, seed=3),
        check_sequence,
    ),
}


# ---- what is trained: the kind, the model, and its settings

APART = "tokens.joint=false"  # translators: some with a vocabulary of both sides, some with one for each
TRAINED = {
    "seq2seq": [
        "translate", "seq2seq", APART, "model.reverse=true", "model.remind=true", "model.cell=gru",
        "model.layers=2",
    ],
    "seq2seq of the mean": ["translate", "seq2seq", "model.summary=mean", "model.cell=rnn", "model.chrono_steps=9"],
    "bahdanau": ["translate", "bahdanau", "model.score=general", "model.weigh=hard", "model.dropout=0.3"],
    "bahdanau, local": ["translate", "bahdanau", APART, "model.weigh=local-m"],
    "luong": [
        "translate", "luong", "model.weigh=local-p", "model.window=2", "model.layers=2", "model.bidirectional=true",
    ],
    "luong without feeding": [
        "translate", "luong", APART, "model.feeding=false", "model.score=additive", "model.weigh=local-m",
    ],
    "transformer": ["translate", "transformer", "model.dropout=0.3", "model.attention_dropout=0.1"],
    "transformer pre-norm": ["translate", "transformer", APART, "model.norm=pre", "model.positions=learned"],
    "rnnlm": ["generate", "rnnlm", "model.cell=gru", "model.layers=1"],
    "lstmn": ["generate", "lstmn", "model.dropout=0.3", "model.layers=2"],
    "gpt2": ["generate", "gpt2", "model.dropout=0.3"],
    "gpt2 apart": [
        "generate", "gpt2", "data.separate_documents=true", "data.documents=line", "model.tied=false",
        "tokens.kind=bpe",
    ],
    "bert": ["fill", "bert", "model.dropout=0.3"],
    "bert, hidden words alone": ["fill", "bert", "model.head=masked", "data.whole_words=true"],
    "elmo": ["embed", "elmo", "model.dropout=0.3"],
    "elmo, adaptive softmax": [
        "embed", "elmo", "model.cutoffs=[8]", "model.cell_clip=0", "model.projection_clip=0",
    ],
    "bert that classifies": ["classify", "bert"],
    "pooling": ["classify documents", "pooling", "model.dropout=0.3", "model.word_dropout=0.1"],
    "pooling, mean of embeddings": ["classify documents", "pooling", "model.pool=mean", "model.layers=0"],
    "han": ["classify documents", "han", "model.max_words=4", "train.label_smoothing=0.1"],
    "lstmn that classifies": ["classify documents", "lstmn", "model.head=classify", "model.word_dropout=0.1"],
    "elmo that classifies": [
        "classify documents", "elmo", "model.head=classify", "model.frozen=false", "model.pool=attention",
    ],
    "elmo, mean of the mix": [
        "classify documents", "elmo", "model.head=classify", "model.pool=mean", "model.reader_layers=0",
    ],
    "vit": ["recognise", "vit", "model.drop_path=0.3", "data.num_ops=1", "data.mixup=0.5"],
    "vit, mean": ["recognise", "vit", "model.pool=mean", "data.flip=false", "data.crop=0"],
    "senet": ["recognise", "senet", "train.average_checkpoints=2"],
    "senet, plain": ["recognise", "senet", "model.reduction=0", "model.shortcut=project"],
    "show_and_tell": [
        "caption", "show_and_tell", "model.dropout=0.3", "train.label_smoothing=0.1", "data.num_ops=1",
    ],
    "show_attend_tell": ["caption", "show_attend_tell", "model.stage=0", "train.r_drop=1.0", "data.scale=0.5"],
    "show_attend_tell, hard": ["caption", "show_attend_tell", "model.weigh=hard", "model.frozen=true"],
    "snail": ["fewshot", "snail", "data.rotations=true", "train.label_smoothing=0.1"],
    "snail without order": ["fewshot", "snail", "model.temporal=false", "model.shots=2"],
    "snail_agent": ["play", "snail_agent", "model.pulls=5"],
    "snail_agent, mdps": [
        "play", "snail_agent", "model.environment=mdps", "model.states=3", "model.horizon=2", "model.episodes=3",
    ],
    "ntm": ["recall", "ntm", "model.heads=2"],
    "ntm, feedforward": [
        "recall", "ntm", "model.controller=feedforward", "data.made=associative-recall", "data.max_length=3",
    ],
    "bit_lstm": ["recall", "bit_lstm", "data.curriculum_steps=3"],
}  # fmt: skip
# Of each model and of each kind of training another one stays.
THOROUGH = (
    "seq2seq of the mean", "luong without feeding", "elmo, adaptive softmax", "pooling, mean of embeddings",
    "elmo, mean of the mix", "vit, mean", "senet, plain", "snail without order", "snail_agent, mdps",
    "ntm, feedforward",
)  # fmt: skip
TYPES = {  # model_type of those that other libraries know; the others are ours
    "transformer": "marian", "gpt2": "gpt2", "gpt2 apart": "gpt2", "bert": "bert",
    "bert, hidden words alone": "bert", "bert that classifies": "bert", "vit": "vit",
}  # fmt: skip


def test_every_model_and_every_kind_is_trained() -> None:
    assert SMALL.keys() == MODELS.keys() == {name for _, name, *_ in TRAINED.values()}
    assert KINDS.keys() == {kind for kind, *_ in TRAINED.values()}
    assert {kind.split()[0] for kind in KINDS} == {kind.task for kind in MODELS.values()}


def losses(folder: Path) -> list[float]:
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [row["loss"] for row in rows if "loss" in row]


@pytest.mark.parametrize(
    "variant", [pytest.param(each, marks=[pytest.mark.thorough] * (each in THOROUGH)) for each in TRAINED]
)
def test_it_trains_stops_goes_on_and_answers(variant: str, tmp_path: Path, train: Any, interrupt: Any) -> None:
    """Stopped and gone on in one folder, all at once in the other: nothing tells them apart."""
    task, name, *options = TRAINED[variant]
    kind, run, whole = KINDS[task], tmp_path / "run", tmp_path / "whole"
    recipe, changes = kind.write(tmp_path), [f"model.name={name}", *SMALL[name], *options]
    if task == "translate" and APART not in options:
        changes.append("tokens.joint=true")
    report = train(recipe, whole, *changes)
    interrupt(recipe, run, *changes)
    assert train(recipe, run, *changes, resume=True) == report
    assert losses(run) == losses(whole)
    assert len(losses(run)) == 2
    for path in (*whole.glob("*.json"), whole / "model.safetensors"):
        assert (run / path.name).read_bytes() == path.read_bytes(), path.name
    assert json.loads((run / "config.json").read_text())["model_type"] == TYPES.get(variant, f"regard-{name}")
    data = re.search(r'(?:made|train) = "([^"]+)"', Path(recipe).read_text())
    assert f"# {name} on {Path(data[1]).name if data else ''}" in (run / "README.md").read_text()
    answers = kind.ask(load(run))
    assert answers == kind.ask(load(whole))
    kind.check(answers, name, changes)


# ---- the model card


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        *((name, False) for name in MODELS if MODELS[name].task not in ("recognise", "caption", "fewshot")),
        ("seq2seq", True),  # plain RNNs
        ("rnnlm", True),
    ],
)
def test_the_card_promises_a_picture_where_there_is_attention_or_gates(
    name: str, plain: bool, tmp_path: Path
) -> None:
    task = MODELS[name].task
    kind = KINDS["classify documents" if task == "classify" else task]
    job, _ = read(
        kind.write(tmp_path), [f"model.name={name}", *SMALL[name], *(["model.cell=rnn"] if plain else [])]
    )
    model = training.build_model(job, TASKS[task].desk.survey(job, None))
    card = training.readme(
        job,
        TASKS[task],
        Report(1, {"valid_loss": 1.0}, 1, early=False, averaged=0),
        model,
        "regard train",
        "10 pairs",
    )
    asked, picture = {
        "translate": ('"..."', "alignment.png"),
        "generate": ('"..."', "looks.png"),
        "classify": ('"..."', "looks.png"),
        "embed": ('"..."', ""),
        "play": ("0", "looks.png"),
        "recall": ("--length 10", "tape.png"),
        "fill": ('"... [MASK] ..."', "looks.png"),  # without a blank there is nothing to fill
    }[task]
    assert f"regard {task} DIR {asked}" in card
    assert ("--show" in card) == (not plain and bool(picture))
    assert not picture or plain or f"--show {picture}" in card
