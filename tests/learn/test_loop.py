import json
import signal
from functools import partial

import pytest
import torch
from small_training import Letters, Run, Text

from regard.errors import Diverged, Interrupted
from regard.layers.loss import Loss
from regard.learn import checkpoint
from regard.learn.team import seed_draws


def test_it_learns_logs_and_reports(tmp_path):
    run = Run(tmp_path, steps=60, eval_every=20, learning_rate=0.03)
    report = run.fit()
    losses = run.rows("loss")
    assert list(losses) == list(range(1, 61))
    assert losses[60] < 0.6 * losses[1]
    assert run.rows("learning_rate")[5] == 0.03
    assert run.rows("tokens")[1] == 4 * 11
    assert all(run.rows(key)[9] > 0 for key in ("gradient_norm", "seconds"))
    assert [run.rows("epoch")[step] for step in (1, 6, 7, 60)] == [0, 0, 1, 9]  # 6 batches an epoch
    valid = run.rows("valid_loss")
    assert list(valid) == [20, 40, 60]
    assert (report.step, report.early, report.averaged) == (60, False, 0)
    assert report.best == {"valid_loss": min(valid.values())} == {"valid_loss": run.kept[-1][0]}
    assert run.shown.getvalue().count("\n") == 3  # a line a validation
    assert "step 40/60" in run.shown.getvalue()


def test_killed_after_the_last_checkpoint_it_leaves_no_older_ones(tmp_path, monkeypatch):
    class Killed(BaseException):
        pass

    def kill(folder, step, average):
        if step == 12:
            raise Killed
        prune(folder, step, average)

    prune = checkpoint._prune
    monkeypatch.setattr(checkpoint, "_prune", kill)
    with pytest.raises(Killed):
        Run(tmp_path).fit()
    assert len(checkpoint.checkpoints(tmp_path)) == 3
    monkeypatch.undo()
    assert Run(tmp_path).fit(resume=True).step == 12
    assert [path.name for path in checkpoint.checkpoints(tmp_path)] == ["step-00000012", "step-00000008"]


def test_of_equally_right_ones_the_lower_loss_is_kept(tmp_path):
    run = Run(tmp_path, steps=20)
    given = iter([(50, 2.0), (50, 1.5), (50, 1.8), (40, 1.0), (50, 1.5)])
    run.validate = lambda model: dict(zip(("accuracy", "valid_loss"), next(given), strict=True))
    report = run.fit(better=("accuracy", "max"))
    assert (report.best, report.best_step) == ({"accuracy": 50, "valid_loss": 1.5}, 8)
    assert [loss for loss, _ in run.kept] == [2.0, 1.5]


def test_two_half_batches_are_one_whole(tmp_path):
    """Also when the halves differ in tokens: the loss is a mean over tokens, not over batches."""

    class Uneven(Text):
        def order(self, epoch):
            return [torch.arange(6), torch.arange(6, 8)] if self.rows == 4 else [torch.arange(8)]

    whole = Run(tmp_path / "a", data=Uneven(rows=8), model=Letters(dropout=0.0), steps=3, max_grad_norm=0.5)
    halves = Run(
        tmp_path / "b", data=Uneven(), model=Letters(dropout=0.0), steps=3, max_grad_norm=0.5, accumulate_steps=2
    )
    for run in (whole, halves):
        run.fit()
    assert halves.rows("tokens") == whole.rows("tokens")
    for key in ("loss", "gradient_norm"):
        assert list(halves.rows(key).values()) == pytest.approx(list(whole.rows(key).values()), rel=1e-5)
    for a, b in zip(whole.model.parameters(), halves.model.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-5)


def test_sgd_steps_as_the_clipped_gradient_says(tmp_path):
    run = Run(tmp_path, model=Letters(dropout=0.0), optimiser="sgd", learning_rate=0.5, max_grad_norm=0.01, steps=1)
    loss = run.model.loss(run.data.batch(run.data.order(0)[0]))
    gradients = torch.autograd.grad(loss.total / loss.tokens, list(run.model.parameters()))
    norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
    expected = [p - 0.5 * g * 0.01 / norm for p, g in zip(run.model.parameters(), gradients, strict=True)]
    run.fit()
    assert run.rows("gradient_norm")[1] == pytest.approx(norm.item(), rel=1e-5)
    for parameter, wanted in zip(run.model.parameters(), expected, strict=True):
        assert torch.allclose(parameter, wanted, atol=1e-6)


def test_early_stopping_and_the_best_are_kept(tmp_path):
    run = Run(tmp_path, steps=100, patience=2, values=[3.0, 2.0, 2.0, 2.5, 1.0])
    report = run.fit()
    assert (report.step, report.best_step, report.early) == (16, 8, True)
    assert [value for value, _ in run.kept] == [3.0, 2.0]
    other = Run(tmp_path / "max", steps=100, patience=1, values=[0.5, 0.7, float("nan"), 0.9])
    assert other.fit(better=("valid_loss", "max")).best == {"valid_loss": 0.7}


def test_the_last_weights_are_kept_where_no_metric_is_to_choose(tmp_path):
    """But for a validation that is not finite; patience has nothing to count."""
    run = Run(tmp_path, steps=20, patience=1, best_by="last", values=[3.0, 2.0, 2.5, 2.8, float("nan")])
    report = run.fit()
    assert (report.step, report.best_step, report.best, report.early) == (20, 16, {"valid_loss": 2.8}, False)
    assert [value for value, _ in run.kept] == [3.0, 2.0, 2.5, 2.8]
    assert "best so far" not in run.shown.getvalue()


def test_patience_counts_what_chooses_the_best_and_ties_are_broken_in_turn(tmp_path):
    """The loss goes on falling; the score does not. A score that is always equal leaves the choice to the next."""
    run = Run(tmp_path, steps=100, patience=2)
    scores = iter([(0, 40), (0, 50), (0, 50), (0, 45), (0, 40), (0, 60)])
    run.validate = lambda model: dict(zip(("bleu", "exact_match"), next(scores), strict=True)) | {"valid_loss": 1}
    report = run.fit(better=("bleu", "max"), ties=[("exact_match", "max"), ("valid_loss", "min")])
    assert (report.step, report.best_step, report.early) == (16, 8, True)
    assert "Stopped early, after step 16 of 100: the last 2 validations brought nothing better than step 8" in (
        run.shown.getvalue()
    )


@pytest.mark.parametrize("patience", [0, 5])
def test_a_run_that_is_perfect_twice_stops_early_where_patience_is_on(tmp_path, patience):
    """Once may be luck; the loss, which goes on falling, is no reason to go on."""
    given = [(90, 5), (100, 4), (90, 3), (100, 2), (100, 1), (100, 0.5)]

    def trained(resume=False, **settings):
        run = Run(tmp_path, steps=24, **settings)
        scores = iter(given)
        run.validate = lambda model: dict(zip(("accuracy", "valid_loss"), next(scores), strict=True))
        return run, run.fit(resume, better=("accuracy", "max"), perfect={"accuracy": 100})

    run, report = trained(patience=patience)
    assert (report.step, report.early) == ((20, True) if patience else (24, False))
    assert ("after step 20 of 24: the last 2 validations were perfect" in run.shown.getvalue()) == bool(patience)
    again, _ = trained(resume=True, patience=patience)
    assert ("Set patience to 0 to go on" in again.shown.getvalue()) == bool(patience)
    if patience:
        given = given[5:]
        assert trained(resume=True, patience=0)[1].step == 24


def test_plateau_lowers_the_rate(tmp_path):
    run = Run(
        tmp_path, steps=24, schedule="plateau", plateau_factor=0.5, plateau_patience=2, learning_rate=0.4,
        values=[2.0, 2.0, 2.0, 1.0, 1.0, 1.0],
    )  # fmt: skip
    run.fit()
    assert [run.rows("learning_rate")[step] for step in (1, 12, 13, 24)] == [0.4, 0.4, 0.2, 0.2]


def test_average_of_the_last_checkpoints_is_validated_and_kept_if_better(tmp_path):
    run = Run(tmp_path, average_checkpoints=2, values=[3.0, 2.0, 2.5, 1.5])
    report = run.fit()
    saved = {int(path.name[5:]): path for path in checkpoint.checkpoints(tmp_path)}
    assert sorted(saved) == [8, 12]
    assert (report.averaged, report.best) == (2, {"valid_loss": 1.5})
    assert run.rows("averaged") == {12: 2}
    twelve = run.model.embed.weight.double()  # the model is left with its last weights
    eight = run.kept[1][1].double()
    assert torch.allclose(run.kept[-1][1].double(), (eight + twelve) / 2, atol=1e-7)
    worse = Run(tmp_path / "worse", average_checkpoints=2, values=[3.0, 2.0, 2.5, 2.2])
    assert worse.fit().best == {"valid_loss": 2.0}


def test_a_finished_run_says_so_and_more_steps_go_on(tmp_path):
    run = Run(tmp_path, average_checkpoints=2)
    first = run.fit()
    lines = (tmp_path / "log.jsonl").read_bytes()
    again = Run(tmp_path, average_checkpoints=2)
    assert again.fit(resume=True) == first
    assert "already trained: 12 steps" in again.shown.getvalue()
    assert again.data.count == 0
    assert (tmp_path / "log.jsonl").read_bytes() == lines
    assert Run(tmp_path, steps=16).fit(resume=True).step == 16
    straight = Run(tmp_path / "straight", steps=16)
    straight.fit()
    assert run.rows("loss") == straight.rows("loss")


@pytest.mark.parametrize("place", ["loss", "gradient"])
def test_non_finite_stops_and_names_the_step(tmp_path, place):
    class Breaks(Letters):
        def loss(self, batch, *, label_smoothing=0.0):
            loss = super().loss(batch)
            self.calls = getattr(self, "calls", 0) + self.training
            if self.calls < 7:
                return loss
            # sqrt has an infinite slope at 0: the loss stays fine, its gradient does not
            broken = loss.total * float("nan") if place == "loss" else (self.embed.weight * 0).sqrt().sum()
            return Loss(loss.total + broken, loss.likelihood, loss.tokens)

    run = Run(tmp_path, model=Breaks())
    with pytest.raises(Diverged, match=r"step 7 is no longer finite.*step-00000004"):
        run.fit()
    assert [path.name for path in checkpoint.checkpoints(tmp_path)] == ["step-00000004"]
    key = "loss" if place == "loss" else "gradient_norm"
    assert run.rows(key)[7] is None
    rest = Run(tmp_path)
    assert rest.fit(resume=True).step == 12


def test_a_damaged_checkpoint_costs_only_the_steps_since_the_one_before(tmp_path):
    straight = Run(tmp_path / "straight")
    straight.fit()
    run = Run(tmp_path / "damaged")
    run.fit()
    weights = tmp_path / "damaged" / "training" / "step-00000012" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    rest = Run(tmp_path / "damaged")
    rest.fit(resume=True)
    assert "step-00000012 is skipped: model.safetensors was truncated or altered" in rest.shown.getvalue()
    assert rest.data.count == 4
    assert rest.rows("loss") == straight.rows("loss")


def test_bfloat16_computes_in_bfloat16_and_keeps_float32_weights(tmp_path):
    seen = []

    class Watched(Letters):
        def loss(self, batch, *, label_smoothing=0.0):
            if self.training:
                seen.append(self.out(self.embed.weight.new_zeros(1, 12)).dtype)
            return super().loss(batch, label_smoothing=label_smoothing)

    run = Run(tmp_path, model=Watched(), precision="bfloat16", steps=40, eval_every=40, learning_rate=0.03)
    run.fit()
    assert set(seen) == {torch.bfloat16}
    assert all(parameter.dtype == torch.float32 for parameter in run.model.parameters())
    assert run.rows("loss")[40] < 0.8 * run.rows("loss")[1]


def test_tf32_is_float32_without_a_gpu(tmp_path):
    runs = [Run(tmp_path / name, precision=name, steps=12, eval_every=12) for name in ("float32", "tf32")]
    for run in runs:
        run.fit()
    assert runs[0].rows("loss") == runs[1].rows("loss")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16", "float16"])
def test_on_a_gpu(tmp_path, precision, signals_heard):
    """Fused AdamW, and float16 with its scaler, whose state goes through the checkpoint."""
    options = {
        "precision": precision,
        "steps": 40,
        "eval_every": 20,
        "learning_rate": 0.03,
        "accumulate_steps": 2,
        "device": "cuda",
    }
    run = Run(tmp_path, **options)
    run.data.windows = run.data.windows.cuda()
    run.data.on_batch = lambda count: count == 51 and signal.raise_signal(signal.SIGINT)
    with pytest.raises(Interrupted, match="after step 26"):
        run.fit()
    assert all(parameter.is_cuda for parameter in run.model.parameters())
    state = json.loads((checkpoint.checkpoints(tmp_path)[0] / "state.json").read_text())
    assert ("scale" in state["standing"]["scaler"]) == (precision == "float16")
    rest = Run(tmp_path, **options)
    rest.data.windows = run.data.windows
    assert rest.fit(resume=True).step == 40
    assert rest.rows("loss")[40] < 0.8 * rest.rows("loss")[1]


@pytest.mark.filterwarnings("ignore")  # the compiler's own
def test_compiled_it_takes_the_same_steps(tmp_path, monkeypatch):
    """On the CPU only the tracing, not the C++ that would be built from it: that takes half a minute."""
    if not torch.cuda.is_available():
        monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    options = {"steps": 3, "device": device}
    plain, compiled = (
        Run(tmp_path / str(on), model=Letters(dropout=0.0), compile=on, **options) for on in (False, True)
    )
    for run in (plain, compiled):
        run.data.windows = run.data.windows.to(device)
        run.fit()
    assert list(compiled.rows("loss").values()) == pytest.approx(list(plain.rows("loss").values()), rel=1e-4)
    assert list(compiled.model.state_dict()) == list(plain.model.state_dict())


def test_noise_follows_seed_and_step_only(tmp_path):
    same = [Run(tmp_path / name, steps=4) for name in "ab"]
    other = Run(tmp_path / "c", steps=4, seed=4)
    for run in (*same, other):
        torch.rand(len(run.folder.name))
        run.fit()
    assert same[0].rows("loss") == same[1].rows("loss")
    assert same[0].rows("loss")[1] != other.rows("loss")[1]


def test_smoothing_reaches_the_model(tmp_path):
    plain, smooth = Run(tmp_path / "a", steps=1), Run(tmp_path / "b", steps=1, label_smoothing=0.3)
    plain.fit()
    smooth.fit()
    assert plain.rows("loss")[1] != smooth.rows("loss")[1]


def test_a_loss_without_options_can_be_trained(tmp_path):
    class Plain(Letters):
        def loss(self, batch):
            return super().loss(batch)

    run = Run(tmp_path, model=Plain())
    assert run.fit().step == 12
    with pytest.raises(TypeError, match="label_smoothing"):
        Run(tmp_path / "smooth", model=Plain(), label_smoothing=0.1).fit()


def test_wrong_use_is_explained(tmp_path):
    with pytest.raises(ValueError, match=r"no metric is called 'bleu'; validation gives valid_loss"):
        Run(tmp_path / "a").fit(better=("bleu", "max"))
    with pytest.raises(ValueError, match="'min' or 'max'"):
        Run(tmp_path / "b").fit(better=("valid_loss", "up"))
    empty = Run(tmp_path / "c")
    empty.data.order = lambda epoch: []
    with pytest.raises(ValueError, match="no batch in epoch 0"):
        empty.fit()


def test_the_device_of_training_is_seeded_even_if_it_is_not_the_current_one(monkeypatch):
    seeded = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeded.append)
    monkeypatch.setattr(torch.cuda, "manual_seed", lambda seed: None)  # the current one
    seed_draws(5, torch.device("cuda:1"))
    assert seeded == [5]
    assert torch.initial_seed() == 5
