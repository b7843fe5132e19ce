"""Maps with weights drawn at random, and how they come out of matplotlib."""

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from regard.show import Map
from regard.show.map import draw_map
from regard.show.map_plot import draw_axes, new_axes


def some_map(rows, columns, **names):
    weights = np.random.default_rng(0).dirichlet(np.full(len(columns), 0.3), len(rows))
    return Map(weights, rows, columns, **names)


def save_png(picture, folder):
    picture.save(folder / "map.png")
    with Image.open(folder / "map.png") as image:
        return np.asarray(image.convert("RGB"))


def draw(picture):
    figure, drawing = Figure(), draw_map(picture)
    ax = draw_axes(drawing, new_axes(drawing, figure))
    FigureCanvasAgg(figure).draw()
    return ax
