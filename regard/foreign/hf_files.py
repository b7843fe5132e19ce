"""The small JSON files that `transformers` keeps beside config.json: written, and read strictly."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from regard.data.artifacts import Pixels
from regard.data.images.images import RESAMPLING
from regard.data.text.special_tokens import Special
from regard.data.text.tokenizer import Tokenizer
from regard.decode.settings import Decoding
from regard.errors import RunError
from regard.foreign.contents import Contents, Json
from regard.foreign.form import Table

TOKENIZER_CONFIG = "tokenizer_config.json"
GENERATION = "generation_config.json"
PREPROCESSOR = "preprocessor_config.json"
MAX_LENGTH = "model_max_length"
SHORTEST = 8  # tokens of a text with the special ones; a smaller number is a placeholder
LEAST_STD = 1e-6  # dividing by less may not stay finite

# ---- tokenizer_config.json


def tokenizer_file(tokenizer: Tokenizer, max_length: int, names: dict[str, int]) -> Json:
    """`names`: special token ids by their names in transformers; ids below 0 are left out."""
    tokens = {key: tokenizer.inner.id_to_token(number) for key, number in names.items() if number >= 0}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        MAX_LENGTH: max_length,
        **tokens,
    }


def read_max_length(contents: Contents) -> int:
    """How many tokens of a text are read; 0 where there is no sensible number."""
    length = contents.json(TOKENIZER_CONFIG).get(MAX_LENGTH)
    return length if type(length) is int and length >= SHORTEST else 0


def text_names(special: Special) -> dict[str, int]:
    return {"eos_token": special.end, "pad_token": special.pad, "unk_token": special.unknown}


# ---- generation_config.json

# Settings of transformers' generate, and ours.
SEARCH = {
    "num_beams": "beam",
    "length_penalty": "length_penalty",
    "repetition_penalty": "repetition_penalty",
    "no_repeat_ngram_size": "no_repeat_ngram",
    "renormalize_logits": "renormalise",
}
# Limits on length and time are given with each input; the others say how an answer is computed or given back, not
# which one.
IGNORED = frozenset(
    """max_new_tokens max_time renormalize_logits _from_model_config output_logits cache_implementation cache_config
    max_cache_len return_legacy_cache compile_config disable_compile prefill_chunk_size continuous_batching_config
    low_memory is_assistant num_assistant_tokens num_assistant_tokens_schedule assistant_confidence_threshold
    assistant_early_exit assistant_ensemble_weight assistant_lookbehind target_lookbehind speculation_type use_mtp
    max_matching_ngram_size prompt_lookup_num_tokens use_model_defaults""".split()  # noqa: SIM905
)
# Settings of transformers' generate that would make it write something else; null is neutral.
UNSUPPORTED = frozenset(
    """constraints dola_layers encoder_repetition_penalty epsilon_cutoff eta_cutoff force_words_ids guidance_scale
    min_p penalty_alpha sequence_bias stop_strings token_healing top_h watermarking_config custom_generate
    generation_kwargs""".split()  # noqa: SIM905
)


def generation_file(special: Special, decoding: Decoding) -> Json:
    table: Json = {"eos_token_id": special.end, "pad_token_id": special.pad, "use_cache": True}
    table |= {"do_sample": decoding.temperature > 0}
    if decoding.temperature:
        table |= {"temperature": decoding.temperature, "top_k": decoding.top_k, "top_p": decoding.top_p}
    else:
        table |= {"num_beams": decoding.beam, "length_penalty": decoding.length_penalty}
    table |= {"repetition_penalty": decoding.repetition_penalty, "no_repeat_ngram_size": decoding.no_repeat_ngram}
    return table | {"renormalize_logits": decoding.renormalise}


def read_decoding(contents: Contents, special: Special, fixed: dict[str, tuple[object, ...]]) -> Decoding:
    """The settings of generation_config.json; old folders have them in config.json. `fixed`: keys that must have
    one of these values, as others would make transformers generate other tokens than we do."""
    name = GENERATION if contents.has(GENERATION) else "config.json"
    table = contents.json(name)
    try:
        if name == GENERATION:
            _check_generation(contents.path / name, Table(table, UNSUPPORTED), special, fixed)
        sampled = {"temperature": 1.0, "top_k": 50, "top_p": 1.0} if table.get("do_sample") else {}
        settings = {key: table.get(key, default) for key, default in sampled.items()}
        settings |= {ours: table[key] for key, ours in SEARCH.items() if table.get(key) is not None}
        return Decoding(**{key: value for key, value in settings.items() if value is not None})
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise RunError(f"{contents.path / name}: {error!s:.300}") from None


def _check_generation(path: Path, table: Table, special: Special, fixed: dict[str, tuple[object, ...]]) -> None:
    table.must("eos_token_id", special.end, [special.end], None)
    table.must("min_length", 0, None)
    table.must("min_new_tokens", None, 0)
    table.must("num_return_sequences", 1, None)
    for key, allowed in fixed.items():
        table.must(key, *allowed)
    if table.table.get("do_sample"):
        table.must("num_beams", 1, None)
    elif table.table.get("num_beams") not in (None, 1):
        table.must("early_stopping", False, None)
    table.left -= IGNORED
    table.done(path)


# ---- preprocessor_config.json

# Settings of an image processor beside mean and std, with the values that we support.
FIXED: dict[str, tuple[object, ...]] = {
    "do_resize": (True,),
    "do_rescale": (True,),
    "do_normalize": (True,),
    "do_center_crop": (False, True, None),
    "do_convert_rgb": (True, False, None),
    "rescale_factor": (1 / 255,),
}


class ImageConfig(Protocol):
    """A model's configuration, as far as it says what images it takes."""

    @property
    def channels(self) -> int: ...

    @property
    def size(self) -> tuple[int, int]: ...  # height and width


def preprocessor_file(config: ImageConfig, pixels: Pixels) -> Json:
    height, width = config.size
    size: Json = {"size": {"height": height, "width": width}}
    if pixels.shortest_edge:
        size = {"size": {"shortest_edge": pixels.shortest_edge}, "do_center_crop": True, "crop_size": size["size"]}
        size |= {"do_convert_rgb": config.channels == 3}
    return {
        "image_processor_type": "BitImageProcessor" if pixels.shortest_edge else "ViTImageProcessor",
        "do_resize": True,
        **size,
        "resample": int(RESAMPLING[pixels.resample]),
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(pixels.mean),
        "image_std": list(pixels.std),
    }


def read_pixels(contents: Contents, config: ImageConfig) -> Pixels:
    """How images become numbers; without the file, mean and std are 0.5, as in ViT."""
    default = Pixels((0.5,) * config.channels, (0.5,) * config.channels)
    if not contents.has(PREPROCESSOR):
        return default
    path, table = contents.path / PREPROCESSOR, contents.json(PREPROCESSOR)
    try:
        for key, allowed in FIXED.items():
            if table.get(key, allowed[0]) not in allowed:
                raise ValueError(f"{key} = {table[key]!r:.80} is not supported, only {allowed[0]!r}")
        edge = _shortest_edge(table, config.size)
        names = {int(number): name for name, number in RESAMPLING.items()}
        if (resample := names.get(table.get("resample", int(RESAMPLING[default.resample])))) is None:
            supported = " and ".join(f"{number} ({name})" for number, name in names.items())
            raise ValueError(f"resample = {table['resample']!r:.80} is not supported, only {supported}")
        mean, std = (read_numbers(table.get(key), key, config.channels) for key in ("image_mean", "image_std"))
        if std is not None and not all(value >= LEAST_STD for value in std):
            raise ValueError(f"image_std must be at least {LEAST_STD}, got {list(std)}")
        pixels = Pixels(mean or default.mean, std or default.std, resample, edge)
        pixels.check(config.channels, config.size)
    except (ValueError, TypeError, AttributeError) as error:
        raise RunError(f"{path}: {error!s:.300}") from None
    return pixels


def _shortest_edge(table: Json, wanted: tuple[int, int]) -> int:
    """The shorter side of an image before its centre is cut out; 0 where nothing is."""
    size = table.get("size")
    if not table.get("do_center_crop"):
        _check_size("size", size, wanted)
        return 0
    if (crop := table.get("crop_size")) is None:
        raise ValueError("do_center_crop needs a crop_size, and there is none")
    _check_size("crop_size", crop, wanted)
    if isinstance(size, dict) and _sides(size) == wanted:  # nothing is left to crop
        return 0
    edge = size.get("shortest_edge") if isinstance(size, dict) and len(size) == 1 else None
    if type(edge) is not int or edge < 1:
        raise ValueError(f'with do_center_crop, size must be {{"shortest_edge": pixels}}, got {size!r:.80}')
    return edge


def _sides(size: Any) -> tuple[Any, Any]:
    return (size.get("height"), size.get("width")) if isinstance(size, dict) else (size, size)


def _check_size(key: str, size: Any, wanted: tuple[int, int]) -> None:
    if size is not None and _sides(size) != wanted:
        raise ValueError(f"{key} is {size!r:.80}, but images are {wanted[0]} x {wanted[1]} by config.json")


def read_numbers(value: Any, key: str, channels: int) -> tuple[float, ...] | None:
    """One for each channel, from a JSON file; None for null."""
    if value is None:
        return None
    if not isinstance(value, list) or not all(
        type(number) in (int, float) and abs(number) < 1e6 for number in value
    ):
        raise ValueError(f"{key} must be a list of numbers, got {value!r:.80}")
    if len(value) != channels:
        raise ValueError(f"{key} must have one number for each of {channels} channels, got {len(value)}")
    return tuple(float(number) for number in value)
