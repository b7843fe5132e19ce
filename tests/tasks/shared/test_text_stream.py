"""Text as it is written."""

from __future__ import annotations

import pytest
import torch

import regard
from regard.tasks.shared.text_stream import AGAIN, Stream


@pytest.mark.parametrize("name", ["shakespeare", "de-en", "scenes"])
def test_pieces_add_up_to_the_text_of_all_tokens(name: str) -> None:
    """Of a long text only the end is spoken anew; what comes is the same."""
    tokenizer = regard.load(name, device="cpu").tokenizer  # type: ignore[attr-defined]
    words = tokenizer.inner.get_vocab_size() if hasattr(tokenizer, "inner") else 20
    tokens = torch.randint(words, (5 * AGAIN,), generator=torch.Generator().manual_seed(1)).tolist()
    stream = Stream(tokenizer.decode, ())
    pieces = [stream.add([token]) for token in tokens]
    whole = tokenizer.decode(tokens)
    assert "".join(pieces) + stream.rest(whole) == whole


def test_a_long_text_is_not_spoken_again_and_again() -> None:
    spoken: list[int] = []

    def speak(tokens: list[int]) -> str:
        spoken.append(len(tokens))
        return "".join(chr(97 + token) for token in tokens)

    stream = Stream(speak, ())
    text = "".join(stream.add([number % 26]) for number in range(500))
    assert text == "".join(chr(97 + number % 26) for number in range(500))
    assert max(spoken) < 100
