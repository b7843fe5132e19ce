"""A document whose words and sentences are shaded by attention."""
