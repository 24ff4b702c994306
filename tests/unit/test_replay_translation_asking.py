"""
An agent's official client asks its own provider, and a model of another one answers.

The clients of both providers read what is sent, streams and whole answers, calls and texts.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from broker.loopback.script import Say, Use
from broker.loopback.server import LoopbackModel
from broker.replay.translation.asking import ask_other
from broker.replay.translation.other import OtherModel, other_model

SCRIPT = {"main": [Use([("read", {"path": "a.py"}), ("read", {"path": "b"})]), Say("all is read")]}
GO = "[script main] go"
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}


@contextmanager
def _front(other: OtherModel) -> Iterator[tuple[str, list[Mapping[str, object]]]]:
    """Serve agents by another model; yield the address, and what was told of each request."""
    told: list[Mapping[str, object]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers.get("content-length") or 0))
            failed = ask_other(other, {}, told.append, self, (self.path, content))
            if failed is not None:
                self.send_response(failed.status)
                self.send_header("content-type", failed.kind)
                self.send_header("content-length", str(len(failed.body)))
                self.end_headers()
                self.wfile.write(failed.body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", told
    finally:
        server.shutdown()
        server.server_close()


def _other(model: LoopbackModel, api: str) -> OtherModel:
    """Return the scripted model as one of a provider that speaks an API."""
    from broker.config import ModelSetting

    url = model.url if api == "messages" else f"{model.url}/v1"
    found = other_model("there/m-2", (ModelSetting("there", url, api, ""),), {})
    assert found is not None
    return found


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("api", ["responses", "chat"])
def test_anthropics_client_is_answered_by_openais_model(api: str, *, stream: bool) -> None:
    """Two calls come with their arguments, their results go back, and the text comes (row 68)."""
    anthropic = pytest.importorskip("anthropic")
    with LoopbackModel(SCRIPT) as model, _front(_other(model, api)) as (url, told):
        client = anthropic.Anthropic(base_url=url, api_key="agents-own", max_retries=0)
        messages: list[dict[str, Any]] = [{"role": "user", "content": GO}]
        asked = {
            "model": "claude-x",
            "max_tokens": 99,
            "system": "be brief",
            "tools": [{"name": "read", "description": "reads", "input_schema": SCHEMA}],
        }

        def ask() -> Any:
            if not stream:
                return client.messages.create(messages=messages, **asked)
            with client.messages.stream(messages=messages, **asked) as heard:
                return heard.get_final_message()

        first = ask()
        assert first.stop_reason == "tool_use"
        uses = [block for block in first.content if block.type == "tool_use"]
        assert [use.input for use in uses] == [{"path": "a.py"}, {"path": "b"}]
        results = [
            {"type": "tool_result", "tool_use_id": use.id, "content": f"text of {n}"}
            for n, use in enumerate(uses)
        ]
        messages += [
            {"role": "assistant", "content": [each.model_dump() for each in uses]},
            {"role": "user", "content": results},
        ]
        second = ask()
        assert (second.content[0].text, second.stop_reason) == ("all is read", "end_turn")
        assert second.usage.output_tokens > 0
        assert sorted(r.text for r in model.results.values()) == ["text of 0", "text of 1"]
        sent = [json.loads(text) for text in model.asked]
    assert [body["model"] for body in sent] == ["m-2", "m-2"]
    assert "be brief" in json.dumps(sent[0])
    assert [each["kind"] for each in told] == ["translated", "translated"]
    assert told[0]["from"] == "anthropic.messages"


def _openai(url: str) -> Any:
    openai = pytest.importorskip("openai")
    return openai.OpenAI(base_url=f"{url}/v1", api_key="agents-own", max_retries=0)


@pytest.mark.parametrize("stream", [True, False])
def test_openais_client_is_answered_by_anthropics_model_in_responses(*, stream: bool) -> None:
    """As a stream of events and as a whole, calls and texts, with the counts of tokens."""
    with LoopbackModel(SCRIPT) as model, _front(_other(model, "messages")) as (url, _):
        client = _openai(url)
        items: list[dict[str, Any]] = [{"role": "user", "content": GO}]
        tools = [{"type": "function", "name": "read", "parameters": SCHEMA, "strict": False}]

        def ask() -> Any:
            given = {"model": "gpt-x", "input": items, "tools": tools, "instructions": "be brief"}
            if not stream:
                return client.responses.create(**given)
            with client.responses.stream(**given) as heard:
                for _ in heard:
                    pass
                return heard.get_final_response()

        first = ask()
        calls = [each for each in first.output if each.type == "function_call"]
        assert [json.loads(call.arguments) for call in calls] == [{"path": "a.py"}, {"path": "b"}]
        for n, call in enumerate(calls):
            given = {"name": call.name, "arguments": call.arguments, "call_id": call.call_id}
            items.insert(1 + n, {"type": "function_call", **given})
            output = {"call_id": call.call_id, "output": f"text of {n}"}
            items.append({"type": "function_call_output", **output})
        second = ask()
        assert (second.output_text, second.status) == ("all is read", "completed")
        assert second.usage.total_tokens > 0
        assert sorted(r.text for r in model.results.values()) == ["text of 0", "text of 1"]


@pytest.mark.parametrize("stream", [True, False])
def test_openais_client_is_answered_by_anthropics_model_in_chat(*, stream: bool) -> None:
    """As a stream of chunks and as a whole."""
    with LoopbackModel(SCRIPT) as model, _front(_other(model, "messages")) as (url, _):
        client = _openai(url)
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": GO},
        ]
        tools = [{"type": "function", "function": {"name": "read", "parameters": SCHEMA}}]

        def ask() -> Any:
            given = {"model": "gpt-x", "messages": messages, "tools": tools}
            if not stream:
                return client.chat.completions.create(**given).choices[0]
            with client.chat.completions.stream(**given) as heard:
                for _ in heard:
                    pass
                return heard.get_final_completion().choices[0]

        first = ask()
        assert first.finish_reason == "tool_calls"
        calls = first.message.tool_calls
        assert [json.loads(c.function.arguments)["path"] for c in calls] == ["a.py", "b"]
        told = [
            {
                "id": c.id,
                "type": "function",
                "function": {"name": c.function.name, "arguments": c.function.arguments},
            }
            for c in calls
        ]
        messages.append({"role": "assistant", "content": None, "tool_calls": told})
        for n, call in enumerate(calls):
            messages.append({"role": "tool", "tool_call_id": call.id, "content": f"text of {n}"})
        second = ask()
        assert (second.message.content, second.finish_reason) == ("all is read", "stop")
        assert sorted(r.text for r in model.results.values()) == ["text of 0", "text of 1"]


def test_what_cannot_be_asked_is_said() -> None:
    """A provider that is not there, something else than an answer, and what cannot be carried."""
    anthropic = pytest.importorskip("anthropic")
    from broker.config import ModelSetting

    setting = ModelSetting("there", "http://127.0.0.1:9/v1", "chat", "")
    other = other_model("there/m", (setting,), {})
    assert other is not None
    with _front(other) as (url, _):
        client = anthropic.Anthropic(base_url=url, api_key="k", max_retries=0)
        say = [{"role": "user", "content": "hi"}]
        with pytest.raises(anthropic.APIStatusError) as gone:
            client.messages.create(model="m", max_tokens=1, messages=say)
        assert gone.value.status_code == 502
        with pytest.raises(anthropic.BadRequestError, match="not asked of a model of another"):
            client.messages.count_tokens(model="m", messages=say)
        paper = [{"role": "user", "content": [{"type": "document", "source": {"type": "text"}}]}]
        with pytest.raises(anthropic.BadRequestError, match="`document`"):
            client.messages.create(model="m", max_tokens=1, messages=paper)
