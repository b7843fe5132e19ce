"""Neural Turing machines: `model.py` tells the paper."""
