"""What our plugins share: what they tell, how they are refused, and when a run has lost one."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from broker.agents.client import DEADLINE_MS
from broker.agents.hooks import AgentHook, HookCall
from broker.agents.pi.hook import PiDialect
from broker.agents.pi.launch import EXTENSION_NAME
from broker.agents.plugin import Plugged, Spoken, read_spoken, refused, respelled
from broker.errors import InputError, LaunchError
from broker.service.protocol import ALLOW, HookRefusal, frame
from tests.hookkit import Stand
from tests.pluginkit import allowing, payload, put, run_node, run_pi

CALL: dict[str, object] = {
    "event": "call",
    "tool": "read",
    "arguments": {"path": "a"},
    "call": "call_1",
    "cwd": "/ws",
}
EVENT = {"toolName": "read", "toolCallId": "c1", "input": {"path": "a", "deep": {"path": "b"}}}
PI = "broker.agents.pi"


def read(**changed: object) -> Spoken:
    """Read what a plugin said, with some fields changed."""
    return read_spoken(json.dumps({**CALL, **changed}).encode())


# ── what is told ──


def test_a_call_is_read() -> None:
    """Tool, arguments, call id, folder and actor are taken as they stand."""
    expected = HookCall("call", "read", {"path": "a"}, "call_1", "/ws", None, "main")
    assert read() == Spoken(expected)
    assert read(agent="ses_1", kind="general").call.actor == "agent:general:ses_1"


def test_a_start_is_no_call() -> None:
    """The start tells the servers and asks for nothing."""
    assert read_spoken(b'{"event":"start","servers":["a"]}') == Spoken(HookCall("start"), ("a",))


@pytest.mark.parametrize("field", sorted(CALL))
@pytest.mark.parametrize("value", [None, "", 7, []])
def test_a_field_that_is_needed_and_wrong_is_refused(field: str, value: object) -> None:
    """Missing, empty and of another kind are never guessed."""
    with pytest.raises(InputError):
        read(**{field: value})


@pytest.mark.parametrize("servers", [None, "notes", [7], [""]])
def test_servers_that_are_no_names_are_refused(servers: object) -> None:
    """A plugin that cannot tell the servers has not started."""
    with pytest.raises(InputError):
        read_spoken(json.dumps({"event": "start", "servers": servers}).encode())


def test_an_argument_takes_no_other_s_place() -> None:
    """Names are exchanged only where it stays clear which value counts."""
    assert respelled({"filePath": "a"}, {"filePath": "path"}) == {"path": "a"}
    with pytest.raises(InputError, match="only one"):
        respelled({"filePath": "a", "path": "b"}, {"filePath": "path"})


# ── the run ──


def test_a_run_that_loses_its_plugin_is_seen(tmp_path: Path) -> None:
    """A plugin that never speaks, and one whose file changed, are told; one that spoke is not."""
    hook = AgentHook(PiDialect())
    plugged = Plugged(hook)
    plugin = plugged.put(PI, EXTENSION_NAME, tmp_path)
    assert plugged.lost() is None
    plugged.awaited(60.0)
    assert plugged.lost() is None
    plugged.awaited(-1.0)
    assert "did not load" in str(plugged.lost())
    hook.started.set()
    assert plugged.lost() is None
    (tmp_path / "ask.mjs").unlink()
    assert "was changed" in str(plugged.lost())
    plugin.unlink()
    assert "was changed" in str(plugged.lost())


def test_a_plugin_that_cannot_be_written_ends_before_the_run(tmp_path: Path) -> None:
    """A file that is there already is not trusted, and not overwritten."""
    (tmp_path / EXTENSION_NAME).write_text("theirs")
    with pytest.raises(LaunchError, match="cannot be written"):
        put(PI, EXTENSION_NAME, tmp_path)
    assert (tmp_path / EXTENSION_NAME).read_text() == "theirs"


def test_the_files_are_those_of_the_package(tmp_path: Path) -> None:
    """What runs is what ships, for this user alone."""
    plugin = put(PI, EXTENSION_NAME, tmp_path)
    assert plugin.read_bytes() == files(PI).joinpath(EXTENSION_NAME).read_bytes()
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_the_plugins_are_short_and_need_nothing() -> None:
    """Every plugin can be read in a minute, and imports Node's own modules or our client."""
    found = [
        files(package).joinpath(name).read_text()
        for package, name in (
            ("broker.agents", "ask.mjs"),
            (PI, EXTENSION_NAME),
            ("broker.agents.opencode", "broker-opencode.mjs"),
        )
    ]
    for text in found:
        assert len(text.splitlines()) < 90
        imported = set(re.findall(r'(?:from|import\()\s*"([^"]+)"', text))
        assert imported <= {"node:net", "./ask.mjs"}
        assert "require(" not in text
    deadline = re.search(r"DEADLINE_MS = (\d+)", found[0])
    assert deadline is not None
    assert int(deadline[1]) == DEADLINE_MS


# ── the client, under Node ──


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """The extension for pi, put ready."""
    return put(PI, EXTENSION_NAME, tmp_path)


def test_an_allow_lets_the_call_go_on(plugin: Path, tmp_path: Path) -> None:
    """The plugin says that it is there, then asks for the call, and says nothing else."""
    with Stand(tmp_path / "s", allowing) as stand:
        done = run_pi(plugin, stand.path, [{**EVENT, "cwd": "/ws"}])
    assert done["told"] == [None]
    start, call = (payload(request, "pi") for request in stand.asked)
    assert start == {"event": "start"}
    assert call == {
        "event": "call",
        "tool": "read",
        "arguments": EVENT["input"],
        "call": "c1",
        "cwd": "/ws",
    }


def test_what_was_judged_cannot_be_changed(plugin: Path, tmp_path: Path) -> None:
    """Arguments are fixed at every depth before the session is asked."""
    with Stand(tmp_path / "s", allowing) as stand:
        done = run_pi(plugin, stand.path, [EVENT])
    assert done["calls"][0]["input"] == EVENT["input"]


def test_a_refusal_comes_with_its_reason(plugin: Path, tmp_path: Path) -> None:
    """What the session says reaches the model, letters of every kind included."""
    reason = "refused by `paths`: “é” 🙂"
    answers = [frame(ALLOW), frame(refused(reason).encode())]
    with Stand(tmp_path / "s", lambda _: answers.pop(0)) as stand:
        assert run_pi(plugin, stand.path, [EVENT])["told"] == [reason]


def slow(text: bytes) -> Callable[[bytes], bytes]:
    """Return an answer that is an allow to the start, and ``text`` to the call."""
    answers = [frame(ALLOW), text]
    return lambda _: answers.pop(0)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\0\0",
        b"\0\0\0\0",
        frame(ALLOW)[:-1],
        struct.pack(">I", 14) + ALLOW[:-1],
        frame(ALLOW + b" "),
        frame(ALLOW) + b"x",
        frame(b"allow"),
        frame(b'{"ok":true,"decision":"allow"}'),
        frame(b"answer/1 refuse\n"),
        frame(b"answer/1 refuse\n\0\xff\xff\xff\xff"),
        frame(HookRefusal(2, b"", b"no").encode()),
        b"\xff\xff\xff\xff" + ALLOW,
        b"HTTP/1.1 200 OK\r\n\r\n",
    ],
)
def test_a_malformed_answer_is_a_refusal(plugin: Path, tmp_path: Path, answer: bytes) -> None:
    """Cut short, too long, of another kind, or with anything behind it: the call is refused."""
    with Stand(tmp_path / "s", slow(answer)) as stand:
        (told,) = run_pi(plugin, stand.path, [EVENT])["told"]
    assert told.startswith("refused: the broker")
    assert "ask the person" in told


def test_an_answer_that_does_not_come_is_a_refusal(plugin: Path, tmp_path: Path) -> None:
    """At the plugin's own deadline a call is refused, and no sooner."""
    client = plugin.with_name("ask.mjs")
    text = client.read_text()
    client.write_text(text.replace("DEADLINE_MS = 15000", "DEADLINE_MS = 300"))
    answers: list[Any] = [frame(ALLOW), None]
    with Stand(tmp_path / "s", lambda _: answers.pop(0)) as stand:
        (told,) = run_pi(plugin, stand.path, [EVENT])["told"]
    assert "did not answer in time" in told


@pytest.mark.parametrize("path", ["", "nowhere", "ask.mjs"])
def test_without_a_socket_nothing_starts(plugin: Path, tmp_path: Path, path: str) -> None:
    """No socket, none of that name, and a file in its place: the agent does not start."""
    (told,) = run_pi(plugin, tmp_path / path if path else "", [EVENT])["told"]
    assert told.startswith("start: ")


def test_a_refused_start_is_no_start(plugin: Path, tmp_path: Path) -> None:
    """A session that does not know this agent ends it before the first call."""
    with Stand(tmp_path / "s", lambda _: frame(refused("no such agent").encode())) as stand:
        assert run_pi(plugin, stand.path, [EVENT])["told"] == ["start: no such agent"]


_TELLS = """
const { teller } = await import(process.argv[2])
const tell = teller("pi")
process.env.BROKER_SOCKET = process.argv[3]
tell({ event: "end" })
console.log("null")
"""


def test_what_changes_the_environment_later_hears_nothing(plugin: Path, tmp_path: Path) -> None:
    """How a call ended is told to the session of the start, as its calls are."""
    client = plugin.with_name("ask.mjs")
    with Stand(tmp_path / "s", allowing) as stand, Stand(tmp_path / "t", allowing) as other:
        run_node(_TELLS, client, stand.path, str(other.path))
    assert [payload(request, "pi") for request in stand.asked] == [{"event": "end"}]
    assert other.asked == []


def test_the_end_of_a_call_is_told() -> None:
    """With its outcome, and with the subagent that is over with it; nothing is asked."""
    spoken = read_spoken(b'{"event":"end","call":"c1","ok":true,"output":"x","ended":"ses_2"}')
    assert spoken.call.tool == ""
    assert spoken.call.ended is not None
    assert (spoken.call.ended.call_id, spoken.call.ended.ok) == ("c1", True)
    assert spoken.call.news is not None
    assert (spoken.call.news.what, spoken.call.news.agent) == ("ended", "id:ses_2")
    with pytest.raises(InputError):
        read_spoken(b'{"event":"end"}')
