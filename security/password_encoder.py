"""Passwords in ZooKeeper, in the form of Kafka's PasswordEncoder.

    keyFactoryAlgorithm:PBKDF2WithHmacSHA512,cipherAlgorithm:AES/CBC/PKCS5Padding,keyLength:128,iterations:4096,
    salt:<base64>,initializationVector:<base64>,encryptedPassword:<base64>,passwordLength:<n>

The parts come in any order; each password names its algorithms, so only the secret has to be the same.
"""

import base64
import binascii
import hashlib
import secrets
from typing import Final

CIPHER: Final = "AES/CBC/PKCS5Padding"
KEY_FACTORY: Final = "PBKDF2WithHmacSHA512"
_DIGESTS: Final = {
    "PBKDF2WithHmacSHA1": "sha1",
    "PBKDF2WithHmacSHA256": "sha256",
    "PBKDF2WithHmacSHA384": "sha384",
    "PBKDF2WithHmacSHA512": "sha512",
}
KEY_FACTORIES: Final = tuple(_DIGESTS)
KEY_BITS: Final = (128, 192, 256)
_BLOCK_BYTES: Final = 16
_SALT_BYTES: Final = 256
_ITERATIONS_MAX: Final = 10_000_000


class PasswordEncodingError(ValueError):
    """A stored password cannot be decrypted. The text holds no part of it."""


class PasswordEncoder:
    """Encrypts and decrypts passwords with one secret.

    Args:
        secret: ``password.encoder.secret``.
        key_factory: The algorithm that derives keys from the secret when encrypting; one of `KEY_FACTORIES`.
        key_bits: The length of those keys.
        iterations: The rounds of the key derivation.
    """

    def __init__(
        self, secret: str, *, key_factory: str = KEY_FACTORY, key_bits: int = 128, iterations: int = 4096
    ) -> None:
        self._secret = secret
        self._key_factory = key_factory
        self._key_bits = key_bits
        self._iterations = iterations

    def encode(self, password: str) -> str:
        """Encrypt a password."""
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        salt, vector = secrets.token_bytes(_SALT_BYTES), secrets.token_bytes(_BLOCK_BYTES)
        key = self._key(self._key_factory, salt, self._iterations, self._key_bits)
        plain = password.encode()
        padding = _BLOCK_BYTES - len(plain) % _BLOCK_BYTES
        encryptor = Cipher(algorithms.AES(key), modes.CBC(vector)).encryptor()
        encrypted = encryptor.update(plain + bytes([padding]) * padding) + encryptor.finalize()
        parts = {
            "keyFactoryAlgorithm": self._key_factory,
            "cipherAlgorithm": CIPHER,
            "keyLength": str(self._key_bits),
            "iterations": str(self._iterations),
            "salt": base64.b64encode(salt).decode(),
            "initializationVector": base64.b64encode(vector).decode(),
            "encryptedPassword": base64.b64encode(encrypted).decode(),
            "passwordLength": str(_java_length(password)),
        }
        return ",".join(f"{name}:{value}" for name, value in parts.items())

    def decode(self, text: str) -> str:
        """Decrypt a password.

        Raises:
            PasswordEncodingError: it was encrypted with another secret, or is not in this form.
        """
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        parts = dict(part.partition(":")[::2] for part in text.split(","))
        try:
            if parts["cipherAlgorithm"] != CIPHER:
                raise PasswordEncodingError(f"the cipher is not {CIPHER}")
            salt, vector, encrypted = (
                base64.b64decode(parts[name], validate=True)
                for name in ("salt", "initializationVector", "encryptedPassword")
            )
            iterations, key_bits = int(parts["iterations"]), int(parts["keyLength"])
            if not 0 < iterations <= _ITERATIONS_MAX or key_bits not in KEY_BITS:
                raise PasswordEncodingError("its iterations or the length of its key are out of range")
            key = self._key(parts["keyFactoryAlgorithm"], salt, iterations, key_bits)
            decryptor = Cipher(algorithms.AES(key), modes.CBC(vector)).decryptor()
            padded = decryptor.update(encrypted) + decryptor.finalize()
            padding = padded[-1]
            password = padded[: len(padded) - padding].decode()
            is_sound = padded.endswith(bytes([padding]) * padding)
            if not is_sound or _java_length(password) != int(parts["passwordLength"]):
                raise PasswordEncodingError("it was encrypted by another secret")
        except (KeyError, IndexError, UnicodeDecodeError):
            raise PasswordEncodingError("it was encrypted by another secret, or is incomplete") from None
        except PasswordEncodingError:
            raise
        except (ValueError, binascii.Error):
            raise PasswordEncodingError("it is not in the form of an encrypted password") from None
        return password

    def _key(self, factory: str, salt: bytes, iterations: int, bits: int) -> bytes:
        return hashlib.pbkdf2_hmac(_DIGESTS[factory], self._secret.encode(), salt, iterations, bits // 8)


def _java_length(text: str) -> int:
    """Return a text's length as Java counts it, in UTF-16."""
    return len(text.encode("utf-16-le")) // 2
