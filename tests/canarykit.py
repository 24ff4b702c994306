"""
A stand-in for Claude Code that obeys its hook, or does not, in each way that a canary must tell.

It is a real process: it asks the model at ``ANTHROPIC_BASE_URL`` and runs the hook of its
``--settings`` file before each call. ``FAKE_CLAUDE`` says how it behaves.
"""

from __future__ import annotations

import sys
from pathlib import Path

_PROGRAM = """\
import json, os, subprocess, sys, time, urllib.request

how = os.environ.get("FAKE_CLAUDE", "obeys")
arguments = sys.argv[1:]
if "--version" in arguments:
    print("0.0.0 (fake)")
    sys.exit(0)
said = arguments[arguments.index("-p") + 1] if "-p" in arguments else ""
if "[script canary]" not in said:
    print("this is the run")
    sys.exit(0)
if how == "crashes":
    print("something is missing", file=sys.stderr)
    sys.exit(7)
if how == "hangs":
    open(os.environ["FAKE_MARK"], "w").write(str(os.getpid()))
    time.sleep(600)


def ask(messages):
    body = {"model": "m", "messages": messages, "tools": [{"name": "Read"}]}
    url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
    request = urllib.request.Request(url, json.dumps(body).encode())
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return json.load(opener.open(request))


def refused(call, agent):
    settings = json.load(open(arguments[arguments.index("--settings") + 1]))
    command = settings["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
    given = call["input"]
    if how == "asks for something else":
        given = {"file_path": os.path.join(os.getcwd(), "src/a.py")}
    payload = {
        "hook_event_name": "PreToolUse", "tool_name": call["name"], "tool_input": given,
        "tool_use_id": call["id"], "cwd": os.getcwd(), **agent,
    }
    done = subprocess.run(["sh", "-c", command], input=json.dumps(payload), text=True,
                          capture_output=True)
    if not done.stdout:
        return None
    return json.loads(done.stdout)["hookSpecificOutput"]["permissionDecisionReason"]


def converse(said, agent, how):
    messages = [{"role": "user", "content": said}]
    answer = ask(messages)
    (call,) = answer["content"]
    if how == "ends without a call":
        sys.exit(0)
    if how == "starts no subagent" and call["name"] == "Agent":
        sys.exit(0)
    asks = how not in ("has no hook", "answers itself")
    reason = refused(call, agent) if asks else None
    if how == "hangs after the decision":
        time.sleep(600)
    if how == "answers itself":
        result = "you may not read anything"
    elif call["name"] == "Agent" and reason is None:
        inside = how.removeprefix("its subagent ")
        helper = {"agent_id": "a1", "agent_type": "general-purpose"}
        result = converse(call["input"]["prompt"], helper, inside)
    elif how == "passes over the refusal" or reason is None:
        result = open(call["input"]["file_path"]).read()
    elif how == "does not say why":
        result = "there was an error"
    else:
        result = reason
    if how == "writes":
        open(call["input"]["file_path"], "w").write("x")
    messages += [
        {"role": "assistant", "content": answer["content"]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": call["id"], "content": result, "is_error": True}
        ]},
    ]
    return ask(messages)["content"][0].get("text", "")


converse(said, {}, how)
if how == "stays":
    helper = subprocess.Popen(["sleep", "600"])
    open(os.environ["FAKE_MARK"], "w").write(f"{os.getpid()} {helper.pid}")
    time.sleep(600)
"""


def fake_claude(folder: Path) -> Path:
    """Write the stand-in into a folder, and return it."""
    folder.mkdir(exist_ok=True)
    program = folder / "claude"
    program.write_text(f"#!{sys.executable}\n{_PROGRAM}")
    program.chmod(0o755)
    return program
