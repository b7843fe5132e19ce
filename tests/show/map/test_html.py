"""The map as one HTML file."""

import re

import numpy as np

from regard.show import Map
from regard.show.colours import LIGHT, shade

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "\"'&amp;&<b>",
    "]]><!--",
    "\x1b[31m\x00\x07",
    "\n",
    "\ud800",
    "\uffff\u202e",
    "{color:red}</style>",
    "${alert(1)}`",
]


def test_hostile_tokens_stay_text(read_page):
    count = len(HOSTILE)
    picture = Map(np.full((count, count), 1 / count), HOSTILE, HOSTILE, HOSTILE[0], HOSTILE[1], HOSTILE[2])
    page = picture.html()
    page.encode("utf-8")
    parsed = read_page(page)
    tags = [tag for tag, _ in parsed.tags]
    assert (tags.count("script"), tags.count("style")) == (1, 1)
    assert not {"img", "b", "iframe", "link", "object", "image", "use"} & set(tags)
    assert not any(name.startswith("on") for _, attributes in parsed.tags for name in attributes)
    # The script is the same whatever the tokens are.
    assert parsed.scripts == read_page(Map(np.eye(2), "ab", "cd").html()).scripts
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e]", page)


def test_the_page_loads_nothing():
    page = Map(np.eye(2), "ab", "cd", title="http").html().replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert "http:" not in page
    assert "https:" not in page
    assert not re.search(r"\b(src|href|url|import|fetch)\b", page)


def test_pointing_at_a_row_shades_what_it_looks_at(run_page):
    picture = Map(np.array([[0.9, 0.1, 0.0], [0.0, 0.0, 1.0]]), ["<i>", "b"], ["x", "y" * 60, "z"])
    script = """
      const label = document.querySelectorAll("text[data-row]")[0];
      label.dispatchEvent(new PointerEvent("pointerover", {bubbles: true}));
    """
    page = run_page(picture.html(), script)
    assert '<div class="question"><bdi>&lt;i&gt;</bdi> looks at</div>' in page
    line = page[page.index('<div class="tokens">') : page.index("<svg")]
    dark, pale = ("rgb({}, {}, {})".format(*shade(np.array(weight), LIGHT)) for weight in (0.9, 0.1))
    assert re.findall(r"<bdi.*?</bdi>", line) == [
        f'<bdi style="background: {dark}; color: rgb(255, 255, 255);">x</bdi>',
        f'<bdi style="background: {pale};">{"y" * 23}…</bdi>',
        "<bdi>z</bdi>",
    ]
    assert 'class="looking"' in page
