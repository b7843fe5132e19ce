"""ELMo against its equations, written out; the published weights and outputs are in `test_elmo_folders`."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest
import torch
from small_models import needs_bfloat16_lstm
from torch import Tensor, nn

from regard.attention import trace
from regard.data.batches.batch import pad
from regard.data.text.characters import CHARACTERS, FILL, CharacterBatch, CharacterEncoding, character_batch, spell
from regard.data.text.tokenizer import Tokenizer
from regard.models.elmo.characters import CharacterCNN
from regard.models.elmo.model import ELMo, ELMoConfig, word_mask
from regard.models.elmo.projected_lstm import ProjectedLSTM, ProjectedStack, reversal, turn
from regard.models.elmo.scalar_mix import ScalarMix
from regard.tasks.shared.text_reader import TextReader

CLASSES: dict[str, Any] = {"head": "classify", "labels": ("bad", "fair", "good"), "frozen": False}
VARIANTS: dict[str, dict[str, Any]] = {
    "states alone": {"head": "none"},
    "adaptive softmax": {"cutoffs": (5,)},
    "tanh, no clips, no skips": {"activation": "tanh", "cell_clip": 0.0, "projection_clip": 0.0, "skip": False},
    "narrow": {"cell": 27, "highways": 0, "layers": 1},
    "classifier": CLASSES,
    "attention pooled": {**CLASSES, "pool": "attention"},
    "mean of the mix": {**CLASSES, "pool": "mean", "reader_layers": 0, "mix": (0, 2)},
}
LEARNS = ("adaptive softmax", "classifier", "mean of the mix")
SMALL: dict[str, Any] = {"widths": (1, 2), "filters": (4, 4), "character_dim": 3, "dim": 4, "dropout": 0.0}
SENTENCES = (("the", "cat", "sat"), ("a",), ("on", "a", "mat", "it", "slept"))


def build(**changes: Any) -> ELMo:
    torch.manual_seed(0)
    return ELMo(ELMoConfig(**{"vocabulary": 12, **SMALL, **changes})).eval()


def batch_of(sentences: Any, *, widest: int = 2) -> CharacterBatch:
    return character_batch([[spell(word) for word in sentence] for sentence in sentences], widest=widest)


def with_ids(batch: CharacterBatch) -> CharacterBatch:
    """<s> is 1, </s> is 2; the words are numbered."""
    ids = [[1, *range(4, 4 + len(sentence)), 2] for sentence in SENTENCES]
    return dataclasses.replace(batch, words=pad(ids, 0)[0])


# ---- characters


def test_words_are_spelled_as_published() -> None:
    """Bytes plus one, between 259 and 260; <s> is 257, </s> is 258, and a word is filled up with 261."""
    assert spell("a") == [259, 98, 260]
    assert spell("ü") == [259, 0xC3 + 1, 0xBC + 1, 260]
    assert spell("x" * 60) == [259, *[121] * 48, 260]
    batch = character_batch([[spell("ab")], []], widest=60)
    assert batch.characters.shape == (3, 50)
    assert batch.characters[:, :5].tolist() == [
        [259, 257, 260, 261, 261],
        [259, 98, 99, 260, 261],
        [259, 258, 260, 261, 261],
    ]
    assert (batch.characters[:, 5:] == FILL).all()
    assert batch.mask.tolist() == [[True] * 3, [True, True, False]]
    assert batch.places[batch.mask].tolist() == [0, 1, 2, 0, 2]


def test_a_batch_of_empty_sentences_has_room_for_a_word() -> None:
    batch = batch_of([()])
    assert batch.places.shape == (1, 3)
    assert word_mask(batch).tolist() == [[False]]
    model = build(**CLASSES)
    assert model.class_logits(batch).isfinite().all()
    assert not model.states_of_layers(batch).any()


def test_filling_beyond_the_widest_window_changes_nothing() -> None:
    model = build()
    short, long = batch_of(SENTENCES), batch_of(SENTENCES, widest=50)
    assert short.characters.shape[-1] == 9 < long.characters.shape[-1] == 50
    torch.testing.assert_close(model.words(short.characters), model.words(long.characters))


def test_an_encoding_keeps_case_and_unknown_words_and_no_white_space() -> None:
    encoding = CharacterEncoding(widest=2)
    tokenizer = Tokenizer.train(["the cat sat."], kind="word", lowercase=True)
    (row, cut), (_, longer) = encoding.rows([("The  Dog\n\n sat.", ""), ("a b c d e", "")], tokenizer, 4)
    assert (cut, longer) == (False, True)
    wanted, ids = [spell(word) for word in ("The", "Dog", "sat", ".")], tokenizer.encode("the dog sat.")
    numbers = [[CHARACTERS + one, *word] for one, word in zip(ids, wanted, strict=True)]
    assert row == (list(chain(*numbers)), [place for place, word in enumerate(numbers) for _ in word])
    assert list(encoding.pieces("The  Dog\n\n sat.", tokenizer)) == ["The", "Dog", "sat", "."]
    batch, special = encoding.batch([row], tokenizer.special), tokenizer.special
    assert torch.equal(batch.characters, character_batch([wanted], widest=2).characters)
    assert batch.words is not None
    assert batch.words.tolist() == [[special.start, *ids, special.end]]
    (empty, _), *_ = encoding.rows([("", "")], tokenizer, 4)
    nothing = encoding.batch([empty], special)
    assert nothing.words is not None
    assert nothing.words.shape == nothing.mask.shape == (1, 3)
    assert encoding.positions([[3, 4], [5]]) == 4
    assert encoding.real([[3, 4], [5]]) == 3


# ---- layers


@torch.no_grad()
def test_the_character_cnn_equals_its_equation() -> None:
    torch.manual_seed(0)
    cnn = CharacterCNN(CHARACTERS, 3, widths=(1, 3), filters=(2, 4), highways=1, dim=5).double()
    word = torch.tensor([259, 98, 99, 260, 261])
    vectors, found = cnn.embed.weight[word], []
    for convolution in cnn.convolutions:
        width = convolution.kernel_size[0]  # type: ignore[index, union-attr]
        windows = [vectors[begin : begin + width].T.flatten() for begin in range(len(word) - width + 1)]
        found += [
            max(0.0, max(float(filter.flatten() @ one + bias) for one in windows))
            for filter, bias in zip(convolution.weight, convolution.bias, strict=True)  # type: ignore[arg-type]
        ]
    x, highway = torch.tensor(found, dtype=torch.float64), cnn.highways[0]
    gate = torch.sigmoid(highway.gate.weight @ x + highway.gate.bias)  # type: ignore[union-attr, operator]
    x = gate * torch.relu(highway.transform.weight @ x + highway.transform.bias) + (1 - gate) * x  # type: ignore[union-attr, operator]
    torch.testing.assert_close(cnn(word[None, None])[0, 0], cnn.project.weight @ x + cnn.project.bias)
    assert not cnn.embed.weight[0].any()


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
def test_without_clips_a_layer_is_torchs_lstm() -> None:
    torch.manual_seed(0)
    layer = ProjectedLSTM(3, 8, 5).double()
    x = torch.randn(2, 4, 6, 3, dtype=torch.float64, requires_grad=True)
    found = layer(x)
    wanted = torch.stack([rnn(one)[0] for rnn, one in zip(layer.directions, x, strict=True)])
    torch.testing.assert_close(found, wanted)
    parameters = [x, *layer.parameters()]
    weights = torch.randn_like(found)
    for ours, theirs in zip(
        *(torch.autograd.grad((y * weights).sum(), parameters) for y in (found, wanted)), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


@torch.no_grad()
def test_cells_and_projections_are_clipped_at_each_step() -> None:
    torch.manual_seed(0)
    layer = ProjectedLSTM(3, 8, 5, cell_clip=0.3, projection_clip=0.1).double()
    for parameter in layer.parameters():
        parameter.mul_(4)
    x = torch.randn(2, 1, 7, 3, dtype=torch.float64)
    rnn: Any = layer.directions[1]
    hidden, cell = torch.zeros(5, dtype=torch.float64), torch.zeros(8, dtype=torch.float64)
    clipped = 0
    for step, one in enumerate(x[1, 0]):
        gates = rnn.weight_ih_l0 @ one + rnn.weight_hh_l0 @ hidden + rnn.bias_ih_l0 + rnn.bias_hh_l0
        i, f, g, o = gates.view(4, 8)
        free = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        cell = free.clamp(-0.3, 0.3)
        hidden = (rnn.weight_hr_l0 @ (o.sigmoid() * cell.tanh())).clamp(-0.1, 0.1)
        clipped += int((free != cell).sum())
        torch.testing.assert_close(layer(x)[1, 0, step], hidden)
    assert clipped > 5


@torch.no_grad()
def test_directions_and_skips() -> None:
    """The backward direction reads each row from its last real token; the second layer adds to the first."""
    torch.manual_seed(0)
    stack = ProjectedStack(4, 9, layers=2, cell_clip=3.0).double()
    x, lengths = torch.randn(3, 5, 4, dtype=torch.float64), (5, 2, 1)
    mask = torch.arange(5) < torch.tensor(lengths)[:, None]
    first, second = stack(x, mask)
    for row, length in enumerate(lengths):
        alone = x[row, :length]
        y: Tensor = torch.stack([alone, alone.flip(0)])[:, None]
        below = stack.layers[0](y)
        above = stack.layers[1](below) + below
        for found, wanted in ((first, below), (second, above)):
            both = torch.cat([wanted[0, 0], wanted[1, 0].flip(0)], -1)
            torch.testing.assert_close(found[row, :length], both)
            assert not found[row, length:].any()
    assert torch.equal(turn(turn(x, reversal(mask)), reversal(mask)), x)


@torch.no_grad()
def test_a_carried_state_continues_where_each_row_ended() -> None:
    """A text in two batches is as in one, forward; backward, the second batch begins with the first one's end."""
    model = build().double()
    whole = batch_of([("the", "cat", "sat", "on"), ("a", "mat", "it", "slept")])
    words = model.word_vectors(whole)
    mask = torch.ones(2, 6, dtype=torch.bool)
    (first, _), state = model.lstm.carry(words[:, :2], mask[:, :2], None)
    (rest, _), after = model.lstm.carry(words[:, 2:], mask[:, 2:], state)
    wanted = model.lstm(words, mask)[0][..., :4]
    torch.testing.assert_close(torch.cat([first, rest], 1)[..., :4], wanted)
    (backward, _), _ = model.lstm.carry(words[:, 2:], mask[:, 2:], None)
    (again, _), _ = model.lstm.carry(
        words[:, :2], mask[:, :2], model.lstm.carry(words[:, 2:], mask[:, 2:], None)[1]
    )
    torch.testing.assert_close(again[..., 4:], model.lstm(words, mask)[0][:, :2, 4:])
    assert not torch.allclose(backward[..., 4:], rest[..., 4:])
    assert after[0].shape == (2, 2, 2, 4)
    assert after[1].shape == (2, 2, 2, 32)


@torch.no_grad()
def test_padding_leaves_a_carried_state_as_it_is() -> None:
    model = build()
    _, together = model.read(batch_of(SENTENCES))
    for row, sentence in enumerate(SENTENCES):
        _, alone = model.read(batch_of([sentence]))
        for ours, wanted in zip(together, alone, strict=True):
            torch.testing.assert_close(ours[row], wanted[0])


@torch.no_grad()
def test_batches_of_other_sizes_keep_the_states_of_rows() -> None:
    model = build()
    _, state = model.read(batch_of(SENTENCES))
    _, fewer = model.read(batch_of([("one",)]), state)
    assert torch.equal(fewer[0][1:], state[0][1:])
    assert not torch.equal(fewer[0][0], state[0][0])
    more, _ = model.read(batch_of([*SENTENCES, ("new",)]), state)
    fresh, _ = model.read(batch_of([("new",)]))
    torch.testing.assert_close(more[3, :, :1], fresh[0])


def test_a_mix_is_a_weighted_sum_and_can_be_traced() -> None:
    mix = ScalarMix(3)
    states = torch.randn(2, 3, 4, 5)
    torch.testing.assert_close(mix(states), states.mean(1))
    with torch.no_grad():
        mix.scores.copy_(torch.tensor([0.0, 1.0, -1.0]))
        mix.gamma.fill_(2.0)
    shares = torch.tensor([0.0, 1.0, -1.0]).softmax(0)
    with trace(mix, "") as seen:
        found = mix(states)
    torch.testing.assert_close(found, 2 * sum(share * states[:, j] for j, share in enumerate(shares)))
    torch.testing.assert_close(seen["", "layers"], shares[None])


# ---- the language model


@torch.no_grad()
def test_layer_0_is_the_word_twice() -> None:
    model, batch = build(), batch_of(SENTENCES)
    states = model.states_of_layers(batch)
    assert states.shape == (3, 3, 5, 8)
    words = model.word_vectors(batch)[:, 1:-1].masked_fill(~word_mask(batch)[..., None], 0)
    assert torch.equal(states[:, 0], torch.cat([words, words], -1))
    spelled = batch.characters[batch.places] * batch.mask[..., None]  # (B, T, C)
    torch.testing.assert_close(model(spelled), states)


@torch.no_grad()
@pytest.mark.parametrize("cutoffs", [(), (4, 8)])
def test_each_direction_predicts_what_it_has_not_seen(cutoffs: tuple[int, ...]) -> None:
    model, batch = build(cutoffs=cutoffs, dim=16), with_ids(batch_of(SENTENCES))
    words = model.word_vectors(batch)
    top = model.lstm(words, batch.mask)[-1]
    sums = torch.zeros(3, 2)
    assert batch.words is not None
    for row, sentence in enumerate(SENTENCES):
        ids = batch.words[row].tolist()
        for place in range(len(sentence) + 1):
            for direction, (at, target) in enumerate(((place, place + 1), (place + 1, place))):
                state = top[row, at].chunk(2)[direction][None]
                logs = model.out.log_prob(state) if cutoffs else model.out(state).log_softmax(-1)  # type: ignore[operator, union-attr]
                sums[row, direction] += logs[0, ids[target]]
    torch.testing.assert_close(model.likelihoods(batch), sums)
    loss = model.loss(batch)
    torch.testing.assert_close(loss.likelihood, sums.sum(1))
    torch.testing.assert_close(loss.total, -sums.sum())
    assert int(loss.tokens) == 2 * (4 + 2 + 6)


@pytest.mark.parametrize("changes", [{}, {"cutoffs": (5,), "cell_clip": 0.0, "projection_clip": 0.0}, CLASSES])
def test_in_bfloat16_the_loss_is_nearly_the_same(changes: dict[str, Any]) -> None:
    model = build(**changes)
    needs_bfloat16_lstm(model)
    batch = dataclasses.replace(with_ids(batch_of(SENTENCES)), labels=torch.tensor([0, 1, 2]))
    wanted = model.loss(batch).total
    with torch.autocast("cpu", torch.bfloat16):
        found = model.loss(batch).total
    found.backward()
    torch.testing.assert_close(found.float(), wanted, rtol=0.02, atol=0)
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())


@torch.no_grad()
def test_no_direction_sees_what_it_predicts() -> None:
    model = build()
    ours, other = (batch_of([("a", word, "c", "d")]) for word in ("b", "x"))
    first, second = (torch.stack(model.lstm(model.word_vectors(one), one.mask)) for one in (ours, other))
    changed = (first != second).any(0)[0].view(6, 2, 4).any(-1)
    assert changed.tolist() == [
        [False, True],
        [False, True],
        [True, True],
        [True, False],
        [True, False],
        [True, False],
    ]


def test_words_to_predict_are_needed_and_a_head_that_predicts() -> None:
    with pytest.raises(ValueError, match="has the ids of its words, this one has their characters alone"):
        build().loss(batch_of(SENTENCES))
    with pytest.raises(ValueError, match="predicts words has the head predict, this one has none"):
        build(head="none").loss(with_ids(batch_of(SENTENCES)))
    with pytest.raises(ValueError, match="has the head classify, this one has predict; train one with"):
        build().class_logits(batch_of(SENTENCES))
    with pytest.raises(ValueError, match="an adaptive softmax takes no label_smoothing"):
        build(cutoffs=(4,)).loss(with_ids(batch_of(SENTENCES)), label_smoothing=0.1)


def test_a_cutoff_beyond_the_vocabulary_is_left_out() -> None:
    assert isinstance(build(cutoffs=(12, 50), dim=16).out, nn.Linear)
    adaptive = build(cutoffs=(4, 50), dim=16).out
    assert isinstance(adaptive, nn.AdaptiveLogSoftmaxWithLoss)
    assert adaptive.cutoffs == [4, 12]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"cell": 4}, "cell must be above dim = 4, to which it is projected; got 4"),
        ({"filters": (4,)}, "each of 2 widths needs a number of filters"),
        ({"widths": (), "filters": ()}, "each of 0 widths needs a number of filters"),
        ({"widths": (1, 60)}, "widths must be at most max_characters = 50"),
        ({"mix": (3,)}, r"mix must name layers from 0 to 2, each once; got \[3\]"),
        ({"mix": (1, 1)}, "mix must name layers from 0 to 2, each once"),
        ({"cutoffs": (9, 4)}, "cutoffs must be in increasing order"),
        ({"cutoffs": (4, 9)}, "each of 2 cutoffs divides dim by 4, and dim is 4; give fewer"),
        ({"labels": ("a", "b")}, "labels are for head = 'classify', and head is 'predict'"),
        ({"head": "classify", "labels": ("a",)}, "labels must name two classes or more"),
    ],
)
def test_settings_that_do_not_fit_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        build(**changes)


# ---- the classifier


def test_a_frozen_language_model_stays_as_it_is() -> None:
    model = build(**CLASSES | {"frozen": True}, dropout=0.5).train()
    batch = dataclasses.replace(batch_of(SENTENCES), labels=torch.tensor([0, 1, 2]))
    assert torch.equal(model.states_of_layers(batch), model.eval().states_of_layers(batch))
    model.train().loss(batch).total.backward()
    for name, parameter in model.named_parameters():
        frozen = name.startswith(("words.", "lstm."))
        assert (parameter.grad is None) == frozen, name
        assert parameter.requires_grad != frozen, name


@torch.no_grad()
def test_a_mix_of_layer_0_alone_does_not_know_the_sentence() -> None:
    model = build(**CLASSES, mix=(0,))
    states = model.mixed(batch_of([("a", "bank"), ("the", "bank")]))
    assert torch.equal(states[0, 1], states[1, 1])
    states = build(**CLASSES).mixed(batch_of([("a", "bank"), ("the", "bank")]))
    assert not torch.allclose(states[0, 1], states[1, 1])


@torch.no_grad()
def test_a_classifier_begins_with_a_language_model() -> None:
    torch.manual_seed(1)
    other = ELMo(ELMoConfig(vocabulary=12, **SMALL)).eval()
    model = build(**CLASSES)
    new = model.adopt(other)
    assert {name.split(".")[0] for name in new} == {"mix", "text", "classify"}
    batch = batch_of(SENTENCES)
    assert torch.equal(model.states_of_layers(batch), other.states_of_layers(batch))


def test_a_classifier_has_words_of_its_own_beside_the_mix() -> None:
    model, tokenizer = build(**CLASSES, word_dim=3), Tokenizer.train(["the cat sat on it"], kind="word")
    encoding = model.encoding
    rows = [row for row, _ in encoding.rows([("the cat sat", ""), ("it", "")], tokenizer, 9)]
    batch = encoding.batch(rows, tokenizer.special)
    before = model.class_logits(batch)
    assert batch.words is not None
    others = batch.words.clone()
    others[1, 2:] += 1  # behind the only word of the second sentence
    assert torch.equal(model.class_logits(replace(batch, words=others)), before)
    others[1, 1] += 1  # another word that is spelled like it
    after = model.class_logits(replace(batch, words=others))
    assert torch.equal(after[0], before[0])
    assert not torch.equal(after[1], before[1])


def test_a_classifier_shows_the_words_as_they_are_written() -> None:
    tokenizer = Tokenizer.train(["the cat sat."], kind="word", lowercase=True)
    reader = TextReader(build(**CLASSES, pool="attention", vocabulary=len(tokenizer)), tokenizer, max_length=4)
    found = reader.classify("The  Dog\n sat. It slept.")
    document = found.document()  # type: ignore[attr-defined]
    assert [list(sentence) for sentence in document.sentences] == [["The", "Dog", "sat", "."]]
    assert sum(document.weights[0]) == pytest.approx(1)
