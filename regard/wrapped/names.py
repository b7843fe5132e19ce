"""Where the attention of a `transformers` model is, by the names that our own models use.

`model.layers.3.self_attn` is `blocks.3.attend`; in an encoder-decoder `encoder.3.attend`, `decoder.3.attend` and
`decoder.3.cross`. So pictures, the page and comparisons treat both alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn

from regard.attention.trace import sites_of
from regard.errors import NoAttention

CROSS = ("cross", "encdec", "encoder_attn")  # in the names of attention from target to source
SIDES = ("encoder", "decoder")
HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "num_head", "heads")


def named_sites(inner: nn.Module, *, sides: bool) -> dict[str, str]:
    """Our names of the attention in a model, by its own. `sides`: it has an encoder and a decoder; without
    an encoder there is nothing to look across at."""
    own = [name for name in sites_of(inner, "weights") if sides or not _looks_across(name)]
    if not own:
        raise NoAttention(
            f"{type(inner).__name__} has no attention that can be seen: regard sees layers of transformers that "
            "ask its AttentionInterface, or call softmax over all places"
        )
    ours = {name: _our_name(name, sides) for name in own}
    return ours if len(set(ours.values())) == len(own) else {name: name for name in own}


def _our_name(name: str, sides: bool) -> str:
    parts = name.split(".")
    layer = next((part for part in parts if part.isdecimal()), "0")
    side = next((part for part in parts if part in SIDES), "") if sides else ""
    return f"{side or 'blocks'}.{layer}.{'cross' if side and _looks_across(name) else 'attend'}"


def _looks_across(name: str) -> bool:
    return any(word in name.lower() for word in CROSS)


def renamed(inner: nn.Module, ours: dict[str, str], hidden: frozenset[str]) -> Iterator[tuple[str, nn.Module]]:
    """As `inner.named_modules()`, with the sites under our names, and the layers around them; without attention
    that is `hidden`, as nobody asks it."""
    modules = dict(inner.named_modules())
    told = {"": inner}
    for name, our in ours.items():
        if name != our:
            _, layer, _ = our.split(".")
            stack, _, _ = our.partition(".")
            path = name.split(".")
            at = path.index(layer) if layer in path else len(path) - 1
            told.setdefault(stack, modules[".".join(path[:at])])
            told.setdefault(f"{stack}.{layer}", modules[".".join(path[: at + 1])])
        told[our] = modules[name]
    left_out = {*ours, *told, *hidden}
    yield from told.items()
    yield from ((name, module) for name, module in modules.items() if name not in left_out)


def heads_of(module: nn.Module) -> int:
    """How many heads an attention layer has; 1 where it does not say."""
    places: tuple[Any, ...] = (module, getattr(module, "config", None))
    counts = (getattr(place, name, None) for place in places for name in HEADS)
    return next((count for count in counts if type(count) is int and count > 0), 1)
