"""Long short-term memory-networks: `model.py` tells the paper."""
