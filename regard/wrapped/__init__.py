"""Models that only `transformers` has, behind our protocols: asked, drawn and stepped like a run."""
