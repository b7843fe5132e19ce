"""GPT-2 as a folder of `transformers`: weights are (in, out) there, with query, key and value in one tensor."""

from __future__ import annotations

from regard.data.artifacts import AnyTokenizer, Artifacts
from regard.data.text.special_tokens import Special
from regard.decode.settings import Decoding
from regard.errors import RunError
from regard.foreign.contents import Contents, Json
from regard.foreign.form import Form, Part, Table, TokenBeyond, joined, same
from regard.foreign.hf_files import (
    GENERATION,
    TOKENIZER_CONFIG,
    generation_file,
    read_decoding,
    text_names,
    tokenizer_file,
)
from regard.foreign.tokenizers import open_text
from regard.models.gpt2 import GPT2Config


def _transposed(foreign: str, ours: str) -> list[Part]:
    return [
        Part(f"{foreign}.weight", (f"{ours}.weight",), lambda x: x.T, lambda x: (x.T,)),
        same(f"{foreign}.bias", f"{ours}.bias"),
    ]


def _together(foreign: str, ours: str) -> list[Part]:
    def names(kind: str) -> tuple[str, ...]:
        return tuple(f"{ours}.{name}.{kind}" for name in ("query", "key", "value"))

    return [
        Part(f"{foreign}.weight", names("weight"), lambda *x: joined(*x).T, lambda x: x.T.chunk(3)),
        Part(f"{foreign}.bias", names("bias"), joined, lambda x: x.chunk(3)),
    ]


# Settings of a head that we do not have.
SUMMARY = ("type", "use_proj", "activation", "proj_to_labels", "first_dropout")

USUAL_END = 50256  # <|endoftext|> of the released models
NONE = Special(-1, -1, -1, -1)


def _special(table: Table, vocabulary: int) -> Special:
    end = table.token("eos_token_id", USUAL_END, vocabulary=vocabulary)
    start, _ = (
        table.optional_token(key, USUAL_END, vocabulary=vocabulary) for key in ("bos_token_id", "pad_token_id")
    )
    return Special(end, end if start is None else start, end, -1)


class GPT2Form(Form[GPT2Config]):
    model = "gpt2"
    model_type = "gpt2"
    architectures = ("GPT2LMHeadModel", "GPT2Model")
    prefix = "transformer."
    derived = r"transformer\.h\.\d+\.attn\.(masked_)?bias"

    def lacks(self, config: GPT2Config) -> str:
        if config.positions != "learned":
            return f"GPT-2's positions are learned, and this model's are {config.positions} (model.positions)"
        return ""

    def read_config(self, table: Table) -> tuple[GPT2Config, Special | None]:
        table.must("scale_attn_weights", True)
        table.must("scale_attn_by_inverse_layer_idx", False)
        table.must("reorder_and_upcast_attn", False, True)  # the same sums in another order
        for key in SUMMARY:
            table.left.discard(f"summary_{key}")
        dim, longest = table.take("n_embd", 768), table.take("n_positions", 1024)
        table.must("n_ctx", longest)
        layers, heads = table.take("n_layer", 12), table.take("n_head", 12)
        other = {"hidden_size": dim, "max_position_embeddings": longest}  # transformers' other names of these
        for key, value in {**other, "num_hidden_layers": layers, "num_attention_heads": heads}.items():
            table.must(key, value)
        ff = table.count("n_inner", 4 * dim)
        config = GPT2Config(
            vocabulary=table.take("vocab_size", 50257),
            dim=dim,
            layers=layers,
            heads=heads,
            ff=0 if ff == 4 * dim else ff,
            max_positions=longest,
            activation=table.take("activation_function", "gelu_new"),
            eps=table.take("layer_norm_epsilon", 1e-5),
            tied=table.take("tie_word_embeddings", True),
            dropout=table.take("resid_pdrop", 0.1),
            embed_dropout=table.take("embd_pdrop", 0.1),
            attention_dropout=table.take("attn_pdrop", 0.1),
        )
        table.must("bad_words_ids", None, [])
        try:
            return config, _special(table, config.vocabulary)
        except TokenBeyond:  # the module needs none; `tokenizer` says so where text is read
            return config, NONE

    def write_config(self, config: GPT2Config, special: Special | None) -> Json:
        assert special is not None
        return {
            "vocab_size": config.vocabulary,
            "n_embd": config.dim,
            "n_layer": config.layers,
            "n_head": config.heads,
            "n_inner": config.ff or None,
            "n_positions": config.max_positions,
            "activation_function": config.activation,
            "layer_norm_epsilon": config.eps,
            "tie_word_embeddings": config.tied,
            "resid_pdrop": config.dropout,
            "embd_pdrop": config.embed_dropout,
            "attn_pdrop": config.attention_dropout,
            "bos_token_id": special.start,
            "eos_token_id": special.end,
            "pad_token_id": special.pad,
        }

    def parts(self, config: GPT2Config) -> list[Part]:
        parts = [
            same("transformer.wte.weight", "embed.weight"),
            same("transformer.wpe.weight", "positions.table.weight"),
        ]
        norms = {"transformer.ln_f": "norm"}
        for layer in range(config.layers):
            theirs, ours = f"transformer.h.{layer}", f"blocks.{layer}"
            parts += _together(f"{theirs}.attn.c_attn", f"{ours}.attend")
            parts += _transposed(f"{theirs}.attn.c_proj", f"{ours}.attend.out")
            parts += _transposed(f"{theirs}.mlp.c_fc", f"{ours}.feed.inner")
            parts += _transposed(f"{theirs}.mlp.c_proj", f"{ours}.feed.outer")
            norms |= {f"{theirs}.ln_1": f"{ours}.attend_norm", f"{theirs}.ln_2": f"{ours}.feed_norm"}
        for theirs, ours in norms.items():
            parts += [same(f"{theirs}.{kind}", f"{ours}.{kind}") for kind in ("weight", "bias")]
        if not config.tied:
            parts.append(same("lm_head.weight", "out.weight"))
        return parts

    def copies(self, config: GPT2Config) -> dict[str, str]:
        return {"lm_head.weight": "transformer.wte.weight"} if config.tied else {}

    def tokenizer(self, contents: Contents, config: GPT2Config, special: Special) -> AnyTokenizer:
        if special is NONE:
            try:
                _special(Table(contents.config), config.vocabulary)
            except TokenBeyond as error:
                raise RunError(f"{contents.path / self.config_file}: {error}") from None
        return open_text(contents, vocabulary=config.vocabulary, special=special, closes=False)

    def decoding(self, contents: Contents, special: Special) -> Decoding:
        return read_decoding(contents, special, {"bad_words_ids": (None, [])})

    def small_files(self, config: GPT2Config, artifacts: Artifacts, decoding: Decoding) -> dict[str, Json]:
        tokenizer = artifacts.own_tokenizer
        special = tokenizer.special
        names = {**text_names(special), "bos_token": special.start}
        return {
            TOKENIZER_CONFIG: tokenizer_file(tokenizer, config.max_positions, names),
            GENERATION: {**generation_file(special, decoding), "bos_token_id": special.start},
        }


GPT2_FORM = GPT2Form()
