"""What stops a dump."""


class DumpError(Exception):
    """A file that cannot be read as what its name says; the text is for the operator."""
