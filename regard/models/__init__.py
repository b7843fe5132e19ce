"""One file per paper."""

from typing import Any

from regard.models.bahdanau import Bahdanau
from regard.models.luong import Luong
from regard.models.seq2seq import Seq2seq

MODELS: dict[str, Any] = {"seq2seq": Seq2seq, "bahdanau": Bahdanau, "luong": Luong}
