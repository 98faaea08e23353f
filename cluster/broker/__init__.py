"""The composition root: configuration in, a running nursery out, and what belongs to the process."""
