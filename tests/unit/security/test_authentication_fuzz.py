"""A short run of the fuzzer; ``scripts/fuzz-authentication`` runs millions of inputs."""

import pytest

from tests.fuzz.authentication import FINAL, FIRST, PASSWORD, exchange_frames, fuzz, targets
from tests.fuzz.target import Finding, Target
from wire.frames import encode_request
from wire.messages.sasl_handshake import SaslHandshakeRequest

INPUTS = 10_000


@pytest.mark.parametrize("target", targets(), ids=lambda target: target.name)
def test_no_input_does_what_none_may(target: Target) -> None:
    fuzz(target, int(INPUTS * target.share), seed=7)


def test_the_honest_inputs_are_honest() -> None:
    """If they were refused, the fuzzer would never reach the code after them."""
    sasl = next(target for target in targets() if target.name == "SASL")
    reached = []
    for frames in sasl.seeds[:4]:
        reached.append(b"".join(frames))
        exchange_frames(frames)
    assert all(PASSWORD in each or FINAL in each for each in reached)


def test_the_fuzzer_finds_what_it_looks_for() -> None:
    def crash(_messages: object) -> None:
        raise KeyError("x")

    with pytest.raises(Finding, match=r"seed 3, input 0: KeyError\('x'\)"):
        fuzz(Target("crash", 1.0, [[b"a"]], crash), 1, seed=3)


def test_an_authentication_without_a_proof_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.authentication.PROOF_STEM", b"another proof")
    handshake = bytes(encode_request(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 0, 1, "c"))[4:]
    with pytest.raises(Finding, match="without a password or proof"):
        exchange_frames([handshake, FIRST, FINAL])
