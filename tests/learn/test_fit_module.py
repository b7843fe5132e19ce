"""`regard.learn.fit`: a module and batches that know nothing of regard."""

import inspect
import io
import json
import os
import random
import signal
import textwrap
from collections import namedtuple

import pytest
import torch
from safetensors.torch import load_file, load_model
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import regard
from regard.learn import Report, fit
from regard.learn.checkpoint import checkpoints
from regard.learn.progress import Progress


def rows(count, seed):
    x = torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))
    return TensorDataset(x, x.sum(1, keepdim=True))


TRAIN, VALID = DataLoader(rows(40, 0), batch_size=8, shuffle=True), DataLoader(rows(20, 1), batch_size=10)


def module(dropout=0.1):
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 1))


def squared(model, batch):
    x, y = batch
    return nn.functional.mse_loss(model(x), y)


def train(model, out, data=TRAIN, **changes):
    shown = io.StringIO()
    options = {"loss": squared, "validate": VALID, "steps": 12, "eval_every": 4, "learning_rate": 0.02}
    options |= {"device": "cpu", "progress": Progress(shown, unit="batches"), **changes}
    return fit(model, data, out=out, **options), shown.getvalue()


def log(folder, key):
    lines = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
    return {row["step"]: row[key] for row in lines if key in row}


def weights(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_it_learns_logs_and_keeps_the_best(tmp_path):
    model = module()
    report, shown = train(model, tmp_path, steps=60, eval_every=20)
    losses, valid = log(tmp_path, "loss"), log(tmp_path, "valid_loss")
    assert isinstance(report, Report)
    assert list(losses) == list(range(1, 61))
    assert list(valid) == [20, 40, 60]
    assert valid[60] < 0.3 * losses[1]
    assert report.best == {"valid_loss": min(valid.values())}
    assert "step 40/60" in shown
    assert "batches/s" in shown
    with torch.no_grad():
        mean = sum(squared(model, batch).item() for batch in VALID) / 2
    assert mean == pytest.approx(report.best["valid_loss"])
    assert not model.training
    assert same(load_file(tmp_path / "model.safetensors"), weights(model))


def test_it_ends_with_the_best_weights_and_not_the_last(tmp_path):
    model, seen, values = module(), [], iter([3.0, 1.0, 2.0])

    def validate(model):
        assert not model.training
        assert not torch.is_grad_enabled()
        seen.append(weights(model))
        return next(values)

    report, _ = train(model, tmp_path, validate=validate)
    assert (report.best, report.best_step) == ({"valid_loss": 1.0}, 8)
    assert same(weights(model), seen[1])
    assert not same(weights(model), seen[2])


def test_several_metrics_one_of_which_decides(tmp_path):
    values = iter([(0.5, 1.0), (0.75, 2.0), (0.5, 0.5)])

    def validate(model):
        return dict(zip(("accuracy", "valid_loss"), next(values), strict=True))

    report, _ = train(module(), tmp_path, validate=validate, better=("accuracy", "max"))
    assert (report.best_step, report.best) == (8, {"accuracy": 0.75, "valid_loss": 2.0})


class Noisy(Dataset):
    """Augmented with torch's own random numbers."""

    def __len__(self):
        return 40

    def __getitem__(self, row):
        x, y = rows(40, 0)[row]
        return x + 0.1 * torch.randn(4), y


@pytest.mark.parametrize("data", [TRAIN, DataLoader(Noisy(), batch_size=8, shuffle=True), list(VALID)])
@pytest.mark.usefixtures("signals_heard")
def test_stopped_and_resumed_it_takes_the_same_steps(tmp_path, data):
    whole, parted, steps = module(), module(), []
    train(whole, tmp_path / "whole", data)

    def stopped(model, batch):
        steps.append(1)
        if len(steps) == 7:  # within an epoch and between two validations
            os.kill(os.getpid(), signal.SIGINT)
        return squared(model, batch)

    with pytest.raises(regard.Interrupted, match="resume=True"):
        train(parted, tmp_path / "parted", data, loss=stopped)
    torch.manual_seed(99)
    parted = module()
    with pytest.raises(regard.RunError, match="already holds a training"):
        train(parted, tmp_path / "parted", data)
    _, shown = train(parted, tmp_path / "parted", data, resume=True)
    assert "Resuming after step" in shown
    for key in ("loss", "valid_loss"):
        assert log(tmp_path / "parted", key) == log(tmp_path / "whole", key)
    assert same(weights(parted), weights(whole))


def test_every_epoch_has_another_order(tmp_path):
    seen = []

    def watched(model, batch):
        seen.append(batch[0][0, 0].item())
        return squared(model, batch)

    train(module(), tmp_path, loss=watched, steps=10, eval_every=10, validate=lambda model: 1.0)
    assert seen[:5] != seen[5:]


def test_a_function_of_the_epoch_gives_the_batches(tmp_path):
    epochs = []

    def batches(epoch):
        epochs.append(epoch)
        order = list(VALID)
        random.Random(epoch).shuffle(order)
        return (batch for batch in order)

    train(module(), tmp_path, batches, steps=5)
    assert epochs == [0, 1, 2]


Named = namedtuple("Named", "x y")


@pytest.mark.parametrize("form", [dict, list, tuple, Named])
def test_tensors_are_moved_whatever_holds_them(tmp_path, form):
    x, y = torch.randn(3, 4), torch.randn(3, 1)
    batch = {dict: {"x": x, "y": y, "name": "first"}, list: [x, [y]], tuple: (x, (y,)), Named: Named(x, y)}[form]

    def loss(model, found):
        assert type(found) is form
        return sum(
            part.sum() for part in (found.values() if form is dict else found) if hasattr(part, "sum")
        ) * 0 + (model(found["x"] if form is dict else found[0]).square().mean())

    report, _ = train(module(), tmp_path, [batch], loss=loss, validate=[batch], steps=2)
    assert report.step == 2


def test_tied_weights_are_read_back(tmp_path):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.out = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)
            self.out.weight = self.embed.weight
            self.norm = nn.BatchNorm1d(4)

        def forward(self, ids):
            return self.out(self.norm(self.embed(ids)))

    def loss(model, ids):
        return nn.functional.cross_entropy(model(ids), ids)

    batches, model, fresh = [torch.arange(5)], Tied(), Tied()
    train(model, tmp_path, batches, loss=loss, validate=batches, steps=4)
    load_model(fresh, tmp_path / "model.safetensors")
    assert same(weights(fresh), weights(model))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"data": iter([1])}, "data is a list_iterator, which is empty after one pass"),
        ({"data": 3}, "data must be batches, as a list or a DataLoader, got int"),
        ({"validate": (batch for batch in VALID)}, "validate is a generator"),
        ({"validate": []}, "validate has no batch"),
        ({"loss": lambda model, batch: model(batch[0])}, r"must return one number as a tensor, .* shape \(8, 1\)"),
        ({"loss": lambda model, batch: 1.0}, "must return one number as a tensor, .* got float"),
        ({"learning_rate": -1.0}, "learning_rate"),
        ({"device": "cuda:77"}, "device 'cuda:77' is not here"),
        ({"better": ("accuracy", "max")}, "no metric is called 'accuracy'; validation gives valid_loss"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path, changes, said):
    with pytest.raises(ValueError, match=said):
        train(module(), tmp_path / "out", **changes)


def test_a_folder_with_weights_of_another_is_refused(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"precious")
    for resume in (False, True):
        with pytest.raises(regard.RunError, match="whose weights would be lost"):
            train(module(), tmp_path, resume=resume)
    assert (tmp_path / "model.safetensors").read_bytes() == b"precious"


def test_the_example_of_the_docstring_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    text = inspect.getdoc(fit).split("\n\n", 1)[1].split("\ndata: ")[0]
    exec(textwrap.dedent(text), {})
    assert "valid_loss" in capsys.readouterr().out
    assert (tmp_path / "runs/sum/model.safetensors").exists()


class Trouble(Exception):
    """Of a user's own code."""


def test_fit_raises_the_users_own_error_and_goes_on(tmp_path):
    whole = module()
    train(whole, tmp_path / "whole")
    calls = []

    def loss(model, batch):
        calls.append(batch)
        if len(calls) == 9:  # two are of the validation
            raise Trouble("in the loss")
        return squared(model, batch)

    with pytest.raises(Trouble, match="in the loss") as caught:
        train(module(), tmp_path / "run", loss=loss)
    assert "Stopped by an error after step 6 of 12; saved in" in caught.value.__notes__[0]
    again = module()
    train(again, tmp_path / "run", resume=True)
    assert log(tmp_path / "run", "loss") == log(tmp_path / "whole", "loss")
    assert same(weights(again), weights(whole))


def test_fit_saves_when_the_users_data_fails(tmp_path):
    def epoch(number):
        for place, batch in enumerate(TRAIN):
            if number == 1 and place == 1:
                raise OSError("the disk with the images is gone")
            yield batch

    with pytest.raises(OSError, match="the disk with the images is gone"):
        train(module(), tmp_path, epoch)
    assert checkpoints(tmp_path)[0].name == "step-00000006"
