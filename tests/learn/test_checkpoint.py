import json
import os
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from torch import nn

from regard.base.tensors import named_tensors, write_tensors
from regard.learn import checkpoint
from regard.learn.checkpoint import Standing
from regard.learn.optimise import build_optimiser
from regard.learn.settings import Training


class Tied(nn.Module):
    """A language model in small: input and output share one matrix, and there are buffers of both kinds."""

    def __init__(self, dim=6):
        super().__init__()
        self.embed = nn.Embedding(9, dim)
        self.norm = nn.BatchNorm1d(dim)
        self.out = nn.Linear(dim, 9)
        self.out.weight = self.embed.weight
        self.register_buffer("scratch", torch.zeros(3), persistent=False)

    def forward(self, tokens):
        return self.out(self.norm(self.embed(tokens)))


def trained(steps=3, seed=0, optimiser="adamw"):
    torch.manual_seed(seed)
    model = Tied()
    optimiser = build_optimiser(model, Training(steps=9, optimiser=optimiser, momentum=0.9))
    for _ in range(steps):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(torch.arange(9)), torch.arange(9)).backward()
        optimiser.step()
    return model, optimiser


def write(folder, steps, average=0, validated=True):
    """Checkpoints at these steps; the weights differ from one to the next."""
    written = []
    for step in steps:
        model, optimiser = trained(seed=step)
        checkpoint.save(folder, Standing(step=step, validated=validated), model, optimiser, average=average)
        written.append(model)
    return written


def refuse_all(text):
    raise AssertionError(text)


@pytest.mark.parametrize("kind", ["adamw", "sgd"])
def test_everything_comes_back_bit_by_bit(tmp_path, kind):
    model, optimiser = trained(optimiser=kind)
    standing = Standing(
        step=3, epoch=1, index=2, best={"loss": 0.1 + 0.2}, best_step=2, stale=1, plateau_scale=1 / 3,
        scaler={"scale": 65536.0}, validated=True,
    )  # fmt: skip
    checkpoint.save(tmp_path, standing, model, optimiser)
    other, other_optimiser = trained(steps=0, seed=5, optimiser=kind)
    assert checkpoint.load_newest(tmp_path, other, other_optimiser, say=refuse_all) == standing
    assert other.out.weight is other.embed.weight
    ours, theirs = model.state_dict(), other.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    for mine, yours in zip(model.parameters(), other.parameters(), strict=True):
        a, b = optimiser.state[mine], other_optimiser.state[yours]
        assert a.keys() == b.keys()
        assert a
        assert all(torch.equal(a[key], b[key]) and a[key].dtype == b[key].dtype for key in a)


def test_moments_have_the_memory_layout_of_their_weights(tmp_path):
    """Convolutions keep their channels last; on a GPU fused AdamW refuses a step where the two differ."""

    def stepped(steps):
        model = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
        optimiser = build_optimiser(model, Training(steps=9))
        for _ in range(steps):
            model(torch.ones(2, 3, 5, 5)).sum().backward()
            optimiser.step()
        return model, optimiser

    checkpoint.save(tmp_path, Standing(step=1), *stepped(1))
    model, optimiser = stepped(0)
    checkpoint.load_newest(tmp_path, model, optimiser, say=refuse_all)
    assert model.weight.stride() == (27, 1, 9, 3)
    for key in ("exp_avg", "exp_avg_sq"):
        assert optimiser.state[model.weight][key].stride() == model.weight.stride()


def test_tied_weights_are_stored_once_and_scratch_not_at_all():
    names = set(named_tensors(Tied()))
    assert "embed.weight" in names
    assert "norm.running_mean" in names
    assert not names & {"out.weight", "scratch"}


def test_only_safetensors_and_json_and_nothing_temporary(tmp_path):
    write(tmp_path, [1])
    files = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert files == {"model.safetensors", "optimiser.safetensors", "state.json"}


def test_the_newest_two_stay_and_those_to_be_averaged(tmp_path):
    write(tmp_path / "two", [1, 2, 3, 4])
    assert [path.name for path in checkpoint.checkpoints(tmp_path / "two")] == ["step-00000004", "step-00000003"]
    write(tmp_path / "three", [1, 2, 3, 4], average=3)
    assert len(checkpoint.checkpoints(tmp_path / "three")) == 3


def test_one_left_by_an_interruption_takes_no_place_in_the_average(tmp_path):
    models = write(tmp_path, [10], average=2)
    write(tmp_path, [15, 17], average=2, validated=False)
    models += write(tmp_path, [20], average=2)
    assert {int(path.name[5:]) for path in checkpoint.checkpoints(tmp_path)} == {10, 17, 20}
    target = Tied()
    assert checkpoint.average(tmp_path, 2, target, say=refuse_all) == 2
    mean = (models[0].embed.weight.double() + models[1].embed.weight.double()) / 2
    assert torch.equal(target.embed.weight, mean.float())


def test_average_is_the_mean_of_the_newest(tmp_path):
    models = write(tmp_path, [1, 2, 3, 4], average=3)[1:]
    target = Tied()
    assert checkpoint.average(tmp_path, 3, target, say=refuse_all) == 3
    for name, tensor in target.state_dict().items():
        parts = torch.stack([model.state_dict()[name].double() for model in models])
        assert torch.allclose(tensor.double(), parts.mean(0), atol=1e-7), name
    assert target.norm.num_batches_tracked.item() == 3  # a counter, not a mean
    assert checkpoint.average(tmp_path, 9, Tied(), say=refuse_all) == 3


def flip_bit(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def alter_number(path):
    path.write_text(path.read_text().replace('"stale": 0', '"stale": 1'))


DAMAGE = {
    "truncated": ("model.safetensors", lambda path: path.write_bytes(path.read_bytes()[:-7])),
    "emptied": ("optimiser.safetensors", lambda path: path.write_bytes(b"")),
    "flipped": ("model.safetensors", flip_bit),
    "flipped moments": ("optimiser.safetensors", flip_bit),
    "deleted": ("model.safetensors", Path.unlink),
    "state deleted": ("state.json", Path.unlink),
    "state truncated": ("state.json", lambda path: path.write_text(path.read_text()[:40])),
    "state altered": ("state.json", alter_number),
    "state of another kind": ("state.json", lambda path: path.write_text("[1, 2]")),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_one_is_refused_and_the_one_before_is_used(tmp_path, damage):
    earlier, _ = write(tmp_path, [1, 2])
    name, spoil = DAMAGE[damage]
    spoil(tmp_path / "training" / "step-00000002" / name)
    said = []
    model, optimiser = trained(steps=0)
    standing = checkpoint.load_newest(tmp_path, model, optimiser, say=said.append)
    assert standing.step == 1
    assert torch.equal(model.embed.weight, earlier.embed.weight)
    assert len(said) == 1
    assert "step-00000002 is skipped" in said[0]
    assert name in said[0]


def test_none_usable_is_an_error_and_none_at_all_is_not(tmp_path):
    model, optimiser = trained(steps=0)
    assert checkpoint.load_newest(tmp_path, model, optimiser, say=refuse_all) is None
    write(tmp_path, [1, 2])
    for path in checkpoint.checkpoints(tmp_path):
        flip_bit(path / "model.safetensors")
    with pytest.raises(ValueError, match=r"none of the 2 checkpoints in .*training can be used"):
        checkpoint.load_newest(tmp_path, model, optimiser, say=lambda text: None)


def test_refused_ones_make_way_when_the_run_goes_on(tmp_path):
    write(tmp_path, [1, 2, 3])
    flip_bit(tmp_path / "training" / "step-00000003" / "model.safetensors")
    write(tmp_path, [3])  # the same step is reached again
    model, optimiser = trained(steps=0)
    assert checkpoint.load_newest(tmp_path, model, optimiser, say=refuse_all).step == 3
    flip_bit(tmp_path / "training" / "step-00000003" / "model.safetensors")
    write(tmp_path, [2])
    assert [int(path.name[5:]) for path in checkpoint.checkpoints(tmp_path)] == [2]


def test_another_model_or_optimiser_is_refused(tmp_path):
    write(tmp_path, [1])
    wide = Tied(dim=8)
    with pytest.raises(ValueError, match=r"embed.weight is \(9, 6\) float32, the model has \(9, 8\) float32"):
        checkpoint.load_newest(tmp_path, wide, build_optimiser(wide, Training(steps=1)), say=refuse_all)
    other = nn.Linear(2, 2)
    with pytest.raises(ValueError, match=r"missing bias, weight, unknown embed.weight.* and \d more"):
        checkpoint.load_newest(tmp_path, other, build_optimiser(other, Training(steps=1)), say=refuse_all)
    model, sgd = trained(steps=0, optimiser="sgd")
    with pytest.raises(ValueError, match="written with AdamW, the settings now ask for SGD"):
        checkpoint.load_newest(tmp_path, model, sgd, say=refuse_all)


def test_leftovers_are_cleaned_and_the_rest_is_not(tmp_path):
    write(tmp_path, [1])
    (tmp_path / "training" / ".tmp-step-00000002").mkdir()
    (tmp_path / "training" / ".tmp-step-00000002" / "model.safetensors").write_bytes(b"half")
    (tmp_path / ".tmp-model.safetensors").write_bytes(b"half")
    (checkpoint.path_of(tmp_path, 1) / ".tmp-state").write_bytes(b"killed while it was marked as ended")
    (tmp_path / "config.json").write_text("{}")
    checkpoint.clean(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["config.json", "training"]
    assert os.listdir(tmp_path / "training") == ["step-00000001"]
    assert not list(checkpoint.path_of(tmp_path, 1).glob(".tmp-*"))


def test_update_changes_the_standing_alone(tmp_path):
    (written,) = write(tmp_path, [1])
    checkpoint.update(tmp_path, Standing(step=1, ended=True))
    model, optimiser = trained(steps=0)
    assert checkpoint.load_newest(tmp_path, model, optimiser, say=refuse_all) == Standing(step=1, ended=True)
    assert torch.equal(model.embed.weight, written.embed.weight)


def test_write_tensors_replaces_whole_files_and_keeps_metadata(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"old")
    write_tensors(path, {"x": torch.arange(6.0).view(2, 3).T}, {"format": "pt"})
    with safe_open(path, "pt") as file:
        assert file.metadata() == {"format": "pt"}
        assert torch.equal(file.get_tensor("x"), torch.arange(6.0).view(2, 3).T)
    assert os.listdir(tmp_path) == ["model.safetensors"]


def test_the_same_tensors_are_the_same_bytes(tmp_path):
    """The library writes several entries of the metadata in any order."""
    metadata, seen = {"format": "pt", "checksum": "crc32:00000000", "ä": '"}{'}, set()
    for _ in range(20):
        write_tensors(tmp_path / "x", {"x": torch.ones(3)}, metadata)
        seen.add((tmp_path / "x").read_bytes())
    assert len(seen) == 1
    with safe_open(tmp_path / "x", "pt") as file:
        assert file.metadata() == metadata
        assert torch.equal(file.get_tensor("x"), torch.ones(3))


def test_state_is_json_that_people_can_read(tmp_path):
    write(tmp_path, [7])
    record = json.loads((tmp_path / "training" / "step-00000007" / "state.json").read_text())
    assert record["standing"]["step"] == 7
    assert set(record["files"]) == {"model.safetensors", "optimiser.safetensors"}
