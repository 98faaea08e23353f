"""A principal as bytes: what a forwarded request carries of the client that sent it."""

from wire.schema import BOOL, STRING, Data, field


class DefaultPrincipalData(Data, versions="0", flexible="0+"):
    type: str = field(STRING)
    name: str = field(STRING)
    token_authenticated: bool = field(BOOL)
