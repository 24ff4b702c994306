"""Ceilings of a run: how they are typed, and how a control group holds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.errors import InputError
from broker.sandbox import ceilings
from broker.sandbox.ceilings import Ceilings, ControlGroup, own_group, read_ceilings


def test_each_key_is_read() -> None:
    """Sizes and times have units, and counts have none."""
    found = read_ceilings(["memory=512M", "processes=20", "cpu=2m", "wall=1h"])
    assert found == Ceilings(512 * 2**20, 20, 120, 3_600)
    assert dict(found.limits()) == {
        "RLIMIT_DATA": 512 * 2**20,
        "RLIMIT_NPROC": 20,
        "RLIMIT_CPU": 120,
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "memory",
        "memory=",
        "memory=0",
        "memory=1T",
        "memory=-1",
        "memory= 1",
        "disk=1",
        "cpu=5",
        "processes=1K",
        "wall=1d",
        "memory=99999999999999G",
        "memory=١",
        "cpu=1.5h",
    ],
)
def test_what_is_not_understood_is_an_error(text: str) -> None:
    """Every other text is refused, with what would be right."""
    with pytest.raises(InputError, match="memory=2G"):
        read_ceilings([text])


@pytest.mark.parametrize("text", ["memory=1", "memory=65535K", "memory=63M"])
def test_what_is_too_little_to_begin_with_is_an_error(text: str) -> None:
    """A run that could only break is refused, by the least that it takes."""
    with pytest.raises(InputError, match="memory=64M"):
        read_ceilings([text])
    assert read_ceilings(["memory=64M"]) == read_ceilings(["memory=65536K"])


def test_a_key_given_twice_is_an_error() -> None:
    """Which of the two is meant cannot be told."""
    with pytest.raises(InputError, match="twice"):
        read_ceilings(["cpu=1m", "cpu=2m"])


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for the mounted groups, with our own group in it."""
    root = tmp_path / "cgroup"
    (root / "user" / "ours").mkdir(parents=True)
    monkeypatch.setattr(ceilings, "own_group", lambda _root: root / "user" / "ours")
    return root


def test_a_group_is_given_back_where_it_takes_no_ceilings(groups: Path) -> None:
    """A folder without the kernel's files is no group: nothing is left of the attempt."""
    group = ControlGroup(groups, "run")
    assert not group.make(Ceilings(memory_bytes=1))
    assert sorted(p.name for p in groups.rglob("*")) == ["ours", "user"]


def test_a_group_holds_what_was_typed(groups: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ceilings, then the process, are written to the kernel's files."""
    written: list[tuple[str, str]] = []
    monkeypatch.setattr(ceilings, "_put", lambda path, text: written.append((path.name, text)))
    group = ControlGroup(groups, "run")
    assert group.make(Ceilings(memory_bytes=7, processes=5))
    group.take(42)
    assert (groups / "user" / "run").is_dir()
    group.end()
    assert not (groups / "user" / "run").exists()
    assert written == [
        ("memory.max", "7"),
        ("pids.max", "5"),
        ("memory.swap.max", "0"),
        ("cgroup.procs", "42"),
        ("cgroup.kill", "1"),
    ]


def test_our_own_group_lies_below_the_root(tmp_path: Path) -> None:
    """Wherever this process is counted, the answer is a folder below the given one."""
    assert own_group(tmp_path) == tmp_path or tmp_path in own_group(tmp_path).parents


def test_what_does_not_hold_for_root() -> None:
    """Only a limit on processes is named, and only where nobody counts them."""
    assert "processes" in Ceilings(processes=9).not_held(root=True)
    assert not Ceilings(processes=9).not_held(root=False)
    assert not Ceilings(memory_bytes=2**30, cpu_s=9).not_held(root=True)
