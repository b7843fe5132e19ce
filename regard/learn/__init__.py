"""From loss to weights."""
