"""Errors in a configuration, in words that let the operator fix it."""


class ConfigError(ValueError):
    """A setting has a value that cannot be used, or that asks for something that is not served.

    Attributes:
        name: The setting's name as it stands in the file.
        value: The value given; None if it is missing. Secrets appear as "[hidden]".
        expected: What a valid value would be.
    """

    def __init__(self, name: str, value: object, expected: str) -> None:
        super().__init__(
            f"{name}={value}: expected {expected}" if value is not None else f"{name}: expected {expected}"
        )
        self.name = name
        self.value = value
        self.expected = expected
