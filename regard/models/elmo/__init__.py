"""ELMo: `model.py` tells the paper."""
