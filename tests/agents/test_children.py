"""
The subagents of every real agent, each held to a ticket of its own.

One test for all agents: what differs is how an agent spells a call, in a ``Tongue``. Each runs
where its agent is installed, and needs neither an account nor a network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from broker.loopback.script import Say, Text, Turn, Use
from tests.agents import test_claude_code, test_codex, test_copilot, test_opencode, test_qwen
from tests.agents.stage import Call, Stage, installed

pytestmark = [pytest.mark.agent, pytest.mark.timeout(180)]

PATCH = "*** Begin Patch\n*** Add File: {}\n+x\n*** End Patch\n"


@dataclass(frozen=True)
class Tongue:
    """How one agent spells what these tests need; ``names`` are its tools in a scope."""

    name: str
    program: tuple[str, str]
    stage: Callable[[Path, str], Stage]
    spawn: Callable[..., Call]
    read: Callable[[str], Call]
    write: Callable[[str], tuple[str, Mapping[str, object] | Text]]
    names: Mapping[str, str]
    waits: Call | None = None  # what the main agent does while its subagents run
    defines: tuple[str, str] | None = None  # a file that defines `looker`, and what it says
    nested: tuple[str, ...] | None = ()  # options by which a subagent may start others, if it may


def claude_spawn(task: str, kind: str = "general-purpose") -> Call:
    """Start a subagent of Claude Code, and wait for it."""
    given = {"description": "x", "prompt": task, "subagent_type": kind}
    return "Agent", {**given, "run_in_background": False}


def qwen_spawn(task: str, kind: str = "general-purpose") -> Call:
    """Start a subagent of Qwen Code, and wait for it."""
    given = {"description": "x", "prompt": task, "subagent_type": kind}
    return "agent", {**given, "run_in_background": False}


def copilot_spawn(task: str, kind: str = "general-purpose") -> Call:
    """Start a subagent of Copilot CLI, and wait for it."""
    given = {"description": "x", "prompt": task, "agent_type": kind}
    return "task", {**given, "name": "helper", "mode": "sync"}


def opencode_spawn(task: str, kind: str = "general") -> Call:
    """Start a subagent of opencode; it is always waited for."""
    return "task", {"description": "x", "prompt": task, "subagent_type": kind}


HEAD = "---\nname: looker\ndescription: looks\n{}\n---\nLook around.\n"
NAMES = {"read": "Read", "write": "Write", "spawn": "Agent"}
TONGUES = (
    Tongue(
        "claude",
        ("BROKER_CLAUDE", "claude"),
        test_claude_code.Stage,
        claude_spawn,
        lambda path: ("Read", {"file_path": path}),
        lambda path: ("Write", {"file_path": path, "content": "x\n"}),
        NAMES,
        defines=("user/.claude/agents/looker.md", HEAD.format("tools: Read, Bash(git log *)")),
    ),
    Tongue(
        "qwen",
        ("BROKER_QWEN", "qwen"),
        test_qwen.Stage,
        qwen_spawn,
        lambda path: ("read_file", {"file_path": path}),
        lambda path: ("write_file", {"file_path": path, "content": "x\n"}),
        NAMES,
        defines=("ws/.qwen/agents/looker.md", HEAD.format("tools:\n  - ReadFile\n  - Shell")),
    ),
    Tongue(
        "copilot",
        ("BROKER_COPILOT", "copilot"),
        test_copilot.Stage,
        copilot_spawn,
        lambda path: ("view", {"path": path}),
        lambda path: ("create", {"path": path, "file_text": "x\n"}),
        NAMES,
        defines=("user/.copilot/agents/looker.agent.md", HEAD.format("tools: ['read', 'shell']")),
    ),
    Tongue(
        "codex",
        ("BROKER_CODEX", "codex"),
        test_codex.Stage,
        lambda task: ("multi_agent_v1/spawn_agent", {"message": task}),
        lambda path: ("view_image", {"path": path}),
        lambda path: ("apply_patch", Text(PATCH.format(path))),
        {"read": "view_image", "write": "apply_patch", "spawn": "spawn_agent", "waits": "Bash"},
        ("exec_command", {"cmd": "sleep 5"}),
        nested=("-c", "agents.max_depth=3"),
    ),
    Tongue(
        "opencode",
        ("BROKER_OPENCODE", "opencode"),
        test_opencode.Stage,
        opencode_spawn,
        lambda path: ("read", {"filePath": path}),
        lambda path: ("write", {"filePath": path, "content": "x\n"}),
        {"read": "read", "write": "write", "spawn": "task"},
        defines=(
            "user/CONFIG/opencode/agent/looker.md",
            HEAD.format("mode: subagent\ntools:\n  write: false\n  bash: false"),
        ),
        nested=None,
    ),
)


@pytest.fixture(params=TONGUES, ids=lambda tongue: tongue.name)
def tongue(request: pytest.FixtureRequest) -> Tongue:
    """Each agent."""
    found: Tongue = request.param
    return found


@pytest.fixture
def stage(tmp_path: Path, tongue: Tongue) -> Stage:
    """A stage of this test's own."""
    return tongue.stage(tmp_path, installed(*tongue.program))


def scope(tongue: Tongue, *more: str) -> list[str]:
    """Return a scope with all the tools that these tests use."""
    return [f"tools={','.join(tongue.names.values())}", "paths=src/**", *more]


def main(tongue: Tongue, *tasks: str) -> list[Turn]:
    """Return the script of a main agent that starts these subagents at once."""
    turns: list[Turn] = [Use([tongue.spawn(task) for task in tasks])]
    if tongue.waits is not None:
        turns.append(Use([tongue.waits]))
    return [*turns, Say("done")]


def decided(stage: Stage, call: str) -> Sequence[tuple[str, str, bool]]:
    """Return decision, caveat and whether it was a subagent's, of each call of a tool."""
    return [
        (data["decision"], data.get("caveat", ""), data["actor"] != "main")
        for data in stage.of("decision")
        if data["tool"] == call
    ]


def test_a_subagent_is_held_to_its_own_ticket(stage: Stage, tongue: Tongue) -> None:
    """It has what its task asks for and no more, and its parent has its own all along."""
    inside, new, after = (stage.file(f"src/{n}") for n in ("a.py", "sub.txt", "after.txt"))
    turns = main(tongue, f"[script sub] look\nscope: tools={tongue.names['read']}")
    code, _, err = stage.run(
        {
            "main": [*turns[:-1], Use([tongue.write(after)]), Say("done")],
            "sub": [Use([tongue.read(inside), tongue.write(new)]), Say("ok")],
        },
        scope=scope(tongue),
    )
    assert code == 0, err
    assert decided(stage, tongue.names["read"]) == [("allow", "", True)]
    assert sorted(decided(stage, tongue.names["write"])) == [
        ("allow", "", False),
        ("refuse", "tools", True),
    ]
    assert not Path(new).exists()
    assert Path(after).exists()
    (handed,) = stage.of("delegate")
    (root,) = stage.of("ticket")
    assert (handed["parent"], handed["asked_by"]) == (root["ticket"], "main")
    held = {d["ticket"] for d in stage.of("decision") if d["actor"] != "main"}
    assert held == {handed["ticket"]}


def test_a_subagent_cannot_be_given_more(stage: Stage, tongue: Tongue) -> None:
    """A task that asks for a wider scope is refused by name, and its subagent never starts."""
    names = tongue.names
    stage.run(
        {
            "main": main(tongue, f"[script sub] go\nscope: tools={names['read']},Everything"),
            "sub": [Use([tongue.read(stage.file("src/a.py"))]), Say("ok")],
        },
        scope=scope(tongue, "calls=9"),
    )
    assert decided(stage, names["spawn"]) == [("refuse", "tools", False)]
    assert decided(stage, names["read"]) == []
    assert "the scope that this task asks for: `tools=" in stage.told("main-0-0")
    assert "widens" in stage.told("main-0-0")
    (handed,) = stage.of("delegate")
    assert (handed["decision"], handed["caveat"]) == ("refuse", "tools")


def test_two_at_once_lend_each_other_nothing(stage: Stage, tongue: Tongue) -> None:
    """Of two subagents with different tickets none gets what only the other one has."""
    names = tongue.names
    one, two = stage.file("src/one.txt"), stage.file("src/two.txt")
    code, _, err = stage.run(
        {
            "main": main(
                tongue,
                f"[script one] go\nscope: tools={names['read']}",
                "[script two] go\nscope: paths=src/two.txt",
            ),
            "one": [Use([tongue.write(two)]), Use([tongue.write(one)]), Say("ok")],
            "two": [
                Use([tongue.write(one)]),
                Use([tongue.read(stage.file("src/a.py"))]),
                Say("ok"),
            ],
        },
        scope=scope(tongue),
    )
    assert code == 0, err
    assert not Path(one).exists()
    assert not Path(two).exists()
    assert {row[0] for row in decided(stage, names["write"])} == {"refuse"}
    assert len(stage.of("delegate")) == 2


def test_subagents_spend_one_budget(stage: Stage, tongue: Tongue) -> None:
    """Two subagents and their parent make as many calls as the one ticket has, and no more."""
    read = tongue.read(stage.file("src/a.py"))
    script: dict[str, Sequence[Turn]] = {
        "main": [*main(tongue, "[script one] go", "[script two] go")],
        "one": [Use([read]), Use([read]), Use([read]), Say("ok")],
        "two": [Use([read]), Use([read]), Use([read]), Say("ok")],
    }
    waits = 0 if tongue.waits is None else 1
    stage.run(script, scope=scope(tongue, f"calls={6 + waits}"))
    found = [data["decision"] for data in stage.of("decision")]
    assert found.count("allow") == 6 + waits
    assert found.count("refuse") == 2


@pytest.mark.parametrize(
    "tongue", [each for each in TONGUES if each.nested is not None], ids=lambda each: each.name
)
def test_a_nested_subagent_is_narrower_still(stage: Stage, tongue: Tongue) -> None:
    """What a subagent starts holds its ticket, narrowed further; more than that is refused."""
    names = tongue.names
    inner = f"[script inner] go\nscope: tools={names['read']}"
    wider = f"[script inner] go\nscope: tools={names['read']},{names['write']}"
    code, _, err = stage.run(
        {
            "main": main(tongue, f"[script sub] go\nscope: tools={names['read']},{names['spawn']}"),
            "sub": [Use([tongue.spawn(wider)]), Use([tongue.spawn(inner)]), Say("ok")],
            "inner": [
                Use([tongue.read(stage.file("src/a.py")), tongue.write(stage.file("src/b.txt"))]),
                Say("ok"),
            ],
        },
        *(tongue.nested or ()),
        scope=scope(tongue),
    )
    assert code == 0, err
    spawned = decided(stage, names["spawn"])
    assert spawned == [("allow", "", False), ("refuse", "tools", True), ("allow", "", True)]
    assert decided(stage, names["read"]) == [("allow", "", True)]
    assert decided(stage, names["write"]) == [("refuse", "tools", True)]
    handed = [data for data in stage.of("delegate") if data["decision"] == "allow"]
    assert handed[1]["parent"] == handed[0]["ticket"]


@pytest.mark.parametrize(
    "tongue", [each for each in TONGUES if each.defines is not None], ids=lambda each: each.name
)
def test_a_definition_lists_its_tools(stage: Stage, tongue: Tongue) -> None:
    """A kind of subagent that is defined with fewer tools holds no more of its parent's."""
    names = tongue.names
    place, text = tongue.defines or ("", "")
    stage.write(place, text)
    new = stage.file("src/new.txt")
    code, _, err = stage.run(
        {
            "main": [Use([tongue.spawn("[script sub] go", "looker")]), Say("done")],
            "sub": [Use([tongue.read(stage.file("src/a.py")), tongue.write(new)]), Say("ok")],
        },
        scope=scope(tongue),
    )
    assert code == 0, err
    assert decided(stage, names["read"]) == [("allow", "", True)]
    assert not Path(new).exists()
    (handed,) = stage.of("delegate")
    assert f"tools={names['read']}" in handed["caveats"][0]
    assert names["write"] not in handed["caveats"][0]
