"""Names of layers as a person would say them."""

import pytest

from regard.show import Heads, Map
from regard.show.site_names import ordinal, said_of, site_name, spoken, spoken_line


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("decoder.1.cross", "second layer of the decoder, looking at the source"),
        ("encoder.0.attend", "first layer of the encoder, looking at its own text"),
        ("decoder.2.attend", "third layer of the decoder, looking at what was written"),
        ("blocks.20.attend", "21st layer, looking at its own input"),
        ("attend", "looking at the input"),
        ("memory.attend", "heads at the memory"),
        ("sentences.pool.attend", "which sentences count"),
        ("stages.1.0.excite", "block 2.1, gates of channels"),
        ("eye.stages.1.0.excite", "block 2.1, gates of channels"),
        ("words.encoder.l0_reverse", "words, gates of layer 1, read backwards"),
        ("cells.1", "second layer, its gates"),
        ("layers.0.cell", "first layer, gates of the cell"),
        ("image.png", ""),
        ("a.0", ""),
    ],
)
def test_a_layer_is_called_as_people_say(name, said):
    assert site_name(name) == said


def test_ordinals_end_as_they_are_spoken():
    found = [ordinal(number) for number in (1, 10, 11, 12, 13, 21, 22, 23, 111, 112)]
    assert found == ["first", "tenth", "11th", "12th", "13th", "21st", "22nd", "23rd", "111th", "112th"]


def test_a_title_is_spoken_and_names_the_code_beside_it():
    source = "layer of the decoder, looking at the source"
    assert spoken("decoder.1.cross, head 3") == (f"second {source}, head 3", "decoder.1.cross")
    assert spoken("dates: decoder.1.cross less decoder.0.cross, mean of 4 heads") == (
        f"dates: second {source} less first {source}, mean of 4 heads",
        "decoder.1.cross, decoder.0.cross",
    )
    assert spoken_line("negative 76 % · words.pool") == "negative 76 % · which words count · words.pool"
    for title in ("", "T & t", "image.png", "He said: x.y", "the end.words are", "attend"):
        assert spoken_line(title) == title
    assert said_of(["T", "words.pool, head 0", "words.pool"]) == {"words.pool": "which words count"}


def test_pictures_are_titled_as_people_say_with_the_code_below():
    drawn = Map([[1.0]], ["a"], ["b"], "words.pool, head 1\nreviews: good → positive").svg()
    for line in ("which words count, head 1", "words.pool", "reviews: good → positive"):
        assert f">{line}</text>" in drawn
    heads = Heads({"words.pool": [[[1.0]]]}, "a", "b", "T")
    assert heads.data()["said"] == {"words.pool": "which words count"}
    assert "said" not in Map([[1.0]], ["a"], ["b"], "T").data()
