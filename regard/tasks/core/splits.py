"""Where the training, validation and test data of a recipe's [data] come from, and what its test data is called.

Settings of files inherit `Splits`, those of files or a generated set `MadeSplits`, those of data that is always
generated `Generated`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from regard.base.digests import Source, known_as
from regard.base.field_types import types_of
from regard.base.fields import FILES, check, file_names, setting
from regard.base.files import find_files
from regard.base.memory_rows import MemoryRows
from regard.data.made.splits import SPLITS
from regard.errors import BadInput, DataError

T = TypeVar("T")  # a generated set


@dataclass(frozen=True)
class Splits:
    """Data in files."""

    form: ClassVar[str]  # what `train` must name, for an error message: "a file of text"

    # the training data: a file, a list, or a pattern as "shards/*.jsonl.zst", whose files are read in the order of
    # their names; looked for here and under $REGARD_DATA
    train: str | tuple[str, ...] = setting("", words=FILES)
    # the validation data, as train; without it, a part of train is held out
    valid: str | tuple[str, ...] = setting("", words=FILES)
    # the test data, as train; without it, the validation data is taken
    test: str | tuple[str, ...] = setting("", words=FILES)

    def __post_init__(self) -> None:
        check(self)
        if types_of(type(self))["train"] is not str:
            object.__setattr__(self, "train", file_names(self.train))
        self.check_source()

    def check_source(self) -> None:
        """ValueError unless the settings name the data."""
        if not self.train:
            raise BadInput(f"set data.train to {self.form}")

    @property
    def name(self) -> str:
        """What the data is called in a run's README."""
        return ", ".join(file.rstrip("/").rpartition("/")[2] for file in file_names(self.train))

    # -- where a split comes from

    @property
    def holds_out(self) -> bool:
        """Is a part of train left for validation?"""
        return not self.valid

    def source_of(self, split: str) -> str:
        """The split whose data this split is, or is a part of: without test data that of validation, and without
        validation data that of training."""
        if split == "test" and not self.has_own_test:
            split = "valid"
        return "train" if split == "valid" and self.holds_out else split

    def is_part(self, split: str) -> bool:
        """Is this split a part of train: what is held out, or the rest?"""
        return self.holds_out and self.source_of(split) == "train"

    def files_of(self, split: str) -> tuple[str, ...]:
        """The files of the split, or those that it is a part of."""
        return file_names(getattr(self, self.source_of(split)) or self.train)

    # -- what is read

    def named(self, split: str) -> tuple[str, ...]:
        """All files and folders that the split is read from, as they are set: its data, and what lists, vectors or
        images go with it."""
        return self.files_of(split)

    def find(self, name: str) -> list[Path]:
        """The files, or the folder, of such a name."""
        return find_files(name)

    def files(self) -> list[Path]:
        """What is named for any split and is there, so that nothing is written over it."""
        found: list[Path] = []
        for name in dict.fromkeys(name for split in SPLITS for name in self.named(split)):
            with suppress(DataError, OSError):
                found += [path for path in self.find(name) if path.exists()]
        return found

    def sources(self) -> dict[str, Source]:
        """All that a training reads, by name: each file, and of folders the files of each class."""
        found: dict[str, Source] = {}
        for split in ("train", "valid"):
            for name in self.named(split):
                if isinstance(name, MemoryRows):
                    found[f"{self.source_of(split)} {name}"] = name
                    continue
                for path in self.find(name):
                    found |= self.files_in(path) if path.is_dir() else {known_as(path): path}
        return found

    def files_in(self, folder: Path) -> dict[str, Source]:
        """Where data may be a folder: the files in it, by the folders of the classes."""
        return {}

    # -- the test data

    @property
    def has_own_test(self) -> bool:
        """Is the test data other than the validation data, by which the weights were chosen?"""
        return bool(self.test)

    @property
    def test_files(self) -> tuple[str, ...]:
        """The files that hold the test data: those named for it, else those that a part is held out of; none where
        it is generated."""
        return self.files_of("test")

    @property
    def test_name(self) -> str:
        """What the test data is called: files, or the generated set with its size."""
        files = ", ".join(self.test_files)
        if self.has_own_test:
            return files
        part = files if self.valid else f"the part held out of {files}"
        return f"{part} (validation data, by which the weights were chosen)"

    @classmethod
    def of_test_file(cls, file: str) -> dict[str, object]:
        """The settings whose test data is this file, where there is no recipe."""
        return {"train": file, "valid": file}

    def changes_to_test(self, file: str) -> dict[str, object]:
        """The changes of these settings that make a file the test data."""
        return {"test": file}


@dataclass(frozen=True)
class MadeSplits(Splits, ABC, Generic[T]):
    """Data in files, or a generated set."""

    sets: ClassVar[tuple[str, ...]]  # the names of the generated sets

    made: str = ""  # the name of a generated set instead of files
    train_count: int = setting(20000, at_least=1)  # how many examples of a generated set
    valid_count: int = setting(1000, at_least=1)  # how many validation examples of a generated set
    test_count: int = setting(1000, at_least=1)  # how many test examples of a generated set

    def check_source(self) -> None:
        sets = ", ".join(self.sets)
        if bool(self.made) == bool(self.train):
            raise BadInput(f"set either data.made to a generated set ({sets}) or data.train to {self.form}")
        if self.made and self.made not in self.sets:
            raise BadInput(f"unknown generated set {self.made!r}; there are {sets}")

    @abstractmethod
    def make(self, split: str) -> T:
        """The generated set that `made` names."""

    def count_of(self, split: str) -> int:
        """How many examples of a generated set."""
        count: int = getattr(self, f"{split}_count")
        return count

    @property
    def name(self) -> str:
        return self.made or super().name

    @property
    def holds_out(self) -> bool:
        return not self.made and super().holds_out

    def files_of(self, split: str) -> tuple[str, ...]:
        return () if self.made else super().files_of(split)

    @property
    def has_own_test(self) -> bool:
        return bool(self.made) or super().has_own_test

    @property
    def test_name(self) -> str:
        return f"{self.test_count:,} generated examples ({self.made})" if self.made else super().test_name

    def changes_to_test(self, file: str) -> dict[str, object]:
        instead = {"made": "", "train": file} if self.made else {}
        return {**instead, **super().changes_to_test(file)}


@dataclass(frozen=True)
class Generated(ABC):
    """Data that is always generated: new in every training step."""

    examples: ClassVar[str]  # what is generated, for an error message: "sequences"

    made: str  # which kind is generated
    valid_count: int = setting(1000, at_least=2)  # how many are generated for validation
    test_count: int = setting(1000, at_least=2)  # how many are generated for the test

    def __post_init__(self) -> None:
        check(self)

    @property
    def name(self) -> str:
        return self.made

    def files(self) -> list[Path]:
        return []

    def sources(self) -> dict[str, Source]:
        return {}

    @property
    def has_own_test(self) -> bool:
        return True

    @property
    def test_files(self) -> tuple[str, ...]:
        return ()

    @property
    @abstractmethod
    def test_name(self) -> str: ...

    @classmethod
    def of_test_file(cls, file: str) -> dict[str, object]:
        raise BadInput(f"{cls.examples} are generated and not read from {file}; leave --data out")

    def changes_to_test(self, file: str) -> dict[str, object]:
        return self.of_test_file(file)
