"""What a machine with a memory does, step by step."""
