"""The numbers that DESIGN holds itself to, row by row: what is run against what, and what came of it."""
