"""What all kinds of picture share as HTML and as data: safe, small, the same view for all."""

import base64
import json
import re
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest
from every_picture import HOSTILE, PICTURES, TITLE, image, weights

from regard.show import Entry, Examples, Gates, Heads, Line, Looks, Map, Overlay, ShadedText, Sheet, Tape, Words
from regard.show.colours import DIVERGING, LIGHT
from regard.show.examples import Example
from regard.show.html_page import bundle, html_page
from regard.show.plain import LISTED, pack_mask, pack_numbers, plain

WORDS = [
    "the",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "the",
    "lazy",
    "dog",
    "and",
    "then",
    "it",
    "sleeps",
    "in",
    "the",
    "warm",
    "afternoon",
    "sun",
    "at",
    "last",
]


class Page(HTMLParser):
    """All tags of a page with their attributes, and its scripts."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts, self.inside = [], [], None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.inside = tag

    def handle_data(self, data):
        if self.inside == "script":
            self.scripts.append(data)

    def handle_endtag(self, tag):
        self.inside = None

    @property
    def data(self):
        return json.loads(self.scripts[0])


def unpack(given):
    """As parts.js does."""
    if isinstance(given, list):
        return np.array(given)
    if "runs" in given:
        flat = np.concatenate([np.full(count, at % 2 == 1) for at, count in enumerate(given["runs"])])
        return flat.reshape(given["shape"])
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    codes = np.array([alphabet.index(digit) for digit in given["code"]]).reshape(np.prod(given["shape"]), -1)
    numbers = codes @ 64 ** np.arange(codes.shape[1])[::-1]
    shares = numbers / (64 ** codes.shape[1] - 1)
    return (given["low"] + shares * (given["top"] - given["low"])).reshape(given["shape"])


@pytest.mark.parametrize("kind", PICTURES)
def test_hostile_words_stay_data(kind):
    made, plain_one = PICTURES[kind](HOSTILE, TITLE), PICTURES[kind](WORDS[:12], "T")
    page, usual = Page(made.html()), Page(plain_one.html())
    made.html().encode("utf-8")
    assert [tag for tag, _ in page.tags] == [tag for tag, _ in usual.tags]
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert "<" not in page.scripts[0]
    assert page.scripts[1:] == usual.scripts[1:], "the script is the same whatever the words are"
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e\u2066]", made.html())
    assert page.data["kind"] == kind
    assert json.loads(json.dumps(made.data())) == {**page.data, **({"pieces": True} if made._pieces else {})}
    assert json.dumps(HOSTILE[0])[1:-1] in json.dumps(page.data)


@pytest.mark.parametrize("kind", PICTURES)
def test_a_page_loads_nothing_and_its_script_is_whole(kind):
    page = PICTURES[kind](WORDS[:4], "T").html()
    rest = re.sub("http-equiv|data:image/[a-z]+;base64,[A-Za-z0-9+/=]*", "", page)
    assert not re.search(r"https?:|\burl\(|@import|\bfetch\(|<link|^import |^export ", rest, re.MULTILINE)
    assert "default-src 'none'" in page
    script, style = bundle(kind)
    assert script.count("\nfunction show(element, data, host = {})") == 1
    names = re.findall(r"^(?:async )?(?:function|const|let) (\w+)", script, re.MULTILINE)
    assert len(names) == len(set(names)), "the modules of a view are one script: no name may occur twice"
    assert re.findall(r"^[^@\s/}:][^{]*\{", style, re.MULTILINE)
    assert all(".regard" in rule for rule in re.findall(r"^[^@\s/}][^{]*\{", style, re.MULTILINE))


def sentence_heads(tokens=20, layers=12, heads=12):
    words = (WORDS * 60)[:tokens]
    return Heads(
        {f"blocks.{at}.attend": weights(heads, tokens, tokens, seed=at) for at in range(layers)}, words, words
    )


@pytest.mark.parametrize(
    "made",
    [
        Map(weights(20, 20), WORDS[:20], WORDS[:20]),
        Map(weights(20, 20), WORDS[:20], WORDS[:20]).in_words(*2 * [Words(WORDS[:10], np.arange(20) // 2)]),
        sentence_heads(),
        sentence_heads(16).in_words(
            *2 * [{f"blocks.{at}.attend": Words(WORDS[:8], np.arange(16) // 2) for at in range(12)}]
        ),
        ShadedText(weights(200, 200), WORDS * 10, WORDS * 10),
        Looks(image(224, 224), [Line(WORDS[:15], np.ones((15, 14, 14)), np.ones(15))]),
        Overlay(image(224, 224), {f"blocks.{at}.attend, head {head}": weights(196, seed=at).reshape(14, 14)
                                  for at in range(12) for head in range(12)}),
        Gates({f"stages.{at}.excite": weights(6, 512, seed=at) for at in range(16)}, rows=WORDS[:6]),
        Tape({"read": weights(42, 128).T, "write": weights(42, 128).T}, memory=weights(42, 128, 20)),
        Examples(image(64, 64), [Example(image(32, 32), word) for word in WORDS], {"look": weights(21)}),
        Sheet([Entry(image(40, 40), word, WORDS[:5], 1.0, "right") for word in WORDS]),
    ],
    ids=lambda made: type(made).__name__,
)  # fmt: skip
def test_a_page_of_a_sentence_or_an_image_is_small(made):
    assert len(made.html()) < 200_000


@pytest.mark.parametrize("kind", PICTURES)
def test_a_notebook_gets_the_page_in_a_frame_and_the_svg_where_there_are_no_frames(kind):
    made = PICTURES[kind](HOSTILE, TITLE)
    shown = made._repr_html_()
    (frame,) = [attributes for tag, attributes in Page(shown).tags if tag == "iframe"]
    assert frame["srcdoc"] == made.html()
    assert f'<noscript><div style="overflow-x:auto">{made.svg()}</div></noscript>' in shown
    assert "<script" not in shown
    assert unescape(frame["title"])


def test_a_notebook_does_not_grow_by_megabytes():
    words = ["w"] * 900
    shown = Map(weights(900, 900), words, words)._repr_html_()
    assert "<iframe" not in shown
    assert "<svg" in shown
    assert len(shown) < 500_000


def test_the_colours_are_those_of_the_other_outputs():
    style = bundle("map")[1]
    assert f"--ramp: {', '.join(LIGHT)};" in style
    assert f"--diverging: {', '.join(DIVERGING)};" in style


def test_large_tables_are_packed_and_small_ones_are_lists():
    table = np.random.default_rng(0).normal(size=(3, 40, 20))
    for digits, error in ((1, 0.06), (2, 1e-3)):
        packed = pack_numbers(table, digits)
        assert len(packed["code"]) == digits * table.size
        np.testing.assert_allclose(unpack(packed), table, atol=error)
    assert plain(table[0, :2, :2]) == table[0, :2, :2].round(5).tolist()
    assert plain(np.zeros(LISTED + 1))["code"] == "AA" * (LISTED + 1)
    mask = np.tril(np.ones((50, 50), bool))
    np.testing.assert_array_equal(unpack(plain(mask)), mask)
    assert len(json.dumps(plain(mask))) < 700
    np.testing.assert_array_equal(unpack(pack_mask(~mask)), ~mask)


def test_photographs_in_data_are_small_and_drawings_exact():
    smooth = (
        np.linspace(0, 255, 512)[:, None]
        + np.linspace(0, 90, 700)
        + np.random.default_rng(0).normal(0, 8, (512, 700))
    )
    photo = np.repeat(smooth.clip(0, 255).astype(np.uint8)[..., None], 3, -1)
    sent = plain(photo)
    assert sent.startswith("data:image/jpeg;base64,")
    assert len(base64.b64decode(sent.partition(",")[2])) < 100_000
    assert plain(image(32, 32)).startswith("data:image/png;base64,")


def test_what_all_sites_share_is_told_once():
    heads = sentence_heads(4, 2, 2)
    assert heads.data()["rows"] == WORDS[:4]
    assert "mask" not in heads.data()
    other = Heads({"a": weights(1, 2, 3), "b": weights(1, 1, 3)}, {"a": ["p", "q"], "b": ["r"]}, "xyz")
    assert other.data()["rows"] == {"a": ["p", "q"], "b": ["r"]}
    assert other.data()["columns"] == ["x", "y", "z"]
    assert other.data()["most"] == pytest.approx(other.most)


def test_an_overview_has_the_largest_weight_of_neighbours():
    mask = np.tril(np.ones((100, 100), bool))
    table = weights(2, 100, 100) * mask
    heads = Heads(
        {"a": table, "b": table[:, :10]}, {"a": ["w"] * 100, "b": ["w"] * 10}, ["v"] * 100, mask={"a": mask}
    )
    data = heads.overview(25)
    assert (data["side"], data["kind"]) == (25, "heads")
    assert len(data["rows"]["a"]) == len(data["columns"]) == 100
    pooled = table.reshape(2, 25, 4, 25, 4).max((2, 4))
    np.testing.assert_allclose(unpack(data["panels"]["a"]), pooled, atol=table.max() / 126)
    assert unpack(data["panels"]["b"]).shape == (2, 10, 25)
    np.testing.assert_array_equal(unpack(data["mask"]["a"]), np.tril(np.ones((25, 25), bool)))
    assert "side" not in heads.overview(100)
    assert Map(weights(2, 2), "ab", "cd").overview(1)["kind"] == "map"


def test_an_overview_of_24_layers_and_16_heads_is_small():
    table = np.zeros((16, 1000, 1000), np.float32)
    table[:, 0, 0] = 1
    heads = Heads({"a": table}, ["w"] * 1000, ["w"] * 1000)
    assert 24 * len(heads.overview(32)["panels"]["a"]["code"]) < 400_000


def test_words_and_pieces_are_both_there_if_there_is_room():
    merged = Words(["unable", "!"], [0, 0, 1])
    picture = Map(weights(3, 3), ["un", "able", "!"], ["un", "able", "!"], "T").in_words(merged, merged)
    assert picture.data()["pieces"] is True
    data = Page(picture.html()).data
    assert (data["rows"], data["pieces"]["rows"]) == (["unable", "!"], ["un", "able", "!"])
    assert "pieces" not in Page(picture.pieces.html()).data
    many = Words([f"w{at}" for at in range(300)], np.arange(600) // 2)
    large = Map(weights(600, 600), ["p"] * 600, ["p"] * 600).in_words(many, many)
    assert "pieces" not in Page(large.html()).data


def test_a_page_that_would_be_too_large_is_cut_and_says_so():
    tokens = [f"t{at}" for at in range(500)]
    heads = Heads({f"blocks.{at}.attend": np.eye(500)[None].repeat(12, 0) for at in range(3)}, tokens, tokens)
    data = Page(heads.html()).data
    assert data["note"].startswith("only the first 166 of up to 500 tokens are here")
    assert len(data["rows"]) == 166
    assert len(heads.html()) < 3_000_000
    long = Map(np.full((2, 600_000), 1e-6), ["a", "b"], ["w"] * 600_000)
    assert [row.tolist() for row in [np.array(long._for_html()[0].rows)]] == [["b"]]
    text = ShadedText(np.full((2, 600_000), 1e-6), ["w"] * 600_000, ["a", "b"])
    assert text._for_html()[0].queries == ["b"]
    assert "note" not in Page(Map(np.eye(2), "ab", "cd").html()).data


def test_many_rows_of_gates_are_some_and_their_mean():
    gates = Gates({"a": weights(40, 6)}, rows=[f"class {at}" for at in range(40)])
    data = Page(gates.html()).data
    assert len(data["rows"]) == 10
    np.testing.assert_allclose(data["panels"]["a"][-1], gates.panels["a"].mean(0), atol=1e-5)
    assert data["note"] == "9 of 40 rows are drawn, and the mean of all"


def test_an_unknown_kind_has_no_view():
    with pytest.raises(FileNotFoundError):
        html_page("nosuch", "t", {})
