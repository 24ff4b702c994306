"""A time-stamping authority: what its token shows, and what is no token for us."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.anchors.anchor import AnchorError
from broker.anchors.timestamp import Authority
from broker.errors import Break, ConfigError, UnverifiableError
from tests.anchorkit import Log, TimestampServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TimestampServer]:
    """An authority with roots of its own."""
    with TimestampServer(tmp_path_factory.mktemp("tsa") / "tsa") as serving:
        yield serving


@pytest.fixture
def authority(server: TimestampServer) -> Authority:
    """The authority as an installation knows it."""
    return Authority("tsa", server.url, server.roots)


def test_a_token_shows_that_the_checkpoint_existed(authority: Authority) -> None:
    """The token of a real authority checks out, and its time is about now."""
    log = Log(3)
    token = authority.submit(log.note(3), log.grown(3))
    found = authority.check(log.note(3), token, time.time_ns())
    assert found.at is not None
    assert abs(found.at - time.time_ns()) < 300 * 1_000_000_000
    assert "in the future" in authority.check(log.note(3), token, 0).warnings[0]


def test_a_token_over_something_else_does_not_count(authority: Authority) -> None:
    """A token of another checkpoint, a changed one and none at all are breaks."""
    log = Log(9)
    token = authority.submit(log.note(3), log.grown(3))
    for note, evidence in ((log.note(9), token), (log.note(3), token[:-40] + bytes(40))):
        with pytest.raises(Break) as broken:
            authority.check(note, evidence, 0)
        assert broken.value.reason == "timestamp"
    for evidence in (b"", b"no token", token[:100]):
        with pytest.raises(Break):
            authority.check(log.note(3), evidence, 0)


def test_an_authority_that_is_not_believed(
    authority: Authority, server: TimestampServer, tmp_path: Path
) -> None:
    """A token under other roots is a break, whatever certificates it brings along."""
    with TimestampServer(tmp_path / "other") as other:
        token = Authority("other", other.url, other.roots).submit(Log(3).note(3), Log(3).grown(3))
    with pytest.raises(Break):
        authority.check(Log(3).note(3), token, 0)


def test_roots_that_cannot_be_used(server: TimestampServer, tmp_path: Path) -> None:
    """A missing file, no certificate, and only an intermediate are told apart from a bad token."""
    log = Log(3)
    token = Authority("tsa", server.url, server.roots).submit(log.note(3), log.grown(3))
    with pytest.raises(UnverifiableError):
        Authority("tsa", server.url, tmp_path / "gone").check(log.note(3), token, 0)
    (tmp_path / "empty").write_text("")
    for roots in (tmp_path / "empty", server.folder / "tsa.pem"):
        with pytest.raises(ConfigError):
            Authority("tsa", server.url, roots).check(log.note(3), token, 0)


def test_an_authority_that_is_away(server: TimestampServer) -> None:
    """Nobody there is told as that."""
    with pytest.raises(AnchorError):
        Authority("tsa", "http://127.0.0.1:9", server.roots).submit(b"note", Log(0).grown(0))


@pytest.mark.parametrize(
    ("folder", "token"),
    [
        ("test_tsa", "response-injected-certs.tsr"),
        ("sigstage", "response-invalid-signature.tsr"),
        ("sigstore.mock", "response-expired.tsr"),
        ("test_tsa", "other_response.tsr"),
        ("sigstage", "response-sha512.tsr"),
    ],
)
def test_public_tokens_over_other_things_are_refused(shared: Path, folder: str, token: str) -> None:
    """Published tokens, sound and unsound, are none for a checkpoint of ours."""
    place = shared / "vectors/rfc3161-timestamps" / folder
    authority = Authority("tsa", "http://127.0.0.1:9", place / "ts_chain.pem")
    with pytest.raises(Break) as broken:
        authority.check(Log(3).note(3), (place / token).read_bytes(), 0)
    assert broken.value.reason == "timestamp"


def test_public_tokens_over_the_right_thing(shared: Path) -> None:
    """A published token is taken for what it is over, and its damaged sister is not."""
    place = shared / "vectors/rfc3161-timestamps/sigstage"
    authority = Authority("tsa", "http://127.0.0.1:9", place / "ts_chain.pem")
    now = time.time_ns()
    assert authority.check(b"hello", (place / "response-sha256.tsr").read_bytes(), now).at
    with pytest.raises(Break):
        authority.check(b"hello", (place / "response-invalid-signature.tsr").read_bytes(), now)
