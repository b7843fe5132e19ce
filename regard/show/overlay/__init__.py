"""An image with attention maps drawn over it."""
