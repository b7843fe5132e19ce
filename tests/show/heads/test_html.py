"""Heads as one HTML file, and that no token breaks out of its text in any output."""

import json
import re
from xml.etree import ElementTree

import numpy as np

from regard.show import Heads

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "\"'&amp;<b>",
    "]]><!--",
    "\x1b[31m\x00",
    "\ud800",
    "${x}`",
    "$",
]
SOURCE, TARGET = ["the", "black", "cat", "."], ["die", "Katze", "."]


def weights(heads, rows, columns, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(columns, 0.3), (heads, rows))


def translator(**names):
    panels = {"encoder.0.attend": weights(2, 4, 4), "decoder.1.cross": weights(3, 3, 4, seed=1)}
    rows = {"encoder.0.attend": SOURCE, "decoder.1.cross": TARGET}
    return Heads(panels, rows, SOURCE, **names)


def test_hostile_tokens_and_names_stay_text(tmp_path, read_page):
    count = len(HOSTILE)
    heads = Heads({HOSTILE[0]: weights(2, count, count), HOSTILE[1]: weights(1, count, count)}, HOSTILE, HOSTILE,
                  HOSTILE[0])  # fmt: skip
    root = ElementTree.fromstring(heads.svg())
    assert {part.tag.removeprefix(SVG) for part in root.iter()} == {"svg", "g", "rect", "text", "title", "image"}
    page = read_page(heads.html())
    assert len(page.all("script")) == 2
    assert {tag for tag, _ in page.tags} == {tag for tag, _ in read_page(translator().html()).tags}
    assert len(page.all("img")) == 3
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert page.scripts[1] == read_page(translator().html()).scripts[1]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f]", heads.html())
    assert "\x1b[31m\x00" not in heads.terminal()
    heads.save(tmp_path / "h.png")
    heads.save(tmp_path / "h.html")


def test_the_page_holds_the_weights_in_thousandths_and_loads_nothing(read_page):
    heads = translator(title="t")
    page = read_page(heads.html())
    data = json.loads(page.scripts[0])
    assert [site["rows"] for site in data] == [SOURCE, TARGET]
    assert [len(site["heads"]) for site in data] == [2, 3]
    np.testing.assert_allclose(
        np.reshape(data[1]["heads"][2], (3, 4)) / 1000 * data[1]["tops"][2],
        heads.map("decoder.1.cross", 2).weights,
        atol=5.1e-4,
    )
    buttons = page.all("button")
    assert [(button["data-site"], button["data-head"]) for button in buttons] == [
        ("0", "0"), ("0", "1"), ("1", "0"), ("1", "1"), ("1", "2"),
    ]  # fmt: skip
    # Seen without the script: the panels are images that the page itself holds.
    assert all(image["src"].startswith("data:image/png;base64,") for image in page.all("img"))
    rest = heads.html().replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|\burl\(|@import|\bfetch\b|<link", rest)
    assert "chosen" not in {attributes.get("class") for _, attributes in page.tags}  # the script adds it


def test_a_chosen_panel_is_shown_large_and_its_rows_say_what_they_look_at(run_page):
    table = np.array([[[0.9, 0.1], [0.0, 1.0]], [[0.25, 0.75], [0.6, 0.4]]])
    heads = Heads({"a.0": table}, ["<i>", "b"], ["x", "y"])
    script = """
      document.querySelectorAll("button")[1].click();
      for (const key of ["ArrowDown", "ArrowDown"])
        document.querySelector(".map").dispatchEvent(new KeyboardEvent("keydown", {key}));
    """
    page = run_page(heads.html(), script)
    assert '<h2 class="name">a.0, head 1</h2>' in page
    assert "<bdi>b</bdi> looks at <bdi>x</bdi> 0.60, <bdi>y</bdi> 0.40</p>" in page
    assert re.findall(r'stroke-opacity="([\d.]+)"', page) == ["0.25", "0.75", "0.6", "0.4"]
    assert page.count("&lt;i&gt;</text>") == 2
    assert re.findall(r'aria-pressed="(\w+)"', page) == ["false", "true"]


def test_two_pictures_on_one_page_do_not_meet(run_page):
    """As in a notebook or on a web page: each view keeps to its own element."""
    first, second = (Heads({"a.0": np.eye(2)[None]}, rows, "xy").html() for rows in ("ab", "cd"))
    element = second[second.index('<div class="regard') : second.index("<script")]
    script = (
        first[first.index("// Choosing") : first.index("showHeads(document")]
        + f"""
      document.body.insertAdjacentHTML("beforeend", {json.dumps(element)});
      const other = document.body.lastElementChild;
      showHeads(other, [{{rows: ["c", "d"], columns: ["x", "y"], tops: [1], heads: [[1000, 0, 0, 1000]]}}]);
      other.querySelector(".map").dispatchEvent(new KeyboardEvent("keydown", {{key: "ArrowDown"}}));
    """
    )
    asked = re.findall(r'<p class="question"[^>]*>(.*?)</p>', run_page(first, script))
    assert asked == [
        "Point at a row, or press ↓ in the map, to see what it looks at.",
        "<bdi>c</bdi> looks at <bdi>x</bdi> 1.00",
    ]


def test_a_long_text_is_shaded_instead_of_drawn_as_lines(run_page):
    table = np.zeros((1, 2, 61))
    table[0, 0, 3], table[0, 1, 5] = 1, 0.5
    heads = Heads({"a.0": table}, ["p", "q"], [f"w{at}" for at in range(61)])
    script = """
      document.querySelector(".map").dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowUp"}));
    """
    page = run_page(heads.html(), script)
    assert "<bdi>q</bdi> looks at <bdi>w5</bdi> 0.50" in page
    levels = dict(
        re.findall(r'<bdi style="--level: ?([\d.]+)%;?">(w\d+)</bdi>', page)[at][::-1] for at in range(61)
    )
    assert (levels["w5"], levels["w3"]) == ("70", "0")
    assert "<line" not in page.replace("<line>", "")
    short = run_page(Heads({"a.0": table[..., :4]}, ["p", "q"], list("abcd")).html(), "")
    assert '<p class="text"></p>' in short
    assert "<line " in short


def test_a_page_that_would_be_too_large_is_cut_and_says_so():
    tokens = [f"t{at}" for at in range(500)]
    heads = Heads({f"blocks.{at}.attend": np.eye(500)[None].repeat(12, 0) for at in range(3)}, tokens, tokens)
    page = heads.html()
    assert "only the first 235 of up to 500 tokens are drawn" in page
    assert len(page) < 6_000_000
    assert "only the first" not in translator().html()
    alone = Heads({"a": np.eye(500)[None]}, tokens, tokens).html()
    assert "only the first" not in alone
    assert "t499" in alone
