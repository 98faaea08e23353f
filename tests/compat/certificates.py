"""An authority, and key stores in every form that Kafka takes; Java's own keytool makes Java's."""

import subprocess
from pathlib import Path

import trustme

PASSWORD = "store secret"


class Authority:
    """A certificate authority, and the stores that it fills."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._authority = trustme.CA(organization_name="Tests")
        self.certificate = directory / "ca.pem"
        self._authority.cert_pem.write_to_path(str(self.certificate))

    def pem(self, name: str, *hosts: str) -> Path:
        """Write a PKCS#8 key and its chain into one file."""
        issued = self._authority.issue_cert(
            *(hosts or ("127.0.0.1", "localhost")), common_name=name, organization_unit_name="dev"
        )
        path = self.directory / f"{name}.pem"
        plain = self.directory / f"{name}.key"
        issued.private_key_pem.write_to_path(str(plain))
        pkcs8 = run("openssl", "pkcs8", "-topk8", "-nocrypt", "-in", str(plain))
        path.write_bytes(pkcs8 + b"".join(each.bytes() for each in issued.cert_chain_pems))
        return path

    def pkcs12(self, name: str, *hosts: str) -> Path:
        """Write a key store in PKCS12 with openssl."""
        pem, path = self.pem(name, *hosts), self.directory / f"{name}.p12"
        run(
            *("openssl", "pkcs12", "-export", "-in", str(pem), "-out", str(path)),
            *("-passout", f"pass:{PASSWORD}", "-name", name),
        )
        return path

    def jks(self, name: str, *hosts: str) -> Path:
        """Write a key store in JKS with keytool, from PKCS12."""
        source, path = self.pkcs12(name, *hosts), self.directory / f"{name}.jks"
        run(
            *("keytool", "-importkeystore", "-srckeystore", str(source), "-srcstorepass", PASSWORD),
            *("-destkeystore", str(path), "-deststoretype", "JKS", "-deststorepass", PASSWORD),
            *("-destkeypass", PASSWORD, "-noprompt"),
        )
        return path

    def trust_store(self, kind: str) -> Path:
        """Write the authority's certificate into a trust store with keytool."""
        path = self.directory / f"trust.{kind.lower()}"
        if not path.exists():
            run(
                *("keytool", "-importcert", "-alias", "ca", "-file", str(self.certificate), "-noprompt"),
                *("-keystore", str(path), "-storetype", kind, "-storepass", PASSWORD),
            )
        return path


def run(*command: str) -> bytes:
    """Run a tool, and return its output."""
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode() + done.stdout.decode()
    return done.stdout
