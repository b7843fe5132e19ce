"""From an example's file to its page and its notebook."""
