"""The public keys of a token issuer (JWKS, RFC 7517), fetched, kept and looked up by their ids.

An unknown key id triggers one early refresh, at most once a minute for each id and for 16 ids at a time, so that
strangers who invent ids cannot make the broker flood the issuer.
"""

import json
import logging
import ssl
import urllib.request
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import trio

from cluster.security.bearer_tokens import decode_base64
from cluster.security.sasl_mechanisms import BearerTokenError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.hashes import HashAlgorithm

logger = logging.getLogger(__name__)

ANSWER_BYTES_MAX: Final = 1024 * 1024
FETCH_TIMEOUT_S: Final = 10.0
EARLY_REFRESH_S: Final = 60.0
MISSING_IDS_MAX: Final = 16
_CURVES: Final = {"P-256": 32, "P-384": 48, "P-521": 66}
_CURVE_OF: Final = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
_KIND_OF: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


class JwksError(Exception):
    """The keys cannot be fetched or read."""


class JsonWebKeys:
    """The keys of one issuer.

    Args:
        url: ``https:`` or ``file:``.
        refresh_s: How often they are fetched again.
        retry_s: The first pause after a failure, which doubles.
        retry_max_s: The longest pause.
        monotonic: Seconds on a clock that never goes back.
        offload: Runs a fetch beside the loop.
    """

    def __init__(
        self,
        url: str,
        *,
        refresh_s: float,
        retry_s: float,
        retry_max_s: float,
        monotonic: Callable[[], float],
        offload: "Callable[[Callable[[], bytes]], Awaitable[bytes]]",
    ) -> None:
        self.url = url
        self._refresh_s = refresh_s
        self._retry_s = retry_s
        self._retry_max_s = retry_max_s
        self._monotonic = monotonic
        self._offload = offload
        self._keys: Mapping[str, Mapping[str, Any]] = {}
        self._missing: OrderedDict[str, float] = OrderedDict()
        self._wanted = trio.Event()

    def load(self, data: bytes) -> None:
        """Replace the keys with a key set.

        Raises:
            JwksError: it is not a key set.
        """
        try:
            found = json.loads(data)["keys"]
            keys = {str(key.get("kid", "")): key for key in found if key.get("use", "sig") == "sig"}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise JwksError("the answer is no JSON Web Key Set") from None
        self._keys = keys

    async def run(self) -> None:
        """Fetch the keys now, at intervals, and early if a key is missing; until cancelled."""
        pause_s = self._retry_s
        while True:
            try:
                self.load(await self._offload(lambda: fetch(self.url)))
            except (JwksError, OSError) as error:
                logger.warning("the token keys of %s stay as they were: %s", self.url, error)
                await trio.sleep(pause_s)
                pause_s = min(2 * pause_s, self._retry_max_s)
                continue
            pause_s = self._retry_s
            with trio.move_on_after(self._refresh_s):
                await self._wanted.wait()
            self._wanted = trio.Event()

    def verify(self, kid: str, algorithm: str, signed: bytes, signature: bytes) -> bool:
        """Whether the key `kid` made a signature."""
        key = self._keys.get(kid)
        if key is None:
            self._want(kid)
            return False
        if key.get("kty") != _KIND_OF[algorithm[:2]] or key.get("alg", algorithm) != algorithm:
            return False
        try:
            return _is_signed(key, algorithm, signed, signature)
        except (KeyError, TypeError, ValueError, BearerTokenError):
            return False

    def _want(self, kid: str) -> None:
        """Request an early refresh, unless this key or too many others requested one within the last minute."""
        now = self._monotonic()
        while self._missing and now - next(iter(self._missing.values())) >= EARLY_REFRESH_S:
            self._missing.popitem(last=False)
        if kid not in self._missing and len(self._missing) < MISSING_IDS_MAX:
            self._missing[kid] = now
            self._wanted.set()


def fetch(url: str) -> bytes:
    """Fetch a key set; blocks, so call it in a thread.

    Raises:
        JwksError: the URL is neither ``https:`` nor ``file:``, or the answer is too large.
        OSError: it cannot be read.
    """
    parts = urlsplit(url)
    if parts.scheme == "file":
        with Path(unquote(parts.path)).open("rb") as file:
            data = file.read(ANSWER_BYTES_MAX + 1)
    elif parts.scheme == "https":
        opener = urllib.request.build_opener(
            _NoRedirect, urllib.request.HTTPSHandler(context=ssl.create_default_context())
        )
        with opener.open(url, timeout=FETCH_TIMEOUT_S) as answer:
            data = answer.read(ANSWER_BYTES_MAX + 1)
    else:
        raise JwksError(f"{url} is neither https: nor file:")
    if len(data) > ANSWER_BYTES_MAX:
        raise JwksError(f"the answer is larger than {ANSWER_BYTES_MAX} bytes")
    found: bytes = data
    return found


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: the keys decide who is let in."""

    def redirect_request(self, *_: Any) -> None:
        """Return None, so that the redirect raises HTTPError."""


def _is_signed(key: Mapping[str, Any], algorithm: str, signed: bytes, signature: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        if algorithm.startswith("ES"):
            _check_ec(key, algorithm, signed, signature)
        elif algorithm == "EdDSA":
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

            Ed25519PublicKey.from_public_bytes(decode_base64(key["x"])).verify(signature, signed)
        else:
            _check_rsa(key, algorithm, signed, signature)
    except InvalidSignature:
        return False
    return True


def _hash(algorithm: str) -> "HashAlgorithm":
    from cryptography.hazmat.primitives import hashes

    return {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}[algorithm[2:]]


def _check_rsa(key: Mapping[str, Any], algorithm: str, signed: bytes, signature: bytes) -> None:
    from cryptography.hazmat.primitives.asymmetric import padding, rsa

    modulus, exponent = (int.from_bytes(decode_base64(key[name]), "big") for name in ("n", "e"))
    public = rsa.RSAPublicNumbers(exponent, modulus).public_key()
    digest = _hash(algorithm)
    if algorithm.startswith("PS"):
        pss = padding.PSS(padding.MGF1(digest), padding.PSS.DIGEST_LENGTH)
        public.verify(signature, signed, pss, digest)
    else:
        public.verify(signature, signed, padding.PKCS1v15(), digest)


def _check_ec(key: Mapping[str, Any], algorithm: str, signed: bytes, signature: bytes) -> None:
    """Check an ECDSA signature in the form of JWS: two numbers, concatenated.

    Raises:
        ValueError: the key or the signature does not fit the algorithm.
    """
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    curve = _CURVE_OF[algorithm]
    size = _CURVES[curve]
    if key["crv"] != curve or len(signature) != 2 * size:
        raise ValueError("the key or the signature is of another curve")
    curves: dict[str, ec.EllipticCurve] = {
        "P-256": ec.SECP256R1(),
        "P-384": ec.SECP384R1(),
        "P-521": ec.SECP521R1(),
    }
    x, y = (int.from_bytes(decode_base64(key[name]), "big") for name in ("x", "y"))
    public = ec.EllipticCurvePublicNumbers(x, y, curves[curve]).public_key()
    first, second = (int.from_bytes(half, "big") for half in (signature[:size], signature[size:]))
    public.verify(encode_dss_signature(first, second), signed, ec.ECDSA(_hash(algorithm)))
