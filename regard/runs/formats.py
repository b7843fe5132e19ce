"""The formats that a run can be exported in. No torch here until one is written, so that a shell completes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import BadInput

if TYPE_CHECKING:
    from regard.data.artifacts import Artifacts
    from regard.models.protocols import Model
    from regard.runs.folder import Folder


@dataclass(frozen=True)
class Export:
    """What is written."""

    folder: Folder  # of the run
    artifacts: Artifacts
    decodes: bool  # decoding settings go with it
    dtype: str
    model: Model | None = None  # with the weights that are written; None: those of the folder


def _library(what: Export, to: Path) -> None:
    from regard.runs.writing import export

    export(what.folder, to, what.artifacts, what.decodes, dtype=what.dtype, model=what.model)


def _ctranslate2(what: Export, to: Path) -> None:
    from regard.runs.engines import export_ctranslate2

    export_ctranslate2(what.folder, to, what.artifacts, what.dtype, what.model)


def _onnx(what: Export, to: Path) -> None:
    from regard.runs.onnx_file import export_onnx

    export_onnx(what.folder, to, what.artifacts, what.model)


@dataclass(frozen=True)
class Format:
    about: str
    dtypes: tuple[str, ...]
    write: Callable[[Export, Path], None]


FORMATS = {
    "library": Format("transformers or timm", ("float32", "bfloat16", "float16"), _library),
    "ctranslate2": Format("CTranslate2", ("float32", "int8", "bfloat16", "float16"), _ctranslate2),
    "onnx": Format("ONNX", ("float32",), _onnx),
}


def export(what: Export, to: Path, format: str) -> None:
    """Write a new folder in this format."""
    if format not in FORMATS:
        raise BadInput(f"format must be one of {', '.join(FORMATS)}, got {format!r:.40}")
    dtypes = FORMATS[format].dtypes
    if what.dtype not in dtypes:
        raise BadInput(f"dtype must be one of {', '.join(dtypes)}, got {what.dtype!r:.40} for the format {format}")
    FORMATS[format].write(what, to)
