"""Questions about a text, answered by a part of it."""
