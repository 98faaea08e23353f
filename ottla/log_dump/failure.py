"""The error that stops a dump."""


class DumpError(Exception):
    """A file's content is not what its name says; the text is for the operator."""
