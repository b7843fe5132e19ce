"""The command line. Every task has a command, made from its record; the others are written out."""
