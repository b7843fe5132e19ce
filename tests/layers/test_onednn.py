"""Where oneDNN is disabled."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.layers import onednn

mkldnn = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch is built without oneDNN")


@mkldnn
@pytest.mark.parametrize(
    ("model", "enabled"),
    [(nn.Linear(2, 2), False), (nn.GRU(2, 2), True), (nn.Sequential(nn.Conv2d(1, 1, 3), nn.Linear(2, 2)), True)],
)
def test_on_arm_only_models_without_recurrence_and_convolutions_run_without_it(
    model: nn.Module, enabled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onednn, "ARM", True)
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", True)
    with onednn.without_onednn(model):
        assert torch.backends.mkldnn.enabled == enabled
    assert torch.backends.mkldnn.enabled
