"""Random inputs, by the million."""
