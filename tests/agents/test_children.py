"""
The subagents of every real agent, each held to a ticket of its own.

That one has what its task asks for, and cannot be given more, is in ``test_conformance``; here are
several of them, nested ones, and those with a definition. Each test runs where its agent is
installed, and needs neither an account nor a network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from broker.loopback.script import Say, Turn, Use
from tests.agents.stage import Stage
from tests.agents.tongues import CLAUDE, CODEX, COPILOT, OPENCODE, QWEN, Tongue

pytestmark = [pytest.mark.agent, pytest.mark.timeout(400)]

HEAD = "---\nname: looker\ndescription: looks\n{}\n---\nLook around.\n"
# Gemini CLI and Cline tell subagents apart in ways of their own: see their own tests.
TONGUES = (CLAUDE, QWEN, COPILOT, CODEX, OPENCODE)
# A file that defines the kind `looker`, and what it says.
DEFINED: Mapping[str, tuple[str, str]] = {
    "claude": ("user/.claude/agents/looker.md", HEAD.format("tools: Read, Bash(git log *)")),
    "qwen": ("ws/.qwen/agents/looker.md", HEAD.format("tools:\n  - ReadFile\n  - Shell")),
    "copilot": (
        "user/.copilot/agents/looker.agent.md",
        HEAD.format("tools: ['read', 'shell']"),
    ),
    "opencode": (
        "user/CONFIG/opencode/agent/looker.md",
        HEAD.format("mode: subagent\ntools:\n  write: false\n  bash: false"),
    ),
}
# Options by which a subagent may start others; opencode's may not.
NESTED: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("claude", "qwen", "copilot"), ()),
    "codex": ("-c", "agents.max_depth=3"),
}


@pytest.fixture(params=TONGUES, ids=lambda tongue: tongue.name)
def tongue(request: pytest.FixtureRequest) -> Tongue:
    """Each agent."""
    found: Tongue = request.param
    return found


@pytest.fixture
def stage(tmp_path: Path, tongue: Tongue) -> Stage:
    """A stage of this test's own."""
    return tongue.on(tmp_path)


def scope(tongue: Tongue, *more: str) -> list[str]:
    """Return a scope with all the tools that these tests use."""
    return [tongue.spawning("read", "write"), "paths=src/**", *more]


def main(tongue: Tongue, *tasks: str) -> list[Turn]:
    """Return the script of a main agent that starts these subagents at once."""
    return [*tongue.main(*tasks), Say("done")]


def spawned(tongue: Tongue, task: str, *kind: str) -> Use:
    """Return a turn that starts one subagent."""
    assert tongue.spawn is not None
    return Use([tongue.spawn(task, *kind)])


def decided(stage: Stage, call: str) -> Sequence[tuple[str, str, bool]]:
    """Return decision, caveat and whether it was a subagent's, of each call of a tool."""
    return [
        (data["decision"], data.get("caveat", ""), data["actor"] != "main")
        for data in stage.of("decision")
        if data["tool"] == call
    ]


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
    "tongue", [each for each in TONGUES if each.name in NESTED], ids=lambda each: each.name
)
def test_a_nested_subagent_is_narrower_still(stage: Stage, tongue: Tongue) -> None:
    """What a subagent starts holds its ticket, narrowed further; more than that is refused."""
    names = tongue.names
    inner = f"[script inner] go\nscope: tools={names['read']}"
    wider = f"[script inner] go\nscope: tools={names['read']},{names['write']}"
    code, _, err = stage.run(
        {
            "main": main(tongue, f"[script sub] go\nscope: tools={names['read']},{names['spawn']}"),
            "sub": [spawned(tongue, wider), spawned(tongue, inner), Say("ok")],
            "inner": [
                Use([tongue.read(stage.file("src/a.py")), tongue.write(stage.file("src/b.txt"))]),
                Say("ok"),
            ],
        },
        *NESTED[tongue.name],
        scope=scope(tongue),
    )
    assert code == 0, err
    assert decided(stage, names["spawn"]) == [
        ("allow", "", False),
        ("refuse", "tools", True),
        ("allow", "", True),
    ]
    assert decided(stage, names["read"]) == [("allow", "", True)]
    assert decided(stage, names["write"]) == [("refuse", "tools", True)]
    handed = [data for data in stage.of("delegate") if data["decision"] == "allow"]
    assert handed[1]["parent"] == handed[0]["ticket"]


@pytest.mark.parametrize(
    "tongue", [each for each in TONGUES if each.name in DEFINED], ids=lambda each: each.name
)
def test_a_definition_lists_its_tools(stage: Stage, tongue: Tongue) -> None:
    """A kind of subagent that is defined with fewer tools holds no more of its parent's."""
    names = tongue.names
    place, text = DEFINED[tongue.name]
    stage.write(place, text)
    new = stage.file("src/new.txt")
    code, _, err = stage.run(
        {
            "main": [spawned(tongue, "[script sub] go", "looker"), Say("done")],
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
