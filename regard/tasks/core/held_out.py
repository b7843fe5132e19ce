"""Pictures of where a model looks at a few held-out inputs, for loggers."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from PIL import Image

from regard.errors import NoAttention
from regard.tasks.core.desk import Prepared
from regard.tasks.core.results import Picture
from regard.tasks.core.table import AnyTask

SHOWN = 3  # inputs
LONGEST = 1200  # pixels of a side


def pictures_of(task: AnyTask, prepared: Prepared[Any, Any]) -> dict[str, np.ndarray]:
    """Images (H, W, 3) of bytes; none of a model without attention. The model is left as it was."""
    model = prepared.run.model
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            answers = task.desk.held_out(prepared.run, prepared.valid, SHOWN)
            drawn = [answer.picture() for answer in answers]
            return {f"attention/{place}": pixels_of(each) for place, each in enumerate(drawn) if each is not None}
    except NoAttention:
        return {}
    finally:
        model.train(training)


def pixels_of(picture: Picture) -> np.ndarray:
    with TemporaryDirectory() as folder:
        path = Path(folder, "looks.png")
        picture.save(path)
        with Image.open(path) as image:
            image.thumbnail((LONGEST, LONGEST))
            return np.array(image.convert("RGB"))
