"""What a service says of itself."""

from __future__ import annotations

import io
import json

from broker.calls import Decision, Refusal
from broker.service.access import KeyHolder
from broker.service.watching import Watch


def _watch(**more: bool) -> tuple[Watch, io.StringIO]:
    stream = io.StringIO()
    return Watch(stream, lambda: 0, **more), stream


def test_a_log_line_is_json_with_its_instant() -> None:
    """Each event is one line, with when it was."""
    watch, stream = _watch()
    watch.say("minted", sid="s")
    assert json.loads(stream.getvalue()) == {
        "at": "1970-01-01T00:00:00.000Z", "event": "minted", "sid": "s",
    }  # fmt: skip


def test_errors_are_logged_and_each_request_on_demand() -> None:
    """A success is logged only where that was asked for."""
    for each, wanted in ((False, [404]), (True, [200, 404])):
        watch, stream = _watch(requests=each)
        watch.answered("/v1/check", 200, 0.001, KeyHolder("pep", "evaluator"))
        watch.answered("unknown", 404, 0.001, None)
        lines = [json.loads(line) for line in stream.getvalue().splitlines()]
        assert [line["status"] for line in lines] == wanted


def test_a_fault_is_named_and_its_text_left_out() -> None:
    """What an error says may hold what a caller sent."""
    watch, stream = _watch()
    watch.broke("/v1/check", ValueError("a secret"))
    assert "ValueError" in stream.getvalue()
    assert "secret" not in stream.getvalue()


def test_a_log_that_cannot_be_written_is_no_fault_of_a_request() -> None:
    """A closed stream loses the line and nothing else."""
    watch, stream = _watch()
    stream.close()
    watch.say("minted")
    watch.decided(Decision(Refusal("tools", "x", "no")))
    assert b'caveat="tools",decision="refuse"} 1.0' in watch.metrics(3)
    assert b"broker_sessions 3.0" in watch.metrics(3)
