"""The metrics that a broker declares, and how they are shown."""
