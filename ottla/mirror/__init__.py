"""Copying the topics of one cluster to another, with their settings and the positions of their consumer groups.

`selection`, `offset_map` and `formats` decide and have no I/O; `copying` moves records, `topics` and `groups` keep
settings and positions in step, and `flow` runs them all.
"""
