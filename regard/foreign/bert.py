"""BERT as a folder of `transformers`."""

from __future__ import annotations

from dataclasses import replace

from regard.data.artifacts import AnyTokenizer, Artifacts
from regard.data.text.special_tokens import Special
from regard.decode.settings import Decoding
from regard.foreign.contents import Contents, Json
from regard.foreign.form import Form, Part, Table, read_labels, same, write_labels
from regard.foreign.hf_files import TOKENIZER_CONFIG, read_max_length, tokenizer_file
from regard.foreign.tokenizers import open_bert
from regard.models.bert import HEADS, BertConfig


class BertForm(Form[BertConfig]):
    model = "bert"
    model_type = "bert"
    architectures = tuple(HEADS.values())
    prefix = "bert."
    derived = r"bert\.embeddings\.(position|token_type)_ids"

    def lacks(self, config: BertConfig) -> str:
        if config.has_linear_part:
            return "BERT there has no linear part beside it, and this model has (model.bigrams = 0 trains without)"
        return ""

    def read_config(self, table: Table) -> tuple[BertConfig, Special | None]:
        heads = {name: head for head, name in HEADS.items()}
        head = heads[(table.table.get("architectures") or ["BertModel"])[0]]  # without one, `holds` decides
        table.must("position_embedding_type", "absolute")
        table.must("directionality", "bidi")
        table.must("pooler_type", "first_token_transform")
        for key in ("fc_size", "num_attention_heads", "num_fc_layers", "size_per_head"):
            table.left.discard(f"pooler_{key}")  # written by the paper's own code; nothing reads them
        table.left.discard("classifier_dropout")  # only used in training, where ours is `dropout`
        if head == "classify":
            table.must("problem_type", None, "single_label_classification")
        dim = table.take("hidden_size", 768)
        ff = table.count("intermediate_size", 3072)
        config = BertConfig(
            vocabulary=table.take("vocab_size", 30522),
            dim=dim,
            layers=table.take("num_hidden_layers", 12),
            heads=table.take("num_attention_heads", 12),
            ff=0 if ff == 4 * dim else ff,
            max_positions=table.take("max_position_embeddings", 512),
            segments=table.take("type_vocab_size", 2),
            activation=table.take("hidden_act", "gelu"),
            eps=table.take("layer_norm_eps", 1e-12),
            head=head,
            labels=read_labels(table.table) if head == "classify" else (),
            tied=table.take("tie_word_embeddings", True),
            initializer_range=table.take("initializer_range", 0.02),
            dropout=table.take("hidden_dropout_prob", 0.1),
            attention_dropout=table.take("attention_probs_dropout_prob", 0.1),
        )
        named = table.table.get("pad_token_id") is not None
        pad = table.token("pad_token_id", vocabulary=config.vocabulary) if named else 0
        return config, Special(pad, -1, -1, -1)  # the tokenizer's files name the others

    def write_config(self, config: BertConfig, special: Special | None) -> Json:
        assert special is not None
        return {
            "vocab_size": config.vocabulary,
            "hidden_size": config.dim,
            "num_hidden_layers": config.layers,
            "num_attention_heads": config.heads,
            "intermediate_size": config.ff or 4 * config.dim,
            "max_position_embeddings": config.max_positions,
            "type_vocab_size": config.segments,
            "position_embedding_type": "absolute",
            "hidden_act": config.activation,
            "layer_norm_eps": config.eps,
            "tie_word_embeddings": config.tied,
            "initializer_range": config.initializer_range,
            "hidden_dropout_prob": config.dropout,
            "attention_probs_dropout_prob": config.attention_dropout,
            "pad_token_id": special.pad,
            **(write_labels(config.labels) if config.labels else {}),
        }

    def parts(self, config: BertConfig) -> list[Part]:
        tables = {
            "word_embeddings": "embed",
            "token_type_embeddings": "segments",
            "position_embeddings": "positions.table",
        }
        parts = [same(f"bert.embeddings.{theirs}.weight", f"{ours}.weight") for theirs, ours in tables.items()]
        both = {"bert.embeddings.LayerNorm": "norm"}  # weight and bias
        for layer in range(config.layers):
            theirs, ours = f"bert.encoder.layer.{layer}", f"blocks.{layer}"
            both |= {
                f"{theirs}.attention.self.{name}": f"{ours}.attend.{name}" for name in ("query", "key", "value")
            }
            both |= {
                f"{theirs}.attention.output.dense": f"{ours}.attend.out",
                f"{theirs}.attention.output.LayerNorm": f"{ours}.attend_norm",
                f"{theirs}.intermediate.dense": f"{ours}.feed.inner",
                f"{theirs}.output.dense": f"{ours}.feed.outer",
                f"{theirs}.output.LayerNorm": f"{ours}.feed_norm",
            }
        if config.pools:
            both["bert.pooler.dense"] = "pooler"
        if config.predicts_words:
            both |= {
                "cls.predictions.transform.dense": "masked",
                "cls.predictions.transform.LayerNorm": "masked_norm",
            }
            parts.append(same("cls.predictions.bias", "out.bias"))
            if not config.tied:
                parts[-1] = Part(
                    "cls.predictions.bias", ("out.bias",), lambda x: x.clone(), lambda x: (), unused=True
                )
                both["cls.predictions.decoder"] = "out"
        if config.predicts_next:
            both["cls.seq_relationship"] = "next"
        if config.head == "classify":
            both["classifier"] = "classify"
        if config.head == "span":
            both["qa_outputs"] = "span"
        return parts + [
            same(f"{theirs}.{kind}", f"{ours}.{kind}")
            for theirs, ours in both.items()
            for kind in ("weight", "bias")
        ]

    def copies(self, config: BertConfig) -> dict[str, str]:
        if config.head == "span":  # left over from pretraining
            return {f"bert.pooler.dense.{kind}": "" for kind in ("weight", "bias")}
        if not config.predicts_words:
            return {}
        copies = {
            "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
            "cls.predictions.decoder.bias": "cls.predictions.bias",
        }
        if not config.tied:
            copies = {"cls.predictions.bias": ""}  # the decoder has its own bias; this one is unused
        if config.head == "masked":  # left over from pretraining
            unused = ("bert.pooler.dense", "cls.seq_relationship")
            copies |= {f"{name}.{kind}": "" for name in unused for kind in ("weight", "bias")}
        return copies

    def holds(self, config: BertConfig, names: frozenset[str]) -> BertConfig:
        """The head by the tensors that are there: released files hold every pretrained head, whatever their
        architecture says, and some files have no pooler."""
        if config.head not in ("none", "masked"):
            return config
        bare = {name.removeprefix("bert.") for name in names}
        pooler = "pooler.dense.weight" in bare
        if "cls.predictions.transform.dense.weight" not in bare:
            return config if config.head == "masked" else replace(config, pooler=pooler)
        whole = pooler and "cls.seq_relationship.weight" in bare
        return replace(config, head="pretrain" if whole else "masked", pooler=True)

    def rename(self, name: str) -> str:
        return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")

    def architecture(self, config: BertConfig) -> str:
        return HEADS[config.head]

    def tokenizer(self, contents: Contents, config: BertConfig, special: Special) -> AnyTokenizer:
        return open_bert(contents, vocabulary=config.vocabulary, pad=special.pad, pairs=config.segments > 1)

    def max_length(self, contents: Contents) -> int:
        return read_max_length(contents)

    def small_files(self, config: BertConfig, artifacts: Artifacts, decoding: Decoding) -> dict[str, Json]:
        tokenizer = artifacts.own_tokenizer
        special = tokenizer.special
        length = min(artifacts.max_length or config.max_positions, config.max_positions)
        names = {"cls_token": special.start, "sep_token": special.end, "mask_token": special.mask}
        names |= {"pad_token": special.pad, "unk_token": special.unknown}
        # Without this, the tokenizer there gives no segment ids, and both texts of a pair are segment 0.
        inputs = {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}
        return {TOKENIZER_CONFIG: tokenizer_file(tokenizer, length, names) | inputs}


BERT_FORM = BertForm()
