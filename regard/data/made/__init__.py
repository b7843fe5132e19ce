"""Generated data: pairs, reviews, scenes, shapes, glyphs, bit sequences, environments."""
