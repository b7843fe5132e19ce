"""Event files in the run's folder, which `tensorboard --logdir runs` shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from regard.learn.loggers.logger import Begun


class TensorBoard:
    writer: Any

    def start(self, begun: Begun) -> Callable[[], object]:
        """Steps after the last checkpoint are written again: TensorBoard then forgets what it had of them."""
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(begun.folder), purge_step=begun.step + 1 if begun.step else 0)
        if not begun.step:
            text = "\n".join(f"    {key} = {value!r}" for key, value in begun.settings.items())
            self.writer.add_text("settings", text)
        return self.writer.close

    def numbers(self, step: int, numbers: Mapping[str, float]) -> None:
        for name, value in numbers.items():
            self.writer.add_scalar(name, value, step)

    def pictures(self, step: int, pictures: Mapping[str, np.ndarray]) -> None:
        for name, pixels in pictures.items():
            self.writer.add_image(name, pixels, step, dataformats="HWC")
        self.writer.flush()
