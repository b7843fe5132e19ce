"""A sheet of captions: what it accepts, how it is ranked, and its outputs."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from drawn import apart, marks
from PIL import Image
from rich.cells import cell_len

from regard.show import Entry, Sheet
from regard.show.drawing import Image as Placed
from regard.show.drawing import Text
from regard.show.label_text import text_width
from regard.show.sheet import KEY, ROOM

matplotlib.use("Agg")
SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</script><img src=x onerror=alert(1)>\"'&amp;\x1b[31m\x00\ud800$"
GRADES = ("right", "minor errors", "related", "unrelated")


def noise(high=8, wide=8):
    return np.random.default_rng(0).integers(0, 256, (high, wide, 3), dtype=np.uint8)


def entry(caption="a dog", score=1.0, grade="right", references=("a dog runs", "dogs"), **image):
    return Entry(noise(**image), caption, references, score, grade)


def graded(count):
    """So many captions of each grade, worst first."""
    return [
        entry(f"{grade} {at}", 10 - 2 * number + at / count, grade)
        for number, grade in reversed(list(enumerate(GRADES)))
        for at in range(count)
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grade": "good"}, "grade must be one of right, minor errors, related, unrelated, got 'good'"),
        ({"score": float("nan")}, "score must be a finite number, got nan"),
        ({"references": "a dog"}, "references must be a sequence of texts, got one text: 'a dog'"),
        ({"high": 0}, r"image must be bytes \(height, width, 3\)"),
    ],
    ids=["grade", "score", "references", "image"],
)
def test_an_entry_that_cannot_be_drawn_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        entry(**options)


def test_a_sheet_needs_captions_and_room_for_them():
    with pytest.raises(ValueError, match="no caption to draw: give at least one, as Entry"):
        Sheet([])
    with pytest.raises(ValueError, match="most must be at least 1 caption of each grade, got 0"):
        Sheet([entry()], most=0)


def test_captions_are_ranked_under_their_grades():
    made = Sheet(graded(2), "T")
    assert [(part.grade, [entry.caption for entry in part.entries]) for part in made.sections] == [
        (grade, [f"{grade} 1", f"{grade} 0"]) for grade in GRADES
    ]
    assert made.sections[1].note == "2 of 8 captions, CIDEr 8.5 to 8.0"
    assert repr(made) == "<Sheet: 8 captions, right, minor errors, related, unrelated, 'T'>"
    assert Sheet([entry(), entry()]).sections[0].note == "2 of 2 captions, CIDEr 1.0"
    assert Sheet([entry(grade="related")]).sections[0].note == "1 of 1 captions, CIDEr 1.0"


def test_of_many_some_are_drawn_from_the_best_to_the_worst():
    (section,) = Sheet([entry(str(at), at) for at in range(101)], most=5).sections
    assert [entry.caption for entry in section.entries] == ["100", "75", "50", "25", "0"]
    assert section.note == "101 of 101 captions, CIDEr 100.0 to 0.0; 5 shown"


def test_no_two_cards_touch_and_texts_stay_in_their_columns():
    shapes = [{"high": 30, "wide": 300}, {"high": 300, "wide": 30}, {"high": 1, "wide": 1}, {}]
    words = ["", "dog", "Donaudampfschifffahrtsgesellschaft " * 3, "a long caption that never seems to end " * 9]
    entries = [
        entry(caption, score, grade, [caption] * 5, **shape)
        for grade in GRADES
        for score, shape in enumerate(shapes)
        for caption in words
    ]
    drawing = Sheet(entries, "T", "c\nd", most=16).drawing()
    cards = [(marks(card, Placed)[0], marks(card, Text)) for card in drawing.groups("card")]
    boxes = [(image.x, image.y, image.x + ROOM, texts[-1].y) for image, texts in cards]
    assert len(boxes) == 64
    (key,) = (text for text in marks(drawing, Text) if text.text == KEY)
    for _, _, right, bottom in boxes:
        assert right <= drawing.width
        assert bottom < key.y < drawing.height
    assert apart(boxes)
    for image, texts in cards:
        ys = [image.y + image.height, *(text.y for text in texts)]
        assert all(later > before for before, later in pairwise(ys))
        assert all(0.92 * text_width(text.text) * text.size <= ROOM for text in texts)
        assert texts[-1].text == "and 3 more"


def test_the_svg_has_headings_images_and_texts(open_image):
    made = Sheet([entry("a <cat>", 2, high=6, wide=9), entry("dogs", 0, "unrelated", ())], "T & t", "beam 5")
    root = ElementTree.fromstring(made.svg())
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert texts[:-1] == [
        "T & t", "beam 5",
        "right", "1 of 2 captions, CIDEr 2.0", "a <cat>", "CIDEr 2.0", "a dog runs", "dogs",
        "unrelated", "1 of 2 captions, CIDEr 0.0", "dogs", "CIDEr 0.0",
    ]  # fmt: skip
    first, _ = root.iter(f"{SVG}image")
    np.testing.assert_array_equal(open_image(first.get("href")), noise(6, 9))
    assert next(root.iter(f"{SVG}title")).text == "a <cat>\nCIDEr 2.0\na dog runs\ndogs"


def test_the_png_shows_the_images_where_the_drawing_says(tmp_path):
    made = Sheet([Entry(np.full((9, 9, 3), (200, 40, 40), np.uint8), "a cat", ["cat"], 1, "right")], "T")
    made.save(tmp_path / "sheet.png")
    drawing = made.drawing()
    with Image.open(tmp_path / "sheet.png") as image:
        dots = np.asarray(image.convert("RGB")).astype(int)
    assert dots.shape[:2] == pytest.approx((2 * drawing.height, 2 * drawing.width), abs=2)
    (image,) = marks(drawing, Placed)
    middle = int(2 * image.y + image.height), int(2 * image.x + image.width)
    np.testing.assert_allclose(dots[middle], (200, 40, 40), atol=1)
    figure = made.plot()
    assert {"T", "right", "a cat", "CIDEr 1.0", "cat"} <= {text.get_text() for text in figure.axes[0].texts}
    matplotlib.pyplot.close(figure)


def test_hostile_captions_stay_text(tmp_path):
    made = Sheet([entry(HOSTILE, references=[HOSTILE] * 3)], HOSTILE, HOSTILE)
    plain = Sheet([entry("a", references=["b"] * 3)], "c", "d")
    kinds = [{part.tag for part in ElementTree.fromstring(picture.svg()).iter()} for picture in (made, plain)]
    assert kinds[0] == kinds[1]
    assert "\x1b[31m\x00" not in made.terminal()
    for suffix in (".png", ".svg", ".html"):
        made.save(tmp_path / f"sheet{suffix}")


def test_the_terminal_lists_scores_captions_and_references():
    made = Sheet([entry("a cat", 12.34), entry("", 0, "unrelated")], "T", "beam 5")
    assert made.terminal(colour=False, width=60).splitlines() == [
        "T", "beam 5", "",
        "right: 1 of 2 captions, CIDEr 12.3", "  12.3  a cat", "        a dog runs", "",
        "unrelated: 1 of 2 captions, CIDEr 0.0", "   0.0  (no words)", "        a dog runs",
    ]  # fmt: skip
    wide = Sheet([entry("猫" * 90, references=["long " * 90])], "long " * 40)
    for colour in (True, False):
        text = wide.terminal(colour=colour, width=33)
        assert max(cell_len(row) for row in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()) <= 33
        assert ("\x1b[1m" in text) == colour


def test_captions_of_several_models_stay_in_lines():
    made = Sheet([entry("soft: a cat\nhard: a dog")])
    (card,) = made.drawing().groups("card")
    assert [text.text for text in marks(card, Text)[:3]] == ["soft: a cat", "hard: a dog", "CIDEr 1.0"]
    assert "⏎" not in made.svg() + made.terminal()
    assert "   1.0  soft: a cat\n        hard: a dog\n        a dog runs\n" in made.terminal(width=60)
