"""One file per paper."""

from regard.models.bahdanau import Bahdanau

MODELS = {"bahdanau": Bahdanau}
