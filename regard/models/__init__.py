"""One file per paper, and the table of them all."""

import dataclasses

from regard.models.bahdanau import Bahdanau
from regard.models.bert import Bert
from regard.models.elmo.model import ELMo
from regard.models.gpt2 import GPT2
from regard.models.han import HAN
from regard.models.lstmn.model import LSTMN
from regard.models.luong import Luong
from regard.models.ntm.bit_lstm import BitLSTM
from regard.models.ntm.model import NTM
from regard.models.pooling import Pooling
from regard.models.protocols import Model, ModelConfig
from regard.models.rnnlm import RNNLM
from regard.models.senet import SENet
from regard.models.seq2seq import Seq2seq
from regard.models.show_and_tell import ShowAndTell
from regard.models.show_attend_tell import ShowAttendTell
from regard.models.snail.agent import SNAILAgent
from regard.models.snail.model import SNAIL
from regard.models.transformer import Transformer
from regard.models.vit import ViT

MODELS: dict[str, type[Model]] = {
    "seq2seq": Seq2seq,
    "bahdanau": Bahdanau,
    "luong": Luong,
    "transformer": Transformer,
    "rnnlm": RNNLM,
    "lstmn": LSTMN,
    "gpt2": GPT2,
    "bert": Bert,
    "pooling": Pooling,
    "han": HAN,
    "elmo": ELMo,
    "vit": ViT,
    "senet": SENet,
    "show_and_tell": ShowAndTell,
    "show_attend_tell": ShowAttendTell,
    "snail": SNAIL,
    "snail_agent": SNAILAgent,
    "ntm": NTM,
    "bit_lstm": BitLSTM,
}


__all__ = [
    "GPT2",
    "HAN",
    "LSTMN",
    "MODELS",
    "NTM",
    "RNNLM",
    "SNAIL",
    "Bahdanau",
    "Bert",
    "BitLSTM",
    "ELMo",
    "Luong",
    "Model",
    "ModelConfig",
    "Pooling",
    "SENet",
    "SNAILAgent",
    "Seq2seq",
    "ShowAndTell",
    "ShowAttendTell",
    "Transformer",
    "ViT",
    "blank",
    "name_of",
    "task_of",
]


def name_of(model: Model) -> str:
    """The model's name in MODELS; of one that another library has, its own."""
    own = next((name for name, kind in MODELS.items() if kind is type(model)), "")
    return own or str(getattr(model, "name", ""))


def task_of(name: str, config: ModelConfig) -> str:
    """The verb of a model's task; for some models it depends on the head."""
    own: str | None = getattr(config, "task", None)
    return MODELS[name].task if own is None else own


def blank(name: str) -> dict[str, int]:
    """Placeholders for settings that come from the data, so that a configuration can be checked without it."""
    words = any(field.name == "vocabulary" for field in dataclasses.fields(MODELS[name].Config))
    return {"vocabulary": 1} if words else {}
