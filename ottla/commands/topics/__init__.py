"""Topics, their offsets and records."""
