"""A cluster on this machine: up, start, stop, kill, status."""
