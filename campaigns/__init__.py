"""Faults, counted: what happens when a training is killed, a disk is full, a folder is not what it claims to be.

`make campaign`: see `python -m campaigns --help`. A campaign is one file; `frame.py` does the rest."""
