"""From model to sequence."""
