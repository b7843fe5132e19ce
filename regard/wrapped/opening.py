"""A folder of a model that only transformers has: recognised, checked, and opened by transformers itself.

Nothing in a folder is run and nothing it names is followed: the class comes from transformers' own tables, weights
are safetensors beside config.json, and a tokenizer is read as for every other folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from regard.data.artifacts import MissingTokenizer, Pixels
from regard.data.text.special_tokens import Special
from regard.data.text.tokenizer import Tokenizer
from regard.decode.settings import Decoding
from regard.errors import NoAttention, RunError, Unrepresentable
from regard.foreign.contents import Contents, Json
from regard.foreign.form import Form, Part, Table, read_labels
from regard.foreign.hf_files import GENERATION, SEARCH, TOKENIZER_CONFIG, read_max_length, read_pixels
from regard.foreign.tokenizers import FIRST, SPECIAL_MAP, WHOLE, around, read_whole
from regard.wrapped.base import NO_LIMIT, Wrapped, WrappedConfig
from regard.wrapped.causal import WrappedLanguageModel
from regard.wrapped.encoder import WrappedEncoder
from regard.wrapped.images import WrappedImages
from regard.wrapped.seq2seq import WrappedTranslator

MOST_LAYERS, MOST = 1000, 1 << 24  # no real model has more
MISSING = "pip install 'regard[transformers]'"
# In config.json: what would run other code, or compute something else than the weights say.
REFUSED = (
    "trust_remote_code",
    "quantization_config",
    "compression_config",
    "adapter_config",
    "transformers_weights",
)
LENGTHS = ("max_position_embeddings", "n_positions", "max_target_positions", "max_seq_len", "seq_length")


@dataclass(frozen=True)
class Kind:
    """What a class of transformers is asked."""

    wrapper: type[Wrapped]
    task: str
    head: str


KINDS = {  # by transformers' tables of classes; a class of several is what comes first
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING": Kind(WrappedTranslator, "translate", "target"),
    "MODEL_FOR_CAUSAL_LM_MAPPING": Kind(WrappedLanguageModel, "generate", "words"),
    "MODEL_FOR_MASKED_LM_MAPPING": Kind(WrappedEncoder, "fill", "masked"),
    "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING": Kind(WrappedEncoder, "classify", "classify"),
    "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING": Kind(WrappedImages, "recognise", "classify"),
}
READER, EYE = Kind(WrappedEncoder, "embed", "none"), Kind(WrappedImages, "recognise", "none")  # without a head
WRITES = ("words", "target")  # heads
# Of models with several inputs, the class that reads the one we can give.
PARTS = {"WhisperForConditionalGeneration": "WhisperForCausalLM", "WhisperModel": "WhisperForCausalLM"}


class Wrapping(Form[WrappedConfig]):
    """Stands for the form of a folder that transformers opens. It is read only."""

    model = model_type = library = "transformers"

    # -- what other forms convert

    def read_config(self, table: Table) -> tuple[WrappedConfig, Special | None]:
        raise NotImplementedError("read by `read_wrapped`")

    def write_config(self, config: WrappedConfig, special: Special | None) -> Json:
        raise RunError(self.lacks(config))

    def parts(self, config: WrappedConfig) -> list[Part]:
        return []

    def lacks(self, config: Any) -> str:
        return (
            f"{config.architecture} is a model of transformers, which regard opens and does not write; copy its "
            "folder, or save it by save_pretrained"
        )

    # -- what is read beside the weights

    def tokenizer(self, contents: Contents, config: WrappedConfig, special: Special) -> Tokenizer:
        return open_tokenizer(contents, config)

    def max_length(self, contents: Contents) -> int:
        return read_max_length(contents)

    def pixels(self, contents: Contents, config: WrappedConfig) -> Pixels:
        return read_pixels(contents, config)

    def decoding(self, contents: Contents, special: Special) -> Decoding:
        """Those settings of transformers' generate that we have."""
        table = contents.json(GENERATION)
        sampled = {"temperature": 1.0, "top_k": 50, "top_p": 1.0} if table.get("do_sample") else {}
        settings = {key: table.get(key, default) for key, default in sampled.items()}
        settings |= {ours: table[key] for key, ours in SEARCH.items() if key in table}
        try:
            return Decoding(**{key: value for key, value in settings.items() if value is not None})
        except (ValueError, TypeError) as error:
            raise RunError(f"{contents.path / GENERATION}: {error!s:.300}") from None

    # -- the model

    def outline(self, folder: Path, config: WrappedConfig) -> Wrapped:
        """The model on the meta device."""
        kind, theirs = _class_of(Contents(folder))
        with _told_by_transformers(folder), torch.device("meta"):
            inner = theirs.kind._from_config(theirs.config, attn_implementation=theirs.attention)
        return kind.wrapper(config, inner)

    def open(self, folder: Path, config: WrappedConfig, stored: int) -> Wrapped:
        """The model with its weights, in float32. `stored`: how many numbers the folder holds."""
        kind, theirs = _class_of(Contents(folder))
        outline = self.outline(folder, config)
        needed = sum(x.numel() for x in outline.inner.parameters())
        if needed > stored:
            raise RunError(
                f"{folder / 'config.json'} describes {needed:,} weights, and the folder holds {stored:,}; they "
                "are not from the same model"
            )
        with _told_by_transformers(folder):
            inner, info = theirs.kind.from_pretrained(
                str(folder),
                config=theirs.config,
                dtype=torch.float32,
                attn_implementation=theirs.attention,
                use_safetensors=True,
                local_files_only=True,
                output_loading_info=True,
            )
        if missing := sorted(map(str, info["missing_keys"])):
            raise RunError(f"{folder} lacks weights of {config.architecture}: {', '.join(missing[:3])}")
        return kind.wrapper(config, inner)


@dataclass(frozen=True)
class Theirs:
    """A class of transformers, its configuration, and how it attends."""

    kind: Any
    config: Any
    attention: str


def is_wrapped(contents: Contents) -> bool:
    """Whether transformers has a model of this folder's model_type; where it is not installed, whether it may."""
    kind = contents.config.get("model_type")
    if not isinstance(kind, str) or kind.startswith("regard-"):
        return False
    library = _library()
    return library is not None and kind in library.CONFIG_MAPPING


def why_not_wrapped(contents: Contents) -> str:
    """What to add to the message that a folder cannot be opened: transformers may be missing, or the folder may ask
    for code of its own."""
    config = contents.config
    if config.get("auto_map"):
        return "; it names code of its own (auto_map), which is never run here"
    if _library() is None and isinstance(config.get("model_type"), str) and "architectures" in config:
        return f". Other models of transformers open with the extra `transformers`: {MISSING}"
    return ""


def read_wrapped(contents: Contents) -> tuple[Wrapping, WrappedConfig]:
    """What config.json says of a model that transformers opens."""
    kind, theirs = _class_of(contents)
    return Wrapping(), _config_of(contents, kind, theirs)


def _library() -> Any:
    try:
        import transformers
    except ImportError:
        return None
    return transformers


def _class_of(contents: Contents) -> tuple[Kind, Theirs]:
    library, path = _library(), contents.path / "config.json"
    assert library is not None
    table = _checked(contents)
    with _told_by_transformers(contents.path):
        config = library.CONFIG_MAPPING[table["model_type"]].from_dict(table)
        kind, found = _by_architecture(library, contents, config)
    if found is None:
        raise RunError(f"{path}: transformers has no model of {table['model_type']!r:.80} that can be asked here")
    own = getattr(found, "config_class", None)
    if own is not None and not isinstance(config, own):  # one of several towers
        config = next((part for part in vars(config).values() if isinstance(part, own)), config)
    capped = getattr(config, "attn_logit_softcapping", None)  # which sdpa has not
    fused = getattr(found, "_supports_sdpa", False) and not capped
    return kind, Theirs(found, config, "sdpa" if fused else "eager")


def _by_architecture(library: Any, contents: Contents, config: Any) -> tuple[Kind, Any]:
    """The class that config.json names, if transformers has it in one of its tables; else the usual one."""
    heads = contents.config.get("architectures")
    wanted = heads[0] if isinstance(heads, list) and heads and isinstance(heads[0], str) else ""
    wanted = PARTS.get(wanted, wanted)
    if wanted and not hasattr(library, wanted):
        own = "; the code that auto_map names is not run" if contents.config.get("auto_map") else ""
        path = contents.path / "config.json"
        raise RunError(f"{path} asks for {wanted!r:.80}, and transformers has no such class{own}")
    for name, kind in KINDS.items():
        mapping = getattr(library, name)
        if type(config) in mapping:
            classes = mapping[type(config)]
            for found in classes if isinstance(classes, tuple) else (classes,):
                if not wanted or found.__name__ == wanted:
                    return kind, found
    if type(config) in library.MODEL_MAPPING:
        found = library.MODEL_MAPPING[type(config)]
        found = found[0] if isinstance(found, tuple) else found
        return _by_input(library, found, config)
    return READER, None


def _by_input(library: Any, found: Any, config: Any) -> tuple[Kind, Any]:
    """A model without a head that is known here. Of one for images and texts, the side of images."""
    images = getattr(config, "vision_config", None)
    if images is not None and type(images) in library.MODEL_MAPPING:
        found = library.MODEL_MAPPING[type(images)]
    reads_images = getattr(found, "main_input_name", "input_ids") == "pixel_values"
    return (EYE if reads_images else READER), found


def _checked(contents: Contents) -> Json:
    """config.json without what would choose other code, and with numbers that a model can have."""
    path, table = contents.path / "config.json", contents.config
    if refused := [key for key in REFUSED if table.get(key) is not None]:
        raise RunError(
            f"{path}: {refused[0]} is not followed here; save the model with plain weights in safetensors, as "
            "`save_pretrained` of transformers does"
        )
    if contents.has("adapter_config.json"):
        raise RunError(f"{contents.path} has an adapter; merge it, and save the model whole")
    return _plain(table, path)


def _plain(value: Any, path: Path, key: str = "") -> Any:
    if isinstance(value, Mapping):
        kept = {
            name: item
            for name, item in value.items()
            if name != "auto_map" and not name.endswith("_implementation")
        }
        return {name: _plain(item, path, name) for name, item in kept.items()}
    if isinstance(value, list):
        return [_plain(item, path, key) for item in value]
    most = MOST_LAYERS if "layer" in key else MOST
    if type(value) is int and value > most and not key.endswith("_id"):
        raise RunError(f"{path}: {key} must be at most {most:,}, got {value:,}")
    return value


def _config_of(contents: Contents, kind: Kind, theirs: Theirs) -> WrappedConfig:
    config = theirs.config
    text = config.get_text_config(decoder=kind.head in WRITES)
    reads_text = kind.wrapper is not WrappedImages
    size, patch = getattr(config, "image_size", 0), getattr(config, "patch_size", 0)
    try:
        labels = read_labels(contents.config) if kind.head == "classify" else ()
    except Unrepresentable as error:
        raise RunError(f"{contents.path / 'config.json'}: {error}") from None
    start = getattr(config, "decoder_start_token_id", None)
    return WrappedConfig(
        model_type=contents.config["model_type"],
        architecture=theirs.kind.__name__,
        task=kind.task,
        head=kind.head,
        vocabulary=int(getattr(text, "vocab_size", 0)) if reads_text else 0,
        layers=int(getattr(text, "num_hidden_layers", 0) or 0),
        dim=int(getattr(text, "hidden_size", 0) or 0),
        max_positions=_longest(contents.config["model_type"], text) if reads_text else 0,
        start=start if type(start) is int and start >= 0 else 0,
        labels=labels,
        channels=int(getattr(config, "num_channels", 3)),
        size=_both(size) if not reads_text else (0, 0),
        patch_size=_both(patch)[0] if not reads_text else 0,
    )


def _both(size: Any) -> tuple[int, int]:
    if isinstance(size, list | tuple) and len(size) == 2:
        return int(size[0]), int(size[1])
    return int(size), int(size)


def _longest(model_type: str, config: Any) -> int:
    """The most tokens at once. Positions may be relative, and then have no end."""
    if (
        hasattr(config, "relative_attention_num_buckets")
        or getattr(config, "alibi", False)
        or model_type == "bloom"
    ):
        return NO_LIMIT
    counts = (getattr(config, name, None) for name in LENGTHS)
    longest = next((count for count in counts if type(count) is int and count > 0), NO_LIMIT)
    pad = getattr(config, "pad_token_id", None)
    if model_type in COUNTED_FROM_PADDING and type(pad) is int:
        longest -= pad + 1
    return longest


# Their positions begin behind the number of the padding token.
COUNTED_FROM_PADDING = (
    "roberta",
    "xlm-roberta",
    "xlm-roberta-xl",
    "camembert",
    "longformer",
    "mpnet",
    "data2vec-text",
)


@contextmanager
def _told_by_transformers(folder: Path) -> Iterator[None]:
    """Its errors, of many kinds, in our words; its messages to users are not ours."""
    from transformers.utils import logging

    level = logging.get_verbosity()
    bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    except (RunError, NoAttention, MemoryError):
        raise
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        raise RunError(f"{folder}: transformers cannot open it: {type(error).__name__}: {lines[0]:.300}") from error
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


# ---- the tokenizer

ROLES = {  # of special tokens: the names in tokenizer_config.json, the first that is there
    "pad": ("pad_token",),
    "start": ("cls_token", "bos_token"),
    "end": ("sep_token", "eos_token"),
    "unknown": ("unk_token",),
    "mask": ("mask_token",),
}
IDS = {"pad": ("pad_token_id",), "start": ("bos_token_id",), "end": ("eos_token_id",)}


def open_tokenizer(contents: Contents, config: WrappedConfig) -> Tokenizer:
    """tokenizer.json, whose special tokens tokenizer_config.json names, else config.json by their ids."""
    folder, size = contents.path, config.vocabulary
    if not contents.has(WHOLE):
        return MissingTokenizer(f"{folder} has no {WHOLE}, and without it this model reads no text")
    inner = read_whole(contents, size)
    names = contents.json(SPECIAL_MAP) | contents.json(TOKENIZER_CONFIG)
    writes = config.head in WRITES

    def by_name(role: str) -> int:
        keys = ROLES[role][::-1] if writes else ROLES[role]
        tokens = [names.get(key) for key in keys]
        texts = [token.get("content") if isinstance(token, dict) else token for token in tokens]
        ids = [inner.token_to_id(text) for text in texts if isinstance(text, str)]
        return next((i for i in ids if i is not None), -1)

    def by_id(role: str) -> int:
        values = [contents.config.get(key) for key in IDS.get(role, ())]
        firsts = [value[0] if isinstance(value, list) and value else value for value in values]
        return next((i for i in firsts if type(i) is int and 0 <= i < size), -1)

    found = {role: by_id(role) if writes and by_id(role) >= 0 else by_name(role) for role in ROLES}
    found = {role: i if i >= 0 else by_id(role) for role, i in found.items()}
    end = found["end"] if found["end"] >= 0 else found["start"]
    if end < 0:
        raise RunError(
            f"{folder}: neither {TOKENIZER_CONFIG} nor config.json says which token ends a text; add eos_token"
        )
    start = found["start"] if found["start"] >= 0 else end
    pad = found["pad"] if found["pad"] >= 0 else end
    if config.head == "target":
        start = config.start
    unknown = -1 if found["unknown"] in (pad, start, end) else found["unknown"]
    template, _ = around(inner)
    before = tuple(template[: template.index(FIRST)]) if FIRST in template and writes else ()
    special = Special(pad, start, end, unknown, found["mask"])
    return Tokenizer(inner, special, size=size, before=before)
