"""One file per paper."""

from typing import Any

from regard.models.bahdanau import Bahdanau
from regard.models.foreign import Form
from regard.models.gpt2 import GPT2, GPT2_FORM
from regard.models.luong import Luong
from regard.models.rnnlm import RNNLM
from regard.models.seq2seq import Seq2seq
from regard.models.transformer import MARIAN, Transformer

MODELS: dict[str, Any] = {
    "seq2seq": Seq2seq,
    "bahdanau": Bahdanau,
    "luong": Luong,
    "transformer": Transformer,
    "rnnlm": RNNLM,
    "gpt2": GPT2,
}
FORMS: dict[str, Form] = {"transformer": MARIAN, "gpt2": GPT2_FORM}  # those that `transformers` opens too
