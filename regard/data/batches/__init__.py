"""Rows become batches: padding, buckets of similar lengths, an exact order."""
