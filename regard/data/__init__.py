"""Text and images become batches."""
