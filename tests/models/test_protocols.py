"""What makes a model known by what it can be asked, in every version of Python."""

from __future__ import annotations

import inspect
import typing
from typing import Any

import pytest
from small_models import build

from regard.models import MODELS, protocols

PROTOCOLS = [one for one in vars(protocols).values() if getattr(one, "_is_runtime_protocol", False)]


def members(protocol: Any) -> set[str]:
    known = getattr(protocol, "__protocol_attrs__", None)  # since Python 3.12
    return set(known if known is not None else typing._get_protocol_attrs(protocol))  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", sorted(MODELS))
def test_what_a_model_can_be_asked_is_in_its_class(name: str) -> None:
    """Since Python 3.12 `isinstance` does not see layers, which torch keeps apart from a module's attributes."""
    model, missing = build(name), object()
    kinds = [protocol for protocol in PROTOCOLS if isinstance(model, protocol)]
    assert kinds
    for protocol in kinds:
        for member in members(protocol):
            assert inspect.getattr_static(model, member, missing) is not missing, f"{protocol.__name__}.{member}"
