"""What was measured, as data: claims.toml has a row for each claim, which `regard reproduce` gets again.

`claim.py` reads and checks the rows, `reproduce.py` runs one. The table in results/README.md is made of them
(`python results/claims.py`)."""
