"""The gates of a network that weighs its channels (squeeze-and-excitation)."""
