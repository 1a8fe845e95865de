"""Lowering: a JSON Schema made into one that the grammar engine enforces exactly, or refused."""
