"""The command line. Every task has a command, made from its card; the others are written out."""
