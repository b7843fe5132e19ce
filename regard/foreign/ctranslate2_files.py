"""A model as a folder of CTranslate2: Transformers, GPT-2 and BERT, by its own description of a model.

Positions are written as a table, so that sines and cosines may stand in pairs, as here. A translator's first token
is told with each answer, as that of a run with several kinds of targets is one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard.errors import RunError
from regard.layers.block import Block
from regard.layers.positions import Learned
from regard.models.bert import Bert
from regard.models.gpt2 import GPT2
from regard.models.transformer import Transformer

if TYPE_CHECKING:
    from regard.models.protocols import Model

POSITIONS = 4096  # rows of sines and cosines, which have no end here
DTYPES = ("float32", "bfloat16", "float16", "int8")
ACTIVATIONS = {  # by their names in `layers.block`, those of CTranslate2
    "relu": "RELU",
    "gelu": "GELU",
    "gelu_new": "GELUTanh",
    "gelu_pytorch_tanh": "GELUTanh",
    "quick_gelu": "GELUSigmoid",
    "silu": "SWISH",
    "swish": "SWISH",
    "tanh": "Tanh",
}


def why_not(model: Model) -> str:
    """Why CTranslate2 cannot have this model; "": it can."""
    config: Any = model.config
    if type(model) not in WRITERS:
        known = ", ".join(kind.__name__ for kind in WRITERS)
        return f"CTranslate2 has no {type(model).__name__}; here it takes {known}"
    if not isinstance(model, Transformer):
        return ""
    if config.norm not in ("post", "pre"):
        return f"CTranslate2's norm is post or pre, and this model's is {config.norm} (model.norm)"
    if not config.residual:
        return "CTranslate2 has residual connections, and this model has none (model.residual = false)"
    if config.score != "scaled_dot":
        return f"CTranslate2's score is scaled_dot, and this model's is {config.score} (model.score)"
    if not config.ff:
        return "CTranslate2 has feed-forward layers, and this model has none (model.ff = 0)"
    if config.positions not in ("sinusoidal", "learned"):
        return f"CTranslate2 adds a table of positions, and this model's are {config.positions} (model.positions)"
    return ""


def positions_of(model: Any) -> Tensor:
    """The table that is added to the embeddings (positions, dim)."""
    table = model.positions
    most = table.table.num_embeddings if isinstance(table, Learned) else POSITIONS
    rows: Tensor = table.rows(most - 1, torch.device("cpu"))
    return _copy(rows[:most])


def write(
    model: Model, folder: Path, names: Sequence[str], end: int, *, sources: Sequence[str] = (), dtype: str
) -> None:
    """Write the model's folder. `names` of its tokens, of which `end` ends an answer; `sources`: of the source's,
    where it has a vocabulary of its own."""
    if reason := why_not(model):
        raise RunError(f"this run cannot be written for CTranslate2: {reason}")
    spec = WRITERS[type(model)](model)
    if isinstance(model, Transformer):
        spec.register_source_vocabulary(list(sources or names))
        spec.register_target_vocabulary(list(names))
        spec.config.decoder_start_token = None
        spec.config.add_source_eos = spec.config.add_source_bos = False
    else:
        spec.register_vocabulary(list(names))
    if not isinstance(model, Bert):
        spec.config.bos_token = spec.config.eos_token = names[end]
    spec.config.unk_token = names[end]  # CTranslate2 wants a name that there is; texts are read and written here
    spec.config.layer_norm_epsilon = next(part.eps for part in model.modules() if isinstance(part, nn.LayerNorm))
    spec.validate()
    spec.optimize(quantization=None if dtype == "float32" else dtype)
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))


def _activation(name: str) -> Any:
    from ctranslate2.specs import common_spec

    return getattr(common_spec.Activation, ACTIVATIONS[name])


def _transformer(model: Any) -> Any:
    from ctranslate2.specs import transformer_spec

    config = model.config
    how = {"pre_norm": config.norm == "pre", "activation": _activation(config.activation)}
    heads = config.decoder_heads or config.heads
    encoder = transformer_spec.TransformerEncoderSpec(len(model.encoder), config.heads, **how)
    decoder = transformer_spec.TransformerDecoderSpec(len(model.decoder), heads, **how)
    sides = (
        (encoder, encoder.embeddings[0], model.source_embed, model.encoder, model.encoder_norm),
        (decoder, decoder.embeddings, model.target_embed, model.decoder, model.decoder_norm),
    )
    for spec, embeddings, table, blocks, norm in sides:
        embeddings.weight = _copy(table.weight)
        spec.scale_embeddings = model.scale
        spec.position_encodings.encodings = positions_of(model)
        _blocks(spec, blocks)
        if norm is not None:
            _norm(spec.layer_norm, norm)
    _linear(decoder.projection, model.out)
    return transformer_spec.TransformerSpec(encoder, decoder)


def _gpt2(model: Any) -> Any:
    from ctranslate2.specs import transformer_spec

    config = model.config
    spec = transformer_spec.TransformerDecoderModelSpec.from_config(
        config.layers, config.heads, pre_norm=True, activation=_activation(config.activation)
    )
    spec.decoder.embeddings.weight = _copy(model.embed.weight)
    spec.decoder.scale_embeddings = model.scale
    spec.decoder.position_encodings.encodings = positions_of(model)
    _blocks(spec.decoder, model.blocks)
    _norm(spec.decoder.layer_norm, model.norm)
    _linear(spec.decoder.projection, model.out)
    return spec


def _bert(model: Any) -> Any:
    from ctranslate2.specs import common_spec, transformer_spec

    config = model.config
    encoder = transformer_spec.TransformerEncoderSpec(
        config.layers,
        config.heads,
        pre_norm=False,
        activation=_activation(config.activation),
        layernorm_embedding=True,
        num_source_embeddings=2,
        embeddings_merge=common_spec.EmbeddingsMerge.ADD,
    )
    encoder.scale_embeddings = False
    for spec, table in zip(encoder.embeddings, (model.embed, model.segments), strict=True):
        spec.weight = _copy(table.weight)
    encoder.position_encodings.encodings = positions_of(model)
    _norm(encoder.layernorm_embedding, model.norm)
    _blocks(encoder, model.blocks)
    return transformer_spec.TransformerEncoderModelSpec(encoder)


WRITERS: dict[type, Callable[[Any], Any]] = {Transformer: _transformer, GPT2: _gpt2, Bert: _bert}


def _blocks(spec: Any, blocks: Sequence[Block]) -> None:
    for layer, block in zip(spec.layer, blocks, strict=True):
        attend, cross = block.attend, block.cross
        _linear(layer.self_attention.linear[0], attend.query, attend.key, attend.value)
        _linear(layer.self_attention.linear[1], attend.out)
        _norm(layer.self_attention.layer_norm, block.attend_norm)
        if cross is not None:
            _linear(layer.attention.linear[0], cross.query)
            _linear(layer.attention.linear[1], cross.key, cross.value)
            _linear(layer.attention.linear[2], cross.out)
            _norm(layer.attention.layer_norm, block.cross_norm)
        _linear(layer.ffn.linear_0, block.feed.inner)
        _linear(layer.ffn.linear_1, block.feed.outer)
        _norm(layer.ffn.layer_norm, block.feed_norm)


def _linear(spec: Any, *parts: nn.Linear) -> None:
    """Several are one product, their outputs side by side."""
    spec.weight = torch.cat([part.weight.detach().contiguous() for part in parts])
    if parts[0].bias is not None:
        spec.bias = torch.cat([part.bias.detach() for part in parts])


def _norm(spec: Any, norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = _copy(norm.weight), _copy(norm.bias)


def _copy(tensor: Tensor) -> Tensor:
    """CTranslate2 quantises in place, and reads numbers in their order."""
    return tensor.detach().clone(memory_format=torch.contiguous_format)
