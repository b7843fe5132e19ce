"""SNAIL: `model.py` tells the paper, `agent.py` its reinforcement learning."""
