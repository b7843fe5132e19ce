"""Settings that check themselves."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from peak_memory import peak_memory

from regard.base.fields import build, check, file_names, nearest, numbers, read_toml, setting
from regard.errors import RecipeError


@dataclass(frozen=True)
class Example:
    steps: int = setting(at_least=1)
    share: float = setting(0.5, at_least=0, below=1)
    ratio: float = setting(0.0, at_least=1, or_zero="keep all")
    kind: str = setting("a", choices=("a", "b"))
    on: bool = False
    column: str = ""

    def __post_init__(self) -> None:
        check(self)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"steps": 2.0}, "steps must be a whole number, got 2.0"),
        ({"steps": True}, "steps must be a whole number, got True"),
        ({"steps": 1, "share": 1}, r"share must lie in \[0, 1\), got 1"),
        ({"steps": 1, "share": float("nan")}, "share must be a number, got nan"),
        ({"steps": 1, "share": 10**400}, "share must be a number, got 1000"),
        ({"steps": 1, "share": "much"}, "share must be a number, got 'much'"),
        ({"steps": 1, "ratio": 0.5}, r"ratio must be at least 1, or 0 \(keep all\), got 0.5"),
        ({"steps": 1, "kind": "c"}, "kind must be one of 'a', 'b', got 'c'"),
        ({"steps": 1, "on": 1}, "on must be true or false, got 1"),
    ],
)
def test_a_value_out_of_place_is_refused_in_python_and_in_a_recipe(table, message):
    with pytest.raises(ValueError, match=message):
        Example(**table)
    with pytest.raises(RecipeError, match=rf"\[data\]: {message}"):
        build(Example, table, "data")


def test_values_in_their_ranges_pass():
    assert build(Example, {"steps": 1, "share": 0, "ratio": 0, "kind": "b", "on": True}, "data").ratio == 0
    assert Example(steps=1, ratio=1.5).ratio == 1.5
    assert build(Example, {"steps": 1, "column": 3}, "data").column == "3"  # a column by its number


def test_keys_are_known_and_needed_ones_are_set():
    with pytest.raises(RecipeError, match=r"unknown key of \[data\]: 'step'; did you mean 'steps'\?"):
        build(Example, {"step": 1}, "data")
    with pytest.raises(RecipeError, match=r"data.steps must be set"):
        build(Example, {}, "data")


def test_a_part_of_a_name_finds_the_whole_name():
    assert nearest("rate", ["capture", "learning_rate"]) == "; did you mean 'learning_rate'?"
    recipes = ["luong-dates", "luong-pairs", "vit-images"]
    assert (
        nearest("luong", recipes) == nearest("loung", recipes) == "; did you mean 'luong-dates' or 'luong-pairs'?"
    )
    assert nearest("luong-date", recipes) == "; did you mean 'luong-dates'?"
    assert nearest("dropuot", ["dropout", "embed_dropout"]) == "; did you mean 'dropout'?"
    assert nearest("zzz", ["steps", "share"]) == "; there are steps, share"


@pytest.mark.parametrize(
    "text",
    ["a" + ".a" * 3000 + " = 1", "[data]\nb = {a" + " . 'a'" * 3000 + " = 1}", '["x"' + '."\\"."' * 3000 + "]"],
    ids=["a key", "a key in a table", "a table"],
)
def test_a_long_dotted_key_is_refused_before_it_is_parsed(text: str, tmp_path: Path) -> None:
    """Parsing takes time and memory by the square of its parts."""
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    with (
        peak_memory() as peak,
        pytest.raises(RecipeError, match=r"dotted key of more than 32 parts at character \d"),
    ):
        read_toml(path)
    assert peak.mib < 20


def test_no_text_takes_long_to_look_through_for_dotted_keys(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    for text in (
        "a" * 300_000,
        "a." * 20 + "b " * 130_000,
        '"' * 300_000,
        "'a'.b," * 50_000,
        '"\\' * 130_000,
        "''' '" * 30_000,
    ):
        path.write_text(text)
        with pytest.raises(RecipeError, match="is not valid TOML"):
            read_toml(path)
    hidden = 'a = {x = """\n\'""", b' + ".b" * 99 + " = 1}"
    path.write_text(hidden)
    with pytest.raises(RecipeError, match="dotted key"):
        read_toml(path)
    path.write_text('a.b."c.d" = "1.5.2 and so on..."\nvalues = [0.5, 1.5]\nfile = "a.b' + ".c" * 99 + '"')
    assert read_toml(path)["values"] == [0.5, 1.5]


def test_lists_from_toml():
    assert file_names(["a", "", "b"]) == ("a", "b")
    assert file_names("a") == ("a",)
    assert numbers("mean", [0, 0.5, 1], (0, 3)) == (0.0, 0.5, 1.0)
    with pytest.raises(ValueError, match=r"mean must be a list of 0 or 3 numbers, got \[0.5\]"):
        numbers("mean", [0.5], (0, 3))


@dataclass(frozen=True)
class Lists:
    depths: tuple[int, ...] = setting((3, 3), at_least=1, layers=True)
    pair: tuple[float, float] | None = None
    names: str | tuple[str, ...] = ""
    words: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        check(self)


def test_a_list_becomes_a_tuple_where_the_field_is_one():
    """As TOML and JSON give it, and so do Python and `build`."""
    table = {"depths": [1, 2], "pair": [0, 0.5], "names": ["a"], "words": ["b"]}
    for found in (Lists(**table), build(Lists, table, "model")):
        assert (found.depths, found.pair, found.names, found.words) == ((1, 2), (0, 0.5), ("a",), ["b"])
    assert Lists((1, 2)) == Lists([1, 2])
    assert hash(Lists((1, 2)).depths) == hash(Lists([1, 2]).depths)
    assert [type(one) for one in Lists(pair=(0, 1)).pair] == [float, float]
    assert Lists(names="a").names == "a"
    assert Lists(names=["a"] * 2000).names == ("a",) * 2000


@pytest.mark.parametrize(
    ("depths", "message"),
    [
        ([1, 2.0], r"depths must be a list of whole numbers, got \[1, 2.0\]"),
        ([1, True], r"depths must be a list of whole numbers, got \[1, True\]"),
        ([[1], [2]], r"depths must be a list of whole numbers, got \[\[1\], \[2\]\]"),
        (3, "depths must be a list of whole numbers, got 3"),
        ([3, 0], "depths must be at least 1, got 0"),
        ([1] * 1001, "depths must have at most 1,000 numbers, got 1,001"),
    ],
)
def test_lists_of_numbers_are_checked(depths, message):
    with pytest.raises(RecipeError, match=rf"\[model\]: {message}"):
        build(Lists, {"depths": depths}, "model")


def test_a_broken_recipe_is_named(tmp_path):
    (tmp_path / "recipe.toml").write_text("[data\n")
    with pytest.raises(RecipeError, match=r"recipe\.toml is not valid TOML"):
        read_toml(tmp_path / "recipe.toml")
