"""`/delegation_token`: the tokens, without their HMACs, and the notifications that one of them changed."""

from typing import Final, NamedTuple

from cluster.security.principal import KafkaPrincipal, PrincipalError, parse_principal
from cluster.zookeeper.config_znodes import desanitize, sanitize
from cluster.zookeeper.json_data import MalformedZnodeError, decode_json, encode_json, malformed_as
from wire.types import WallMs

_VERSIONS: Final = (1, 2, 3)


class StoredToken(NamedTuple):
    """A token as its node has it."""

    token_id: str
    owner: KafkaPrincipal
    requester: KafkaPrincipal
    renewers: tuple[KafkaPrincipal, ...]
    issued_ms: WallMs
    max_ms: WallMs
    expires_ms: WallMs


class TokenZnode:
    """`/delegation_token/tokens/<id>`, in version 3; versions 1 and 2 have no requester, who is then the owner."""

    PARENT: Final = "/delegation_token/tokens"

    @staticmethod
    def path(token_id: str) -> str:
        """Return the path of a token."""
        return f"{TokenZnode.PARENT}/{token_id}"

    @staticmethod
    def encode(token: StoredToken) -> bytes:
        """Write a token."""
        return encode_json(
            {
                "version": 3,
                "owner": sanitize(str(token.owner)),
                "tokenRequester": sanitize(str(token.requester)),
                "renewers": [sanitize(str(renewer)) for renewer in token.renewers],
                "issueTimestamp": token.issued_ms,
                "maxTimestamp": token.max_ms,
                "expiryTimestamp": token.expires_ms,
                "tokenId": token.token_id,
            }
        )

    @staticmethod
    def decode(data: bytes) -> StoredToken:
        """Read a token.

        Raises:
            MalformedZnodeError: it is not a token.
        """
        what = "a delegation token"
        value = decode_json(data, what)
        with malformed_as(what, data):
            if int(value["version"]) not in _VERSIONS:
                raise MalformedZnodeError(f"{what} has an unknown version", data)
            try:
                owner = parse_principal(desanitize(value["owner"]))
                requester = parse_principal(desanitize(value.get("tokenRequester") or value["owner"]))
                renewers = tuple(parse_principal(desanitize(each)) for each in value["renewers"])
            except PrincipalError:
                raise MalformedZnodeError(f"{what} has a malformed principal", data) from None
            return StoredToken(
                str(value["tokenId"]),
                owner,
                requester,
                renewers,
                WallMs(int(value["issueTimestamp"])),
                WallMs(int(value["maxTimestamp"])),
                WallMs(int(value["expiryTimestamp"])),
            )


class TokenChangeZnode:
    """`/delegation_token/token_changes/token_change_<seq>`: every broker reads the named token."""

    PARENT: Final = "/delegation_token/token_changes"
    PREFIX: Final = "/delegation_token/token_changes/token_change_"

    @staticmethod
    def encode(token_id: str) -> bytes:
        """Write which token changed."""
        return token_id.encode()

    @staticmethod
    def decode(data: bytes) -> str:
        """Read which token changed."""
        return data.decode(errors="replace")
