"""Whether one text follows another."""
