"""Damage to a folder: one change of one file, drawn at random, told in a few words."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

HOSTILE: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2, 3, 7, 255, 10**6, 10**9, 2**31, 2**63, 10**30, 0.5, 1e300),
    *(
        float("nan"),
        float("inf"),
        -0.0,
        "",
        "x",
        "nosuch",
        "../../etc/passwd",
        "/etc/passwd",
        "x" * 5000,
        "\ud800",
        "\0",
    ),
    *([], [[]], [1] * 100, ["a"], [None], {}, {"a": 1}, {"": {}}, "float16", "gelu", "bert", "gpt2", "vit"),
)
STEPS: tuple[dict[str, Any], ...] = (  # of a tokenizer.json
    {
        "padding": {
            "strategy": "BatchLongest",
            "direction": "Right",
            "pad_to_multiple_of": 200_000_000,
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "x",
        }
    },
    {
        "padding": {
            "strategy": {"Fixed": 10_000_000},
            "direction": "Left",
            "pad_to_multiple_of": None,
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "x",
        }
    },
    {"truncation": {"max_length": 0, "strategy": "LongestFirst", "stride": 9, "direction": "Left"}},
    {"normalizer": {"type": "Replace", "pattern": {"String": "a"}, "content": "b" * 9000}},
    {"normalizer": {"type": "Replace", "pattern": {"Regex": "(a|a)*b"}, "content": "b"}},
    {"normalizer": {"type": "Prepend", "prepend": "x" * 100_000}},
    {"normalizer": {"type": "Strip", "strip_left": True, "strip_right": True}},
    {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(.*)*$"}, "behavior": "Isolated", "invert": False}},
    {"pre_tokenizer": {"type": "FixedLength", "length": 1}},
    {"pre_tokenizer": None},
    {"decoder": {"type": "Replace", "pattern": {"String": "e"}, "content": "x" * 100_000}},
    {"decoder": {"type": "CTC", "pad_token": "", "word_delimiter_token": "", "cleanup": True}},
    {"post_processor": {"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {}}},
    {
        "added_tokens": [
            {
                "id": 0,
                "content": "e",
                "single_word": False,
                "lstrip": True,
                "rstrip": True,
                "normalized": True,
                "special": True,
            }
        ]
    },
)
ASKED = "asked.json"  # what a folder is asked, beside its own files
LARGEST = 64 << 20  # bytes of a file that is changed
TEXTS = (".json", ".toml", ".txt", ".jsonl", ".md")


def damage(folder: Path, draw: Random, other: Path, linked: Path) -> str:
    """One change of a file in the folder. `other`: a folder whose files may come instead; `linked`: a file
    outside, to which a link may lead."""
    whole = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink() and path.name != ASKED)
    files = sorted(path for path in whole if path.stat().st_size < LARGEST)
    if not files:
        return "nothing is left"
    weights = [path for path in files if path.suffix not in (".md", ".jsonl")]
    path = draw.choice(weights if weights and draw.random() < 0.9 else files)
    kinds: list[Callable[[Path, Random], str]] = [change_bytes]
    if path.suffix in (".json", ".safetensors") and path.stat().st_size:
        kinds += [change_table] * 4
    if path.name.endswith("tokenizer.json"):
        kinds += [change_steps]
    if path.suffix in TEXTS:
        kinds += [change_lines]
    kinds += [lambda path, draw: change_file(path, draw, other, linked)]
    return f"{path.name}: {draw.choice(kinds)(path, draw)}"


def change_bytes(path: Path, draw: Random) -> str:
    data = bytearray(path.read_bytes())
    if not data:
        path.write_bytes(draw.randbytes(8))
        return "8 bytes"
    near = min(len(data), 4096) if draw.random() < 0.5 else len(data)  # headers are at the beginning
    at, count = draw.randrange(near), draw.choice((1, 1, 4, 8, 64, 1000))
    kind = draw.choice(("flip", "random", "zero", "ones", "cut", "double", "delete", "append"))
    if kind == "flip":
        data[at] ^= 1 << draw.randrange(8)
    elif kind in ("random", "zero", "ones"):
        new = {"random": draw.randbytes(count), "zero": bytes(count), "ones": b"\xff" * count}[kind]
        data[at : at + count] = new[: len(data) - at]
    elif kind == "cut":
        del data[at:]
    elif kind == "double":
        data[at:at] = data[at : at + count]
    elif kind == "delete":
        del data[at : at + count]
    else:
        data += draw.randbytes(count)
    path.write_bytes(data)
    return f"{kind} {count} bytes at {at}"


def change_table(path: Path, draw: Random) -> str:
    """A value of a JSON file, or of the header of a safetensors file."""
    raw, rest = path.read_bytes(), b""
    try:
        if path.suffix == ".safetensors":
            (length,) = struct.unpack("<Q", raw[:8])
            raw, rest = raw[8 : 8 + length], raw[8 + length :]
        table = json.loads(raw)
    except (ValueError, struct.error):
        return change_bytes(path, draw)
    said = change_value(table, draw)
    new = json.dumps(table).encode("utf-8", "replace")
    path.write_bytes(struct.pack("<Q", len(new)) + new + rest if path.suffix == ".safetensors" else new)
    return said


def change_value(table: Any, draw: Random) -> str:
    """Somewhere in it, more often near the top."""
    here, names = table, []
    while isinstance(here, dict | list) and here:
        keys = list(here) if isinstance(here, dict) else range(len(here))
        key = draw.choice(keys)
        names.append(str(key)[:30])
        inner = here[key]
        if not isinstance(inner, dict | list) or not inner or draw.random() < 0.3:
            break
        here = inner
    where = ".".join(names)
    if not isinstance(here, dict | list) or not here:
        return "nothing"
    kind = draw.choice(("value", "value", "value", "number", "delete", "rename", "swap", "deep"))
    if kind == "delete":
        del here[key]
    elif kind == "rename" and isinstance(here, dict):
        here[str(draw.choice((*HOSTILE, *here)))[:50]] = here.pop(key)
    elif kind == "swap":
        other = draw.choice(keys)
        here[key], here[other] = here[other], here[key]
    elif kind == "deep":
        here[key] = json.loads("[" * 500 + "]" * 500)
    elif kind == "number" and type(here[key]) in (int, float):
        here[key] = draw.choice(
            (-here[key], here[key] + 1, here[key] - 1, here[key] * 2, here[key] // 2, here[key] * 10**6)
        )
    else:
        here[key] = draw.choice(HOSTILE)
        return f"{where} = {here[key]!r:.60}"
    return f"{kind} {where}"


def change_steps(path: Path, draw: Random) -> str:
    try:
        table = json.loads(path.read_text())
    except (ValueError, OSError):
        return change_bytes(path, draw)
    if not isinstance(table, dict):
        return "nothing"
    change = draw.choice(STEPS)
    table |= change
    path.write_text(json.dumps(table))
    return f"{change!r:.100}"


def change_lines(path: Path, draw: Random) -> str:
    lines = path.read_bytes().splitlines(keepends=True) or [b""]
    at = draw.randrange(len(lines))
    kind = draw.choice(("delete", "double", "swap", "hostile", "long", "repeat"))
    if kind == "delete":
        del lines[at]
    elif kind == "double":
        lines.insert(at, lines[at])
    elif kind == "swap":
        other = draw.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    elif kind == "hostile":
        lines[at] = lines[at].split(b"=")[0] + b"= " + repr(draw.choice(HOSTILE)).encode("utf-8", "replace") + b"\n"
    elif kind == "long":
        lines[at] = (lines[at].strip() * 5000)[: 4 << 20] + b"\n"
    else:
        lines[at : at + 1] = [lines[at]] * min(1000, (4 << 20) // max(1, len(lines[at])) + 1)
    path.write_bytes(b"".join(lines))
    return f"{kind} line {at + 1}"


def change_file(path: Path, draw: Random, other: Path, linked: Path) -> str:
    """The file is gone, another, or no file at all."""
    kind = draw.choice(("delete", "empty", "another", "folder", "pipe", "link", "loop", "device", "huge", "text"))
    path.unlink()
    if kind == "empty":
        path.touch()
    elif kind == "another":
        files = sorted(each for each in other.iterdir() if each.is_file() and each.suffix == path.suffix)
        if files:
            chosen = draw.choice(files)
            shutil.copy(chosen, path)
            return f"{chosen.name} of {other.name}"
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(linked)
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "device":
        path.symlink_to(draw.choice(("/dev/zero", "/dev/full", "/dev/random")))
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(1 << 32)  # of no bytes on the disk
    elif kind == "text":
        path.write_text("x" * draw.choice((1, 100, 10**6)))
    return kind
