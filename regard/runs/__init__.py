"""A run is a folder: written, read, refused."""
