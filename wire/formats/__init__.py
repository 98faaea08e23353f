"""Formats that are not requests or responses: the contents of the internal topics' records and of opaque byte fields.

Each begins with its version as an int16: `wire.formats.versioned` reads and writes that.
"""
