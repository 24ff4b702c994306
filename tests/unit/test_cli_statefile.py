"""The file of `--since`: missing, strange or unfit, it is told, and written anew."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from broker.cli.statefile import StateFile, cores
from broker.errors import InputError, UnverifiableError
from broker.receipt import Verdict
from broker.receipt.evidence import Evidence
from broker.receipt.inspection import inspecting
from broker.receipt.verify import judge
from tests.forwardkit import fill_forward
from tests.receiptkit import AT, KEY, Scene


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Three fresh sessions."""
    return Scene.at(tmp_path)


def verified(scene: Scene, sid: str, path: Path) -> Verdict:
    """Verify a session with a state's file, as the command does."""
    what = Evidence(scene.path(sid), sid, KEY, scene.head(sid))
    state = StateFile.of(str(path), what)
    with inspecting(what, since=state.since, keeps=True) as found:
        found.run()
        return state.kept(found, judge(found), AT)


def test_the_first_time_everything_is_verified_and_kept(scene: Scene, tmp_path: Path) -> None:
    """A file that is not there yet is no fault; the next time it is relied on."""
    path = tmp_path / "kept"
    first = verified(scene, "s2", path)
    assert (first.trusted_before, first.warnings) == (0, ())
    assert path.stat().st_mode & 0o777 == 0o600
    second = verified(scene, "s2", path)
    assert (second.trusted_before, second.trusted_since, second.warnings) == (11, AT, ())
    assert (second.state, second.lines, second.completeness) == ("OPEN", 11, "KNOWN")


def test_y02_a_forged_state_is_told_and_not_relied_on(scene: Scene, tmp_path: Path) -> None:
    """Y02: a state that claims lines as verified, and is not authentic, takes a whole pass."""
    path = tmp_path / "kept"
    verified(scene, "s2", path)
    path.write_bytes(path.read_bytes().replace(b'"n":11', b'"n":10'))
    again = verified(scene, "s2", path)
    assert again.trusted_before == 0
    assert "was not written with this key for this session" in again.warnings[0]
    assert verified(scene, "s2", path).trusted_before == 11


def test_a_state_of_another_session_is_told(scene: Scene, tmp_path: Path) -> None:
    """Of another session it is as good as forged, and is replaced."""
    path = tmp_path / "kept"
    verified(scene, "s3", path)
    assert verified(scene, "s2", path).warnings
    assert verified(scene, "s2", path).trusted_before == 11


def test_a_state_that_does_not_fit_is_told(scene: Scene, tmp_path: Path) -> None:
    """Where a whole pass was needed although the state is authentic, that is said."""
    path = tmp_path / "kept"
    before = scene.head("s2").read_bytes()
    with scene.receipts.resume("s2", at=AT) as receipt:
        receipt.append("note", {}, at=AT)
    verified(scene, "s2", path)
    scene.head("s2").write_bytes(before)
    again = verified(scene, "s2", path)
    assert again.trusted_before == 0
    assert "did not fit" in again.warnings[-1]


def test_a_state_that_cannot_be_written_is_told(scene: Scene, tmp_path: Path) -> None:
    """The verdict stands; that the next one will take as long is said."""
    assert "cannot be written" in verified(scene, "s2", tmp_path / "none" / "kept").warnings[0]


def test_an_unsafe_file_ends_it(scene: Scene, tmp_path: Path) -> None:
    """A link is neither read nor replaced."""
    (tmp_path / "kept").symlink_to(tmp_path / "aside")
    with pytest.raises(UnverifiableError, match="link"):
        verified(scene, "s2", tmp_path / "kept")
    assert not os.path.lexists(tmp_path / "aside")


def test_without_a_key_nothing_is_kept(scene: Scene, tmp_path: Path) -> None:
    """A state without a key to authenticate it would be worth nothing."""
    what = Evidence(scene.path("s2"), "s2", None)
    with pytest.raises(InputError, match="needs the key"):
        StateFile.of(str(tmp_path / "kept"), what)
    assert StateFile.of(str(tmp_path / "kept"), replace(what, key=KEY)).since is None


def test_a_forward_secure_session_is_verified_whole(scene: Scene, tmp_path: Path) -> None:
    """Its line key moves on with each line, so no state could be gone on from; that is told."""
    fill_forward(scene.receipts, "s4", 3).close()
    for _ in range(2):
        verdict = verified(scene, "s4", tmp_path / "kept")
        assert verdict.trusted_before == 0
        assert "always verified whole" in verdict.warnings[-1]
    assert not (tmp_path / "kept").exists()


def test_there_is_a_core() -> None:
    """However the system counts, there is one at least."""
    assert cores() >= 1
