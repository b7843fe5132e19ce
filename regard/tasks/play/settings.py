"""How many environments an agent is trained and tested in."""

from __future__ import annotations

from dataclasses import dataclass

from regard.base.fields import check, setting


@dataclass(frozen=True)
class PlaySettings:
    """A recipe's [data]. Every training step has new environments; what they are like is said in [model]."""

    made: str = setting("environments", choices=("environments",))  # all of them are generated
    batch_size: int = setting(256, at_least=2)  # environments of a training step
    valid_count: int = setting(1000, at_least=2)
    test_count: int = setting(1000, at_least=2)

    def __post_init__(self) -> None:
        check(self)

    @property
    def name(self) -> str:
        return self.made
