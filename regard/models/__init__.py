"""One file per paper."""

import dataclasses
from typing import Any

from regard.models.bahdanau import Bahdanau
from regard.models.bert import BERT_FORM, Bert
from regard.models.foreign import Form
from regard.models.gpt2 import GPT2, GPT2_FORM
from regard.models.luong import Luong
from regard.models.rnnlm import RNNLM
from regard.models.seq2seq import Seq2seq
from regard.models.transformer import MARIAN, Transformer
from regard.models.vit import VIT_FORM, ViT

MODELS: dict[str, Any] = {
    "seq2seq": Seq2seq,
    "bahdanau": Bahdanau,
    "luong": Luong,
    "transformer": Transformer,
    "rnnlm": RNNLM,
    "gpt2": GPT2,
    "bert": Bert,
    "vit": ViT,
}
# Those that `transformers` opens too.
FORMS: dict[str, Form] = {"transformer": MARIAN, "gpt2": GPT2_FORM, "bert": BERT_FORM, "vit": VIT_FORM}


def task_of(name: str, config: Any) -> str:
    """What a model is for, which with some hangs on its head."""
    return getattr(config, "task", MODELS[name].task)


def blank(name: str) -> dict[str, Any]:
    """What stands for settings that are not known before the data is."""
    words = any(field.name == "vocabulary" for field in dataclasses.fields(MODELS[name].Config))
    return {"vocabulary": 1} if words else {}
