"""Every setting of a training. No torch here, so that recipes can be checked and shown without it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.base.fields import check, file_names, setting
from regard.learn.loggers.logger import LOGGERS

AUTO = "auto"
LAST = "last"
CAPTURED = {"precision": (AUTO, "float32", "tf32", "bfloat16"), "accumulate_steps": (1,)}
BY_HARDWARE = ("precision", "compile", "capture")  # what `auto` leaves to `learn.auto`
OR_AUTO = "true, false or 'auto'"


@dataclass(frozen=True)
class Training:
    """A recipe's [train]. The learning rate rises over `warmup_steps`, then follows the schedule."""

    # training steps, one update of the weights each (an agent: ppo_passes x ppo_parts updates)
    steps: int = setting(at_least=1)
    optimiser: str = setting("adamw", choices=("adamw", "sgd"))  # AdamW, or stochastic gradient descent
    learning_rate: float = setting(1e-3, above=0)  # its highest value, reached after the warm-up
    # adamw: decay of the averages of gradients and of their squares
    betas: tuple[float, float] = setting((0.9, 0.999), at_least=0, below=1)
    weight_decay: float = setting(0.0, at_least=0)  # weight decay, on matrices only: not on biases and norms
    momentum: float = setting(0.0, at_least=0, below=1)  # sgd: share of the last update that is kept
    nesterov: bool = False  # sgd: the gradient is taken after the momentum's step
    # the learning rate after the warm-up: constant; cosine down to min_lr_ratio; inverse_root falls with the square
    # root of the step; plateau falls when validation stops improving
    schedule: str = setting("constant", choices=("constant", "cosine", "inverse_root", "plateau"))
    warmup_steps: int = setting(0, at_least=0)  # steps in which the learning rate rises linearly from 0
    min_lr_ratio: float = setting(0.0, at_least=0, at_most=1)  # where cosine ends, as a share of learning_rate
    plateau_factor: float = setting(0.5, above=0, below=1)  # plateau: the learning rate is multiplied by this
    plateau_patience: int = setting(2, at_least=1)  # plateau: validations without improvement before the rate falls
    # share of the target probability spread over all tokens or classes
    label_smoothing: float = setting(0.0, at_least=0, below=1)
    # weight of the divergence of two passes with dropout (Liang 2021); 0: one pass
    r_drop: float = setting(0.0, at_least=0)
    max_grad_norm: float = setting(1.0, at_least=0)  # clip the global gradient norm; 0: no clipping
    accumulate_steps: int = setting(1, at_least=1)  # batches whose gradients are summed in one step
    # tf32: float32, but products on a GPU have 10 bits, as those of convolutions have anyway; elsewhere float32.
    # bfloat16 and float16: mixed precision. auto: bfloat16 on a GPU that has it, where the mathematics of the model
    # allows it; else float32
    precision: str = setting(AUTO, choices=(AUTO, "float32", "tf32", "bfloat16", "float16"))
    # torch.compile the model: slow to start, then faster. auto: on a GPU, where a large model is trained for long
    compile: bool | Literal["auto"] = setting(AUTO, words=OR_AUTO)
    # GPU: capture a training step in a CUDA graph and replay it. auto: where batches have few shapes; a step that
    # cannot be captured is run as it is
    capture: bool | Literal["auto"] = setting(AUTO, words=OR_AUTO)
    # GPU: only operations that give the same bits each time, so that a training that goes on takes the very same
    # steps; slower
    deterministic: bool = False
    # torchrun: divide weights, gradients and the optimiser's state among the processes (FSDP2), for models that one
    # GPU cannot hold; false: each process has all of them (DDP)
    shard: bool = False
    # activation checkpointing: compute the activations of Transformer blocks again in the backward pass instead of
    # keeping them; much less memory, about a third slower
    recompute: bool = False
    async_save: bool = False  # write checkpoints while the training goes on; takes main memory for a copy of them
    # steps between validations, and between checkpoints; patience, plateau_patience and average_checkpoints count
    # validations
    eval_every: int = setting(100, at_least=1)
    # the validation metric by which the best weights are chosen and patience is counted; auto: the task's own;
    # last: none, the weights of the last validation are kept
    best_by: str = AUTO
    # validations without improvement before stopping early; two perfect ones in a row stop too; 0: never stop
    patience: int = setting(0, at_least=0)
    average_checkpoints: int = setting(0, at_least=0)  # average so many of the last checkpoints at the end
    # where the rows of log.jsonl also go, with pictures of where the model looks at a few held-out inputs: one
    # logger or a list of them; each is an extra of regard
    log: str | tuple[str, ...] = setting((), choices=LOGGERS)
    seed: int = setting(0, at_least=0)  # of the first weights, dropout and the order of the data
    device: str = "auto"  # torch's name (cpu, cuda, cuda:1, mps); auto: a GPU if there is one
    # hard attention and agents: weight of the REINFORCE term in the loss
    reinforce_weight: float = setting(1.0, at_least=0)
    # hard attention: what rewards a look: the log-likelihood of its token, or of the whole row (Xu 2015)
    reinforce_reward: str = setting("token", choices=("token", "row"))
    # hard attention: what rewards are compared with: the other rows, or a moving average (Xu 2015)
    reinforce_baseline: str = setting("rows", choices=("rows", "moving"))
    # hard attention and agents: reward for undecided looks or actions, so that training goes on exploring
    entropy_weight: float = setting(0.05, at_least=0)
    ppo_passes: int = setting(1, at_least=1)  # agents: passes over the trials of one step
    ppo_parts: int = setting(1, at_least=1)  # agents: parts of a pass, with an update by each
    # agents: how far an update may change p(action) relative to the policy that acted
    ppo_clip: float = setting(0.2, above=0)
    # linear: entropy_weight falls to 0 over the training
    entropy_schedule: str = setting("constant", choices=("constant", "linear"))

    @property
    def loggers(self) -> tuple[str, ...]:
        """`log` as a list."""
        return file_names(self.log)

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
            if self.capture is True and (value := getattr(self, name)) not in fits:
                raise ValueError(f"a step with {name} = {value} cannot be captured; set capture = false")
        if self.best_by == LAST and self.schedule == "plateau":
            raise ValueError(
                "schedule plateau waits for a better validation: it needs a metric, not best_by = last"
            )
        if self.shard and self.precision == "float16":
            raise ValueError("precision float16 cannot be sharded; use bfloat16, or set shard = false")
        if self.updates > 1 and self.accumulate_steps > 1:
            raise ValueError(
                f"accumulate_steps must be 1 with ppo_passes = {self.ppo_passes} and ppo_parts = {self.ppo_parts}, "
                f"got {self.accumulate_steps}; use larger batches"
            )
        if self.nesterov and (self.optimiser != "sgd" or not self.momentum):
            raise ValueError("nesterov is for optimiser = sgd with a momentum; set both, or nesterov = false")
