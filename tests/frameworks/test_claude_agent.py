"""The Claude Agent SDK, with a double of Claude Code on the other side of its protocol."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("claude_agent_sdk", reason="the framework of this adapter is not installed")

from claude_agent_sdk import (
    AgentDefinition,
    AssistantMessage,
    ClaudeAgentOptions,
    HookMatcher,
    PermissionResultAllow,
    TextBlock,
    ToolPermissionContext,
    query,
)

from broker.errors import InputError, LaunchError
from broker.frameworks.claude_agent import hold
from broker.frameworks.holding import Holder
from broker.service.client import SessionClient
from broker.testing.frameworks import AdapterSuite
from broker.testing.stage import Ask, Drive, Helper, Stage, Trial, Trials
from tests.frameworks.claude_double import SERVER, SPAWNING, Double, server
from tests.frameworks.claude_real import TestRealClaudeAgent, TestWorkspace, test_the_page, user

__all__ = ["TestRealClaudeAgent", "TestWorkspace", "test_the_page", "user"]

pytestmark = [pytest.mark.framework, pytest.mark.timeout(300)]


class TestClaudeAgent(AdapterSuite):
    """Every case of the suite, by ``query`` with a transport of ours."""

    scope = SPAWNING
    lacks: ClassVar[Mapping[str, str]] = {"sync": "has no way without an event loop"}

    async def drive(self, stage: Stage) -> Drive:
        """Run with a loop."""
        return await driven(stage)

    async def drive_streamed(self, stage: Stage) -> Drive:
        """Run with partial messages."""
        return await driven(stage, include_partial_messages=True)

    async def drive_helper(self, stage: Stage) -> Drive:
        """Run with the helper as a subagent."""
        helper = stage.helper
        assert helper is not None
        names = [f"mcp__{SERVER}__{name}" for name in helper.tools]
        agents = {helper.name: AgentDefinition("Helps.", "Help.", tools=names)}
        return await driven(stage, scopes={helper.name: helper.texts}, agents=agents)


# ── how the SDK is driven ──


async def driven(
    stage: Stage, *, scopes: Mapping[str, tuple[str, ...]] | None = None, **more: Any
) -> Drive:
    """Run an agent to its end, and return what its model was told."""
    double = Double(stage.turns, stage.helper)
    given = ClaudeAgentOptions(mcp_servers={SERVER: server(stage)}, **more)
    options = hold(given, own=[SERVER], scopes=scopes)
    return await read(double, options)


async def read(double: Double, options: ClaudeAgentOptions) -> Drive:
    """Run options against a double, and return what its model was told."""
    said = ""
    async for message in query(prompt="go", options=options, transport=double):
        if isinstance(message, AssistantMessage):
            said += "".join(b.text for b in message.content if isinstance(b, TextBlock))
    return Drive(double.told, said)


# ── what only this SDK has ──


class TestArgumentsThatChange(Trials):
    """Whatever takes the place of decided arguments is decided as well."""

    def run(self, stage: Stage, **more: Any) -> tuple[Double, ClaudeAgentOptions]:
        """Return a double and the options that it would run with."""
        given = ClaudeAgentOptions(mcp_servers={SERVER: server(stage)}, **more)
        return Double(stage.turns), hold(given, own=[SERVER])

    @pytest.mark.parametrize(("path", "why"), [("src/a.py", ""), ("/etc/hostname", "within paths")])
    def test_by_a_hook(self, trial: Trial, path: str, why: str) -> None:
        """A hook of the caller's own that rewrites a call is obeyed where the ticket permits it."""
        rewritten = {"hookEventName": "PreToolUse", "updatedInput": {"path": path}}

        async def rewrites(given: Any, call: str | None, context: Any) -> Any:
            return {"hookSpecificOutput": rewritten}

        hooks = {"PreToolUse": [HookMatcher(hooks=[rewrites])]}
        stage = trial.stage([Ask("read", {"path": "src/b.py"}, "c1")])
        double, options = self.run(stage, hooks=hooks)
        drive = asyncio.run(read(double, options))
        assert why in drive.told["c1"]
        assert stage.ran == ([] if why else [("read", path)])
        caveats = [answer for _, answer in trial.answers()]
        assert caveats == ["allow", "paths" if why else "allow"]

    def test_by_the_callers_permission(self, trial: Trial) -> None:
        """Arguments that ``can_use_tool`` gives are decided; what it leaves alone is not again."""
        outward = {"path": "/etc/hostname"}
        answers = iter([None, {"path": "src/a.py"}, outward, outward])

        async def asks(name: str, given: dict[str, Any], context: Any) -> PermissionResultAllow:
            return PermissionResultAllow(updated_input=next(answers))

        _, options = self.run(trial.stage(), can_use_tool=asks)
        name, given = f"mcp__{SERVER}__read", {"path": "src/b.py"}
        about = {"tool_name": name, "tool_use_id": "c1", "tool_input": given}
        about |= {"mcp_server": {"name": SERVER}, "cwd": str(trial.workspace)}
        assert options.hooks is not None
        assert options.can_use_tool is not None
        before, permits = options.hooks["PreToolUse"][0].hooks[0], options.can_use_tool
        context = ToolPermissionContext(tool_use_id="c1")

        async def asked() -> list[Any]:
            payload: Any = {"hook_event_name": "PreToolUse", **about}
            assert await _answer(before, payload) == {}
            asked_for = [name] * 3 + ["Bash"]
            return [await permits(each, given, context) for each in asked_for]

        untouched, inside, outside, other = asyncio.run(asked())
        assert (untouched.behavior, inside.behavior) == ("allow", "allow")
        assert inside.updated_input == {"path": "src/a.py"}
        assert outside.behavior == other.behavior == "deny"
        assert "is not within paths" in outside.message
        assert other.message == "which call this is cannot be told"
        assert [answer for _, answer in trial.answers()] == ["allow", "allow", "paths"]


class TestOptions(Trials):
    """What a caller's options become."""

    def test_they_are_copied(self, trial: Trial) -> None:
        """The caller's own options stay as they are, and their hooks come after ours."""

        async def theirs(given: Any, call: str | None, context: Any) -> Any:
            return {}

        given = ClaudeAgentOptions(hooks={"PreToolUse": [HookMatcher("Bash", [theirs])]})
        held = hold(given)
        assert given.hooks is not None
        assert held.hooks is not None
        assert [m.matcher for m in given.hooks["PreToolUse"]] == ["Bash"]
        assert [m.matcher for m in held.hooks["PreToolUse"]] == [None, "Bash"]
        assert held.hooks["PreToolUse"][0].on_failure == "block"

    def test_the_workspace(self, trial: Trial) -> None:
        """Its settings are not loaded, but its refusals and its CLAUDE.md count."""
        folder = trial.workspace / ".claude"
        folder.mkdir()
        rules = {"permissions": {"deny": ["Read(./b)"], "allow": ["Bash"]}, "disableAllHooks": True}
        (folder / "settings.json").write_text(json.dumps(rules), encoding="utf-8")
        held = hold(ClaudeAgentOptions(cwd=trial.workspace))
        assert held.setting_sources == ["user"]
        assert held.settings is not None
        assert json.loads(held.settings) == {"permissions": {"deny": ["Read(./b)"]}}
        assert held.add_dirs == [trial.workspace]
        with pytest.raises(InputError, match="leave out project and local"):
            hold(ClaudeAgentOptions(setting_sources=["user", "project"]))
        assert hold(ClaudeAgentOptions(setting_sources=[])).add_dirs == []

    def test_what_frees_the_agent(self, trial: Trial, user: Path) -> None:
        """Options, variables and settings that keep hooks from running are refused by name."""
        for options, why in [
            (ClaudeAgentOptions(extra_args={"bare": None}), "--bare"),
            (ClaudeAgentOptions(env={"CLAUDE_CODE_SIMPLE": "1"}), "CLAUDE_CODE_SIMPLE"),
            (ClaudeAgentOptions(settings='{"disableAllHooks": true}'), "disableAllHooks"),
        ]:
            with pytest.raises(LaunchError, match=why):
                hold(options)
        with pytest.raises(InputError, match="`fs` is no MCP server in this process"):
            hold(ClaudeAgentOptions(mcp_servers={"fs": {"command": "x"}}), own=["fs"])

    def test_names_of_other_servers_stay(self, trial: Trial) -> None:
        """Only a server that was named as the caller's own has bare names in scopes."""
        stage = trial.stage([Ask("read", {"path": "src/a.py"}, "c1")])
        options = hold(ClaudeAgentOptions(mcp_servers={SERVER: server(stage)}))
        drive = asyncio.run(read(Double(stage.turns), options))
        assert f"`mcp__{SERVER}__read` is not in tools" in drive.told["c1"]


class TestSubagents(Trials):
    """What a subagent holds."""

    scope = SPAWNING

    def test_a_definition_narrows(self, trial: Trial) -> None:
        """A subagent holds no tool that its definition does not list (row 10)."""
        own = ((Ask("read", {"path": "src/a.py"}, "h1"), Ask("note", {"text": "x"}, "h2")),)
        stage = trial.stage(helper=Helper("helper", (), ("read",), own))
        drive = asyncio.run(TestClaudeAgent().drive_helper(stage))
        assert stage.ran == [("read", "src/a.py")]
        assert "`note` is not in tools: read" in drive.told["h2"]

    def test_a_narrowed_agent_is_never_the_root(self, trial: Trial) -> None:
        """A subagent of which nothing is known holds no more than the block that it runs in."""
        asked = {"tool_name": f"mcp__{SERVER}__note", "tool_use_id": "x", "agent_id": "a9"}
        asked |= {"tool_input": {"text": "x"}, "mcp_server": {"name": SERVER}, "cwd": "."}
        stage = trial.stage()
        with trial.held.narrowed("tools=read", name="few"):
            given = ClaudeAgentOptions(mcp_servers={SERVER: server(stage)})
            options = hold(given, own=[SERVER])
            assert options.hooks is not None
            before = options.hooks["PreToolUse"][0].hooks[0]
            payload: Any = {"hook_event_name": "PreToolUse", **asked}
            answer: Any = asyncio.run(_answer(before, payload))
        said = answer["hookSpecificOutput"]
        assert "`note` is not in tools: read" in said["permissionDecisionReason"]

    def test_inside_of_a_run(self, trial: Trial) -> None:
        """Where a session of another process is asked subagents are refused, and it is said why."""
        held = Holder(SessionClient(str(trial.workspace / "nothing"), "t"))
        stage = Stage(held, (), helper=Helper("helper", (), ("read",), ()))
        with held.block():
            drive = asyncio.run(TestClaudeAgent().drive_helper(stage))
        assert "cannot be told apart under `broker run`" in drive.told["helper"]


async def _answer(callback: Any, payload: Any) -> Any:
    return await callback(payload, payload["tool_use_id"], {"signal": None})
