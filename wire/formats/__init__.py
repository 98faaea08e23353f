"""Formats that are not requests or responses: what records of the internal topics and opaque byte fields hold.

Each begins with its version as an int16: `wire.formats.versioned` reads and writes that.
"""
