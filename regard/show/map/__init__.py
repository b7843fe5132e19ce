"""One table of attention weights as a heat map."""
