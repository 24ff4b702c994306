"""Sealing a start key: HPKE against another implementation, and the auditor's files."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import example, given
from hypothesis import strategies as st
from pyhpke import AEADId, CipherSuite, KDFId, KEMId, KEMKey

from broker.errors import Break, BrokerError, InputError, UnverifiableError
from broker.receipt.sealing import (
    SEALED_BYTES,
    Auditor,
    AuditorKey,
    create_auditor,
    load_auditor,
    load_auditor_key,
    public_path,
)

AUDITOR = Auditor.of(bytes(range(32)))
OTHER = Auditor.of(bytes(range(1, 33)))
START = bytes(range(50, 82))
PEER = CipherSuite.new(KEMId.DHKEM_X25519_HKDF_SHA256, KDFId.HKDF_SHA256, AEADId.CHACHA20_POLY1305)
INFO = b"receipt/1 start key\0s1"

# RFC 9180, appendix A.2.1, the first encryption.
RFC_SECRET = bytes.fromhex("8057991eef8f1f1af18f4a9491d16a1ce333f695d4db8e38da75975c4478e0fb")
RFC_PUBLIC = bytes.fromhex("4310ee97d88cc1f088a5576c77ab0cf5c3ac797f3d95139c6c84b5429c59662a")
RFC_SHARE = bytes.fromhex("1afa08d3dec047a643885163f1180476fa7ddb54c6a8029ea33f95796bf2ac4a")
RFC_CIPHER = bytes.fromhex(
    "1c5250d8034ec2b784ba2cfd69dbdb8af406cfe3ff938e131f0def8c8b60b4db21993c62ce81883d2dd1b51a28"
)


def test_the_peer_is_the_standards() -> None:
    """The independent implementation opens the RFC's own example, and the key pair is the RFC's."""
    assert Auditor.of(RFC_SECRET).public.public == RFC_PUBLIC
    context = PEER.create_recipient_context(
        RFC_SHARE, KEMKey.from_pyca_cryptography_key(_pyca(RFC_SECRET)), b"Ode on a Grecian Urn"
    )
    assert context.open(RFC_CIPHER, b"Count-0") == b"Beauty is truth, truth beauty"


def test_the_peer_opens_what_we_seal() -> None:
    """What we seal is the standard's share and ciphertext, one after the other."""
    sealed = AUDITOR.public.seal(START, "s1")
    secret = KEMKey.from_pyca_cryptography_key(_pyca(AUDITOR.secret))
    context = PEER.create_recipient_context(sealed[:32], secret, INFO)
    assert context.open(sealed[32:]) == START
    assert len(sealed) == SEALED_BYTES


def test_we_open_what_the_peer_seals() -> None:
    """A start key that another implementation sealed opens to the same bytes."""
    public = KEMKey.from_pyca_cryptography_key(_pyca(AUDITOR.secret).public_key())
    share, context = PEER.create_sender_context(public, INFO)
    assert AUDITOR.open(share + context.seal(START), "s1") == START


def _pyca(secret: bytes) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(secret)


@pytest.mark.parametrize(
    ("who", "sid", "change"),
    [
        (OTHER, "s1", lambda sealed: sealed),
        (AUDITOR, "s2", lambda sealed: sealed),
        (AUDITOR, "s1", lambda sealed: sealed[:-1]),
        (AUDITOR, "s1", lambda sealed: sealed + b"\0"),
        (AUDITOR, "s1", lambda sealed: b""),
        (AUDITOR, "s1", lambda sealed: bytes(32) + sealed[32:]),
    ],
    ids=["another auditor", "another session", "cut", "longer", "empty", "a share of nobody"],
)
def test_only_the_auditor_opens_it_and_only_for_its_session(
    who: Auditor, sid: str, change: Callable[[bytes], bytes]
) -> None:
    """A sealed key opens for one auditor and one session, or not at all."""
    sealed = AUDITOR.public.seal(START, "s1")
    with pytest.raises(Break) as caught:
        who.open(change(sealed), sid)
    assert caught.value.reason == "start_key"


@given(st.integers(0, SEALED_BYTES - 1), st.integers(1, 255))
@example(31, 0x80)  # X25519 ignores this bit of a point; HPKE hashes the point as it was sent
def test_every_byte_of_a_sealed_key_counts(place: int, change: int) -> None:
    """A sealed key with any byte changed does not open."""
    sealed = bytearray(AUDITOR.public.seal(START, "s1"))
    sealed[place] ^= change
    with pytest.raises(Break):
        AUDITOR.open(bytes(sealed), "s1")


def test_two_seals_of_one_key_differ() -> None:
    """Sealing is random: nobody sees from outside that a start key was used twice."""
    assert AUDITOR.public.seal(START, "s1") != AUDITOR.public.seal(START, "s1")


def test_a_public_key_is_a_line_of_text() -> None:
    """The public half reads back from its text, with or without the newline."""
    text = AUDITOR.public.text
    assert text == f"broker-auditor/{AUDITOR.public.name} x25519 {AUDITOR.public.public.hex()}"
    assert AuditorKey.parse(text) == AuditorKey.parse(text + "\n") == AUDITOR.public


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        AUDITOR.public.text + " ",
        AUDITOR.public.text + "\n\n",
        AUDITOR.public.text.upper(),
        AUDITOR.public.text.replace("x25519", "x448"),
        AUDITOR.public.text[:-1] + ("0" if AUDITOR.public.text[-1] != "0" else "1"),
        AUDITOR.public.text.replace(AUDITOR.public.name, OTHER.public.name),
    ],
)
def test_what_is_no_public_key(text: str) -> None:
    """A text that is not exactly a public key, or has a digit changed, is refused."""
    with pytest.raises(InputError) as caught:
        AuditorKey.parse(text)
    assert caught.value.code == "receipt.auditor"


@pytest.mark.parametrize("point", [bytes(32), b"\1" + bytes(31)])
def test_a_point_of_small_order(point: bytes) -> None:
    """A public key that makes every shared secret the same is refused before anything is sealed."""
    with pytest.raises(InputError, match="would choose"):
        AuditorKey(point).seal(START, "s1")


def test_nothing_shows_the_secret() -> None:
    """No repr shows the auditor's secret."""
    assert AUDITOR.secret.hex() not in repr(AUDITOR)
    assert repr(AUDITOR.secret) not in repr(AUDITOR)


# ── files ──


def test_a_pair_is_made_and_read(tmp_path: Path) -> None:
    """A new pair has a private file for its owner alone, and a public line beside it."""
    path = tmp_path / "me.key"
    made = create_auditor(path)
    assert load_auditor(path) == made
    assert load_auditor_key(public_path(path)) == made.public
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert made.public.public == bytes.fromhex(public_path(path).read_text().split()[-1])


@pytest.mark.parametrize("taken", ["me.key", "me.key.pub"])
def test_no_key_is_overwritten(tmp_path: Path, taken: str) -> None:
    """Where one of the two files is there, nothing is made and nothing is lost."""
    (tmp_path / taken).write_text("mine")
    with pytest.raises(InputError, match="is there already"):
        create_auditor(tmp_path / "me.key")
    assert [each.name for each in tmp_path.iterdir()] == [taken]
    assert (tmp_path / taken).read_text() == "mine"


def test_a_folder_that_others_write(tmp_path: Path) -> None:
    """No private key is made where others can put files."""
    tmp_path.chmod(0o777)
    with pytest.raises(UnverifiableError):
        create_auditor(tmp_path / "me.key")
    assert not list(tmp_path.iterdir())


def test_a_private_key_that_others_read(tmp_path: Path) -> None:
    """A private key that others can read is not used."""
    create_auditor(tmp_path / "me.key")
    (tmp_path / "me.key").chmod(0o644)
    with pytest.raises(UnverifiableError) as caught:
        load_auditor(tmp_path / "me.key")
    assert caught.value.code == "unverifiable.mode"


@pytest.mark.parametrize(
    ("content", "code"), [(b"\xff\xfe", "receipt.auditor"), (b"x" * 5_000, "receipt.auditor")]
)
def test_a_public_file_that_is_none(tmp_path: Path, content: bytes, code: str) -> None:
    """A file that holds no public key is refused, whatever it holds."""
    path = tmp_path / "me.pub"
    path.write_bytes(content)
    path.chmod(0o644)
    with pytest.raises(BrokerError) as caught:
        load_auditor_key(path)
    assert caught.value.code == code


def test_a_public_file_that_others_write(tmp_path: Path) -> None:
    """Whoever can change the public key can open what is sealed to it: the file is refused."""
    create_auditor(tmp_path / "me.key")
    public_path(tmp_path / "me.key").chmod(0o666)
    with pytest.raises(UnverifiableError):
        load_auditor_key(public_path(tmp_path / "me.key"))
