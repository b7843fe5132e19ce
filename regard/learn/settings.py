"""Every setting of a training. No torch here, so that recipes can be checked and shown without it."""

from __future__ import annotations

from dataclasses import dataclass

from regard.base.fields import check, setting

CAPTURED = {"precision": ("float32", "tf32", "bfloat16"), "accumulate_steps": (1,)}


@dataclass(frozen=True)
class Training:
    """A recipe's [train]. The learning rate rises over `warmup_steps`, then follows the schedule."""

    steps: int = setting(at_least=1)
    optimiser: str = setting("adamw", choices=("adamw", "sgd"))
    learning_rate: float = setting(1e-3, above=0)
    betas: tuple[float, float] = setting((0.9, 0.999), at_least=0, below=1)  # adamw
    weight_decay: float = setting(0.0, at_least=0)  # on matrices only, see build_optimiser
    momentum: float = setting(0.0, at_least=0, below=1)  # sgd
    nesterov: bool = False  # sgd: the gradient is taken after the momentum's step
    schedule: str = setting("constant", choices=("constant", "cosine", "inverse_root", "plateau"))
    warmup_steps: int = setting(0, at_least=0)
    min_lr_ratio: float = setting(0.0, at_least=0, at_most=1)  # where cosine ends, as a share of learning_rate
    plateau_factor: float = setting(0.5, above=0, below=1)
    plateau_patience: int = setting(2, at_least=1)  # validations without improvement before the rate falls
    label_smoothing: float = setting(0.0, at_least=0, below=1)
    r_drop: float = setting(0.0, at_least=0)  # weight of the divergence of two passes with dropout (Liang 2021)
    max_grad_norm: float = setting(1.0, at_least=0)  # clip the global gradient norm; 0: no clipping
    accumulate_steps: int = setting(1, at_least=1)  # batches in one step
    # tf32: float32, but products on a GPU have 10 bits, as those of convolutions have anyway; elsewhere float32
    precision: str = setting("float32", choices=("float32", "tf32", "bfloat16", "float16"))
    compile: bool = False
    capture: bool = False  # GPU: capture a training step in a CUDA graph and replay it, see capture.py
    # May change with --resume; `patience`, `plateau_patience` and `average_checkpoints` count validations, so that
    # with another interval they stand for other numbers of steps.
    eval_every: int = setting(100, at_least=1)  # steps between validations, and between checkpoints
    # The validation metric by which the best weights are chosen and patience is counted; auto: the task's own.
    best_by: str = "auto"
    # Validations without improvement before stopping early, or two perfect ones; 0: never stop.
    patience: int = setting(0, at_least=0)
    average_checkpoints: int = setting(0, at_least=0)  # average so many of the last checkpoints at the end
    seed: int = setting(0, at_least=0)
    device: str = "auto"  # torch's name (cpu, cuda, cuda:1, mps); auto: a GPU if there is one
    # Of hard attention and of agents, see reinforce.py.
    reinforce_weight: float = setting(1.0, at_least=0)
    reinforce_reward: str = setting("token", choices=("token", "row"))  # whose log-likelihood rewards a look
    reinforce_baseline: str = setting("rows", choices=("rows", "moving"))  # the other rows, or a moving average
    entropy_weight: float = setting(0.05, at_least=0)
    # Agents: passes over the trials of a step, each in so many parts, with an update by each part.
    ppo_passes: int = setting(1, at_least=1)
    ppo_parts: int = setting(1, at_least=1)
    # How far an update may change p(action) / p(action) of the policy that acted.
    ppo_clip: float = setting(0.2, above=0)
    entropy_schedule: str = setting("constant", choices=("constant", "linear"))  # linear: it falls to 0

    @property
    def updates(self) -> int:
        """Updates in one step."""
        return self.ppo_passes * self.ppo_parts

    @property
    def half(self) -> bool:
        """Are numbers of 16 bits used?"""
        return self.precision in ("bfloat16", "float16")

    def __post_init__(self) -> None:
        check(self)
        for name, fits in CAPTURED.items():
            if self.capture and (value := getattr(self, name)) not in fits:
                raise ValueError(f"a step with {name} = {value} cannot be captured; set capture = false")
        if self.updates > 1 and self.accumulate_steps > 1:
            raise ValueError(
                f"accumulate_steps must be 1 with ppo_passes = {self.ppo_passes} and ppo_parts = {self.ppo_parts}, "
                f"got {self.accumulate_steps}; use larger batches"
            )
        if self.nesterov and (self.optimiser != "sgd" or not self.momentum):
            raise ValueError("nesterov is for optimiser = sgd with a momentum; set both, or nesterov = false")
