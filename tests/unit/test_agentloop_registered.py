"""What the agent registers besides its tools."""

from __future__ import annotations

from broker.agentloop.registered import agent_items
from broker.agentloop.sitting import Sitting
from broker.config import Config, ModelSetting
from broker.harness.registry import Registry
from broker.limits import MAX_AGENT_TURNS


def nobody() -> Sitting:
    """Nobody sits here, and nobody is asked to."""
    raise AssertionError("a command was run")


def test_everything_can_be_registered_before_anybody_sits_down() -> None:
    """Commands, providers and the flag are there to be listed, and none of them is run."""
    registry = Registry()
    with registry.batch() as batch:
        batch.add(*agent_items(nobody, Config(models=(ModelSetting("x", "http://x"),)), {}))
    now = registry.current
    assert list(now.commands) == ["scope", "receipt", "tools", "help", "quit"]
    assert list(now.providers) == ["anthropic", "openai", "x"]
    assert dict(now.defaults) == {"turns": MAX_AGENT_TURNS}
