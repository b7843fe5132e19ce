"""Texts become tokens: tokenizers, encodings, pairs, labelled texts, documents."""
