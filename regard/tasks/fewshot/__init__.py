"""Tell the class of images from a few examples of each class."""
