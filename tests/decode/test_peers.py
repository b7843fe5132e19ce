"""The same tokens as transformers' own generate, from the same weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from searches import search
from torch import Tensor, nn

from regard.decode.hypothesis import Hypothesis
from regard.foreign.form import Form, Table, read_parts
from regard.foreign.gpt2 import GPT2_FORM
from regard.foreign.marian import MARIAN
from regard.models.gpt2 import GPT2
from regard.models.transformer import Transformer

transformers = pytest.importorskip("transformers")

WORDS, END, PAD = 24, 0, 23
LIMIT, NUMBER = 12, 6
SIZES = {"layers": 2, "attention_heads": 2, "ffn_dim": 32}
SPECIAL = {"eos_token_id": END, "pad_token_id": PAD}


pytestmark = pytest.mark.usefixtures("quiet_transformers")


def decided(peer: nn.Module) -> None:
    """Weights as they are at first say nearly the same of every word."""
    dice = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in peer.named_parameters():
            if parameter.dim() == 2 and "position" not in name:
                parameter.normal_(0, 1.4 / parameter.shape[-1] ** 0.5, generator=dice)


def ours(model: type[nn.Module], form: Form, peer: Any) -> Any:
    config, _ = form.read_config(Table(peer.config.to_dict()))
    copy = model(config).eval()
    lost = copy.load_state_dict(read_parts(form.parts(config), peer.state_dict()), strict=False)
    assert not lost.unexpected_keys
    return copy


@pytest.fixture(scope="module")
def translator() -> tuple[Any, Any]:
    sizes = {f"{part}_{key}": value for part in ("encoder", "decoder") for key, value in SIZES.items()}
    config = transformers.MarianConfig(
        vocab_size=WORDS, d_model=16, max_position_embeddings=64, decoder_start_token_id=PAD, **sizes, **SPECIAL
    )
    peer = transformers.MarianMTModel(config).eval()
    decided(peer)
    peer.final_logits_bias[0, END] = 1.0
    return peer, ours(Transformer, MARIAN, peer)


@pytest.fixture(scope="module")
def writer() -> tuple[Any, Any]:
    config = transformers.GPT2Config(
        vocab_size=WORDS, n_positions=64, n_embd=16, n_layer=2, n_head=2, bos_token_id=END, **SPECIAL
    )
    peer = transformers.GPT2LMHeadModel(config).eval()
    decided(peer)
    with torch.no_grad():  # the end becomes likelier, of all words
        peer.transformer.ln_f.bias += 0.7 * peer.transformer.wte.weight[END]
    return peer, ours(GPT2, GPT2_FORM, peer)


def texts(*, left: bool) -> tuple[Tensor, Tensor]:
    """Rows of different lengths, and their mask."""
    dice = torch.Generator().manual_seed(3)
    tokens = torch.randint(1, WORDS - 1, (NUMBER, 7), generator=dice)
    mask = torch.arange(7) < torch.tensor([7, 3, 5, 1, 6, 2])[:, None]
    mask = mask.flip(1) if left else mask
    return tokens.masked_fill(~mask, PAD), mask


def generate(peer: Any, tokens: Tensor, mask: Tensor, **options: Any) -> list[list[int]]:
    """What transformers writes, each with its end token if it has one."""
    asked = {"do_sample": False, "max_new_tokens": LIMIT, "bad_words_ids": [[PAD]], "forced_eos_token_id": None}
    rows = peer.generate(tokens, attention_mask=mask.long(), **asked | options)
    begin = 1 if peer.config.is_encoder_decoder else tokens.shape[1]
    answers = []
    for row in rows[:, begin:].tolist():
        row = row[: row.index(END) + 1] if END in row else row
        answers.append([token for token in row if token != PAD])
    return answers


def whole(answer: Hypothesis) -> list[int]:
    return [*answer.tokens, END] if answer.finished else answer.tokens


def decode(copy: Any, tokens: Tensor, mask: Tensor, **options: Any) -> list[list[int]]:
    """What is written here."""
    asked: dict[str, Any] = {"end": END, "max_length": LIMIT, "never": (PAD,), **options}
    if isinstance(copy, GPT2):
        asked |= {"start": tokens[:, -1], "prompt": tokens[:, :-1], "prompt_mask": mask[:, :-1]}
        tokens, mask = tokens[:, :-1], mask[:, :-1]
    else:
        asked["start"] = PAD
    return [whole(answer) for answers in search(copy, tokens, mask, **asked) for answer in answers]


CONTROLS = [
    ({}, {}),
    ({"repetition_penalty": 1.4}, {"repetition_penalty": 1.4}),
    ({"repetition_penalty": 0.8}, {"repetition_penalty": 0.8}),
    ({"no_repeat_ngram": 1}, {"no_repeat_ngram_size": 1}),
    ({"no_repeat_ngram": 2}, {"no_repeat_ngram_size": 2}),
    (
        {"no_repeat_ngram": 3, "repetition_penalty": 1.2, "min_length": 5},
        {"no_repeat_ngram_size": 3, "repetition_penalty": 1.2, "min_new_tokens": 5},
    ),
]


@pytest.mark.parametrize("kind", ["translator", "writer"])
@pytest.mark.parametrize(("here", "there"), CONTROLS)
def test_greedy(kind: str, here: dict[str, Any], there: dict[str, Any], request: pytest.FixtureRequest) -> None:
    peer, copy = request.getfixturevalue(kind)
    tokens, mask = texts(left=kind == "writer")
    found = decode(copy, tokens, mask, **here)
    assert found == generate(peer, tokens, mask, **there)
    assert not here or found != decode(copy, tokens, mask)  # the option does something


@pytest.mark.parametrize("kind", ["translator", "writer"])
@pytest.mark.parametrize(("alpha", "width"), [(0.0, 2), (0.6, 5), (1.0, 8), (2.0, 2), (-0.5, 5)])
def test_beam(kind: str, alpha: float, width: int, request: pytest.FixtureRequest) -> None:
    """test_beam.py has more widths for each penalty."""
    peer, copy = request.getfixturevalue(kind)
    tokens, mask = texts(left=kind == "writer")
    theirs = generate(
        peer, tokens, mask, num_beams=width, length_penalty=alpha, num_return_sequences=width, early_stopping=False
    )
    assert decode(copy, tokens, mask, beam=width, length_penalty=alpha, n_best=width) == theirs
    assert len({len(one) for one in theirs}) > 1


@pytest.mark.parametrize("kind", ["translator", "writer"])
@pytest.mark.parametrize(
    ("here", "there", "width"), [(*controls, 3 + 3 * (place % 2)) for place, controls in enumerate(CONTROLS)]
)
def test_beam_with_controls(
    kind: str, here: dict[str, Any], there: dict[str, Any], width: int, request: pytest.FixtureRequest
) -> None:
    peer, copy = request.getfixturevalue(kind)
    tokens, mask = texts(left=kind == "writer")
    theirs = generate(peer, tokens, mask, num_beams=width, num_return_sequences=2, length_penalty=1.0, **there)
    assert decode(copy, tokens, mask, beam=width, n_best=2, **here) == theirs
