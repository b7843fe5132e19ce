"""What all wrapped models share: their configuration, the module inside, and its attention by our names."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn

from regard.attention.trace import sites_of
from regard.errors import RunError
from regard.wrapped.kept_calls import KeptCalls
from regard.wrapped.names import heads_of, named_sites, renamed

NO_LIMIT = 1 << 30  # tokens of a text, where positions have no end


@dataclass(frozen=True)
class WrappedConfig:
    """What is known of a model of transformers."""

    model_type: str  # its name in config.json
    architecture: str  # the class that transformers has for it
    task: str  # the verb of what it is asked
    head: str = "none"  # what it predicts: next words, masked words, classes; none: it gives states
    vocabulary: int = 0
    layers: int = 0
    dim: int = 0
    max_positions: int = 0  # most tokens of a text
    start: int = 0  # an encoder-decoder's target begins with this token
    labels: tuple[str, ...] = ()
    channels: int = 3
    size: tuple[int, int] = (0, 0)  # height and width of images
    patch_size: int = 0
    pool: str = "class"

    can_capture = False

    @property
    def predicts_words(self) -> bool:
        return self.head == "masked"

    @property
    def only_looks(self) -> bool:
        """Whether it knows no classes, and is asked only where it looks."""
        return self.head == "none"


class Wrapped(nn.Module):
    """A module of transformers that is asked through one of our protocols. It is not trained here."""

    Config = WrappedConfig
    numbering = ""
    sides = False  # has it an encoder and a decoder?

    def __init__(self, config: WrappedConfig, inner: Any):
        super().__init__()
        self.config = config
        self.task, self.name = config.task, config.model_type
        self.paper = f"{config.architecture} of transformers"  # stands for a paper
        self.inner = inner
        self._sites = named_sites(inner, sides=self.sides)
        self._hidden = frozenset(name for name in sites_of(inner, "weights") if name not in self._sites)
        modules = dict(inner.named_modules())
        for name in self._sites:
            if not isinstance(getattr(modules[name], "heads", None), int):
                modules[name].heads = heads_of(modules[name])
        self._takes = frozenset(_takes(inner))
        self.kept_calls = KeptCalls()
        self.eval()

    def named_modules(
        self, memo: set[nn.Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Module]]:
        """The modules of the model inside, its attention by our names."""
        for name, module in renamed(self.inner, self._sites, self._hidden):
            yield ".".join(filter(None, (prefix, name))), module

    @property
    def alignment(self) -> str:
        """The attention that is shown by default: the last layer's."""
        return list(self._sites.values())[-1]

    def taken(self, **inputs: Any) -> dict[str, Any]:
        """Of these inputs those that this class takes."""
        return {name: value for name, value in inputs.items() if name in self._takes and value is not None}

    def loss(self, batch: Any) -> Any:
        raise RunError(f"{self.config.architecture} is a model of transformers and is trained there, not by regard")


def _takes(inner: Any) -> set[str]:
    """The inputs of a model; where it passes more on to its decoder, those of that too."""
    own = inspect.signature(inner.forward).parameters
    passes_on = any(parameter.kind is parameter.VAR_KEYWORD for parameter in own.values())
    decoder = inner.get_decoder() if passes_on and hasattr(inner, "get_decoder") else None
    further = inspect.signature(decoder.forward).parameters if isinstance(decoder, nn.Module) else {}
    return {*own, *({"position_ids"} & set(further))}
