"""Files that read or describe data do not import torch, so that `--help` and recipes are fast."""

import subprocess
import sys

LIGHT = ["augment", "byte_level", "captions", "documents", "files", "images", "labelled_images", "lines", "made"]
LIGHT += ["pairs", "records", "scenes", "shapes", "special_tokens", "tokenizer", "tokenizer_training", "wordpiece"]


def test_no_torch_is_imported():
    modules = ", ".join(f"regard.data.{name}" for name in LIGHT)
    subprocess.run([sys.executable, "-c", f"import sys, {modules}; sys.exit('torch' in sys.modules)"], check=True)
