"""Sizes that all pictures share, in pixels of 1/96 inch."""

EDGE = 16  # margin around the picture
HEADING = 16  # font size of the title
NAME = 13  # font size of the names of axes, sites and panels
NOTE = 12  # font size of notes and of the colour scale
KEY = 120  # length of a colour scale that lies below a picture
