"""A dry run decides like a session, spends nothing, and reads a scope once."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.cli.dry import DryRun, policy_folders
from broker.errors import ScopeError
from broker.home import Home

S = 10**9


@pytest.fixture
def world(tmp_path: Path, broker_home: Path) -> DryRun:
    """A dry run in an empty workspace."""
    return DryRun(str(tmp_path), Home.find({"BROKER_HOME": str(broker_home)}))


def test_decides(world: DryRun) -> None:
    """What the scope admits is allowed, the rest is refused by its caveat."""
    ticket = world.ticket(["paths=src/**"], 0)
    inside = world.decide(ticket, "read_file", {"path": "src/a.py"}, at=0)
    outside = world.decide(ticket, "read_file", {"path": "b.py"}, at=0)
    assert inside.allowed
    assert outside.refusal is not None
    assert outside.refusal.caveat == "paths"


def test_a_scope_is_read_once(world: DryRun) -> None:
    """The same texts give the same ticket, at whatever instant, unless they hold a deadline."""
    plain = ["calls=3"]
    assert world.ticket(plain, 0) is world.ticket(plain, 5)
    timed = ["until=10s"]
    assert world.ticket(timed, 0) is not world.ticket(timed, 5 * S)
    assert world.ticket(timed, 0).caveats[0].value == 10 * S
    assert world.ticket(timed, 5 * S).caveats[0].value == 15 * S


def test_a_past_deadline_is_kept_apart(world: DryRun) -> None:
    """Reading an old scope on purpose does not make it well-formed for whoever types it."""
    texts = ["until=1970-01-01T00:00:05Z"]
    assert world.ticket(texts, 9 * S, past_ok=True).caveats[0].value == 5 * S
    with pytest.raises(ScopeError, match="not in the future"):
        world.ticket(texts, 9 * S)


def test_groups_and_policies(world: DryRun) -> None:
    """`@reads` becomes tools, `@NAME` a policy, the person's own before the shipped one."""
    (reads,) = world.scope(["tools=@reads"], 0).caveats
    assert "read_file" in reads.value
    assert world.scope(["@review"], 0).caveats
    (own,) = policy_folders(world.home)
    own.mkdir(parents=True)
    (own / "review.scope").write_text("# Mine.\ncalls = 7\nexpect allow x()\n")
    assert world.scope(["@review"], 0).caveats[0].value == 7


def test_the_brokers_own_files_are_closed(tmp_path: Path) -> None:
    """A dry run refuses the broker's own folders like a session does."""
    world = DryRun(str(tmp_path), Home.find({"BROKER_HOME": str(tmp_path / "home")}))
    decision = world.decide(
        world.ticket([], 0), "read_file", {"path": "home/data/keys/receipt.key"}, at=0
    )
    assert decision.refusal is not None
    assert decision.refusal.caveat == "own"
