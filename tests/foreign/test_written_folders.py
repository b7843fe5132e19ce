"""Runs of ours as folders of `transformers`: it loads them, and so does CTranslate2, and all say the same."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from regard.data.artifacts import Artifacts
from regard.data.text.tokenizer import Tokenizer
from regard.decode.settings import Decoding
from regard.foreign import form_of
from regard.models.gpt2 import GPT2, GPT2Config
from regard.models.transformer import Transformer, TransformerConfig
from regard.runs.folder import Folder, begin, save_weights
from regard.tasks.core import training
from regard.tasks.core.recipe import read
from regard.tasks.core.table import load

transformers = pytest.importorskip("transformers")

KINDS = ("character", "word", "space", "bpe")
LINES = [
    "the cat sat on the mat .",
    "a dog and 2 cats , they sat !",
    "it is the dog's , isn't it ?",
    "naïve café 😀",
]
OTHERS = ["", "the dog sat", "  two  spaces ", "a zebra ?!", "naïve\ttab\nline", "isn't 2 + 2 = 4 ?"]
SIZES: dict[str, Any] = {"dim": 24, "layers": 2, "heads": 4, "max_positions": 64}
GPT2S: dict[str, dict[str, Any]] = {
    "usual": {},
    "untied": {"tied": False, "ff": 31, "activation": "relu", "eps": 1e-3},
    "odd": {"dim": 15, "heads": 5, "layers": 1, "activation": "quick_gelu"},
}
TRANSFORMERS: dict[str, dict[str, Any]] = {
    "usual": {},
    "untied": {"tied": False, "activation": "silu", "scaled": False},
    "sides differ": {"decoder_layers": 1, "decoder_heads": 3, "decoder_ff": 19, "ff": 40, "activation": "gelu"},
}


pytestmark = pytest.mark.usefixtures("quiet_transformers")


@cache
def trained(kind: str, numbering: str) -> Tokenizer:
    return Tokenizer.train(LINES * 20, kind=kind, size=300, numbering=numbering)


def build(which: str, kind: str, folder: Path, **changes: Any) -> Any:
    """A saved run with weights drawn so large that they matter, opened again."""
    gpt2 = which == "gpt2"
    tokens = trained(kind, "gpt2" if gpt2 else "marian")
    torch.manual_seed(0)
    sizes = {"vocabulary": len(tokens), **SIZES, **({} if gpt2 else {"ff": 32}), **changes}
    model: Any = GPT2(GPT2Config(**sizes)) if gpt2 else Transformer(TransformerConfig(**sizes))
    with torch.no_grad():
        for weight in model.parameters():
            weight += torch.randn_like(weight) * (0.2 if weight.dim() == 1 else 1.2 / weight.shape[-1] ** 0.5)
        for name, weight in model.named_parameters():  # so that more hangs on the source
            weight *= 2 if ("cross" in name or "attend" in name) and weight.dim() == 2 else 1
        if not gpt2:  # the start token's
            for table in (model.source_embed, model.target_embed):
                table.weight[-1] = 0
    begin(folder, model, Artifacts(tokens), "")
    save_weights(folder, model)
    return load(folder)


def peer_of(folder: Path) -> Any:
    kind = transformers.AutoConfig.from_pretrained(folder)
    auto = transformers.AutoModelForSeq2SeqLM if kind.is_encoder_decoder else transformers.AutoModelForCausalLM
    peer, report = auto.from_pretrained(folder, output_loading_info=True)
    assert not any(report.values()), report  # nothing missing, left over, or of another shape
    return peer.eval()


def close(ours: Tensor, theirs: Tensor) -> None:
    assert ours.shape == theirs.shape
    assert float((ours - theirs).abs().max()) <= 1e-5 * float(theirs.abs().max())


def logits(model: Any, tokens: Tensor) -> Tensor:
    with torch.no_grad():
        if isinstance(model, transformers.PreTrainedModel):
            translates = model.config.is_encoder_decoder
            return (model(tokens, decoder_input_ids=tokens) if translates else model(tokens)).logits
        return model(tokens, tokens) if isinstance(model, Transformer) else model(tokens)


CASES = [("gpt2", name) for name in GPT2S] + [("transformer", name) for name in TRANSFORMERS]


@pytest.mark.parametrize(("model", "name"), CASES)
def test_transformers_computes_the_same(model: str, name: str, tmp_path: Path) -> None:
    run = build(model, "character", tmp_path, **(GPT2S if model == "gpt2" else TRANSFORMERS)[name])
    tokens = torch.randint(len(run.tokenizer), (3, 11), generator=torch.Generator().manual_seed(2))
    peer = peer_of(tmp_path)
    close(logits(run.model, tokens), logits(peer, tokens))
    peer.save_pretrained(tmp_path / "again")  # and back
    (tmp_path / "again" / "tokenizer.json").write_bytes((tmp_path / "tokenizer.json").read_bytes())
    again = load(tmp_path / "again")
    assert again.model.config == run.model.config
    for ours, theirs in zip(run.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model", ["gpt2", "transformer"])
def test_transformers_reads_the_same_tokens(model: str, kind: str, tmp_path: Path) -> None:
    run = build(model, kind, tmp_path)
    peer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    special = run.tokenizer.special
    assert (len(peer), peer.eos_token_id, peer.pad_token_id) == (len(run.tokenizer), special.end, special.pad)
    assert kind == "bpe" or peer.unk_token_id == special.unknown  # to bytes nothing is unknown
    end = [] if model == "gpt2" else [special.end]
    for text in LINES + OTHERS:
        ids = run.tokenizer.encode(text)
        assert peer(text)["input_ids"] == ids + end, text
        assert peer.decode(ids + end, skip_special_tokens=True) == run.tokenizer.decode(ids), text


@pytest.mark.parametrize(
    ("model", "kind"),
    [("gpt2", "bpe"), ("gpt2", "word"), ("transformer", "character"), ("transformer", "space")],
)
def test_transformers_writes_the_same(model: str, kind: str, tmp_path: Path) -> None:
    run = build(model, kind, tmp_path, tied=False, **({"scaled": False} if model == "transformer" else {}))
    peer = peer_of(tmp_path)
    no_repeat = 1 if model == "transformer" else 0  # else it says one word again and again
    tokens = transformers.AutoTokenizer.from_pretrained(
        tmp_path, padding_side="left" if model == "gpt2" else "right"
    )
    found = tokens(LINES, return_tensors="pt", padding=True)
    ask: Any = run.generate if model == "gpt2" else run.translate
    for beam in (1, 4):
        written = peer.generate(
            found["input_ids"],
            attention_mask=found["attention_mask"],
            max_new_tokens=12,
            num_beams=beam,
            no_repeat_ngram_size=no_repeat,
            forced_eos_token_id=None,
        )
        theirs = tokens.batch_decode(written, skip_special_tokens=True)  # of gpt2 with the prompt
        ours = ask(LINES, Decoding(beam=beam, max_length=12, no_repeat_ngram=no_repeat))
        assert [one.prompt + one.text if model == "gpt2" else one.text for one in ours] == theirs
        assert len({one.text for one in ours}) > 1


def test_what_the_folder_says_of_generating(tmp_path: Path) -> None:
    """Both sides take the same from the small files."""
    run = build("transformer", "character", tmp_path)
    begin(tmp_path, run.model, Artifacts(run.tokenizer), "", Decoding(beam=5, length_penalty=0.6))
    assert load(tmp_path).decode == Decoding(beam=5, length_penalty=0.6)
    generation = peer_of(tmp_path).generation_config
    assert (generation.num_beams, generation.length_penalty) == (5, 0.6)
    assert generation.bad_words_ids == [[len(run.tokenizer) - 1]]
    run = build("gpt2", "character", tmp_path / "writer")
    decode = Decoding(temperature=0.8, top_k=7, top_p=0.9)
    begin(tmp_path / "writer", run.model, Artifacts(run.tokenizer), "", decode)
    assert load(tmp_path / "writer").decode == decode
    generation = peer_of(tmp_path / "writer").generation_config
    assert (generation.do_sample, generation.temperature, generation.top_k, generation.top_p) == (True, 0.8, 7, 0.9)


@pytest.mark.parametrize("model", ["gpt2", "transformer"])
@pytest.mark.parametrize(
    "decode",
    [
        Decoding(beam=3, length_penalty=0.5, repetition_penalty=1.3, no_repeat_ngram=2),
        Decoding(temperature=0.7, top_p=0.9, repetition_penalty=1.3),
    ],
)
def test_no_way_of_generating_is_lost(model: str, decode: Decoding, tmp_path: Path) -> None:
    run = build(model, "character", tmp_path)
    begin(tmp_path, run.model, Artifacts(run.tokenizer), "", decode)
    assert load(tmp_path).decode == decode
    generation = peer_of(tmp_path).generation_config
    assert (generation.repetition_penalty, generation.no_repeat_ngram_size) == (1.3, decode.no_repeat_ngram)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_half_precision_is_saved_and_read(kind: torch.dtype, tmp_path: Path) -> None:
    run = build("gpt2", "character", tmp_path)
    save_weights(tmp_path, run.model, kind)
    tokens = torch.arange(9)[None]
    rounded = peer_of(tmp_path).float()
    close(logits(load(tmp_path).model, tokens), logits(rounded, tokens))
    assert {x.dtype for x in load_file(tmp_path / "model.safetensors").values()} == {kind}


@pytest.mark.parametrize(
    "changes",
    [{"norm": "pre"}, {"positions": "learned"}, {"positions": "none"}, {"source_vocabulary": 25}],
    ids=lambda changes: next(iter(changes)),
)
def test_what_has_no_such_form_is_our_own(changes: dict[str, Any], tmp_path: Path) -> None:
    tokens = Tokenizer.train(LINES, kind="character")
    model = Transformer(TransformerConfig(vocabulary=len(tokens), **SIZES, ff=32, **changes)).eval()
    assert form_of("transformer", model.config) is None
    source = Tokenizer.train(LINES, kind="character", size=25) if "source_vocabulary" in changes else None
    begin(tmp_path, model, Artifacts(tokens, source), "")
    save_weights(tmp_path, model)
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "regard-transformer"
    folder = Folder(tmp_path)
    assert (folder.name, folder.config, folder.settings.form) == ("transformer", model.config, None)
    assert not (tmp_path / "generation_config.json").exists()
    rows = torch.randint(25, (2, 7))
    assert torch.equal(logits(load(tmp_path).model, rows), logits(model, rows))
    assert load(tmp_path).translate("the cat", Decoding(max_length=5)).score < 0


WORDS = {"one": "eins", "two": "zwei", "three": "drei", "four": "vier", "five": "fünf", "six": "sechs"}
PAIRS = [
    (f"{a} {b} {c}".strip(), f"{WORDS[a]} {WORDS.get(b, '')} {WORDS.get(c, '')}".strip())
    for a in WORDS
    for b, c in (("", ""), ("two", ""), ("five", ""), ("six", "one"), ("four", "three"))
    if a not in (b, c)
]
RECIPE = """
[data]
train = "{folder}/pairs.tsv"
valid = "{folder}/few.tsv"
batch_tokens = 512

[tokens]
kind = "{kind}"
size = 300

[model]
name = "transformer"
dim = 32
layers = 1
heads = 4
ff = 64
max_positions = 64
dropout = 0.0
activation = "{activation}"

[train]
steps = 90
learning_rate = 0.006
eval_every = 90
"""


@pytest.mark.parametrize(("kind", "activation"), [("word", "relu"), ("bpe", "swish")])
def test_ctranslate2_translates_the_same(kind: str, activation: str, tmp_path: Path) -> None:
    """Of a translator that is sure of its answers: the rules by which beams end are others there."""
    ctranslate2 = pytest.importorskip("ctranslate2")

    lines = [f"{source}\t{target}\n" for source, target in PAIRS]
    (tmp_path / "pairs.tsv").write_text("".join(lines * 20))
    (tmp_path / "few.tsv").write_text("".join(lines[:5]))
    (tmp_path / "recipe.toml").write_text(RECIPE.format(folder=tmp_path, kind=kind, activation=activation))
    job, text = read(str(tmp_path / "recipe.toml"))
    training.train(job, tmp_path / "run", recipe=text, command="regard train")
    run, peer = load(tmp_path / "run"), peer_of(tmp_path / "run")
    ctranslate2.converters.TransformersConverter(str(tmp_path / "run")).convert(str(tmp_path / "converted"))
    converted = ctranslate2.Translator(str(tmp_path / "converted"), inter_threads=1, intra_threads=1)
    tokens = transformers.AutoTokenizer.from_pretrained(tmp_path / "run")
    texts = [source for source, _ in PAIRS]
    found = tokens(texts, return_tensors="pt", padding=True)
    pieces = [tokens.convert_ids_to_tokens(tokens(text)["input_ids"]) for text in texts]
    for beam in (1, 4):
        ours = [one.text for one in run.translate(texts, Decoding(beam=beam))]
        assert ours == [target for _, target in PAIRS]
        theirs = converted.translate_batch(pieces, beam_size=beam)
        assert [tokens.decode(tokens.convert_tokens_to_ids(one.hypotheses[0])) for one in theirs] == ours
        written = peer.generate(**found, num_beams=beam)
        assert tokens.batch_decode(written, skip_special_tokens=True) == ours
