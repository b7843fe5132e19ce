"""A folder of another library that several files of tests read."""

from pathlib import Path

import pytest
from timm_folders import named, written


@pytest.fixture(scope="session")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A resnet18 as timm saves it. Tests copy what they change."""
    return written(tmp_path_factory.mktemp("theirs") / "resnet18", named("resnet18", 3))
