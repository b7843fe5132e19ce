"""Which data a split is, or is a part of, and what test data is called."""

from dataclasses import dataclass, fields

import pytest

from regard.errors import BadInput
from regard.tasks.core.splits import Generated, MadeSplits, Splits


@dataclass(frozen=True)
class Files(Splits):
    form = "a file of words"


@dataclass(frozen=True)
class Either(MadeSplits[list[str]]):
    form = "a file of words"
    sets = ("numbers", "letters")

    def make(self, split: str) -> list[str]:
        return [split] * self.count_of(split)


@dataclass(frozen=True)
class Always(Generated):
    examples = "numbers"
    made: str = "numbers"

    @property
    def test_name(self) -> str:
        return f"{self.test_count} numbers"


@pytest.mark.parametrize(
    ("named", "sources", "parts"),
    [
        ({}, ("train", "train", "train"), (True, True, True)),
        ({"valid": "v"}, ("train", "valid", "valid"), (False, False, False)),
        ({"test": "t"}, ("train", "train", "test"), (True, True, False)),
        ({"valid": "v", "test": "t"}, ("train", "valid", "test"), (False, False, False)),
    ],
)
@pytest.mark.parametrize("kind", [Files, Either])
def test_where_each_split_comes_from(kind, named, sources, parts):
    settings, splits = kind(train=["a", "b"], **named), ("train", "valid", "test")
    files = {"train": ("a", "b"), "valid": ("v",), "test": ("t",)}
    assert tuple(map(settings.source_of, splits)) == sources
    assert tuple(map(settings.is_part, splits)) == parts
    assert tuple(map(settings.files_of, splits)) == tuple(files[source] for source in sources)
    assert settings.holds_out == ("valid" not in named)
    assert settings.has_own_test == ("test" in named)
    assert settings.test_files == settings.files_of("test")


def test_a_generated_set_has_all_three():
    settings = Either(made="numbers", test_count=3)
    assert [settings.source_of(split) for split in ("train", "valid", "test")] == ["train", "valid", "test"]
    assert not any(map(settings.is_part, ("train", "valid", "test")))
    assert settings.make("test") == ["test"] * 3
    assert (settings.name, settings.test_files) == ("numbers", ())
    assert settings.test_name == "3 generated examples (numbers)"


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"test": "t"}, "t"),
        ({"valid": "v"}, "v (validation data, by which the weights were chosen)"),
        ({}, "the part held out of a, b (validation data, by which the weights were chosen)"),
    ],
)
def test_what_the_test_data_is_called(named, said):
    assert Files(train=("a", "b"), **named).test_name == said


def test_the_name_has_no_folders():
    assert Files(train=["x/a.tsv", "y/b"]).name == "a.tsv, b"


@pytest.mark.parametrize(
    ("kind", "named", "said"),
    [
        (Files, {}, "set data.train to a file of words"),
        (Files, {"train": ["", ""]}, "set data.train to a file of words"),
        (Files, {"train": 3}, "train must be a file or a list of files, got 3"),
        (
            Either,
            {},
            r"set either data.made to a generated set \(numbers, letters\) or data.train to a file of words",
        ),
        (Either, {"made": "numbers", "train": "a"}, "set either data.made"),
        (Either, {"made": "letter"}, "unknown generated set 'letter'; there are numbers, letters"),
        (Either, {"made": "numbers", "test_count": 0}, "test_count must be at least 1, got 0"),
    ],
)
def test_settings_that_do_not_say_where_data_comes_from(kind, named, said):
    with pytest.raises(ValueError, match=said):
        kind(**named)


def test_a_file_becomes_the_test_data():
    assert Files.of_test_file("x") == {"train": "x", "valid": "x"}
    assert Files(train="a").changes_to_test("x") == {"test": "x"}
    assert Either(made="numbers").changes_to_test("x") == {"made": "", "train": "x", "test": "x"}
    with pytest.raises(BadInput, match="numbers are generated and not read from x; leave --data out"):
        Always().changes_to_test("x")


def test_data_that_is_always_generated_has_no_files():
    assert {field.name for field in fields(Always)} == {"made", "valid_count", "test_count"}
    assert (Always().name, Always().test_files, Always().has_own_test) == ("numbers", (), True)
