"""What a gateway tells of the messages that pass it, and of those that do not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.capture.door import Door
from broker.mcp.gateway import Gateway
from broker.mcp.judge import Judge
from broker.mcp.tee import MAX_TOLD_BYTES, TeedGateway
from tests.mcpkit import WebServer, Yes, answer, call, offer, said
from tests.worldkit import Recorded, recorded

LOOK = "mcp__notes__look"


class Heard:
    """What was told: the fields, and the content as JSON."""

    def __init__(self) -> None:
        self.found: list[tuple[Mapping[str, object], object]] = []

    def __call__(self, fields: Mapping[str, object], content: bytes | None) -> None:
        self.found.append((fields, None if content is None else json.loads(content)))


def teed(*allowed: str, scope: str = "") -> tuple[TeedGateway, Heard]:
    """Return a gateway before a server named `notes`, and what it tells."""
    heard = Heard()
    judge = Judge(Yes(*allowed), offer(*filter(None, [scope])), "notes")
    return TeedGateway(judge, "t", heard), heard


def test_a_call_and_its_answer_are_told() -> None:
    """An allowed call is told with the number of its decision, its answer as what it answers."""
    gateway, heard = teed(LOOK)
    gateway.from_client(call(1, "look", path="a"))
    gateway.from_server(answer(1, content=[]))
    (asked, params), (answered, result) = heard.found
    assert asked == {
        "kind": "mcp.request", "server": "notes", "sender": "client", "method": "tools/call",
        "allowed": True, "id": 1, "call": "t:1",
    }  # fmt: skip
    assert params == {"name": "look", "arguments": {"path": "a"}}
    assert answered == {
        "kind": "mcp.response", "server": "notes", "sender": "client", "method": "tools/call",
        "ok": True, "id": 1,
    }  # fmt: skip
    assert result == {"result": {"content": []}}


def test_a_refused_call_is_told_as_refused() -> None:
    """What did not go on is told with its caveat, and the refusal as the answer."""
    gateway, heard = teed(LOOK)
    gateway.from_client(call(1, "drop"))
    (asked, _), (answered, result) = heard.found
    assert (asked["allowed"], asked["caveat"], asked["call"]) == (False, "tools", "t:1")
    assert (answered["ok"], answered["id"]) == (False, 1)
    assert "refused by `tools`" in json.dumps(result)


def test_lists_are_told_as_the_client_gets_them() -> None:
    """Of a list that lost something on the way, what is left is told, and that it was more."""
    gateway, heard = teed(scope=f"tools={LOOK}")
    gateway.from_client(said("tools/list", 1))
    gateway.from_server(answer(1, tools=[{"name": "look"}, {"name": "drop"}]))
    fields, result = heard.found[-1]
    assert fields["filtered"] is True
    assert result == {"result": {"tools": [{"name": "look"}]}}


def test_both_directions_are_told() -> None:
    """What a server asks and tells, and what the client answers, is told with who asked."""
    gateway, heard = teed()
    gateway.from_server(said("roots/list", 1))
    gateway.from_client(answer(1, roots=[]))
    gateway.from_server(said("notifications/message", level="info"))
    gateway.from_client(said("notifications/initialized"))
    assert [(f["kind"], f["sender"], f.get("notification")) for f, _ in heard.found] == [
        ("mcp.request", "server", None),
        ("mcp.response", "server", None),
        ("mcp.request", "server", True),
        ("mcp.request", "client", True),
    ]


def test_what_gets_no_answer_is_told_as_failed() -> None:
    """When the server has gone, or its answer broke off, the error that stands for it is told."""
    gateway, heard = teed(LOOK)
    for ident in (1, 2):
        gateway.from_client(call(ident, "look"))
    gateway.unanswered(call(1, "look"), "it broke off")
    gateway.deserted()
    failed = [fields for fields, _ in heard.found if fields["kind"] == "mcp.response"]
    assert [(each["id"], each["ok"], each["method"]) for each in failed] == [
        (1, False, "tools/call"), (2, False, "tools/call"),
    ]  # fmt: skip


def test_an_answer_that_nobody_asked_for_went_nowhere() -> None:
    """What does not go on because nobody asked is not told as an answer."""
    gateway, heard = teed()
    gateway.from_server(answer(9, x=1))
    gateway.from_client(answer(9, x=1))
    assert heard.found == []


def test_nonsense_is_told_as_such() -> None:
    """Bytes that nobody could read are told without a content."""
    gateway, heard = teed()
    gateway.from_client(b"{")
    ((fields, content),) = heard.found
    assert (fields["allowed"], fields["left_out"], content) == (False, "unreadable", None)


def test_a_long_message_is_told_without_its_content() -> None:
    """A message beyond the limit passes as always, and its content is not told."""
    gateway, heard = teed(LOOK)
    raw = call(1, "look", text="x" * MAX_TOLD_BYTES)
    assert gateway.from_client(raw).onward == raw
    ((fields, content),) = heard.found
    assert content is None
    assert str(fields["left_out"]).endswith(" bytes")


MESSAGES = st.lists(
    st.one_of(
        st.builds(call, st.integers(0, 3), st.sampled_from(["look", "drop"])),
        st.builds(answer, st.integers(0, 3)),
        st.builds(
            said, st.sampled_from(["ping", "tools/list", "x/y", "roots/list"]), st.integers(0, 3)
        ),
        st.builds(said, st.sampled_from(["notifications/message", "notifications/cancelled"])),
        st.binary(max_size=8),
    ).flatmap(lambda raw: st.tuples(st.booleans(), st.just(raw))),
    max_size=20,
)


@settings(max_examples=25)
@given(messages=MESSAGES)
def test_telling_changes_no_ruling(messages: list[tuple[bool, bytes]]) -> None:
    """Whatever is said in either direction, a gateway that tells rules as one that does not."""
    teller, _ = teed(LOOK)
    plain = Gateway(Judge(Yes(LOOK), offer(), "notes"), "t")
    for of_client, raw in messages:
        for name in ("from_client",) if of_client else ("from_server",):
            assert getattr(teller, name)(raw) == getattr(plain, name)(raw)
    assert teller.deserted() == plain.deserted()


# ── as processes ──


def _recorded_gateway(
    place: Path, *words: str, lines: Sequence[bytes], **environ: str
) -> tuple[Recorded, list[dict[str, Any]]]:
    """Talk to `broker mcp` as a client does, recorded, and return the run and the answers."""
    run = recorded(place)
    door = Door(run.writer, place / "door")
    door.bind()
    door.start()
    process = subprocess.Popen(
        [sys.executable, "-c", "from broker.cli.main import main; main()", "mcp", *words],
        cwd=place,
        env={**os.environ, "BROKER_RECORDER": str(door.path), **environ},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    heard = []
    for line in lines:
        process.stdin.write(line + b"\n")
        process.stdin.flush()
        heard.append(json.loads(process.stdout.readline()))
    process.communicate(timeout=60)
    door.stop()
    return run, heard


SAYS_ITS_ENVIRONMENT = (
    "import json, os, sys\n"
    "for line in sys.stdin:\n"
    "    said = json.loads(line)\n"
    "    text = json.dumps(sorted(k for k in os.environ if k.startswith('BROKER_')))\n"
    "    result = {'content': [{'type': 'text', 'text': text}]}\n"
    "    print(json.dumps({'jsonrpc': '2.0', 'id': said['id'], 'result': result}), flush=True)\n"
)


def test_a_gateway_over_streams_is_recorded(tmp_path: Path) -> None:
    """Row 58: what passes a server on standard streams, and what does not, is in the trace."""
    run, heard = _recorded_gateway(
        tmp_path, "--server", "notes", "--scope", f"tools={LOOK}", "--quiet",
        "--", sys.executable, "-c", SAYS_ITS_ENVIRONMENT,
        lines=[call(1, "look", path="a"), call(2, "drop")],
    )  # fmt: skip
    asked, refused = run.lines("mcp.request")
    answered, denied = run.lines("mcp.response")
    assert (asked["attrs"]["allowed"], refused["attrs"]["allowed"]) == (True, False)
    assert refused["attrs"]["caveat"] == "tools"
    assert run.payload(asked) == {"name": "look", "arguments": {"path": "a"}}
    assert [each["causes"] for each in (answered, denied)] == [[asked["seq"]], [refused["seq"]]]
    assert run.payload(answered) == {"result": heard[0]["result"]}
    assert run.payload(denied) == {"result": heard[1]["result"]}
    assert "BROKER_RECORDER" not in heard[0]["result"]["content"][0]["text"]
    assert list(run.sealed().problems()) == []


def test_a_gateway_over_http_is_recorded(tmp_path: Path) -> None:
    """A server behind an address is recorded as one on standard streams is."""

    def respond(_: str, __: object, body: bytes) -> tuple[int, dict[str, str], list[bytes]]:
        ident = json.loads(body)["id"] if body else None
        reply = answer(ident, content=[{"type": "text", "text": "hello"}])
        return 200, {"Content-Type": "application/json"}, [reply]

    with WebServer(respond) as server:
        run, heard = _recorded_gateway(
            tmp_path, "--server", "notes", "--url", server.url, "--quiet", lines=[call(1, "look")]
        )
    (asked,), (answered,) = run.lines("mcp.request"), run.lines("mcp.response")
    assert (asked["attrs"]["server"], asked["attrs"]["method"]) == ("notes", "tools/call")
    assert run.payload(answered) == {"result": heard[0]["result"]}
