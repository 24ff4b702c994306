"""What is asked of Codex before a run, with a program that pretends to be it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from broker.agents.codex import trust
from broker.agents.codex.trust import listed
from broker.errors import LaunchError

ANSWERS = '[{"digest": "sha256:one"}, {"digest": "sha256:two"}]'

# Answers with our hooks as they were given, and with what the rows say of the first of them;
# trusted where the setting says so. No rows at all: no hooks.
PRETENDED = """#!{python}
import json, sys
rows = {answers!r}
with open({asked!r}, "a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
words = sys.argv[1:]
given = [w for w in words if w.startswith("hooks.") and not w.startswith("hooks.state")]
def read(setting):
    name, _, rest = setting.partition("=")
    event = name.partition(".")[2]
    event = event[0].lower() + event[1:]
    return [
        (event, json.JSONDecoder().raw_decode(each)[0]) for each in rest.split("command=")[1:]
    ]
trusted = any(w.startswith("hooks.state") for w in words)
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize":
        print(json.dumps({{"id": message["id"], "result": {{}}}}), flush=True)
    if message["method"] == "hooks/list":
        if not rows or rows == "broken":
            print(rows, flush=True)
            sys.exit()
        hooks = [
            {{
                "key": f"k{{i}}", "eventName": event, "command": command,
                "currentHash": row.get("digest", "sha256:x"), "enabled": True,
                "source": "sessionFlags",
                "trustStatus": "trusted" if trusted and row.get("runs", True) else "untrusted",
            }}
            for i, (event, command) in enumerate(
                pair for setting in (given if json.loads(rows) else []) for pair in read(setting)
            )
            for row in [dict(enumerate(json.loads(rows))).get(i, {{}})]
        ]
        theirs = {{**hooks[0], "source": "user", "command": "theirs"}} if hooks else None
        data = [{{"cwd": "/", "hooks": [*hooks, *([theirs] if theirs else [])]}}]
        print("{{}}", flush=True)
        print(json.dumps({{"id": message["id"], "result": {{"data": data}}}}), flush=True)
"""


def pretend(root: Path, answers: str) -> Path:
    """Write a program that answers like Codex, and remembers how it was started."""
    program = root / "bin" / "codex"
    program.parent.mkdir(exist_ok=True)
    asked = str(root / "asked")
    program.write_text(PRETENDED.format(python=sys.executable, answers=answers, asked=asked))
    program.chmod(0o755)
    return program


HOOK = '=[{hooks=[{type="command",command="x \\"y\\"",timeout=1}]}]'
SETTINGS = ["-c", f"hooks.PreToolUse{HOOK}", "-c", f"hooks.SessionStart{HOOK}"]


def test_our_hooks_are_told_with_their_hashes(tmp_path: Path) -> None:
    """Hooks of others are passed over; ours come with key, hash, command and whether they run."""
    program = pretend(tmp_path, ANSWERS)
    found = listed(str(program), SETTINGS, os.environ, tmp_path)
    assert [(h.key, h.digest, h.runs) for h in found] == [
        ("k0", "sha256:one", False),
        ("k1", "sha256:two", False),
    ]
    assert {h.command for h in found} == {'x "y"'}
    again = listed(str(program), [*SETTINGS, "-c", "hooks.state={}"], os.environ, tmp_path)
    assert all(hook.runs for hook in again)


@pytest.mark.parametrize("answers", ["", "broken"])
def test_an_answer_that_is_none_is_told(tmp_path: Path, answers: str) -> None:
    """A version that does not know the question cannot be held."""
    program = pretend(tmp_path, answers)
    with pytest.raises(LaunchError, match="cannot be held"):
        listed(str(program), SETTINGS, os.environ, tmp_path)


def test_a_program_that_is_no_program(tmp_path: Path) -> None:
    """Nothing there, and a program that ends at once, are told and not waited for."""
    with pytest.raises(LaunchError, match="cannot be asked"):
        listed(str(tmp_path / "gone"), [], os.environ, tmp_path)
    with pytest.raises(LaunchError):
        listed("/bin/true", [], os.environ, tmp_path)


def test_a_program_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for an answer for ever."""
    monkeypatch.setattr(trust, "ANSWER_S", 0.3)
    program = tmp_path / "codex"
    program.write_text("#!/bin/sh\nexec sleep 30\n")
    program.chmod(0o755)
    with pytest.raises(LaunchError):
        listed(str(program), [], os.environ, tmp_path)
