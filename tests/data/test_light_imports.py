"""Files that read or describe data do not import torch, so that `--help` and recipes are fast."""

import subprocess
import sys

LIGHT = {
    "base": ["fields", "files", "line_writer", "lines", "records", "short_repr", "zip_files"],
    "data.images": ["augment", "captions", "images", "labelled_images"],
    "data.made": ["pairs", "scenes", "shapes"],
    "data.text": [
        "byte_level",
        "documents",
        "pairs",
        "special_tokens",
        "tokenizer",
        "tokenizer_training",
        "wordpiece",
    ],
}


def test_no_torch_is_imported():
    modules = ", ".join(f"regard.{package}.{name}" for package, names in LIGHT.items() for name in names)
    subprocess.run([sys.executable, "-c", f"import sys, {modules}; sys.exit('torch' in sys.modules)"], check=True)
