"""Files that read or describe data do not import torch, so that `--help` and recipes are fast."""

import subprocess
import sys

LIGHT = ["base.files", "base.lines", "base.records", "data.images.augment", "data.images.captions"]
LIGHT += ["data.images.images", "data.images.labelled_images", "data.made.pairs", "data.made.scenes"]
LIGHT += [
    "data.made.shapes",
    "data.shards.tokenise",
    "data.text.byte_level",
    "data.text.documents",
    "data.text.pairs",
]
LIGHT += ["data.text.special_tokens", "data.text.tokenizer", "data.text.tokenizer_training", "data.text.wordpiece"]


def test_no_torch_is_imported():
    modules = ", ".join(f"regard.{name}" for name in LIGHT)
    subprocess.run([sys.executable, "-c", f"import sys, {modules}; sys.exit('torch' in sys.modules)"], check=True)
