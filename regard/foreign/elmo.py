"""ELMo as it was published, by bilm-tf: options.json and one HDF5 file of weights, without the softmax.

The folder has no vocabulary: a text is split at white space, as the published code takes sentences whose words are
already apart. Tensors are those of TensorFlow: matrices are transposed, the gates of an LSTM are in the order
input, new, forget, output, and 1 is added to the forget gate's bias at run time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from regard.data.artifacts import AnyTokenizer
from regard.data.text.characters import CHARACTERS
from regard.data.text.special_tokens import NUMBERINGS, REGARD, SPECIAL, Special
from regard.data.text.tokenizer import Tokenizer
from regard.data.text.tokenizer_training import train_vocabulary
from regard.errors import RunError, Unrepresentable
from regard.foreign.contents import Contents, Json
from regard.foreign.form import Form, Part, Table, same
from regard.foreign.hdf5 import SUFFIX
from regard.models.elmo.model import ELMoConfig

OPTIONS = "options.json"
MOST_WIDTHS = 1000


class ELMoForm(Form[ELMoConfig]):
    model = "elmo"
    library = "bilm-tf"
    config_file = OPTIONS

    def matches(self, contents: Contents) -> bool:
        if contents.has("config.json"):
            return False
        return {"lstm", "char_cnn"} <= contents.json(self.settings_file(contents)).keys()

    def settings_file(self, contents: Contents) -> str:
        """options.json, else the only file whose name ends so, as those that were published."""
        if contents.has(OPTIONS):
            return OPTIONS
        names = [path.name for path in contents.path.glob(f"*_{OPTIONS}")]
        return names[0] if len(names) == 1 else OPTIONS

    def weight_file(self, contents: Contents) -> str:
        """The only HDF5 file, else the only file whose name ends in weights.hdf5: a file of vectors may lie beside
        it."""
        files = sorted(path.name for path in contents.path.glob(f"*{SUFFIX}"))
        named = [name for name in files if name.endswith(f"weights{SUFFIX}")]
        for names in (files, named):
            if len(names) == 1:
                return names[0]
        listed = ", ".join(named or files)[:200] or "there is none"
        raise RunError(
            f"{contents.path} must hold the weights in one HDF5 file, *weights{SUFFIX} beside others; {listed}"
        )

    def lacks(self, config: ELMoConfig) -> str:
        return "regard reads ELMo's published form, and does not write it"

    def read_config(self, table: Table) -> tuple[ELMoConfig, Special | None]:
        table.must("bidirectional", True)
        lstm, cnn = (_inner(table, key) for key in ("lstm", "char_cnn"))
        if (characters := _size(cnn, "char_cnn", "n_characters")) != CHARACTERS:
            raise Unrepresentable(
                f"char_cnn.n_characters must be {CHARACTERS}, got {characters:,}; while training it is "
                f"{CHARACTERS - 1}, and afterwards one more: set it to {CHARACTERS}"
            )
        widths, filters = _filters(cnn)
        config = ELMoConfig(
            vocabulary=len(SPECIAL),
            max_characters=_size(cnn, "char_cnn", "max_characters_per_token"),
            character_dim=_size(_inner(cnn, "embedding"), "char_cnn.embedding", "dim"),
            widths=widths,
            filters=filters,
            activation=cnn.take("activation", "", str),
            highways=cnn.count("n_highway", 0) if cnn.table.get("n_highway") else 0,
            dim=_size(lstm, "lstm", "projection_dim"),
            cell=_size(lstm, "lstm", "dim"),
            layers=_size(lstm, "lstm", "n_layers"),
            cell_clip=_clip(lstm, "cell_clip"),
            projection_clip=_clip(lstm, "proj_clip"),
            skip=lstm.take("use_skip_connections", False),
            head="none",
        )
        table.left.clear()  # the others are settings of training
        return config, REGARD

    def write_config(self, config: ELMoConfig, special: Special | None) -> Json:
        raise Unrepresentable(self.lacks(config))

    def parts(self, config: ELMoConfig) -> list[Part]:
        return [
            Part("char_embed", ("words.embed.weight",), lambda x: x[1:], _with_no_word),
            *_convolutions(len(config.widths)),
            *_highways(config.highways),
            _transposed("CNN_proj/W_proj", "words.project.weight"),
            same("CNN_proj/b_proj", "words.project.bias"),
            *_layers(config),
        ]

    def tokenizer(self, contents: Contents, config: ELMoConfig, special: Special) -> AnyTokenizer:
        return words_alone()


def words_alone() -> Tokenizer:
    """Splits at white space, and knows no word: each is read by its characters."""
    inner = train_vocabulary(
        [], kind="space", size=len(SPECIAL), lowercase=False, normalise="", numbering=NUMBERINGS["regard"]
    )
    return Tokenizer(inner, REGARD)


# ---- options.json


def _inner(table: Table, key: str) -> Table:
    settings = table.table.get(key)
    if not isinstance(settings, dict):
        raise Unrepresentable(f"{key} must be a table of settings, got {settings!r:.80}")
    return Table(settings, library=table.library)


def _size(table: Table, section: str, key: str) -> int:
    if table.table.get(key) is None:
        raise Unrepresentable(f"{section}.{key} is missing")
    return table.count(key, 1)


def _clip(table: Table, key: str) -> float:
    """null: none."""
    return 0.0 if table.table.get(key) is None else table.take(key, 0.0)


def _filters(cnn: Table) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """[[width, how many], ...]"""
    filters: Any = cnn.table.get("filters")
    good = isinstance(filters, list) and 0 < len(filters) <= MOST_WIDTHS
    for pair in filters if good else []:
        good = good and isinstance(pair, list) and len(pair) == 2 and all(type(number) is int for number in pair)
    if not good:
        raise Unrepresentable(f"char_cnn.filters must be a list of [width, number of filters], got {filters!r:.80}")
    return tuple(width for width, _ in filters), tuple(count for _, count in filters)


# ---- tensors


def _transposed(theirs: str, ours: str) -> Part:
    return Part(theirs, (ours,), lambda x: x.mT, lambda x: (x.mT,))


def _with_no_word(x: Tensor) -> tuple[Tensor]:
    """Theirs has no row for the character 0."""
    return (torch.cat([torch.zeros_like(x[:1]), x]),)


def _convolutions(count: int) -> Iterator[Part]:
    """Theirs are images one place high: (1, width, inputs, filters)."""
    for number in range(count):
        yield Part(
            f"CNN/W_cnn_{number}",
            (f"words.convolutions.{number}.weight",),
            lambda x: x.permute(2, 1, 0)[None],
            lambda x: (x[0].permute(2, 1, 0),),
        )
        yield same(f"CNN/b_cnn_{number}", f"words.convolutions.{number}.bias")


def _highways(count: int) -> Iterator[Part]:
    for number in range(count):
        for theirs, ours in (("transform", "transform"), ("carry", "gate")):
            yield _transposed(f"CNN_high_{number}/W_{theirs}", f"words.highways.{number}.{ours}.weight")
            yield same(f"CNN_high_{number}/b_{theirs}", f"words.highways.{number}.{ours}.bias")


def _layers(config: ELMoConfig) -> Iterator[Part]:
    dim = config.dim
    for layer in range(config.layers):
        for direction in range(2):
            theirs = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            ours = f"lstm.layers.{layer}.directions.{direction}"
            yield Part(
                f"{theirs}/W_0",
                (f"{ours}.weight_ih_l0", f"{ours}.weight_hh_l0"),
                lambda of_input, of_state: _swapped(torch.cat([of_input, of_state], 1)).mT,
                lambda x: (_swapped(x.mT)[:, :dim], _swapped(x.mT)[:, dim:]),
            )
            yield Part(f"{theirs}/B", (f"{ours}.bias_ih_l0", f"{ours}.bias_hh_l0"), _their_bias, _our_biases)
            yield _transposed(f"{theirs}/W_P_0", f"{ours}.weight_hr_l0")


def _swapped(x: Tensor) -> Tensor:
    """The gates along the first axis, with the second and the third exchanged."""
    first, second, third, last = x.chunk(4)
    return torch.cat([first, third, second, last])


def _their_bias(of_input: Tensor, of_state: Tensor) -> Tensor:
    first, forget, new, last = (of_input + of_state).chunk(4)
    return torch.cat([first, new, forget - 1, last])


def _our_biases(x: Tensor) -> tuple[Tensor, Tensor]:
    first, forget, new, last = _swapped(x).chunk(4)
    return torch.cat([first, forget + 1, new, last]), torch.zeros_like(x)


ELMO_FORM = ELMoForm()
