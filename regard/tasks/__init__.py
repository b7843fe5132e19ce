"""What people ask for: each task ties data, model, decoding, metrics and pictures together."""
