"""A folder is opened once: each of its files is read when it is first needed, and not again."""

from __future__ import annotations

import builtins
import io
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.data.artifacts import Artifacts, Pixels
from regard.data.text.tokenizer import Tokenizer
from regard.models.bert import Bert, BertConfig
from regard.models.gpt2 import GPT2, GPT2Config
from regard.models.vit import ViT, ViTConfig
from regard.runs.folder import Folder, begin, save_weights
from regard.tasks.core.table import load


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each file was opened in Python, by its name."""
    counts: Counter[str] = Counter()
    plain = io.open

    def counting(file: Any, *args: Any, **options: Any) -> Any:
        counts[Path(str(file)).name] += 1
        return plain(file, *args, **options)

    monkeypatch.setattr(io, "open", counting)
    monkeypatch.setattr(builtins, "open", counting)
    return counts


def test_the_reads_are_counted(reads: Counter[str], tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "a.json").read_bytes()
    with open(tmp_path / "a.json"):
        assert reads["a.json"] == 3


def test_a_run_reads_its_config_and_recipe_once(run: Any, reads: Counter[str]) -> None:
    opened = load(run.folder)
    assert opened.translate("a b").source == "a b"
    assert opened.evaluate(beam=1).counts["pairs"] == 20
    assert (reads["config.json"], reads["recipe.toml"]) == (1, 1)


def saved(folder: Path, model: Any, artifacts: Artifacts) -> None:
    begin(folder, model, artifacts, "")
    save_weights(folder, model)


def gpt2(folder: Path) -> None:
    tokens = Tokenizer.train(["abc def"], kind="character", numbering="gpt2")
    saved(folder, GPT2(GPT2Config(len(tokens), dim=8, layers=1, heads=2, max_positions=16)), Artifacts(tokens))


def bert(folder: Path) -> None:
    tokens = Tokenizer.train(["abc def"], kind="wordpiece", size=60, numbering="bert")
    saved(folder, Bert(BertConfig(len(tokens), dim=8, layers=1, heads=2, max_positions=16)), Artifacts(tokens))


def vit(folder: Path) -> None:
    labels = ("cat", "dog")
    model = ViT(ViTConfig(labels, image_size=8, patch_size=4, dim=8, layers=1, heads=2))
    saved(folder, model, Artifacts(labels=labels, pixels=Pixels()))


@pytest.mark.parametrize("make", [gpt2, bert, vit])
def test_a_folder_of_another_library_is_read_once(
    make: Callable[[Path], None], reads: Counter[str], tmp_path: Path
) -> None:
    make(tmp_path / "folder")
    reads.clear()
    load(tmp_path / "folder")
    for path in (tmp_path / "folder").glob("*.json"):
        assert reads[path.name] == 1, path.name


def test_nothing_is_read_before_it_is_asked_for(run: Any, reads: Counter[str]) -> None:
    folder = Folder(run.folder)
    assert not reads
    assert folder.name == "bahdanau"
    assert dict(reads) == {"config.json": 1}
    assert folder.recipe is folder.recipe
    assert folder.settings is folder.settings
    assert isinstance(folder.model(), torch.nn.Module)
    assert reads["tokenizer.json"] == 0


@pytest.mark.parametrize("name", ["shakespeare", "shapes", "scenes"])
def test_no_random_number_is_drawn_for_weights_that_are_loaded_next(name: str) -> None:
    """It takes longer than reading them, and a program's own draws would change."""
    before = torch.get_rng_state()
    load(name)
    assert torch.equal(torch.get_rng_state(), before)
