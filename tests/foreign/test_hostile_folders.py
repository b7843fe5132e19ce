"""Folders in the form of `transformers` that are not what they claim, or ask for what there is not: each is refused
by name, before memory is taken for a single weight."""

from __future__ import annotations

import json
import os
import pickle
import resource
import shutil
import struct
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from damage import WEIGHTS, Damage, header, tensors

from regard.app.cli.main import main
from regard.data.artifacts import Artifacts
from regard.data.text.tokenizer import Tokenizer
from regard.errors import RunError
from regard.models.gpt2 import GPT2, GPT2Config
from regard.models.transformer import Transformer, TransformerConfig
from regard.runs import weights
from regard.runs.folder import begin, save_weights
from regard.tasks.core.table import load

INDEX = "model.safetensors.index.json"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small language model and a small translator."""
    folder = tmp_path_factory.mktemp("runs")
    sizes: dict[str, Any] = {"dim": 8, "layers": 2, "heads": 2, "ff": 12, "max_positions": 16}
    for name in ("gpt2", "marian"):
        tokens = Tokenizer.train(["abcdefghij"], kind="character", numbering=name)
        size = len(tokens)
        model = GPT2(GPT2Config(size, **sizes)) if name == "gpt2" else Transformer(TransformerConfig(size, **sizes))
        begin(folder / name, model, Artifacts(tokens), "")
        save_weights(folder / name, model)
        load(folder / name)
    return {name: folder / name for name in ("gpt2", "marian")}


def table(name: str, **changes: Any) -> Damage:
    """A JSON file with some entries changed; `...` removes one."""

    def change(folder: Path) -> None:
        path = folder / name
        entries = {**json.loads(path.read_text()), **changes}
        path.write_text(json.dumps({key: value for key, value in entries.items() if value is not ...}))

    return change


def config(**changes: Any) -> Damage:
    return table("config.json", **changes)


def generation(**changes: Any) -> Damage:
    return table("generation_config.json", **changes)


def text(name: str, content: str | bytes) -> Damage:
    raw = content if isinstance(content, bytes) else content.encode()
    return lambda folder: (folder / name).write_bytes(raw)


def index(*names: Any, keep: bool = True) -> Damage:
    """Weights moved to a.safetensors, and an index that says they lie in the files named."""

    def write(folder: Path) -> None:
        (folder / WEIGHTS).rename(folder / "a.safetensors")
        if not keep:
            (folder / "a.safetensors").unlink()
        places = {str(number): name for number, name in enumerate(names)}
        (folder / INDEX).write_text(json.dumps({"weight_map": places}))

    return write


def then(*steps: Damage) -> Damage:
    return lambda folder: [step(folder) for step in steps]


def loop(folder: Path) -> None:
    (folder / "a.safetensors").symlink_to("b.safetensors")
    (folder / "b.safetensors").symlink_to("a.safetensors")
    (folder / WEIGHTS).unlink()
    (folder / INDEX).write_text(json.dumps({"weight_map": {"x": "a.safetensors"}}))


def twice(folder: Path) -> None:
    shutil.copy(folder / WEIGHTS, folder / "b.safetensors")
    index("a.safetensors", "b.safetensors")(folder)


def add_words(**ids: int) -> Damage:
    def change(folder: Path) -> None:
        path = folder / "tokenizer.json"
        entries = json.loads(path.read_text())
        entries["model"]["vocab"] |= ids
        path.write_text(json.dumps(entries))

    return change


WTE = "transformer.wte.weight"


def add_normalizer(step: dict[str, str]) -> Damage:
    return table("tokenizer.json", normalizer=step)


HOSTILE: dict[str, tuple[Damage, str]] = {
    "index above": (
        index("../a.safetensors"),
        r"names '\.\./a.safetensors'; only .safetensors files beside it",
    ),
    "index below": (index("sub/a.safetensors"), "names 'sub/a.safetensors'; only .safetensors files beside it"),
    "index elsewhere": (index("/etc/passwd"), "names '/etc/passwd'; only .safetensors files beside it"),
    "index to a secret": (
        index("/etc/passwd.safetensors"),
        "only .safetensors files beside it are allowed",
    ),
    "index to a backslash": (index("..\\a.safetensors"), "only .safetensors files beside it"),
    "index to a pickle": (index("pytorch_model.bin"), "only .safetensors files"),
    "index to a line": (index("a.safetensors\n"), "only .safetensors files"),
    "index to a number": (index(7), "names 7; only .safetensors files beside it"),
    "index to mixed things": (index(7, "a.safetensors"), "is not an index of weights"),
    "index to a list": (index(["a.safetensors"]), "is not an index of weights"),
    "index to nothing": (
        index("c.safetensors"),
        "names c.safetensors, which is not there; the folder is incomplete",
    ),
    "index empty": (index(), "names no file"),
    "index a list": (then(index(), text(INDEX, "[]")), "is not an index of weights"),
    "index deep": (then(index(), text(INDEX, "[" * 100_000)), "is not an index of weights"),
    "index cut": (then(index(), text(INDEX, '{"weight_map"')), "is not an index of weights"),
    "index huge": (then(index(), text(INDEX, b" " * (17 << 20))), "bytes, and at most 16,777,216 are read"),
    "a loop of links": (loop, "a.safetensors cannot be read: Too many levels of symbolic links"),
    "all of it twice": (twice, "is stored twice, also in a.safetensors"),
    "pickle alone": (
        then(index(keep=False), lambda x: (x / INDEX).unlink(), text("pytorch_model.bin", b"x")),
        "pickle",
    ),
    "a pickle by this name": (
        text(WEIGHTS, pickle.dumps({"a": 1})),
        "is a pickle or an archive, not a safetensors",
    ),
    "an archive by this name": (
        lambda x: torch.save({}, x / WEIGHTS),
        "is a pickle or an archive, not a safetensors",
    ),
    "a header beyond the file": (text(WEIGHTS, struct.pack("<Q", 1 << 40) + b"{}"), "cannot be read"),
    "a header of 17 MB": (
        text(WEIGHTS, struct.pack("<Q", 17 << 20) + b" " * (17 << 20)),
        "cannot be read; .*: its header has 17,825,792 bytes, and at most 16,777,216 are read",
    ),
    "a header that is no JSON": (text(WEIGHTS, struct.pack("<Q", 2) + b"[[" + bytes(99)), "cannot be read"),
    "offsets beyond the file": (
        header(lambda x: x[WTE].update(data_offsets=[0, 1 << 40], shape=[1 << 38])),
        "cannot be read",
    ),
    "offsets that overlap": (header(lambda x: x[WTE].update(data_offsets=[0, 4], shape=[1])), "cannot be read"),
    "offsets backwards": (header(lambda x: x[WTE].update(data_offsets=[400, 0])), "cannot be read"),
    "a shape without the bytes": (header(lambda x: x[WTE].update(shape=[10**9, 10**9])), "cannot be read"),
    "a shape beyond 64 bits": (header(lambda x: x[WTE].update(shape=[1 << 62, 1 << 62])), "cannot be read"),
    "a negative shape": (header(lambda x: x[WTE].update(shape=[-1, 8])), "cannot be read"),
    "an unknown kind": (header(lambda x: x[WTE].update(dtype="X9")), "cannot be read"),
    "integers": (
        tensors(lambda x: x.update({WTE: x[WTE].int()})),
        r"wte.weight holds integers \(I32\), and this model has floating point there",
    ),
    "eight bits": (tensors(lambda x: x.update({WTE: x[WTE].to(torch.float8_e4m3fn)})), "wte.weight holds F8_E4M3"),
    "truths": (tensors(lambda x: x.update({WTE: x[WTE] > 0})), r"wte.weight holds booleans \(BOOL\)"),
    "a weight more": (tensors(lambda x: x.update({"../x": torch.zeros(1)})), r"\.\./x should be absent by config"),
    "a long name": (tensors(lambda x: x.update({"x" * 9999: torch.zeros(1)})), "should be absent by config"),
    "another head": (
        tensors(lambda x: x.update({"multiple_choice_head.weight": x[WTE].clone()})),
        "should be absent",
    ),
    "a head beside": (
        tensors(lambda x: x.update({"lm_head.weight": x[WTE] + 1})),
        "lm_head.weight differs from transformer.wte.weight",
    ),
    "a head of another shape": (tensors(lambda x: x.update({"lm_head.weight": torch.zeros(3, 8)})), "should be"),
    "the same by two names": (
        tensors(lambda x: x.update({"wte.weight": x[WTE].clone()})),
        "is stored twice, also in model.safetensors",
    ),
    "a layer less": (
        tensors(lambda x: x.pop("transformer.h.1.ln_1.bias")),
        "ln_1.bias should be .* but is missing",
    ),
    "untied without a head": (config(tie_word_embeddings=False), "lm_head.weight should be .*, but is missing"),
    "a billion layers": (config(n_layer=10**9), "layers must be at most 1,000, got 1,000,000,000"),
    "the most layers": (config(n_layer=1000), "it has 1,000 layers, and the folder holds only 28 tensors"),
    "a vast vocabulary": (
        config(vocab_size=10**12),
        "vocabulary must be at most 16,777,216, got 1,000,000,000,000",
    ),
    "beyond 64 bits": (config(n_embd=10**30), "dim must be"),
    "beyond all digits": (
        text("config.json", '{"model_type": "gpt2", "n_embd": ' + "9" * 5000 + "}"),
        "config.json is not valid JSON: Exceeds the limit",
    ),
    "the largest allowed": (config(vocab_size=1 << 24, n_embd=1 << 24), "names 12 of the model's 16,777,216 ids"),
    "positions without end": (config(n_positions=10**10, n_ctx=10**10), "max_positions must be at most"),
    "no heads": (config(n_head=0), "heads must be at least 1, got 0"),
    "negative heads": (config(n_head=-2), "heads must be at least 1, got -2"),
    "negative sizes": (config(n_embd=-8, n_inner=None), "dim must be at least 1, got -8"),
    "negative inside": (config(n_inner=-8), "n_inner must be at least 1, got -8"),
    "nothing inside": (config(n_inner=0), "n_inner must be at least 1, got 0"),
    "heads that do not fit": (config(n_head=3), "dim must be a multiple of heads"),
    "a number as text": (config(n_embd="8"), "n_embd must be of type int, got '8'"),
    "a fraction": (config(vocab_size=1e12), "vocab_size must be of type int"),
    "true for a number": (config(n_layer=True), "n_layer must be of type int, got True"),
    "a NaN": (config(layer_norm_epsilon=float("nan")), "eps must be a number, got nan"),
    "dropout of 2": (config(resid_pdrop=2), r"dropout must lie in \[0, 1\), got 2.0"),
    "config of 17 MB": (
        text("config.json", b" " * (17 << 20)),
        "17,825,792 bytes, and at most 16,777,216 are read",
    ),
    "config deep": (
        text("config.json", '{"model_type": "gpt2", "a": ' + "[" * 100_000),
        "config.json is not valid JSON: .*recursion",
    ),
    "config a list": (text("config.json", "[]"), r"config.json must hold a JSON object, got \[\]"),
    "an end beyond": (
        config(eos_token_id=12),
        r"eos_token_id is 12, and the ids end at 11 \(vocab_size = 12\); set eos_token_id",
    ),
    "an end below": (config(eos_token_id=-1), "eos_token_id must be the id of one token, got -1"),
    "a start beyond": (config(bos_token_id=99_999), "bos_token_id is 99,999, and the ids end at 11"),
    "padding beyond": (config(pad_token_id=99_999), "pad_token_id is 99,999, and the ids end at 11"),
    "a start that is no number": (
        config(bos_token_id="<s>"),
        "bos_token_id must be the id of one token, got '<s>'",
    ),
    "no type of torch": (
        config(torch_dtype="float99"),
        "config.json: torch_dtype must be a data type of torch, such",
    ),
    "no type at all": (
        config(dtype=["x"]),
        r"dtype must be a data type of torch, .*, got \['x'\]; correct or remove",
    ),
    "a function of torch": (config(dtype="zeros"), "dtype must be a data type of torch, .*, got 'zeros'"),
    "tokens beyond": (add_words(zz=12), "'zz' has the id 12, but the model's vocabulary ends at 11"),
    "tokens far beyond": (add_words(zz=10**9), "tokenizer and model do not belong together"),
    "tokens that panic": (
        add_normalizer({"type": "Precompiled", "precompiled_charsmap": "AAAA"}),
        "tokenizer.json is JSON but describes no tokenizer",
    ),
    "tokens deep": (text("tokenizer.json", "[" * 100_000), "tokenizer.json"),
    "generation deep": (text("generation_config.json", "[" * 100_000), "generation_config.json"),
    "generation a list": (text("generation_config.json", "[]"), "generation_config.json"),
    "generation of 17 MB": (
        text("generation_config.json", b" " * (17 << 20)),
        "bytes, and at most 16,777,216 are read",
    ),
    "a million beams": (generation(num_beams=10**6), "beam must lie in .*, got 1000000"),
}
GPT2_FORMS: dict[str, tuple[Damage, str]] = {
    "a share beyond all numbers": (config(resid_pdrop=10**400), r"/config.json: resid_pdrop must be of type float"),
    "a penalty beyond all numbers": (
        generation(length_penalty=10**400),
        "generation_config.json: length_penalty must be a number, got 1000",
    ),
    "another scale by layer": (
        config(scale_attn_by_inverse_layer_idx=True),
        "scale_attn_by_inverse_layer_idx = True",
    ),
    "no scale": (config(scale_attn_weights=False), "scale_attn_weights = False is not supported, only True"),
    "a source": (config(add_cross_attention=True), "add_cross_attention = True is not supported"),
    "two ends": (config(eos_token_id=[0, 3]), r"eos_token_id must be the id of one token, got \[0, 3\]"),
    "no end": (config(eos_token_id=None), "eos_token_id must be the id of one token, got None"),
    "forbidden words": (config(bad_words_ids=[[3]]), r"bad_words_ids = \[\[3\]\]"),
    "an unknown activation": (
        config(activation_function="xielu"),
        r"activation must be one of 'relu', .*, got 'xielu'",
    ),
    "a classifier": (
        config(architectures=["GPT2ForSequenceClassification"]),
        "is not supported, only GPT2LMHeadModel",
    ),
    "two heads": (
        config(architectures=["GPT2DoubleHeadsModel"]),
        "GPT2DoubleHeadsModel.* is not supported, only GPT2LMHeadModel",
    ),
    "two models": (config(architectures=["GPT2LMHeadModel", "X"]), "is not supported, only"),
    "quantised": (
        config(quantization_config={"bits": 4}),
        "quantization_config = {'bits': 4}: .* does not support it",
    ),
    "code of its own": (config(auto_map={"AutoModel": "x.Y"}), "auto_map = .* does not support it"),
    "pruned": (config(pruned_heads={"0": [1]}), "pruned_heads = {'0'.* is not supported"),
    "a prefix": (config(prefix="say: "), "prefix = 'say: ' is not supported"),
    "other sizes twice": (config(n_ctx=8), "n_ctx = 8 is not supported, only 16"),
    "llama": (
        config(model_type="llamas"),
        "asks for 'llamas'; this version opens marian, gpt2, bert, vit, regard-",
    ),
    "nameless": (
        config(model_type=..., architectures=...),
        'does not say which model this is: it has no model_type; add one .* "model_type": "gpt2": marian, gpt2',
    ),
    "words never said": (generation(suppress_tokens=[5]), r"generation_config.json: suppress_tokens = \[5\]"),
    "words not said": (generation(bad_words_ids=[[0]]), r"generation_config.json: bad_words_ids = \[\[0\]\]"),
    "other ends": (generation(eos_token_id=[0, 1]), r"generation_config.json: eos_token_id = \[0, 1\]"),
    "a least length": (generation(min_length=5), "min_length = 5 is not supported"),
    "a search unknown": (generation(penalty_alpha=0.6), "penalty_alpha = 0.6: .* does not support it"),
    "drawn beams": (generation(do_sample=True, num_beams=3), "num_beams = 3 is not supported, only 1"),
    "beams that stop early": (generation(num_beams=3, early_stopping=True), "early_stopping = True"),
}
MARIAN_FORMS: dict[str, tuple[Damage, str]] = {
    "norms before": (config(normalize_before=True), "normalize_before = True is not supported, only False"),
    "norms of embeddings": (config(normalize_embedding=True), "normalize_embedding = True"),
    "a last norm": (config(add_final_layer_norm=True), "add_final_layer_norm = True"),
    "two vocabularies": (
        config(share_encoder_decoder_embeddings=False),
        "share_encoder_decoder_embeddings = False",
    ),
    "two sizes": (config(decoder_vocab_size=99), "decoder_vocab_size = 99 is not supported, only 13"),
    "learned positions": (config(static_position_embeddings=False), "static_position_embeddings = False"),
    "a first word": (config(forced_bos_token_id=3), "forced_bos_token_id = 3"),
    "forbidden words": (config(bad_words_ids=[[3]]), r"bad_words_ids = \[\[3\]\] is not supported"),
    "ends": (config(eos_token_id=[0, 2]), "eos_token_id must be the id of one token"),
    "a start beyond": (config(decoder_start_token_id=13), "decoder_start_token_id is 13, and the ids end at 12"),
    "a pad beyond": (config(pad_token_id=10**9), "pad_token_id is 1,000,000,000, and the ids end at 12"),
    "odd width": (config(d_model=9, encoder_attention_heads=3, decoder_attention_heads=3), "dim must be even"),
    "no decoder's heads": (config(decoder_attention_heads=0), "decoder_attention_heads must be at least 1, got 0"),
    "no decoder": (config(decoder_layers=0), "decoder_layers must be at least 1"),
    "a decoder's billion": (config(decoder_layers=10**9), "decoder_layers must be at most 1,000"),
    "only the decoder": (config(architectures=["MarianForCausalLM"]), "is not supported, only MarianMTModel"),
    "another activation": (
        config(activation_function="relu6"),
        r"activation must be one of 'relu', .*, got 'relu6'",
    ),
    "another start": (generation(decoder_start_token_id=3), "decoder_start_token_id = 3"),
    "groups of beams": (generation(num_beam_groups=2), "num_beam_groups = 2"),
    "a first word to write": (generation(forced_bos_token_id=3), "generation_config.json: forced_bos_token_id = 3"),
}
ALL = [
    (kind, name)
    for kind, some in (("any", HOSTILE), ("gpt2", GPT2_FORMS), ("marian", MARIAN_FORMS))
    for name in some
]
LATER = ("head beside", "tokens")  # what is looked at once the weights are there


@pytest.mark.parametrize(("kind", "name"), ALL, ids=[f"{kind}: {name}" for kind, name in ALL])
def test_it_is_refused_by_name(
    kind: str, name: str, runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage, said = {"any": HOSTILE, "gpt2": GPT2_FORMS, "marian": MARIAN_FORMS}[kind][name]
    folder = shutil.copytree(runs["marian" if kind == "marian" else "gpt2"], tmp_path / "run")
    damage(folder)
    taken: list[str] = []
    read = weights._read

    def watch(opened: Any, path: Path, name: str, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        taken.append(name)
        return read(opened, path, name, dtype)

    monkeypatch.setattr(weights, "_read", watch)
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(RunError, match=said) as caught:
        load(folder)
    assert time.monotonic() - began < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000, "in KiB: nothing large was made"
    assert len(str(caught.value)) < 1000
    late = "generation_config.json" in str(caught.value) or any(one in name for one in LATER)
    assert late or not taken, "no weight was read"


@pytest.mark.parametrize("number", [torch.nan, torch.inf])
def test_numbers_that_are_not_finite_are_told(number: float, runs: dict[str, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(runs["gpt2"], tmp_path / "run")
    tensors(lambda found: found["transformer.h.1.ln_1.bias"].fill_(number))(folder)
    with pytest.warns(RuntimeWarning, match="NaN or infinity in"):
        load(folder)


def test_no_pickle_is_opened(runs: dict[str, Path], tmp_path: Path) -> None:
    trap = tmp_path / "sprung"

    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(trap),)

    folder = shutil.copytree(runs["gpt2"], tmp_path / "run")
    for name in (WEIGHTS, "pytorch_model.bin", "training_args.bin", "merges.txt", "vocab.json"):
        (folder / name).write_bytes(pickle.dumps(Trap()))
    with pytest.raises(RunError, match="is a pickle"):
        load(folder)
    assert not trap.exists()
    pickle.loads(pickle.dumps(Trap()))
    assert trap.exists(), "the trap works"


@pytest.mark.parametrize("damage", [config(n_layer=10**9), config(auto_map={}), index("../a.safetensors")])
def test_the_command_line_says_so(
    damage: Damage,
    runs: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = shutil.copytree(runs["gpt2"], tmp_path / "run")
    damage(folder)
    monkeypatch.setattr("sys.argv", ["regard", "generate", str(folder), "abc"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert str(folder) in said.replace("\n", "")
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "usual",
    [
        {"bos_token_id": 50256, "pad_token_id": 50256},  # transformers' defaults, whatever the vocabulary
        {"bos_token_id": None, "pad_token_id": -1},
        {"dtype": "bfloat16", "torch_dtype": "torch.float16"},
        {"dtype": None, "torch_dtype": "auto"},
    ],
)
def test_usual_settings_are_not_refused(usual: dict[str, Any], runs: dict[str, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(runs["gpt2"], tmp_path / "run")
    config(**usual)(folder)
    assert load(folder).read("") == load(runs["gpt2"]).read("")
