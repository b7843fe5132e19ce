"""Do the shipped runs read drawings that another program made?

    python results/drawn.py                             # scenes, shapes and shapes-senet: two minutes on a core
    python results/drawn.py --sheet drawings.jpg        # a sheet of the drawings, no run is asked

Drawings as people make them, by other code than the generator's: in turn by Pillow's ImageDraw, by matplotlib's
paths, and, with `--svg` and resvg installed (`pip install resvg-py`), from SVG files. Pictures of 64 to 1,000
pixels, square or not, in colour, grey or with transparency, PNG or JPEG; paper, screens and plain grounds;
filled, outlined and bordered shapes, drawn with a ruler or by a shaky hand. A hollow circle is a ring.

Everything is a function of the kind and the number of the drawing."""

from __future__ import annotations

import argparse
import io
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Outline
from PIL import Image, ImageDraw

import regard
from regard.data.images.images import decode_image
from regard.metrics.accuracy import interval

COUNT = 600  # drawings of a kind
SHAPES = ("circle", "square", "triangle", "cross", "ring", "star")
# As they are called in CSS, in matplotlib's and Material's palettes, in Paint.
COLOURS = {
    "red": "#ff0000 #dc143c #d62728 #ed1c24 #c80000 #b22222 #f44336 #e53935",
    "green": "#008000 #00ff00 #228b22 #2ca02c #22b14c #32cd32 #4caf50 #3cb371",
    "blue": "#0000ff #1f77b4 #1e90ff #4169e1 #0000cd #3f48cc #2196f3 #4682b4",
    "yellow": "#ffff00 #ffd700 #fff200 #ffeb3b #f0e628 #fada5e",
    "purple": "#800080 #a020f0 #9467bd #a349a4 #9c27b0 #8a2be2 #9932cc #6a0dad",
    "white": "#ffffff #fafafa #f5f5f5 #fffaf0",
}
OTHERS = "#000000 #333333 #808080 #a52a2a #ff7f0e #00bcd4 #e377c2 #008080 #ffc0cb #8c564b #000080 #d3d3d3"
LIGHT = "#ffffff #f8f8f8 #fdf6e3 #faf0e6 #fffff0 #f0f8ff #e8f5e9 #fce4ec #e0e0e0 #fff8dc"
DARK = "#000000 #101010 #1e1e1e #263238 #0d1b2a #2b2b2b #3b1f2b #1b2a1b #222244"
MIDDLE = "#808080 #bdb76b #5f9ea0 #d2b48c #cd853f #87ceeb #90a4ae #ffb6c1 #6b8e23 #b0c4de"
SIZES = [
    (400, 300),
    (300, 400),
    (512, 512),
    (1000, 1000),
    (640, 480),
    (256, 256),
    (600, 400),
    (200, 200),
    (128, 128),
]
SIZES += [(640, 360), (1000, 700), (450, 600), (64, 64)]
APART = 110  # distance of a shape's colour from the ground's, in RGB: no white shape on white paper
SMALLEST = 0.08  # radius of a shape, as a share of the picture's longer side
Points = np.ndarray  # (n, 2), from the left and from above
Colour = tuple[int, ...]


@dataclass(frozen=True)
class Drawn:
    """A shape of a drawing, in pixels."""

    name: str
    colour: Colour
    middle: np.ndarray
    radius: float
    style: str  # filled, outlined or bordered
    thick: float  # of the line
    turned: float
    border: Colour
    shaky: float  # how far a line wanders, as a share of the radius
    form: float  # in [0, 1]: how wide a triangle, how thick the arms of a cross, how sharp a star

    @property
    def line(self) -> Points:
        """Its closed outline."""
        count = {"square": 4, "triangle": 3, "star": 10}.get(self.name, 90)
        angles = (
            2 * math.pi * np.arange(count) / count - math.pi / 2 + (math.pi / 4 if self.name == "square" else 0)
        )
        points = np.stack((np.cos(angles), np.sin(angles)), 1)
        if self.name == "star":
            points[1::2] *= 0.36 + 0.16 * self.form
        if self.name == "triangle":
            points[:, 0] *= 0.8 + 0.4 * self.form
        if self.name == "cross":
            arm = 0.18 + 0.2 * self.form
            quarter = np.array([(-arm, -1.0), (arm, -1.0), (arm, -arm)])
            turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
            points = np.concatenate([quarter @ np.linalg.matrix_power(turn, k) for k in range(4)]) * 0.93
        if self.name == "star" and self.style == "outlined" and self.form > 0.6:
            points = points[[0, 4, 8, 2, 6]]  # in one stroke, as people do: its lines cross
        if self.shaky:
            points = self._shaken(points)
        sine, cosine = math.sin(self.turned), math.cos(self.turned)
        return self.middle + self.radius * points @ np.array([[cosine, sine], [-sine, cosine]])

    def _shaken(self, points: Points) -> Points:
        """With more points on each side, which wander together with their neighbours."""
        generator = np.random.default_rng(int(1000 * self.form))
        steps = max(1, 60 // len(points))
        ends = np.roll(points, -1, 0)
        share = np.arange(steps)[:, None] / steps
        points = np.concatenate([one + share * (two - one) for one, two in zip(points, ends, strict=True)])
        away = generator.standard_normal((len(points), 2))
        near = np.exp(-0.5 * (np.arange(-6, 7) / 2.5) ** 2)
        for axis in (0, 1):
            ring = np.concatenate((away[-6:, axis], away[:, axis], away[:6, axis]))
            away[:, axis] = np.convolve(ring, near / np.sqrt((near**2).sum()), "valid")
        return points + self.shaky * away


@dataclass(frozen=True)
class Drawing:
    """A picture before it is drawn, and what there is to say about it."""

    answer: str  # a caption or a class
    size: tuple[int, int]  # width and height
    ground: np.ndarray  # (H, W, 3) bytes
    shapes: tuple[Drawn, ...]
    clear: bool  # the ground is transparent
    grey: bool
    jpeg: bool


def hexes(text: str) -> list[Colour]:
    return [tuple(bytes.fromhex(one[1:])) for one in text.split()]


def paint_ground(size: tuple[int, int], generator: np.random.Generator) -> np.ndarray:
    """(H, W, 3): a plain ground, one that changes across the picture, grainy paper, or squared paper."""
    wide, high = size
    kind = generator.choice(
        ["white", "black", "light", "dark", "middle", "fade", "paper", "squares"],
        p=[0.26, 0.12, 0.12, 0.12, 0.1, 0.1, 0.12, 0.06],
    )
    table = {"dark": DARK, "middle": MIDDLE, "black": "#000000", "white": "#ffffff"}.get(str(kind), LIGHT)
    if kind == "fade" and generator.random() < 0.4:
        table = DARK
    colours = hexes(table)
    ground = np.empty((high, wide, 3))
    ground[:] = colours[generator.integers(len(colours))]
    if kind in ("fade", "paper"):
        angle = generator.uniform(0, 2 * math.pi)
        across, down = np.meshgrid(np.linspace(-1, 1, wide), np.linspace(-1, 1, high))
        slope = (math.cos(angle) * across + math.sin(angle) * down) / 2
        ground += generator.uniform(10, 35) * slope[..., None] * generator.uniform(0.6, 1, 3)
    if kind == "paper":
        ground += generator.uniform(2, 6) * generator.standard_normal((high, wide, 1)) - generator.uniform(0, 40)
    if kind == "squares":
        step = round(min(size) / generator.integers(9, 16))
        ink = ground[0, 0] - generator.uniform(20, 45) * np.array([1.0, 0.7, 0.3])
        ground[::step] = ink
        ground[:, ::step] = ink
    return np.clip(np.rint(ground), 0, 255).astype(np.uint8)


def differs(colour: Colour, ground: np.ndarray) -> bool:
    """From nearly every pixel of the ground."""
    part = ground[:: max(1, len(ground) // 32), :: max(1, ground.shape[1] // 32)].reshape(-1, 3).astype(float)
    return bool(np.quantile(np.linalg.norm(part - colour, axis=1), 0.1) >= APART)


def draw_shape(
    name: str, colour: Colour, middle: np.ndarray, radius: float, side: int, generator: np.random.Generator
) -> Drawn:
    style = str(generator.choice(["filled", "outlined", "bordered"], p=[0.5, 0.32, 0.18]))
    thick = min(max(1.0, generator.uniform(0.012, 0.045) * side), 0.3 * radius)
    if name == "circle" and style == "outlined":
        style = "filled"
    if name == "ring":
        style = "outlined"
        thick = thick if generator.random() < 0.4 else generator.uniform(0.12, 0.42) * radius
    border = hexes("#000000 #ffffff #333333")[generator.integers(3)]
    shaky = generator.uniform(0.01, 0.03) if generator.random() < 0.35 else 0.0
    turned = 0.0 if generator.random() < 0.5 else generator.uniform(-0.2, 0.2)
    return Drawn(name, colour, middle, radius, style, thick, turned, border, shaky, float(generator.random()))


def plan_shape(number: int) -> Drawing:
    """One shape of any colour, anywhere; a third are turned by any angle."""
    generator = np.random.default_rng([7, number])
    size = SIZES[generator.integers(len(SIZES))]
    ground, side = paint_ground(size, generator), min(size)
    grey = bool(generator.random() < 0.15)
    table = hexes(" ".join((*COLOURS.values(), OTHERS)))
    while True:
        colour = table[generator.integers(len(table))]
        level = round(float(np.dot(colour, (0.299, 0.587, 0.114))))
        if (
            differs((level,) * 3, np.repeat(ground.mean(-1, keepdims=True), 3, -1))
            if grey
            else differs(colour, ground)
        ):
            break
    radius = generator.uniform(0.18, 0.42) * side
    middle = generator.uniform(1.1 * radius, np.array(size) - 1.1 * radius)
    shape = draw_shape(SHAPES[number % len(SHAPES)], colour, middle, radius, side, generator)
    if generator.random() < 1 / 3:
        shape = replace(shape, turned=generator.uniform(0, 2 * math.pi))
    return finish(shape.name, size, ground, [shape], grey, generator)


def plan_scene(number: int) -> Drawing:
    """One to three shapes, in the cells of a grid."""
    generator = np.random.default_rng([11, number])
    count = 1 + number % 3
    steps = {"left of": (1, 0), "above": (0, 1)}
    while True:
        size = SIZES[generator.integers(len(SIZES))]
        words = [str(word) for word in generator.choice(list(steps), count - 1)]
        cells = np.cumsum([(0, 0), *(steps[word] for word in words)], 0)
        cell = np.array(size) / (cells.max(0) + 1)
        largest = min(0.4 * cell.min(), 0.3 * min(size))
        radii = generator.uniform(0.62, 1.0, count) * largest
        if radii.min() >= SMALLEST * max(size):
            break
    loose = np.minimum(0.5 * cell - 1.08 * radii.max(), 0.12 * cell.min())
    middles = (cells + 0.5) * cell + generator.uniform(-1, 1, (count, 2)) * np.maximum(loose, 0)
    ground, said = paint_ground(size, generator), []
    shapes = []
    for place in range(count):
        while True:
            name = list(COLOURS)[generator.integers(len(COLOURS))]
            colours = hexes(COLOURS[name])
            if differs(colour := colours[generator.integers(len(colours))], ground):
                break
        kind = SHAPES[generator.integers(len(SHAPES))]
        shapes.append(draw_shape(kind, colour, middles[place], radii[place], min(size), generator))
        said += [*words[place - 1 : place], f"a {name} {kind}"] if place else [f"a {name} {kind}"]
    return finish(" ".join(said), size, ground, shapes, False, generator)


def finish(
    answer: str,
    size: tuple[int, int],
    ground: np.ndarray,
    shapes: list[Drawn],
    grey: bool,
    generator: np.random.Generator,
) -> Drawing:
    clear = bool(ground.min() == 255 and generator.random() < 0.3)
    jpeg = bool(not clear and generator.random() < 0.25)
    return Drawing(answer, size, ground, tuple(shapes), clear, grey, jpeg)


# ---- three programs


def by_pillow(drawing: Drawing) -> Image.Image:
    """No smooth edges: Pillow's shapes have none."""
    layer = Image.new("RGBA", drawing.size)
    pen = ImageDraw.Draw(layer)
    for shape in drawing.shapes:
        points = shape.line
        places = [(x, y) for x, y in points.tolist()]
        thick = max(1, round(shape.thick))
        if shape.name in ("circle", "ring") and not shape.shaky:
            ends = [*(shape.middle - shape.radius).tolist(), *(shape.middle + shape.radius).tolist()]
            if shape.style == "outlined":
                pen.ellipse(ends, outline=shape.colour, width=thick)
            else:
                line = shape.border if shape.style == "bordered" else None
                pen.ellipse(ends, fill=shape.colour, outline=line, width=thick)
            continue
        if shape.style != "outlined":
            pen.polygon(places, fill=shape.colour)
        if shape.style != "filled":
            line = shape.colour if shape.style == "outlined" else shape.border
            pen.line([*places, *places[:2]], fill=line, width=thick, joint="curve")
    return layer


def by_matplotlib(drawing: Drawing) -> Image.Image:
    figure = Figure(figsize=(drawing.size[0] / 100, drawing.size[1] / 100), dpi=100, frameon=False)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, drawing.size[0]), ylim=(drawing.size[1], 0))
    axes.axis("off")
    for shape in drawing.shapes:
        points = shape.line
        hue = tuple(value / 255 for value in shape.colour)
        line = hue if shape.style == "outlined" else tuple(value / 255 for value in shape.border)
        axes.add_patch(
            PathPatch(
                Outline(np.concatenate((points, points[:1])), closed=True),
                facecolor="none" if shape.style == "outlined" else hue,
                edgecolor="none" if shape.style == "filled" else line,
                linewidth=shape.thick * 0.72,  # points: 72 are 100 pixels
                joinstyle="round" if shape.form > 0.5 else "miter",
            )
        )
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return Image.fromarray(np.asarray(canvas.buffer_rgba()).copy())


def as_svg(drawing: Drawing) -> str:
    parts = []
    for shape in drawing.shapes:
        points = shape.line
        colour, border = ("#" + bytes(each).hex() for each in (shape.colour, shape.border))
        fill = "none" if shape.style == "outlined" else colour
        line = {"filled": "none", "outlined": colour, "bordered": border}[shape.style]
        style = f'fill="{fill}" stroke="{line}" stroke-width="{shape.thick:.2f}"'
        if shape.name in ("circle", "ring") and not shape.shaky:
            x, y = shape.middle
            parts.append(f'<circle cx="{x:.2f}" cy="{y:.2f}" r="{shape.radius:.2f}" {style}/>')
        else:
            places = " ".join(f"{x:.2f},{y:.2f}" for x, y in points)
            parts.append(f'<polygon points="{places}" {style}/>')
    wide, high = drawing.size
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}">{"".join(parts)}</svg>'


def by_resvg(drawing: Drawing) -> Image.Image:
    import resvg_py  # no dependency of ours

    return Image.open(io.BytesIO(bytes(resvg_py.svg_to_bytes(svg_string=as_svg(drawing))))).convert("RGBA")


def picture(drawing: Drawing, program: Callable[[Drawing], Image.Image]) -> np.ndarray:
    """(H, W, 3) as regard reads it from the file."""
    layer = program(drawing)
    if drawing.clear:
        image = layer
    else:
        image = Image.alpha_composite(Image.fromarray(drawing.ground).convert("RGBA"), layer).convert("RGB")
    image = image.convert("L") if drawing.grey and not drawing.clear else image
    file = io.BytesIO()
    image.save(file, "JPEG" if drawing.jpeg else "PNG", **({"quality": 85} if drawing.jpeg else {}))
    return decode_image(file, "drawing")


PLANS = {"scenes": plan_scene, "shapes": plan_shape}
PROGRAMS = {"pillow": by_pillow, "matplotlib": by_matplotlib}


def drawings(kind: str, count: int, *, svg: bool = False) -> Iterator[tuple[np.ndarray, str, str]]:
    """Pictures (H, W, 3), their captions or classes, and the program that drew each: in turn, so that every class
    and every number of shapes comes from each."""
    programs = {**PROGRAMS, **({"resvg": by_resvg} if svg else {})}
    for number in range(count):
        program = list(programs)[number // 6 % len(programs)]
        drawing = PLANS[kind](number)
        yield picture(drawing, programs[program]), drawing.answer, program


# ---- what runs make of them


def measure(name: str, count: int, svg: bool) -> None:
    """Prints a line for each program, and one for all."""
    run = regard.load(name)
    answers = run.caption if hasattr(run, "caption") else run.recognise
    kind = "scenes" if hasattr(run, "caption") else "shapes"
    right: dict[str, list[bool]] = {}
    batch = list(drawings(kind, count, svg=svg))
    for first in range(0, count, 50):
        part = batch[first : first + 50]
        for answer, (_, wanted, program) in zip(answers([image for image, _, _ in part]), part, strict=True):
            said = answer.text if kind == "scenes" else answer.label
            right.setdefault(program, []).append(said == wanted)
    right["all"] = [each for marks in right.values() for each in marks]
    for program, marks in right.items():
        low, high = interval(sum(marks), len(marks))
        share = f"{100 * np.mean(marks):.1f} ({low:.1f} to {high:.1f})"
        print(f"| {name} | {program} | {len(marks)} | {share} |", flush=True)


def sheet(path: Path, columns: int = 12, rows: int = 4, side: int = 96) -> None:
    """So many rows of scenes, and below them of shapes."""
    whole = Image.new("RGB", (columns * side, 2 * rows * side), "grey")
    pictures = [image for kind in PLANS for image, _, _ in drawings(kind, columns * rows)]
    for number, image in enumerate(pictures):
        small = Image.fromarray(image)
        small.thumbnail((side - 4, side - 4))
        whole.paste(small, (number % columns * side + 2, number // columns * side + 2))
    whole.save(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("runs", nargs="*", default=["scenes", "shapes", "shapes-senet"], metavar="RUN")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--svg", action="store_true", help="a third of the drawings from SVG, by resvg")
    parser.add_argument("--sheet", type=Path, help="draw a sheet and ask no run")
    asked = parser.parse_args()
    if asked.sheet:
        return sheet(asked.sheet)
    print("| run | drawn by | drawings | exactly right, % (95 % interval) |\n|---|---|---|---|", flush=True)
    for run in asked.runs:
        measure(run, asked.count, asked.svg)


if __name__ == "__main__":
    main()
