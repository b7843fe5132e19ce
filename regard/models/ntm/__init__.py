"""Neural Turing machines: `model.py` tells the paper, `bit_lstm.py` what they are compared with."""
