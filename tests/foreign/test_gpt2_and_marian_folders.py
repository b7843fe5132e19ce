"""Folders that `transformers` saved: opened as they are, every number and every answer is the same."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import regard
from regard.attention import trace
from regard.decode.generator import finish
from regard.decode.settings import Decoding
from regard.errors import RunError
from regard.tasks.core.table import load
from regard.tasks.shared.export import export

transformers = pytest.importorskip("transformers")

ENGLISH = ["the cat sat on the mat", "a dog, and 2 cats: they sat!", "it's the dog's, isn't it?", "naïve café"] * 20
VOCABULARY = 300

SEEN = {"output_hidden_states": True, "output_attentions": True}

GPT2S: dict[str, dict[str, Any]] = {
    "usual": {},
    "odd sizes": {"n_embd": 21, "n_head": 3, "n_layer": 1, "n_positions": 37, "n_inner": 29},
    "one head": {"n_head": 1, "activation_function": "relu", "n_inner": 96},
    "untied": {"tie_word_embeddings": False, "activation_function": "gelu"},
    "another eps": {"layer_norm_epsilon": 0.01, "activation_function": "quick_gelu"},
    "silu": {"activation_function": "silu", "reorder_and_upcast_attn": True},
    "swish": {"activation_function": "swish", "n_layer": 3},
    "tanh": {"activation_function": "tanh", "n_embd": 10, "n_head": 5},
    "gelu_pytorch_tanh": {"activation_function": "gelu_pytorch_tanh"},
}
MARIANS: dict[str, dict[str, Any]] = {
    "usual": {"scale_embedding": True, "activation_function": "swish"},
    "sides differ": {
        **{"d_model": 30, "encoder_layers": 1, "encoder_attention_heads": 5, "encoder_ffn_dim": 17},
        **{"decoder_layers": 3, "decoder_attention_heads": 3, "decoder_ffn_dim": 41},
    },
    "untied": {"tie_word_embeddings": False, "scale_embedding": True},
    "untied, not scaled": {"tie_word_embeddings": False, "encoder_layers": 3, "activation_function": "relu"},
    "one head of 2": {"d_model": 2, "encoder_attention_heads": 1, "decoder_attention_heads": 2},
    **{name: {"activation_function": name} for name in ("gelu_new", "gelu_pytorch_tanh", "quick_gelu", "tanh")},
    "ends elsewhere": {"eos_token_id": 7, "pad_token_id": 5, "decoder_start_token_id": 5},
}


pytestmark = pytest.mark.usefixtures("quiet_transformers")


def draw(peer: nn.Module) -> None:
    """Weights as they are at first say nearly the same of every word, biases nothing, and norms are all ones."""
    dice = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, x in [*peer.named_parameters(), *peer.named_buffers()]:
            if "embed_positions" in name:
                continue
            noise = torch.randn(x.shape, generator=dice)
            if x.dim() == 2 and name != "final_logits_bias":
                x.copy_(noise * 1.4 / x.shape[-1] ** 0.5)
            elif "bias" in name or "weight" in name:
                x.copy_((1.0 if "ln_" in name or "norm.weight" in name else 0.0) + 0.3 * noise)


def gpt2(**changes: Any) -> Any:
    sizes = {"vocab_size": VOCABULARY, "n_positions": 64, "n_embd": 24, "n_layer": 2, "n_head": 4}
    ids = {"bos_token_id": 0, "eos_token_id": 0}
    config = transformers.GPT2Config(**sizes | ids | changes)
    peer = transformers.GPT2LMHeadModel._from_config(config, attn_implementation="eager").eval()
    draw(peer)
    return peer


def marian(**changes: Any) -> Any:
    both = {"layers": 2, "attention_heads": 4, "ffn_dim": 32}
    sizes = {f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in both.items()}
    ids = {"pad_token_id": VOCABULARY - 1, "decoder_start_token_id": VOCABULARY - 1, "eos_token_id": 0}
    sizes |= {"vocab_size": VOCABULARY, "d_model": 24, "max_position_embeddings": 64}
    config = transformers.MarianConfig(**sizes | ids | {"forced_eos_token_id": None} | changes)
    peer = transformers.MarianMTModel._from_config(config, attn_implementation="eager").eval()
    draw(peer)
    peer.generation_config.bad_words_ids = [[config.pad_token_id]]
    return peer


@cache
def tokenizer() -> tokenizers.Tokenizer:
    """Tests only read it."""
    inner = tokenizers.Tokenizer(tokenizers.models.BPE())
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCABULARY - 1,
        special_tokens=["</s>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(ENGLISH, trainer)
    return inner


def saved(peer: Any, folder: Path, **options: Any) -> Path:
    peer.save_pretrained(folder, **options)
    tokenizer().save(str(folder / "tokenizer.json"))
    return folder


def rewrite(folder: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> Path:
    tensors = change({name: x.clone() for name, x in load_file(folder / "model.safetensors").items()})
    save_file({name: x.contiguous() for name, x in tensors.items()}, folder / "model.safetensors")
    return folder


def configured(folder: Path, changes: dict[str, Any]) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return folder


def close(ours: Tensor, theirs: Tensor) -> None:
    """1e-5 of the largest number there."""
    assert ours.shape == theirs.shape
    apart = float((ours.detach() - theirs).abs().max())
    assert apart <= 1e-5 * float(theirs.abs().max())


def rows(side: str, width: int = 9) -> tuple[Tensor, Tensor]:
    """Tokens of several lengths, padded at a side, and their mask."""
    tokens = torch.randint(1, VOCABULARY - 1, (4, width), generator=torch.Generator().manual_seed(3))
    lengths = torch.tensor([width, 3, 6, 1] if side != "none" else [width] * 4)
    mask = torch.arange(width) < lengths[:, None]
    return tokens, mask.flip(1) if side == "left" else mask


def watched(model: Any, blocks: dict[str, nn.ModuleList], run: Callable[[], Tensor]) -> tuple[Tensor, Any, Any]:
    """What the model says, what went into each block and out of the last, and where each looked."""
    states: dict[str, list[Tensor]] = {name: [] for name in blocks}
    hooks = []
    for name, some in blocks.items():
        hooks.append(some[0].register_forward_pre_hook(lambda _, args, kept=states[name]: kept.append(args[0])))
        for block in some:
            hooks.append(block.register_forward_hook(lambda *args, kept=states[name]: kept.append(args[-1])))
    with torch.no_grad(), trace(model) as seen:
        logits = run()
    for hook in hooks:
        hook.remove()
    return logits, states, seen


@pytest.fixture(scope="module", params=GPT2S)
def both_gpt2s(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """Theirs, and ours of its folder."""
    peer = gpt2(**GPT2S[request.param])
    return peer, load(saved(peer, tmp_path_factory.mktemp("gpt2"))).model


@pytest.mark.parametrize("side", ["none", "right", "left"])
def test_gpt2_computes_the_same(both_gpt2s: tuple[Any, Any], side: str) -> None:
    peer, model = both_gpt2s
    tokens, mask = rows(side)
    with torch.no_grad():
        places = (mask.cumsum(1) - 1).clamp_min(0)
        theirs = peer(tokens, attention_mask=mask.long(), position_ids=places, **SEEN)
    logits, states, seen = watched(
        model, {"blocks": model.blocks}, lambda: model(tokens, None if side == "none" else mask)
    )
    close(logits[mask], theirs.logits[mask])
    found = [*states["blocks"][:-1], model.norm(states["blocks"][-1])]  # theirs norms the last
    assert len(found) == len(theirs.hidden_states) == peer.config.n_layer + 1
    for ours, other in zip(found, theirs.hidden_states, strict=True):
        close(ours[mask], other[mask])
    for layer, other in enumerate(theirs.attentions):
        close(seen[f"blocks.{layer}.attend"].transpose(1, 2)[mask], other.transpose(1, 2)[mask])


@pytest.fixture(scope="module", params=MARIANS)
def both_marians(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """Theirs, and ours of its folder."""
    peer = marian(**MARIANS[request.param])
    return peer, load(saved(peer, tmp_path_factory.mktemp("marian"))).model


@pytest.mark.parametrize("side", ["none", "right", "left"])
def test_marian_computes_the_same(both_marians: tuple[Any, Any], side: str) -> None:
    """A source padded at the left begins at a later position, as it does there."""
    peer, model = both_marians
    source, mask = rows(side)
    target, _ = rows("none", 5)
    target[:, 0] = peer.config.decoder_start_token_id
    with torch.no_grad():
        theirs = peer(source, attention_mask=mask.long(), decoder_input_ids=target, **SEEN)
    logits, states, seen = watched(
        model,
        {"encoder": model.encoder, "decoder": model.decoder},
        lambda: model(source, target, None if side == "none" else mask),
    )
    close(logits, theirs.logits)
    order = torch.arange(peer.config.d_model).view(-1, 2).T.flatten()  # features: theirs in halves, ours in pairs
    for part in ("encoder", "decoder"):
        real = mask if part == "encoder" else torch.ones_like(target, dtype=torch.bool)
        others = theirs[f"{part}_hidden_states"]
        assert len(states[part]) == len(others) == peer.config.to_dict()[f"{part}_layers"] + 1
        for ours, other in zip(states[part], others, strict=True):
            close(ours[..., order][real], other[real])
        for layer, other in enumerate(theirs[f"{part}_attentions"]):
            close(seen[f"{part}.{layer}.attend"].transpose(1, 2)[real], other.transpose(1, 2)[real])
    for layer, other in enumerate(theirs.cross_attentions):
        close(seen[f"decoder.{layer}.cross"], other)


@pytest.mark.parametrize("kind", ["gpt2", "marian"])
def test_stepping_computes_the_same(kind: str, tmp_path: Path) -> None:
    """Token by token with what was kept, as against one pass of theirs; prompts are padded at the left."""
    peer = gpt2() if kind == "gpt2" else marian()
    model = load(saved(peer, tmp_path)).model
    source, mask = rows("left" if kind == "gpt2" else "right")
    more, _ = rows("none", 7)
    with torch.inference_mode():
        if kind == "gpt2":
            whole = torch.cat([mask, torch.ones_like(more, dtype=torch.bool)], 1)
            tokens, places = torch.cat([source, more], 1), (whole.cumsum(1) - 1).clamp_min(0)
            theirs = peer(tokens, attention_mask=whole.long(), position_ids=places).logits[:, source.shape[1] :]
        else:
            theirs = peer(source, attention_mask=mask.long(), decoder_input_ids=more).logits
        state = model.start(source, mask)
        for place in range(more.shape[1]):
            logits, state = model.step(more[:, place], state)
            close(logits, theirs[:, place])


WAYS = [
    Decoding(max_length=14),
    Decoding(max_length=14, beam=4),
    Decoding(max_length=14, beam=3, length_penalty=0.4, n_best=3),
    Decoding(max_length=14, beam=4, no_repeat_ngram=2, repetition_penalty=1.3),
    Decoding(max_length=14, beam=4, no_repeat_ngram=1, n_best=2, renormalise=True),
]
TEXTS = ["the cat", "a dog, and 2 cats", "isn't it?", "café", "the mat: they sat on it"]


def theirs_written(peer: Any, tokens: Tensor, mask: Tensor, decode: Decoding) -> list[list[int]]:
    found = peer.generate(
        tokens,
        attention_mask=mask.long(),
        do_sample=False,
        max_new_tokens=decode.max_length,
        num_beams=decode.beam,
        num_return_sequences=decode.n_best,
        length_penalty=decode.length_penalty,
        no_repeat_ngram_size=decode.no_repeat_ngram,
        repetition_penalty=decode.repetition_penalty,
        renormalize_logits=decode.renormalise,
        pad_token_id=peer.config.pad_token_id if peer.config.is_encoder_decoder else 0,
    )
    found = found[:, 1 if peer.config.is_encoder_decoder else tokens.shape[1] :].tolist()
    return [row[: row.index(0)] if 0 in row else row for row in found]


@pytest.fixture(scope="module", params=["gpt2", "marian"])
def writers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any, Any]:
    """The kind, theirs, and a run of its folder. Every token is a word, so that texts are equal if tokens are."""
    kind, folder = request.param, tmp_path_factory.mktemp("writers")
    peer: Any = gpt2(tie_word_embeddings=False)
    with torch.no_grad():  # the end becomes likely
        peer.transformer.ln_f.bias += 1.6 * peer.lm_head.weight[0]
        if kind == "marian":
            peer = marian(tie_word_embeddings=False, scale_embedding=True)
            peer.final_logits_bias[0, 0] = 2.0
            for name, x in peer.named_parameters():  # so that more hangs on the source
                x *= 3 if "attn" in name and x.dim() == 2 else 1
    saved(peer, folder)
    words = tokenizers.models.WordLevel({f"w{i}": i for i in range(VOCABULARY)}, "w1")
    inner = tokenizers.Tokenizer(words)
    inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    inner.save(str(folder / "tokenizer.json"))
    return kind, peer, load(folder)


@pytest.mark.parametrize("decode", WAYS)
def test_the_same_is_written(writers: tuple[str, Any, Any], decode: Decoding) -> None:
    """All texts at once, so that there is padding."""
    kind, peer, run = writers
    tokens, mask = rows("left" if kind == "gpt2" else "right")
    if kind == "marian":
        tokens[torch.arange(len(tokens)), mask.sum(1) - 1] = 0
        tokens = tokens.masked_fill(~mask, peer.config.pad_token_id)
    theirs = theirs_written(peer, tokens, mask, decode)
    assert len({len(row) for row in theirs}) > 1
    assert len({tuple(row) for row in theirs}) > 2
    texts = [" ".join(f"w{i}" for i in row[real].tolist() if i) for row, real in zip(tokens, mask, strict=True)]
    asked: Any = run.generate if kind == "gpt2" else run.translate
    if not texts[-1]:
        texts, theirs = texts[:-1], theirs[: -decode.n_best]  # the empty text is its own translation
    answers = asked(texts, decode)
    ours = [text for one in answers for text in (one.text, *(other for other, _ in one.others))]
    assert [text.split() for text in ours] == [[f"w{i}" for i in row] for row in theirs]
    assert asked(texts[1], decode).text == answers[1].text


def same_answers(folder: Path, peer: Any) -> None:
    tokens, _ = rows("none")
    model = load(folder).model
    with torch.no_grad():
        if peer.config.is_encoder_decoder:
            close(model(tokens, tokens), peer(tokens, decoder_input_ids=tokens).logits)
        else:
            close(model(tokens), peer(tokens).logits)


@pytest.mark.parametrize("build", [gpt2, marian])
@pytest.mark.parametrize("tied", [True, False])
def test_shards(build: Any, tied: bool, tmp_path: Path) -> None:
    peer = build(tie_word_embeddings=tied)
    saved(peer, tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    assert not (tmp_path / "model.safetensors").exists()
    same_answers(tmp_path, peer)


@pytest.mark.parametrize("build", [gpt2, marian])
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float64])
def test_other_numbers(build: Any, kind: torch.dtype, tmp_path: Path) -> None:
    peer = build().to(kind)
    folder = saved(peer, tmp_path)
    assert {x.dtype for x in load_file(folder / "model.safetensors").values()} == {kind}
    same_answers(folder, type(peer).from_pretrained(folder, dtype=torch.float32))


def test_names_as_the_first_gpt2_had_them(tmp_path: Path) -> None:
    """Without the front, with the masks of every layer, and with a second copy of the table."""
    peer = gpt2()

    def old(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        tensors = {name.removeprefix("transformer."): x for name, x in tensors.items()}
        for layer in range(2):
            tensors[f"h.{layer}.attn.bias"] = torch.ones(1, 1, 64, 64, dtype=torch.uint8).tril()
            tensors[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
        return tensors | {"lm_head.weight": tensors["wte.weight"].clone()}

    folder = rewrite(saved(peer, tmp_path), old)
    assert "wte.weight" in load_file(folder / "model.safetensors")
    same_answers(folder, peer)


def test_a_marian_with_all_that_old_files_hold(tmp_path: Path) -> None:
    peer = marian()

    def old(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        table = tensors["model.shared.weight"]
        for side in ("encoder", "decoder"):
            tensors[f"model.{side}.embed_tokens.weight"] = table.clone()
            tensors[f"model.{side}.embed_positions.weight"] = getattr(peer.model, side).embed_positions.weight
        return tensors | {"lm_head.weight": table.clone()}

    same_answers(rewrite(saved(peer, tmp_path), old), peer)
    rewrite(tmp_path, lambda tensors: {name: x.bfloat16() for name, x in tensors.items()})
    load(tmp_path)
    where = "model.encoder.embed_positions.weight"
    rewrite(tmp_path, lambda tensors: tensors | {where: tensors[where].roll(1, 0)})
    with pytest.raises(RunError, match=r"encoder\.embed_positions\.weight holds no sinusoids"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("build", "table"), [(gpt2, "transformer.wte.weight"), (marian, "model.shared.weight")], ids=["gpt2", "marian"]
)
def test_the_one_table_under_its_other_name(build: Any, table: str, tmp_path: Path) -> None:
    """One of several names for a table is kept in a file, whichever that is."""
    peer = build()
    saved(peer, tmp_path)
    rewrite(tmp_path, lambda tensors: {"lm_head.weight" if x == table else x: y for x, y in tensors.items()})
    same_answers(tmp_path, peer)
    rewrite(tmp_path, lambda tensors: tensors | {table: tensors["lm_head.weight"] + 1})
    with pytest.raises(RunError, match=r"lm_head.weight differs from .*tie_word_embeddings = false"):
        load(tmp_path)


def test_a_bare_model(tmp_path: Path) -> None:
    """Saved without its head, whose table is the embeddings'; and a Marian without its bias."""
    writer, translator = gpt2(), marian()
    translator.final_logits_bias.zero_()
    for name, peer, base in (("a", writer, writer.transformer), ("b", translator, translator.model)):
        saved(base, tmp_path / name)
        assert json.loads((tmp_path / name / "config.json").read_text())["architectures"] != [type(peer).__name__]
        same_answers(tmp_path / name, peer)


def test_vocab_and_merges(tmp_path: Path) -> None:
    peer = gpt2()
    folder = saved(peer, tmp_path)
    asked = load(folder).generate(TEXTS, WAYS[1])
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *(" ".join(pair) for pair in model["merges"])]))
    assert load(folder).generate(TEXTS, WAYS[1]) == asked
    assert load(folder).read("the cat") == [model["vocab"][piece] for piece in ("the", "Ġcat")]


def test_sentencepiece(tmp_path: Path) -> None:
    sentencepiece = pytest.importorskip("sentencepiece")

    raw = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(ENGLISH), model_writer=raw, vocab_size=60, hard_vocab_limit=False, minloglevel=2
    )
    inner = sentencepiece.SentencePieceProcessor(model_proto=raw.getvalue())
    pieces = [inner.id_to_piece(i) for i in range(3, inner.get_piece_size())]
    ids = {piece: i for i, piece in enumerate(["</s>", "<unk>", *pieces, "<pad>"])}
    pad = len(ids) - 1
    peer = marian(vocab_size=len(ids), pad_token_id=pad, decoder_start_token_id=pad)
    peer.save_pretrained(tmp_path)
    for side in ("source", "target"):
        (tmp_path / f"{side}.spm").write_bytes(raw.getvalue())
    (tmp_path / "vocab.json").write_text(json.dumps(ids))
    run = load(tmp_path)
    for text in TEXTS:
        source = [ids.get(piece, 1) for piece in inner.encode(text, out_type=str)] + [0]
        assert run.read(text).ids == source
        tokens = torch.tensor([source])
        (written,) = theirs_written(peer, tokens, torch.ones_like(tokens), WAYS[1])
        assert run.translate(text, WAYS[1]).text == run.tokenizer.decode(written)
    with pytest.raises(RunError, match="reads text by SentencePiece"):
        export(tmp_path, tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


def test_a_text_may_begin_with_another_token_than_it_ends_with(tmp_path: Path) -> None:
    peer = gpt2(bos_token_id=5)
    run = load(saved(peer, tmp_path))
    assert run.read("") == [5]
    written = peer.generate(torch.tensor([[5]]), max_new_tokens=8, do_sample=False)[0, 1:].tolist()
    assert run.generate("", Decoding(max_length=8)).text == run.tokenizer.decode(written)
    with torch.no_grad():
        peer.transformer.ln_f.bias += 1.6 * peer.lm_head.weight[5]  # it becomes likely, and is not forbidden
    run = load(saved(peer, tmp_path / "again"))
    [[found]] = finish(run.model, run._write([run.read("the cat")], Decoding(max_length=8)))
    prompt = torch.tensor([run.read("the cat")])
    assert found.tokens == peer.generate(prompt, max_new_tokens=8, do_sample=False)[0, prompt.shape[1] :].tolist()
    assert 5 in found.tokens


def test_defaults_of_generating_are_taken(tmp_path: Path) -> None:
    peer = marian()
    peer.generation_config.update(num_beams=4, length_penalty=0.7, max_length=512, no_repeat_ngram_size=2)
    assert load(saved(peer, tmp_path)).decode == Decoding(beam=4, length_penalty=0.7, no_repeat_ngram=2)
    peer.generation_config.renormalize_logits = True
    assert load(saved(peer, tmp_path)).decode.renormalise
    (tmp_path / "generation_config.json").unlink()
    assert load(tmp_path).decode == Decoding()
    configured(tmp_path, {"num_beams": 6, "max_length": 512})
    assert load(tmp_path).decode == Decoding(beam=6), "where old folders have it"
    writer = gpt2()
    writer.generation_config.update(do_sample=True, temperature=0.7, top_p=0.9, max_new_tokens=50)
    drawn = load(saved(writer, tmp_path / "writer")).decode
    assert drawn == Decoding(temperature=0.7, top_k=50, top_p=0.9)


def test_configurations_as_they_lie_about_are_understood(tmp_path: Path) -> None:
    """All that the best known folders of either kind say beside sizes."""
    peer = gpt2()
    known = {"n_ctx": 64, "summary_type": "cls_index", "summary_use_proj": True, "summary_activation": None}
    known |= {"task_specific_params": {"text-generation": {"do_sample": True}}, "_num_labels": 1, "id2label": {}}
    known |= {"output_past": True, "gradient_checkpointing": False, "torch_dtype": "float32"}
    same_answers(configured(saved(peer, tmp_path / "gpt2"), known), peer)
    peer = marian()
    pad = VOCABULARY - 1
    known = {"add_bias_logits": False, "add_final_layer_norm": False, "bad_words_ids": [[pad]], "bos_token_id": 0}
    known |= {"classif_dropout": 0.0, "classifier_dropout": 0.0, "decoder_layerdrop": 0.0, "max_length": 512}
    known |= {"extra_pos_embeddings": pad + 1, "force_bos_token_to_be_generated": False, "_num_labels": 3}
    known |= {"normalize_before": False, "normalize_embedding": False, "num_hidden_layers": 2, "num_beams": 1}
    known |= {"static_position_embeddings": True, "decoder_vocab_size": VOCABULARY, "label2id": {"LABEL_0": 0}}
    folder = configured(saved(peer, tmp_path / "marian"), known)
    known_generation = {"bad_words_ids": [[pad]], "bos_token_id": 0, "renormalize_logits": True, "max_length": 512}
    known_generation |= {"decoder_start_token_id": pad, "eos_token_id": 0, "forced_eos_token_id": 0, "num_beams": 4}
    (folder / "generation_config.json").write_text(json.dumps(known_generation))
    same_answers(folder, peer)


def test_a_module_needs_no_end_token(tmp_path: Path) -> None:
    """A real GPT-2 names one beyond its vocabulary; only what reads text needs it."""
    folder = saved(gpt2(), tmp_path / "gpt2")
    before = regard.load_model(folder)(rows("right")[0])
    configured(folder, {"eos_token_id": 50256, "bos_token_id": 50256})
    assert torch.equal(regard.load_model(folder)(rows("right")[0]), before)
    with pytest.raises(
        RunError, match=r"config.json: eos_token_id is 50,256, and the ids end at .* set eos_token_id"
    ):
        regard.load(folder)
