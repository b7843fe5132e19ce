"""Data in many files: tokenised once, kept, and read in an order that is computed and not stored."""
