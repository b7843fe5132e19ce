"""Attention weights to pictures: PNG, SVG, HTML, notebooks and terminals. Takes numpy arrays, never imports torch.

Each kind of picture has a folder: `data.py` checks what is given, `layout.py` says where things stand,
`svg.py`, `png.py` and `terminal.py` each write one kind of output, and `picture.py` has the class that users hold.
In HTML, `views/KIND.js` draws the picture's data."""

from regard.show.bars import bars
from regard.show.curves import Curves, length_curves, loss_curve
from regard.show.document.picture import Document
from regard.show.examples.data import Example
from regard.show.examples.picture import Examples
from regard.show.gates.picture import Gates
from regard.show.heads.picture import Heads
from regard.show.looks.data import Line
from regard.show.looks.picture import Looks
from regard.show.map.picture import Map
from regard.show.overlay.picture import Overlay
from regard.show.position_pictures import Barcode, barcode, position_curves, similarity
from regard.show.rollout import patch_map, rollout
from regard.show.shaded.picture import ShadedText
from regard.show.sheet.data import Entry
from regard.show.sheet.picture import Sheet
from regard.show.tape.picture import Tape
from regard.show.words import Words

__all__ = [
    "Barcode",
    "Curves",
    "Document",
    "Entry",
    "Example",
    "Examples",
    "Gates",
    "Heads",
    "Line",
    "Looks",
    "Map",
    "Overlay",
    "ShadedText",
    "Sheet",
    "Tape",
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
