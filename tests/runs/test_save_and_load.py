"""Every model trains, is stopped, goes on, is saved and loaded, by the same few lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
APART = "tokens.joint=false"  # each model once with a vocabulary of both sides and once with one for each
VARIANTS = {
    "seq2seq": ["seq2seq", APART, "model.reverse=true", "model.remind=true", "model.cell=gru", "model.layers=2"],
    "seq2seq of the mean": ["seq2seq", "model.summary=mean", "model.cell=rnn", "model.chrono_steps=9"],
    "bahdanau": ["bahdanau", "model.score=general", "model.weigh=hard", "model.dropout=0.3"],
    "bahdanau, local": ["bahdanau", APART, "model.weigh=local-m"],
    "luong": ["luong", "model.weigh=local-p", "model.window=2", "model.layers=2", "model.bidirectional=true"],
    "luong without feeding": ["luong", APART, "model.feeding=false", "model.score=additive", "model.weigh=local-m"],
    "transformer": ["transformer", "model.dropout=0.3", "model.attention_dropout=0.1"],
    "transformer pre-norm": ["transformer", APART, "model.norm=pre", "model.positions=learned"],
}
WRITERS = {
    "rnnlm": ["rnnlm", "model.cell=gru", "model.layers=1"],
    "lstmn": ["lstmn", "model.dropout=0.3", "model.layers=2"],
    "gpt2": ["gpt2", "model.dropout=0.3"],
    "gpt2 apart": [
        "gpt2",
        "data.separate_documents=true",
        "data.documents=line",
        "model.tied=false",
        "tokens.kind=bpe",
    ],
}
READERS = {
    "bert": ["model.dropout=0.3"],
    "bert, hidden words alone": ["model.head=masked", "data.whole_words=true"],
}
ELMOS = {
    "elmo": ["model.dropout=0.3"],
    "elmo, adaptive softmax": ["model.cutoffs=[8]", "model.cell_clip=0", "model.projection_clip=0"],
}
SEERS = {
    "vit": ["vit", "model.drop_path=0.3", "data.num_ops=1", "data.mixup=0.5"],
    "vit, mean": ["vit", "model.pool=mean", "data.flip=false", "data.crop=0"],
    "senet": ["senet", "train.average_checkpoints=2"],
    "senet, plain": ["senet", "model.reduction=0", "model.shortcut=project"],
}
WEIGHERS = {
    "pooling": ["pooling", "model.dropout=0.3", "model.word_dropout=0.1"],
    "pooling, mean of embeddings": ["pooling", "model.pool=mean", "model.layers=0"],
    "han": ["han", "model.max_words=4", "train.label_smoothing=0.1"],
    "lstmn that classifies": ["lstmn", "model.head=classify", "model.word_dropout=0.1"],
    "elmo": ["elmo", "model.head=classify", "model.frozen=false", "model.pool=attention"],
    "elmo, mean of the mix": ["elmo", "model.head=classify", "model.pool=mean", "model.reader_layers=0"],
}
TELLERS = {
    "show_and_tell": ["show_and_tell", "model.dropout=0.3", "train.label_smoothing=0.1", "data.num_ops=1"],
    "show_attend_tell": ["show_attend_tell", "model.stage=0", "train.r_drop=1.0", "data.scale=0.5"],
    "show_attend_tell, hard": ["show_attend_tell", "model.weigh=hard", "model.frozen=true"],
}
LEARNERS = {
    "snail": ["snail", "data.rotations=true", "train.label_smoothing=0.1"],
    "snail without order": ["snail", "model.temporal=false", "model.shots=2"],
}
PLAYERS = {
    "snail_agent": ["snail_agent", "model.pulls=5"],
    "snail_agent, mdps": ["snail_agent", "model.environment=mdps", "model.states=3", "model.horizon=2"],
}
MACHINES = {
    "ntm": ["ntm", "model.heads=2"],
    "ntm, feedforward": [
        "ntm",
        "model.controller=feedforward",
        "data.made=associative-recall",
        "data.max_length=3",
    ],
    "bit_lstm": ["bit_lstm", "data.curriculum_steps=3"],
}
REST = '[tokens]\nkind = "character"\n[model]\nmax_positions = 40\n[train]\nsteps = 4\neval_every = 2\n'


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    path = tmp_path / "tiny.toml"
    path.write_text(
        f'[data]\nmade = "reverse"\ntrain_count = 100\nvalid_count = 4\nbatch_tokens = 256\n{REST}',
    )
    return str(path)


@pytest.fixture
def writing(tmp_path: Path) -> str:
    """The same for language models."""
    (tmp_path / "text.txt").write_text("".join(f"{number} bottles of beer\n" for number in range(99, 0, -1)))
    path = tmp_path / "writing.toml"
    path.write_text(f'[data]\ntrain = "{tmp_path}/text.txt"\nlength = 20\nbatch_tokens = 200\n{REST}')
    return str(path)


@pytest.fixture
def reading(tmp_path: Path) -> str:
    """The same for encoders of text."""
    verses = (f"{number} bottles of beer .\nOn the wall they stand .\n\n" for number in range(60))
    (tmp_path / "text.txt").write_text("".join(verses))
    path = tmp_path / "reading.toml"
    path.write_text(f'[data]\ntrain = "{tmp_path}/text.txt"\nlength = 24\nbatch_tokens = 200\n{REST}')
    return str(path)


@pytest.fixture
def sorting(tmp_path: Path) -> str:
    """And for classifiers of text."""
    (tmp_path / "texts.tsv").write_text(
        "".join(f"{n} bottles\t{'even' if n % 2 == 0 else 'odd'}\n" for n in range(200))
    )
    path = tmp_path / "sorting.toml"
    rest = REST.replace("[train]", 'head = "classify"\n[train]')
    path.write_text(f'[data]\ntrain = "{tmp_path}/texts.tsv"\nbatch_tokens = 100\n{rest}')
    return str(path)


@pytest.fixture
def telling(tmp_path: Path) -> str:
    """For captioners."""
    path = tmp_path / "telling.toml"
    rest = REST.replace('"character"', '"word"').replace("max_positions = 40", "image_size = 32")
    path.write_text(
        f'[data]\nmade = "scenes"\ntrain_count = 24\nvalid_count = 4\nbatch_size = 8\n{rest}', encoding="utf-8"
    )
    return str(path)


@pytest.fixture
def weighing(tmp_path: Path) -> str:
    """Those that read documents."""
    texts = (f"{n} bottles. On the wall!\t{'even' if n % 2 == 0 else 'odd'}\n" for n in range(200))
    (tmp_path / "texts.tsv").write_text("".join(texts))
    path = tmp_path / "weighing.toml"
    path.write_text(
        f'[data]\ntrain = "{tmp_path}/texts.tsv"\nbatch_tokens = 100\n[tokens]\nkind = "word"\n'
        "[model]\n[train]\nsteps = 4\neval_every = 2\n"
    )
    return str(path)


@pytest.fixture
def seeing(tmp_path: Path) -> str:
    """And of pictures."""
    path = tmp_path / "seeing.toml"
    path.write_text(
        '[data]\nmade = "shapes"\ntrain_count = 60\nvalid_count = 12\ntest_count = 12\nbatch_size = 16\n'
        "[model]\n[train]\nsteps = 4\neval_every = 2\n"
    )
    return str(path)


@pytest.fixture
def acting(tmp_path: Path) -> str:
    """Those that act in environments."""
    path = tmp_path / "acting.toml"
    path.write_text(
        "[data]\nbatch_size = 4\nvalid_count = 4\ntest_count = 4\n[model]\n"
        '[train]\nsteps = 4\neval_every = 2\nbest_by = "reward"\n'
        'ppo_passes = 2\nppo_parts = 2\nentropy_schedule = "linear"\n'
    )
    return str(path)


@pytest.fixture
def recalling(tmp_path: Path) -> str:
    """Those that remember sequences of bits."""
    path = tmp_path / "recalling.toml"
    path.write_text(
        "[data]\nbits = 2\nmax_length = 3\nbatch_size = 4\nvalid_count = 5\ntest_count = 4\n[model]\n"
        '[train]\nsteps = 4\neval_every = 2\nbest_by = "bit_errors"\n'
    )
    return str(path)


def losses(folder: Path) -> list[float]:
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [row["loss"] for row in rows if "loss" in row]


def check_goes_on(train: Any, interrupt: Any, recipe: str, folder: Path, changes: list[str]) -> None:
    """Stopped and gone on in folder/run, all at once in folder/whole: nothing tells them apart."""
    whole = train(recipe, folder / "whole", *changes)
    interrupt(recipe, folder / "run", *changes)
    assert train(recipe, folder / "run", *changes, resume=True) == whole
    assert losses(folder / "run") == losses(folder / "whole")
    assert len(losses(folder / "run")) == 4
    for path in (folder / "whole").glob("*.json"):
        assert (folder / "run" / path.name).read_bytes() == path.read_bytes(), path.name
    assert (folder / "run/model.safetensors").read_bytes() == (folder / "whole/model.safetensors").read_bytes()


def test_every_model_is_tested() -> None:
    kinds = (VARIANTS, WRITERS, SEERS, WEIGHERS, TELLERS, LEARNERS, PLAYERS, MACHINES)
    tried = {variant[0] for kind in kinds for variant in kind.values()}
    assert SMALL.keys() == MODELS.keys() == tried | {"bert"}


@pytest.mark.parametrize("variant", VARIANTS)
def test_it_trains_stops_goes_on_and_answers(
    variant: str, recipe: str, tmp_path: Path, train: Any, interrupt: Any
) -> None:
    name, *options = VARIANTS[variant]
    changes = [f"model.name={name}", "tokens.joint=true", *SMALL[name], *options]
    check_goes_on(train, interrupt, recipe, tmp_path, changes)
    kind = "marian" if variant == "transformer" else f"regard-{name}"
    assert json.loads((tmp_path / "run/config.json").read_text())["model_type"] == kind
    assert f"# {name} on reverse" in (tmp_path / "run/README.md").read_text()
    texts, decode = ["a b c", "z", "", "q w e r t y"], Decoding(beam=3, n_best=2, min_length=1, max_length=10)
    first, second = (load(tmp_path / run).translate(texts, decode) for run in ("run", "whole"))
    assert first == second
    assert all(len(answer.others) == 1 for answer in first)
    if MODELS[name].alignment:
        assert first[0].attention.columns == ("a", " ", "b", " ", "c", "</s>")


@pytest.mark.parametrize("variant", WRITERS)
def test_it_trains_stops_goes_on_and_writes(
    variant: str, writing: str, tmp_path: Path, train: Any, interrupt: Any
) -> None:
    name, *options = WRITERS[variant]
    changes = [f"model.name={name}", *SMALL[name], *options]
    check_goes_on(train, interrupt, writing, tmp_path, changes)
    kind = "gpt2" if name == "gpt2" else f"regard-{name}"
    assert json.loads((tmp_path / "run/config.json").read_text())["model_type"] == kind
    assert f"# {name} on text.txt" in (tmp_path / "run/README.md").read_text()
    prompts, decode = ["9 bottles", "", "b"], Decoding(beam=3, n_best=2, min_length=1, max_length=10)
    first, second = (load(tmp_path / run).generate(prompts, decode) for run in ("run", "whole"))
    assert first == second
    assert all(len(one.others) == 1 for one in first)


@pytest.mark.parametrize("variant", READERS)
def test_it_trains_stops_goes_on_and_reads(
    variant: str, reading: str, tmp_path: Path, train: Any, interrupt: Any
) -> None:
    check_goes_on(train, interrupt, reading, tmp_path, ["model.name=bert", *SMALL["bert"], *READERS[variant]])
    texts = ["[MASK] bottles of beer .", "On the [MASK] they [MASK] ."]
    first, second = (load(tmp_path / run).fill(texts, 3) for run in ("run", "whole"))
    assert first == second
    assert [len(one.blanks) for one in first] == [1, 2]
    assert all(len(blank) == 3 for one in first for blank in one.blanks)
    assert first[0].attention.rows == ("[MASK]",)
    vectors = load(tmp_path / "run").embed(texts)
    assert vectors.shape == (2, 8)


@pytest.fixture
def predicting(reading: str) -> str:
    """For a bidirectional language model, which has no positions."""
    path = Path(reading)
    path.write_text(path.read_text().replace("max_positions = 40\n", "").replace('"character"', '"word"'))
    return reading


@pytest.mark.parametrize("variant", ELMOS)
def test_it_trains_stops_goes_on_and_embeds(
    variant: str, predicting: str, tmp_path: Path, train: Any, interrupt: Any
) -> None:
    check_goes_on(train, interrupt, predicting, tmp_path, ["model.name=elmo", *SMALL["elmo"], *ELMOS[variant]])
    texts = ["3 bottles of beer .", "", "They stand"]
    first, second = (load(tmp_path / run).embed(texts) for run in ("run", "whole"))
    assert first.shape == (3, 8)
    assert (first == second).all()
    assert [one.vectors.shape for one in load(tmp_path / "run").embed_tokens(texts)] == [(5, 8), (0, 8), (2, 8)]


def test_it_trains_stops_goes_on_and_sorts(sorting: str, tmp_path: Path, train: Any, interrupt: Any) -> None:
    check_goes_on(train, interrupt, sorting, tmp_path, ["model.name=bert", *SMALL["bert"]])
    texts = ["3 bottles", ("4", "bottles")]
    first, second = (load(tmp_path / run).classify(texts) for run in ("run", "whole"))
    assert first == second
    assert all(set(one.probabilities) == {"even", "odd"} for one in first)
    assert first[0].attention.rows == ("[CLS]",)


@pytest.mark.parametrize("variant", WEIGHERS)
def test_it_trains_stops_goes_on_and_weighs(
    variant: str, weighing: str, tmp_path: Path, train: Any, interrupt: Any
) -> None:
    name, *options = WEIGHERS[variant]
    check_goes_on(train, interrupt, weighing, tmp_path, [f"model.name={name}", *SMALL[name], *options])
    assert json.loads((tmp_path / "run/config.json").read_text())["model_type"] == f"regard-{name}"
    first, second = (load(tmp_path / run).classify(["3 bottles. 4!", ""]) for run in ("run", "whole"))
    assert first == second
    assert all(set(one.probabilities) == {"even", "odd"} for one in first)
    if name == "lstmn":
        assert first[0].attention.rows == ("3", "bottles", ".", "4", "!")
        assert first[0].attention.columns == ("3", "bottles", ".", "4")
        assert first[1].picture() is None  # an empty text
    elif "model.pool=mean" not in options:
        first[0].document().save(tmp_path / "document.svg")


@pytest.mark.parametrize("variant", SEERS)
def test_it_trains_stops_goes_on_and_sees(
    variant: str, seeing: str, tmp_path: Path, train: Any, interrupt: Any
) -> None:
    name, *options = SEERS[variant]
    check_goes_on(train, interrupt, seeing, tmp_path, [f"model.name={name}", *SMALL[name], *options])
    kind = json.loads((tmp_path / "run/config.json").read_text())["model_type"]
    assert kind == ("vit" if variant == "vit" else f"regard-{name}")
    pictures = [shapes("test", 2).read(number) for number in range(2)]
    first, second = (load(tmp_path / run).recognise(pictures) for run in ("run", "whole"))
    assert first == second
    assert len(first[0].probabilities) == 5
    if MODELS[name].alignment:
        assert first[0].overlay().panels["rollout"].shape == (4, 4)
        assert len(first[0].overlay("blocks.0.*").panels) == 2


@pytest.mark.parametrize("variant", TELLERS)
def test_it_trains_stops_goes_on_and_tells(
    variant: str, telling: str, tmp_path: Path, train: Any, interrupt: Any
) -> None:
    name, *options = TELLERS[variant]
    check_goes_on(train, interrupt, telling, tmp_path, [f"model.name={name}", *SMALL[name], *options])
    assert json.loads((tmp_path / "run/config.json").read_text())["model_type"] == f"regard-{name}"
    images = [scenes("test", 2).images.read(number) for number in range(2)]
    decode = Decoding(beam=3, n_best=2, min_length=1, max_length=10)
    first, second = (load(tmp_path / run).caption(images, decode) for run in ("run", "whole"))
    assert first == second
    assert all(len(one.others) == 1 for one in first)
    if MODELS[name].alignment:
        rows = 32 if "model.stage=0" in options else 16
        assert first[0].attention.lines[0].weights.shape[1:] == (rows, rows)


@pytest.fixture
def showing(tmp_path: Path) -> str:
    """For few-shot classifiers."""
    path = tmp_path / "showing.toml"
    path.write_text(
        '[data]\nmade = "glyphs"\ntrain_count = 6\nvalid_count = 4\nbatch_size = 4\nvalid_episodes = 6\n'
        "[model]\n[train]\nsteps = 4\neval_every = 2\n"
    )
    return str(path)


@pytest.mark.parametrize("variant", LEARNERS)
def test_it_trains_stops_goes_on_and_is_shown(
    variant: str, showing: str, tmp_path: Path, train: Any, interrupt: Any
) -> None:
    name, *options = LEARNERS[variant]
    check_goes_on(train, interrupt, showing, tmp_path, [f"model.name={name}", *SMALL[name], *options])
    assert json.loads((tmp_path / "run/config.json").read_text())["model_type"] == f"regard-{name}"
    images = glyphs("test", 2, examples=2).pixels
    support = {"a": images[0], "b": images[2]}
    first, second = (load(tmp_path / run).fewshot([images[1], images[3]], support) for run in ("run", "whole"))
    assert first == second
    assert all(set(one.probabilities) == {"a", "b"} for one in first)
    assert len(first[0].examples().examples) == 2


@pytest.mark.parametrize("variant", PLAYERS)
def test_it_trains_stops_goes_on_and_plays(
    variant: str, acting: str, tmp_path: Path, train: Any, interrupt: Any
) -> None:
    name, *options = PLAYERS[variant]
    check_goes_on(train, interrupt, acting, tmp_path, [f"model.name={name}", *SMALL[name], *options])
    assert json.loads((tmp_path / "run/config.json").read_text())["model_type"] == f"regard-{name}"
    first, second = (load(tmp_path / run).play([0, 5]) for run in ("run", "whole"))
    assert first == second
    assert first[0].attention().weights.shape == (len(first[0].actions), len(first[0].actions))


@pytest.mark.parametrize("variant", MACHINES)
def test_it_trains_stops_goes_on_and_recalls(
    variant: str, recalling: str, tmp_path: Path, train: Any, interrupt: Any
) -> None:
    name, *options = MACHINES[variant]
    check_goes_on(train, interrupt, recalling, tmp_path, [f"model.name={name}", *SMALL[name], *options])
    first, second = (load(tmp_path / run).recall(length=4, seed=3) for run in ("run", "whole"))
    assert first == second
    heads = first.looks()
    assert len(heads) == {"ntm": 4, "ntm, feedforward": 2, "bit_lstm": 0}[variant]
    assert all(one.shape == (len(first.batch.mask[0]), 6) for one in heads.values())


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        *((name, False) for name in MODELS if MODELS[name].task not in ("recognise", "caption", "fewshot")),
        ("seq2seq", True),  # plain RNNs
        ("rnnlm", True),
    ],
)
def test_the_card_promises_a_picture_where_there_is_attention_or_gates(
    name: str, plain: bool, recipe: str, writing: str, reading: str, weighing: str, request: pytest.FixtureRequest
) -> None:
    task = MODELS[name].task
    files = {"translate": recipe, "generate": writing, "fill": reading, "classify": weighing}
    file = files.get(task) or request.getfixturevalue(
        {"embed": "predicting", "play": "acting", "recall": "recalling"}[task]
    )
    job, _ = read(file, [f"model.name={name}", *SMALL[name], *(["model.cell=rnn"] if plain else [])])
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
