"""Attention weights to pictures: PNG, SVG, HTML, notebooks and terminals. Takes numpy arrays, never imports torch.

Each kind of picture has a file: the class that users hold, which checks its data; its drawing, which says what
is where; and its form in a terminal. `svg.py` and `figure.py` (matplotlib) render any drawing. In HTML,
`views/KIND.js` draws the picture's data."""

from regard.show.bars import bars
from regard.show.curves import Curves, length_curves, loss_curve
from regard.show.difference import Difference
from regard.show.document import Document
from regard.show.examples import Example, Examples
from regard.show.gates import Gates
from regard.show.heads import Heads
from regard.show.image_row import Images
from regard.show.looks import Line, Looks
from regard.show.map import Map
from regard.show.overlay import Overlay
from regard.show.position_pictures import Barcode, barcode, position_curves, similarity
from regard.show.rollout import patch_map, rollout
from regard.show.shaded import ShadedText
from regard.show.sheet import Entry, Sheet
from regard.show.table import Table
from regard.show.tape import Tape
from regard.show.vectors import Vectors
from regard.show.words import Words

__all__ = [
    "Barcode",
    "Curves",
    "Difference",
    "Document",
    "Entry",
    "Example",
    "Examples",
    "Gates",
    "Heads",
    "Images",
    "Line",
    "Looks",
    "Map",
    "Overlay",
    "ShadedText",
    "Sheet",
    "Table",
    "Tape",
    "Vectors",
    "Words",
    "barcode",
    "bars",
    "length_curves",
    "loss_curve",
    "patch_map",
    "position_curves",
    "rollout",
    "similarity",
]
