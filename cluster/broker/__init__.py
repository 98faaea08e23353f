"""The composition root: configuration in, a running nursery out; and the broker's process."""
