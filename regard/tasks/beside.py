"""The small files that `transformers` wants to find beside config.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from regard.data.images import RESAMPLING
from regard.data.text import Tokenizer
from regard.tasks.known import Known, Pixels
from regard.tasks.settings import Decoding
from regard.tasks.weights import RunError

PIXELS = "preprocessor_config.json"
LARGEST = 1 << 20
LEAST = 1e-6  # deviation of a channel: what is divided by less may no longer be finite
# What a reader of pictures may ask for beside mean and std, and the values that are followed here.
FIXED: dict[str, tuple[Any, ...]] = {
    "do_resize": (True,),
    "do_rescale": (True,),
    "do_normalize": (True,),
    "do_center_crop": (False, None),
    "do_convert_rgb": (True, False, None),
    "rescale_factor": (1 / 255,),
}


def small_files(known: Known, model: Any, task: str, decode: Decoding) -> dict[str, dict[str, Any]]:
    """By file name."""
    if known.pixels is not None:
        return {PIXELS: pixel_file(model.config, known.pixels)}
    longest = min(known.longest or model.config.longest, model.config.longest)
    files = {"tokenizer_config.json": tokenizer_file(known.tokenizer, longest, task)}
    if task in ("translate", "generate"):
        files["generation_config.json"] = generation_file(known.tokenizer, model.config.longest, task, decode)
    return files


def tokenizer_file(tokenizer: Tokenizer, longest: int, task: str) -> dict[str, Any]:
    special = tokenizer.special
    fast: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    names = {"eos_token": special.end, "pad_token": special.pad, "unk_token": special.unknown}
    if task == "generate":
        names["bos_token"] = special.start
    elif task != "translate":
        names = {"cls_token": special.start, "sep_token": special.end, "mask_token": special.mask, **names}
        del names["eos_token"]
        # Unless it is told, it gives no segments, and the second text of a pair is read as the first.
        fast["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    tokens = {key: tokenizer.inner.id_to_token(number) for key, number in names.items() if number >= 0}
    return {**fast, "model_max_length": longest, **tokens}


def generation_file(tokenizer: Tokenizer, longest: int, task: str, decode: Decoding) -> dict[str, Any]:
    special = tokenizer.special
    table: dict[str, Any] = {"eos_token_id": special.end, "pad_token_id": special.pad, "use_cache": True}
    table |= {"do_sample": decode.temperature > 0}
    if decode.temperature:
        table |= {"temperature": decode.temperature, "top_k": decode.top_k, "top_p": decode.top_p}
    else:
        table |= {"num_beams": decode.beam, "length_penalty": decode.length_penalty}
    table |= {"repetition_penalty": decode.repetition_penalty, "no_repeat_ngram_size": decode.no_repeat}
    table |= {"renormalize_logits": decode.renormalise}
    if task == "generate":
        return table | {"bos_token_id": special.start}
    return table | {
        "decoder_start_token_id": special.start,
        "forced_eos_token_id": special.end,
        "bad_words_ids": [[special.pad]],
        "max_length": longest,
    }


def pixel_file(config: Any, pixels: Pixels) -> dict[str, Any]:
    return {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "size": {"height": config.image, "width": config.width or config.image},
        "resample": int(RESAMPLING[pixels.resample]),
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(pixels.mean),
        "image_std": list(pixels.std),
    }


def read_pixels(folder: Path, config: Any) -> Pixels:
    """How the folder has pictures read; without its file by means and deviations of 0.5, ViT's own."""
    path = folder / PIXELS
    default = Pixels((0.5,) * config.channels, (0.5,) * config.channels)
    if not path.is_file():
        return default
    if path.stat().st_size > LARGEST:
        raise RunError(f"{path} has {path.stat().st_size:,} bytes; no such file is that large")
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        for key, allowed in FIXED.items():
            if table.get(key, allowed[0]) not in allowed:
                raise ValueError(f"{key} = {table[key]!r:.80} has no counterpart here, only {allowed[0]!r}")
        _check_size(table.get("size"), config)
        names = {int(number): name for name, number in RESAMPLING.items()}
        if (resample := names.get(table.get("resample", int(RESAMPLING[default.resample])))) is None:
            known = " and ".join(f"{number} ({name})" for number, name in names.items())
            raise ValueError(f"resample = {table['resample']!r:.80} has no counterpart here, only {known}")
        mean, std = (_numbers(table.get(key), key, config.channels) for key in ("image_mean", "image_std"))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise RunError(f"{path}: {error!s:.300}") from None
    if std is not None and not all(value >= LEAST for value in std):
        raise RunError(f"{path}: image_std must be at least {LEAST}, got {list(std)}")
    return Pixels(mean or default.mean, std or default.std, resample)


def _check_size(size: Any, config: Any) -> None:
    wanted = config.image, config.width or config.image
    found = (size.get("height"), size.get("width")) if isinstance(size, dict) else (size, size)
    if size is not None and found != wanted:
        raise ValueError(f"pictures are to be {size!r:.80}, and config.json says {wanted[0]} x {wanted[1]}")


def _numbers(value: Any, key: str, channels: int) -> tuple[float, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(type(one) in (int, float) and abs(one) < 1e6 for one in value):
        raise ValueError(f"{key} must be a list of numbers, got {value!r:.80}")
    if len(value) != channels:
        raise ValueError(f"{key} must have one number for each of {channels} channels, got {len(value)}")
    return tuple(float(one) for one in value)
