"""How many environments an agent is trained and tested in."""

from __future__ import annotations

from dataclasses import dataclass

from regard.base.fields import setting
from regard.tasks.core.splits import Generated


@dataclass(frozen=True)
class PlaySettings(Generated):
    """A recipe's [data]. Every training step has new environments; what they are like is said in [model]."""

    examples = "environments"

    made: str = setting("environments", choices=("environments",))  # all of them are generated
    batch_size: int = setting(256, at_least=2)  # environments of a training step

    @property
    def test_name(self) -> str:
        return f"{self.test_count:,} generated environments"
