"""Every system and every setting is told in words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import regard
from regard.errors import BadInput, RecipeError
from regard.models import MODELS
from regard.tasks.core.recipe_files import recipes
from regard.tasks.core.systems import describe_recipe, sections, system, systems, tasks_of

SECTIONS = {
    f"{model} to {task}: {section}": settings
    for model in MODELS
    for task in tasks_of(model)
    for section, settings in sections(model, task).items()
}


def test_every_setting_has_a_meaning() -> None:
    lacking = [f"{place}.{one.name}" for place, settings in SECTIONS.items() for one in settings if not one.meaning]
    assert not lacking, "these need a comment at the end of their line, or above it"
    assert {place.partition(": ")[2] for place in SECTIONS} == {"data", "tokens", "model", "train", "decode"}


def test_meanings_make_sense_away_from_the_code() -> None:
    """No comment is about its place in a file."""
    for place, settings in SECTIONS.items():
        for one in settings:
            assert not re.search(r"\bsee\b|\.py\b|\babove$", one.meaning), (place, one)
            assert not one.meaning.endswith((":", ";", ",")), (place, one)


def test_every_system_is_told_with_what_there_is_of_it() -> None:
    told = systems()
    assert list(told) == list(MODELS)
    assert {name for one in told.values() for name in one.recipes} == set(recipes())
    for one in told.values():
        assert (Path(regard.__file__).parent.parent / one.file).is_file()
        assert one.recipes
        assert one.tasks
    assert told["bert"].tasks == ("fill", "embed", "follows", "classify", "ask")
    assert told["gpt2"].shipped == ("shakespeare",)


def test_a_system_that_is_not_there() -> None:
    with pytest.raises(BadInput, match="there is no system 'brt'; did you mean 'bert'"):
        system("brt")


@pytest.mark.parametrize("name", recipes())
def test_a_recipe_is_told_with_its_values(name: str) -> None:
    told = describe_recipe(name)
    values = {
        f"{section}.{one['name']}": one["value"]
        for section, settings in told.to_dict()["sections"].items()
        for one in settings
        if "value" in one
    }
    assert values == {f"{part}.{key}": value for part, keys in told.values.items() for key, value in keys.items()}


def test_a_recipe_with_an_unknown_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[model]\nname = "gpt2"\n[train]\nstep = 3\n')
    with pytest.raises(RecipeError, match=r"unknown key of \[train\]: 'step'; did you mean"):
        describe_recipe(str(tmp_path / "mine.toml"))
    (tmp_path / "mine.toml").write_text('model = "vit"\n')
    with pytest.raises(RecipeError, match=r"model must be a section \[model\], got 'vit'"):
        describe_recipe(str(tmp_path / "mine.toml"))
    (tmp_path / "mine.toml").write_text('[model]\nname = "vit"\n[decode]\nbeam = 3\n')
    with pytest.raises(RecipeError, match="unknown section of a recipe to recognise: 'decode'"):
        describe_recipe(str(tmp_path / "mine.toml"))
