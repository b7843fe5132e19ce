"""Many attention heads as a grid of small heat maps."""
