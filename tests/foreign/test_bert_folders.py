"""BERT in folders of `transformers`, whole: weights, tokens and classes, made there and opened here, made here and
opened there, and folders that are not what they claim."""

from __future__ import annotations

import json
import os
import pickle
import resource
import shutil
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from damage import WEIGHTS, Damage, header, tensors
from peers import draw_bert
from safetensors.torch import load_file

import regard
from regard.errors import RunError
from regard.runs import weights
from regard.tasks.core import training
from regard.tasks.core.recipe import read
from regard.tasks.core.table import load
from regard.tasks.shared.export import export
from regard.tasks.shared.reader import Reader

transformers = pytest.importorskip("transformers")

NAMES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["the", "cat", "dog", "sat", "on", "mat", "play", "##ing", "##s", "a", "b", "##b", ".", ",", "!", "我", "e"]
TEXTS = ["The cat sat on the mat.", "", "a [MASK] plays, playing!", "dogs ZEBRA 我 é", "the cat " * 30]
PAIRS = [("the cat", "a dog plays ."), ("the", ""), ("the cat " * 30, "dogs"), ("cats", "a dog " * 30)]
LONGEST = 20
LABELS = {0: "good", 1: "bad", 2: "so so"}


pytestmark = pytest.mark.usefixtures("quiet_transformers")


def make(
    architecture: str, folder: Path, *, words: tuple[str, ...] = (), shard: str = "5GB", **changes: Any
) -> Path:
    """A folder written by transformers alone: the model, and its fast tokenizer."""
    pieces = [*NAMES, *WORDS, *words]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(pieces))
    tokenizer = transformers.BertTokenizerFast.from_pretrained(folder)
    (folder / "vocab.txt").unlink()
    sizes = {"vocab_size": len(pieces), "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3}
    sizes |= {"intermediate_size": 40, "max_position_embeddings": LONGEST}
    classes = {"id2label": LABELS} if "Classification" in architecture else {}
    model = getattr(transformers, architecture)(transformers.BertConfig(**sizes, **classes, **changes)).eval()
    draw_bert(model)
    model.save_pretrained(folder, max_shard_size=shard)
    tokenizer.save_pretrained(folder)
    return folder


def peers(folder: Path, architecture: str) -> tuple[Any, Any]:
    model, report = getattr(transformers, architecture).from_pretrained(folder, output_loading_info=True)
    assert not any(report.values()), report
    return model.eval(), transformers.AutoTokenizer.from_pretrained(folder)


def asked(tokenizer: Any, *texts: str) -> Any:
    return tokenizer(*texts, return_tensors="pt", truncation=True, max_length=LONGEST)


def same_tokens(reader: Reader, tokenizer: Any) -> None:
    for text in TEXTS:
        if "[MASK]" not in text:  # which is text to us, unless blanks are to be filled
            assert reader.read(text).row[0] == tokenizer(text, truncation=True, max_length=LONGEST)["input_ids"]
    assert reader.read_blanks(TEXTS[2]).row[0] == tokenizer(TEXTS[2])["input_ids"]
    for first, second in PAIRS:
        if second:
            found = tokenizer(first, second, truncation="longest_first", max_length=LONGEST)
            assert reader.read((first, second)).row == (found["input_ids"], found["token_type_ids"])


def same_vectors(reader: Reader, model: Any, tokenizer: Any) -> None:
    for text in (TEXTS[0], TEXTS[1], TEXTS[4]):
        with torch.no_grad():
            states = model(**asked(tokenizer, text))[0][0]
        close(reader.embed([text])[0], states.mean(0))
        close(reader.embed([text], pool="cls")[0], states[0])


def same_blanks(reader: Reader, model: Any, tokenizer: Any) -> None:
    given = asked(tokenizer, TEXTS[2])
    with torch.no_grad():
        logits = model(**given)[0][0, given["input_ids"][0] == tokenizer.mask_token_id]
    shares = logits.softmax(-1)[0]
    shares[tokenizer.all_special_ids] = 0  # these fill no blank
    best = shares.topk(5)
    [blank] = reader.fill(TEXTS[2]).blanks
    assert [token for token, _ in blank] == tokenizer.convert_ids_to_tokens(best.indices)
    close(np.array([share for _, share in blank]), best.values)


def same_classes(reader: Reader, model: Any, tokenizer: Any) -> None:
    for texts in ((TEXTS[0],), (TEXTS[4],), PAIRS[0], PAIRS[2], PAIRS[3]):
        with torch.no_grad():
            shares = model(**asked(tokenizer, *texts)).logits[0].softmax(-1)
        found = reader.classify(texts if len(texts) == 2 else texts[0])
        assert found.label == model.config.id2label[int(shares.argmax())]
        close(np.array([found.probabilities[name] for _, name in sorted(model.config.id2label.items())]), shares)


def close(ours: np.ndarray, theirs: torch.Tensor) -> None:
    assert ours.shape == tuple(theirs.shape)
    assert np.abs(ours - theirs.numpy()).max() <= 2e-5 * float(theirs.abs().max())


CHECKS: dict[str, Callable[[Reader, Any, Any], None]] = {
    "BertModel": same_vectors,
    "BertForMaskedLM": same_blanks,
    "BertForPreTraining": same_blanks,
    "BertForSequenceClassification": same_classes,
}


# ---- made there


@pytest.mark.parametrize("architecture", CHECKS)
def test_what_transformers_wrote_is_opened(architecture: str, tmp_path: Path) -> None:
    make(architecture, tmp_path)
    reader = load(tmp_path)
    assert isinstance(reader, Reader)
    model, tokenizer = peers(tmp_path, architecture)
    same_tokens(reader, tokenizer)
    CHECKS[architecture](reader, model, tokenizer)


@pytest.mark.parametrize("architecture", CHECKS)
def test_shards_are_put_together(architecture: str, tmp_path: Path) -> None:
    make(architecture, tmp_path, shard="8KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    CHECKS[architecture](load(tmp_path), *peers(tmp_path, architecture))


def test_segments_and_numbers_of_their_own(tmp_path: Path) -> None:
    make("BertForSequenceClassification", tmp_path, type_vocab_size=3, layer_norm_eps=1e-5, hidden_act="gelu_new")
    same_classes(load(tmp_path), *peers(tmp_path, "BertForSequenceClassification"))


def test_without_a_blank_nothing_is_filled(tmp_path: Path) -> None:
    make("BertForMaskedLM", tmp_path)
    damage_tokens(lambda x: x["model"]["vocab"].pop("[MASK]"))(tmp_path)
    reader = load(tmp_path)
    assert reader.embed("the cat").shape == (24,)
    with pytest.raises(RunError, match="has no mask token, so it cannot fill blanks"):
        reader.fill("the [MASK]")


def test_a_vocabulary_larger_than_its_names(tmp_path: Path) -> None:
    """As models have it that were padded to a round number."""
    make("BertForMaskedLM", tmp_path, words=("x", "y"))
    damage_tokens(lambda x: [x["model"]["vocab"].pop(word) for word in ("x", "y")])(tmp_path)
    [blank] = load(tmp_path).fill("the [MASK]", top=99).blanks
    assert len(blank) == len(WORDS) + 2


# ---- made here

TRAINED = """
[data]
train = "{file}"
valid = "{file}"

[tokens]
kind = "wordpiece"
size = 90
lowercase = true

[model]
name = "bert"
dim = 24
layers = 2
heads = 3
max_positions = 20
head = "{head}"

[train]
steps = 2
learning_rate = 0.01
eval_every = 2
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("trained")
    documents = [["The cat sat on the mat.", "A dog plays, playing!", "Dogs and cats.", "é 我 b."]] * 3
    (folder / "text.txt").write_text("\n\n".join("\n".join(one) for one in documents))
    rows = [f"{text}\tclass {number}\n" for one in documents for number, text in enumerate(one)]
    (folder / "rows.tsv").write_text("".join(rows))
    for head in ("masked", "pretrain", "classify"):
        file = folder / ("rows.tsv" if head == "classify" else "text.txt")
        (folder / f"{head}.toml").write_text(TRAINED.format(file=file, head=head))
        changes = [] if head == "classify" else ["data.length=20"]
        job, text = read(str(folder / f"{head}.toml"), changes)
        training.train(job, folder / head, recipe=text, command="regard train")
    return {head: folder / head for head in ("masked", "pretrain", "classify")}


OURS = {
    "masked": "BertForMaskedLM",
    "pretrain": "BertForPreTraining",
    "classify": "BertForSequenceClassification",
}


@pytest.mark.parametrize("head", OURS)
def test_a_run_opens_in_transformers(head: str, trained: dict[str, Path]) -> None:
    reader = load(trained[head])
    model, tokenizer = peers(trained[head], OURS[head])
    same_tokens(reader, tokenizer)
    CHECKS[OURS[head]](reader, model, tokenizer)
    assert (tokenizer.cls_token, tokenizer.sep_token, tokenizer.mask_token) == ("[CLS]", "[SEP]", "[MASK]")
    assert (tokenizer.pad_token_id, tokenizer.model_max_length) == (0, 20)
    if head == "classify":
        assert model.config.id2label == {number: f"class {number}" for number in range(4)}
        assert model.config.label2id["class 3"] == 3


@pytest.mark.parametrize("head", OURS)
def test_it_opens_there_by_the_automatic_classes(head: str, trained: dict[str, Path]) -> None:
    auto = {"masked": "MaskedLM", "pretrain": "PreTraining", "classify": "SequenceClassification"}[head]
    found = getattr(transformers, f"AutoModelFor{auto}").from_pretrained(trained[head])
    assert type(found).__name__ == OURS[head]
    bare = transformers.AutoModel.from_pretrained(trained[head]).eval()
    same_vectors(load(trained[head]), bare, transformers.AutoTokenizer.from_pretrained(trained[head]))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("head", OURS)
def test_exports_are_the_folder_alone(head: str, dtype: str, trained: dict[str, Path], tmp_path: Path) -> None:
    export(trained[head], tmp_path / "out", dtype)
    files = {"config.json", WEIGHTS, "tokenizer.json", "tokenizer_config.json", "README.md"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == files
    kind = getattr(torch, dtype)
    assert {x.dtype for x in load_file(tmp_path / "out" / WEIGHTS).values()} == {kind}
    model = getattr(transformers, OURS[head]).from_pretrained(tmp_path / "out", dtype=torch.float32).eval()
    CHECKS[OURS[head]](load(tmp_path / "out"), model, transformers.AutoTokenizer.from_pretrained(tmp_path / "out"))


def test_there_and_back_changes_nothing(trained: dict[str, Path], tmp_path: Path) -> None:
    for head, run in trained.items():
        model, tokenizer = peers(run, OURS[head])
        model.save_pretrained(tmp_path / head)
        tokenizer.save_pretrained(tmp_path / head)
        before, after = load(run), load(tmp_path / head)
        assert after.model.config == before.model.config
        assert after.tokenizer.special == before.tokenizer.special
        weights = after.model.state_dict()
        assert all(torch.equal(x, weights[name]) for name, x in before.model.state_dict().items())


# ---- folders that are not what they claim


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make("BertForSequenceClassification", tmp_path_factory.mktemp("whole") / "run")


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make("BertForMaskedLM", tmp_path_factory.mktemp("masked") / "run")


def damage_json(name: str, change: Callable[[dict[str, Any]], object]) -> Damage:
    def write(folder: Path) -> None:
        table = json.loads((folder / name).read_text())
        change(table)
        (folder / name).write_text(json.dumps(table))

    return write


def config(**changes: Any) -> Damage:
    return damage_json("config.json", lambda table: table.update(changes))


def damage_tokens(change: Callable[[dict[str, Any]], object]) -> Damage:
    """Names taken away are so as added tokens, too."""

    def drop(table: dict[str, Any]) -> None:
        change(table)
        vocabulary = table["model"]["vocab"]
        table["added_tokens"] = [one for one in table["added_tokens"] if one["content"] in vocabulary]

    return damage_json("tokenizer.json", drop)


TABLE = "bert.embeddings.word_embeddings.weight"
HOSTILE: dict[str, tuple[Damage, str]] = {
    "a billion layers": (config(num_hidden_layers=10**9), "layers must be at most 1,000, got 1,000,000,000"),
    "the most layers": (
        config(num_hidden_layers=1000),
        "it has 1,000 layers, and the folder holds only 41 tensors",
    ),
    "a vast vocabulary": (config(vocab_size=10**12), "vocabulary must be at most 16,777,216"),
    "a vast table": (config(vocab_size=1 << 24, hidden_size=3 << 22), "names 22 of the model's 16,777,216 ids"),
    "positions without end": (config(max_position_embeddings=10**10), "max_positions must be at most 16,777,216"),
    "segments without end": (config(type_vocab_size=10**10), "segments must be at most 16,777,216"),
    "no segments": (config(type_vocab_size=0), "segments must be at least 1, got 0"),
    "no heads": (config(num_attention_heads=0), "heads must be at least 1, got 0"),
    "heads that do not fit": (config(num_attention_heads=5), "dim must be a multiple of heads"),
    "nothing inside": (config(intermediate_size=0), "intermediate_size must be at least 1, got 0"),
    "a number as text": (config(hidden_size="24"), "hidden_size must be of type int, got '24'"),
    "a NaN": (config(layer_norm_eps=float("nan")), "eps must be a number, got nan"),
    "an activation unknown": (config(hidden_act="xielu"), r"activation must be one of 'relu', .*, got 'xielu'"),
    "a padding beyond": (config(pad_token_id=10**9), "pad_token_id is 1,000,000,000, and the ids end at 21"),
    "a padding below": (config(pad_token_id=-1), "pad_token_id must be the id of one token, got -1"),
    "a decoder": (config(is_decoder=True), "is_decoder = True is not supported, only False"),
    "relative positions": (
        config(position_embedding_type="relative_key"),
        "position_embedding_type = 'relative_key'",
    ),
    "code of its own": (config(auto_map={"AutoModel": "x.Y"}), "auto_map = .* regard does not support it"),
    "quantised": (
        config(quantization_config={"bits": 4}),
        "quantization_config = .* does not support it; save the model without",
    ),
    "another head": (
        config(architectures=["BertForMultipleChoice"]),
        "is not supported, only BertModel, BertFor",
    ),
    "a number and not a class": (
        config(problem_type="regression"),
        "problem_type = 'regression' is not supported",
    ),
    "classes a billion": (
        config(id2label=None, num_labels=10**9),
        "num_labels must be a whole number from 1 to 1,048,576",
    ),
    "classes with holes": (
        config(id2label={"0": "a", "1": "b", "7": "c"}),
        "id2label must name the classes 0 to 2",
    ),
    "a class far off": (config(id2label={"0": "a", "1000000000": "b"}), "id2label must name the classes 0 to 1"),
    "a class below": (config(id2label={"0": "a", "-1": "b", "1": "c"}), "id2label must name the classes 0 to 2"),
    "classes without names": (config(id2label={"0": "a", "1": None, "2": "c"}), "id2label must name the classes"),
    "classes in a list": (config(id2label=["a", "b", "c"]), "id2label must name 1 to 1,048,576 classes, got"),
    "no classes": (config(id2label={}), "id2label must name 1 to 1,048,576 classes"),
    "one class": (config(id2label={"0": "a"}), "labels must name two classes or more, got 'a' alone"),
    "classes the weights have not": (
        config(id2label={str(number): str(number) for number in range(4)}),
        r"classifier.weight should be \(4, 24\)|classifier.bias should be \(4,\)",
    ),
    "classes by the thousand": (
        config(id2label={str(number): str(number) for number in range(50_000)}),
        "classifier.* should be",
    ),
    "a table of another shape": (tensors(lambda x: x.update({TABLE: torch.zeros(21, 24)})), "should be"),
    "a weight more": (tensors(lambda x: x.update({"../x": torch.zeros(1)})), r"\.\./x should be absent by config"),
    "a weight less": (
        tensors(lambda x: x.pop("bert.pooler.dense.bias")),
        "pooler.dense.bias should be .* but is missing",
    ),
    "the same by two names": (
        tensors(lambda x: x.update({"bert.embeddings.LayerNorm.gamma": torch.ones(24)})),
        "is stored twice, also in model.safetensors",
    ),
    "integers": (tensors(lambda x: x.update({TABLE: x[TABLE].int()})), r"holds integers \(I32\), and this model"),
    "offsets beyond the file": (
        header(lambda x: x[TABLE].update(data_offsets=[0, 1 << 40], shape=[1 << 38])),
        "cannot be read",
    ),
    "a shape without the bytes": (header(lambda x: x[TABLE].update(shape=[10**9, 10**9])), "cannot be read"),
    "a header beyond the file": (
        lambda x: (x / WEIGHTS).write_bytes(struct.pack("<Q", 1 << 40) + b"{}"),
        "cannot be read",
    ),
    "a pickle by this name": (
        lambda x: (x / WEIGHTS).write_bytes(pickle.dumps({"a": 1})),
        "is a pickle or an archive, not a safetensors",
    ),
    "tokens beyond": (
        damage_tokens(lambda x: x["model"]["vocab"].update(zz=22)),
        "'zz' has the id 22, but the model's vocabulary ends at 21",
    ),
    "tokens far beyond": (
        damage_tokens(lambda x: x["model"]["vocab"].update(zz=1 << 31)),
        "do not belong together",
    ),
    "no first token": (
        damage_tokens(lambda x: x["model"]["vocab"].pop("[CLS]")),
        r"has no token '\[CLS\]'|\[CLS\]",
    ),
    "no unknown token": (damage_tokens(lambda x: x["model"]["vocab"].pop("[UNK]")), r"\[UNK\]"),
    "tokens deep": (lambda x: (x / "tokenizer.json").write_text("[" * 100_000), "tokenizer.json"),
    "names that are none": (
        lambda x: (x / "tokenizer_config.json").write_text('{"cls_token": ["x"]}'),
        "cls_token must be the name of a token",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_it_is_refused_by_name(name: str, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    damage, said = HOSTILE[name]
    folder = shutil.copytree(whole, tmp_path / "run")
    damage(folder)
    taken: list[str] = []
    monkeypatch.setattr(weights, "_read", lambda opened, path, name: taken.append(name))
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(RunError, match=said) as caught:
        load(folder)
    assert time.monotonic() - began < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000, "in KiB: nothing large was made"
    assert len(str(caught.value)) < 1000
    assert not taken, "no weight was read"


def test_an_output_beside_the_embeddings_is_another_table(masked: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(masked, tmp_path / "run")
    tensors(lambda x: x.update({"cls.predictions.decoder.weight": x[TABLE] + 1}))(folder)
    with pytest.raises(RunError, match=f"cls.predictions.decoder.weight differs from {TABLE}"):
        load(folder)


def test_no_pickle_is_opened(masked: Path, tmp_path: Path) -> None:
    trap = tmp_path / "sprung"

    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(trap),)

    folder = shutil.copytree(masked, tmp_path / "run")
    for name in ("pytorch_model.bin", "training_args.bin", "vocab.txt", "vocab.pkl"):
        (folder / name).write_bytes(pickle.dumps(Trap()))
    assert load(folder).embed("the cat").shape == (24,)
    (folder / WEIGHTS).unlink()
    with pytest.raises(RunError, match="pickle"):
        load(folder)
    assert not trap.exists()
    pickle.loads(pickle.dumps(Trap()))
    assert trap.exists(), "the trap works"


@pytest.mark.parametrize(("names", "count", "labels"), [(2, 3, "LABEL_"), (3, 2, "class ")])
def test_where_names_and_number_of_classes_differ_the_weights_decide(
    names: int, count: int, labels: str, tmp_path: Path
) -> None:
    """transformers 5 takes num_labels, earlier versions took id2label."""
    folder = make("BertForSequenceClassification", tmp_path / "five")
    assert len(LABELS) == 3
    table = json.loads((folder / "config.json").read_text())
    table |= {"id2label": {str(n): f"class {n}" for n in range(names)}, "num_labels": count}
    (folder / "config.json").write_text(json.dumps(table))
    model = regard.load_model(folder)
    assert model.config.labels == tuple(f"{labels}{number}" for number in range(3))
    if count == 3:
        theirs = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
        tokens = torch.tensor([[2, 5, 6, 3]])
        with torch.no_grad():
            close(model(tokens)[:, 0].numpy(), theirs.bert(tokens)[0][:, 0])
        assert theirs.num_labels == 3
