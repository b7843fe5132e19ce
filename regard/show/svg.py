"""Any drawing as SVG. Text stays text, drawn in the viewer's own fonts. Tables of weights are small images inside
the file, for a rectangle for each weight would make it a hundred times as large; only cells with tips are
rectangles."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from html import escape

import numpy as np

from regard.show.colours import HATCH, HIDDEN, INK, hex_colours
from regard.show.drawing import Box, Boxes, Cells, Disc, Drawing, Group, Hatch, Image, Mark, Stroke, Text, flat
from regard.show.images import image_url, veil_url, weights_url

# System fonts first; the named fonts have Chinese, Japanese, Korean, Hebrew, Arabic and Devanagari letters.
FONTS = (
    "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'Noto Sans', 'DejaVu Sans', 'PingFang SC', "
    "'Hiragino Sans', 'Microsoft YaHei', 'Yu Gothic', 'Malgun Gothic', 'Noto Sans CJK SC', "
    "'WenQuanYi Micro Hei', 'Noto Sans Hebrew', 'Noto Sans Arabic', 'Noto Sans Devanagari', sans-serif"
)
MONOSPACED = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', 'Noto Sans Mono', monospace"
# Each text is ordered by its own letters. `direction` is that of the whole picture, also on a page that is read
# from right to left, or text-anchor would change sides.
BIDI = ' unicode-bidi="plaintext"'
DASHES = {"--": "6 2.5", "-.": "7 2 1.5 2", ":": "1.5 2"}  # matplotlib's names to SVG's lengths
FAINTEST = 0.002  # of the scale: smaller weights look like 0 and get no rectangle; most of a large map are so small
INERT = 'pointer-events="none"'  # what is drawn over cells leaves their tips alone

Style = dict[str, str]  # attributes that the marks in a group inherit


def render_svg(drawing: Drawing) -> str:
    """The text of an SVG file."""
    style = {
        "font-family": FONTS,
        "font-size": _short(drawing.font),
        "fill": INK,
        "font-weight": "400",
        "text-anchor": "start",
    }
    width, height = f"{drawing.width:.0f}", f"{drawing.height:.0f}"
    named = _attributes({name: style[name] for name in ("font-family", "font-size", "fill")})
    shared = _shared_images(drawing)
    renderer = _Renderer({key: name for key, (name, _) in shared.items()})
    images = "".join(f'<image id="{name}"{content}/>\n' for name, content in shared.values())
    defined = f"<defs>{images}</defs>\n" if images else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(drawing.name)}" '
        f'width="{width}" height="{height}" viewBox="0 0 {width} {height}" direction="ltr"{named}>\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n'
        f"{defined}{renderer.marks(drawing.marks, style)}</svg>\n"
    )


class _Renderer:
    """`shared`: the ids of images that occur several times."""

    def __init__(self, shared: dict[tuple[int, float, float], str]):
        self.shared = shared

    def marks(self, marks: Iterable[Mark], style: Style) -> str:
        return "".join(self.mark(mark, style) for mark in marks)

    def mark(self, mark: Mark, style: Style) -> str:
        match mark:
            case Text():
                return _text(mark, style)
            case Box():
                return _box(mark)
            case Boxes():
                return _boxes(mark)
            case Cells():
                return _cells(mark)
            case Hatch():
                return _hatch(mark)
            case Image():
                return self.image(mark)
            case Stroke():
                return _stroke(mark)
            case Disc():
                return _disc(mark)
            case Group():
                return self.group(mark, style)

    def group(self, group: Group, style: Style) -> str:
        """Attributes that most texts share are written once."""
        texts = [_style(mark) for mark in group.marks if isinstance(mark, Text)]
        common = {name: Counter(text[name] for text in texts).most_common(1)[0] for name in style} if texts else {}
        own = {name: value for name, (value, count) in common.items() if count > 1 and value != style[name]}
        named = _kind(group.kind) + "".join(
            f' data-{name}="{escape(str(value))}"' for name, value in group.data.items()
        )
        return f"<g{named}{_attributes(own)}>{_tip(group.tip)}\n{self.marks(group.marks, style | own)}</g>\n"

    def image(self, mark: Image) -> str:
        corner = f' x="{_short(mark.x)}" y="{_short(mark.y)}"'
        name = self.shared.get(_image_key(mark))
        image = f'<use href="#{name}"{corner}/>' if name else f"<image{corner}{_size(mark)}{_stretched(mark)}/>"
        if mark.layer is None:
            return image + "\n"
        place = f"{corner}{_size(mark)}{_aspect(mark, mark.layer)}"
        return f'{image}<image class="layer"{place} href="{veil_url(mark.layer)}"/>\n'


def _shared_images(drawing: Drawing) -> dict[tuple[int, float, float], tuple[str, str]]:
    """Images that occur several times are in the file once. Several pictures may be on one page, so that an id is
    made from the image itself."""
    images = [mark for mark in flat(drawing.marks) if isinstance(mark, Image)]
    counts = Counter(map(_image_key, images))
    shared = {}
    for mark in images:
        key = _image_key(mark)
        if counts[key] > 1 and key not in shared:
            content = f"{_size(mark)}{_stretched(mark)}"
            shared[key] = ("image-" + hashlib.sha256(content.encode()).hexdigest()[:16], content)
    return shared


def _image_key(mark: Image) -> tuple[int, float, float]:
    return id(mark.pixels), mark.width, mark.height


def _text(mark: Text, style: Style) -> str:
    own = {name: value for name, value in _style(mark).items() if value != style[name]}
    if mark.turn:
        place = f' transform="translate({_short(mark.x)},{_short(mark.y)})rotate({_short(-mark.turn)})"'
    else:
        place = f' x="{_short(mark.x)}" y="{_short(mark.y)}"'
    drop = ' dy=".35em"' if mark.centred else ""
    fit = "" if mark.fit is None else f' textLength="{_short(mark.fit)}"'
    space = ' xml:space="preserve"' if mark.mono else ""
    bidi = "" if mark.text.isascii() else BIDI
    named = f"{_kind(mark.kind)}{place}{drop}{fit}{_attributes(own)}{bidi}{space}"
    return f"<text{named}>{_tip(mark.tip)}{escape(mark.text)}</text>\n"


def _style(mark: Text) -> Style:
    return _style_of(mark.mono, mark.size, mark.colour, mark.bold, mark.anchor)


@lru_cache(maxsize=64)
def _style_of(mono: bool, size: float, colour: str, bold: bool, anchor: str) -> Style:
    return {
        "font-family": MONOSPACED if mono else FONTS,
        "font-size": _short(size),
        "fill": colour,
        "font-weight": "600" if bold else "400",
        "text-anchor": anchor,
    }


def _box(mark: Box) -> str:
    edge = f' stroke="{mark.edge}" stroke-width="{mark.line:.3g}"' if mark.edge else ""
    inert = "" if mark.fill else f" {INERT}"
    return f"{_rect(mark, mark.fill or 'none', mark.kind)}{edge}{inert}{_closed('rect', mark.tip)}"


def _rect(mark: Box | Cells, fill: str, kind: str = "") -> str:
    return f'<rect{_kind(kind)} x="{_short(mark.x)}" y="{_short(mark.y)}"{_size(mark)} fill="{fill}"'


def _boxes(mark: Boxes) -> str:
    """Rectangles of one colour are one path."""
    if isinstance(mark.fill, str):
        shapes = [
            f"M{x:.2f},{_short(y + height)}V{y:.1f}h{_short(width, 2)}V{_short(y + height)}z"
            for x, y, width, height in mark.places.tolist()
        ]
        return f'<path d="{"".join(shapes)}" fill="{mark.fill}" {INERT}/>\n' if shapes else ""
    tips = mark.tips or [""] * len(mark.places)
    rows = zip(mark.places.tolist(), mark.fill, tips, strict=True)
    return "".join(_box(Box(x, y, width, height, fill, tip=tip)) for (x, y, width, height), fill, tip in rows)


def _cells(mark: Cells) -> str:
    if callable(mark.tip):
        return _told_cells(mark)
    look = ' style="image-rendering:pixelated"'
    corner, url = f' x="{_short(mark.x)}" y="{_short(mark.y)}"', weights_url(mark.levels, mark.ramp, mark.hidden)
    start = f'<image{corner}{_size(mark)}{_aspect(mark, mark.weights)}{look} href="{url}"'
    return start + _closed("image", mark.tip)


def _told_cells(mark: Cells) -> str:
    """A rectangle with a tip for each cell that is seen. Each row is a group in which a cell is 1 x 1: the
    coordinates stay short."""
    assert callable(mark.tip)
    rows, columns = mark.weights.shape
    scale = f"scale({_short(mark.width / columns, 4)},{_short(mark.height / rows, 4)})"
    parts = [
        _rect(mark, hex_colours(np.array([mark.zero]), mark.ramp)[0]),
        "/>\n",
        f'<g transform="translate({_short(mark.x)},{_short(mark.y)}){scale}">',
    ]
    for row, (levels, told) in enumerate(zip(mark.levels, mark.seen(FAINTEST), strict=True)):
        parts.append(f'<g transform="translate(0,{row})">' if row else "<g>")
        seen = np.flatnonzero(told)
        for column, colour in zip(seen.tolist(), hex_colours(levels[seen], mark.ramp), strict=True):
            place = f'x="{column}" ' if column else ""
            parts.append(f'<rect {place}width="1" height="1" fill="{colour}">{_tip(mark.tip(row, column))}</rect>')
        parts.append("</g>\n")
    if mark.hidden is not None:
        grey = [f"M{first} {row}h{count}v1h-{count}z" for row, first, count in _runs(mark.hidden)]
        parts.append(f'<path d="{"".join(grey)}" fill="{HIDDEN}"/>')
    return "".join(parts) + "</g>\n"


def _hatch(mark: Hatch) -> str:
    lines = [f"M{first} {row + 1}" + "l1-1m0 1" * count for row, first, count in _runs(mark.hidden)]
    place = f'transform="translate({_short(mark.x)},{_short(mark.y)})scale({_short(mark.side, 4)})"'
    return (
        f'<path {place} d="{"".join(lines)}" stroke="{HATCH}" stroke-width="{mark.line / mark.side:g}" {INERT}/>\n'
    )


def _runs(table: np.ndarray) -> list[tuple[int, int, int]]:
    """Row, first column and length of each run of True."""
    runs = []
    for row, line in enumerate(table):
        changes = np.flatnonzero(np.diff(line.astype(int), prepend=0, append=0))
        runs += [(row, first, end - first) for first, end in changes.reshape(-1, 2).tolist()]
    return runs


def _stroke(mark: Stroke) -> str:
    dashes = f' stroke-dasharray="{DASHES[mark.dashes]}"' if mark.dashes in DASHES else ""
    look = f'fill="none" stroke="{mark.colour}" stroke-width="{mark.width:.3g}" stroke-linejoin="round"{dashes}'
    return f'<path d="{_path(mark.points)}" {look} {INERT}/>\n' if len(mark.points) else ""


def _path(points: np.ndarray) -> str:
    """NaN begins another piece."""
    gaps = np.flatnonzero(np.isnan(points[:, 0]))
    return "".join(_piece(piece[np.isfinite(piece[:, 0])].tolist()) for piece in np.split(points, gaps))


def _piece(points: list[list[float]]) -> str:
    if len(points) == 2 and points[0][0] == points[1][0]:
        return f"M{_short(points[0][0])},{_short(points[0][1])}V{_short(points[1][1])}"
    if len(points) == 2 and points[0][1] == points[1][1]:
        return f"M{_short(points[0][0])},{_short(points[0][1])}H{_short(points[1][0])}"
    return "M" + "L".join([f"{x:.1f},{y:.1f}" for x, y in points])


def _disc(mark: Disc) -> str:
    place = f'cx="{_short(mark.x)}" cy="{_short(mark.y)}" r="{_short(mark.radius, 2)}"'
    return f'<circle {place} fill="{mark.fill}" stroke="{mark.edge}" stroke-width="{mark.line:.3g}" {INERT}/>\n'


def _size(mark: Box | Cells | Image) -> str:
    return f' width="{_short(mark.width)}" height="{_short(mark.height)}"'


def _stretched(mark: Image) -> str:
    return f'{_aspect(mark, mark.pixels)} href="{image_url(mark.pixels)}"'


def _aspect(mark: Cells | Image, pixels: np.ndarray) -> str:
    """Said where the pixels have another shape than their place."""
    same = mark.width * pixels.shape[0] == mark.height * pixels.shape[1]
    return "" if same else ' preserveAspectRatio="none"'


def _kind(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def _attributes(style: Style) -> str:
    return "".join(f' {name}="{value}"' for name, value in style.items())


def _tip(tip: str) -> str:
    return f"<title>{escape(tip)}</title>" if tip else ""


def _closed(tag: str, tip: str) -> str:
    """The end of an element that has begun."""
    return f">{_tip(tip)}</{tag}>\n" if tip else "/>\n"


@lru_cache(maxsize=2048)  # the same places and sizes come again and again
def _short(number: float, decimals: int = 1) -> str:
    """12.0 -> 12"""
    if number == int(number):
        return str(int(number))
    return f"{number:.{decimals}f}".rstrip("0").rstrip(".")
