"""The scripted model behind its address, over each protocol, plain and streamed."""

from __future__ import annotations

import gzip
import json
import socket
import socketserver
import struct
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from broker.loopback import server as module
from broker.loopback.script import Say, Text, Told, Use
from broker.loopback.server import LoopbackModel

SCRIPT = {
    "main": [
        Use([("read", {"path": "a"}), ("write", {"path": "b"})]),
        Say("all done"),
    ]
}
TOOLS = [{"name": "read"}]


def post(url: str, body: object, **headers: str) -> Any:
    """Send JSON; return JSON, or the data of each event."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url, content, {"content-type": "application/json", **headers})
    with urllib.request.urlopen(request, timeout=10) as answer:
        text = answer.read().decode()
        if answer.headers["content-type"] == "text/event-stream":
            return [e.partition("data: ")[2] for e in text.strip().split("\n\n")]
        return json.loads(text)


def anthropic(said: list[Told]) -> tuple[str, dict[str, Any]]:
    """Spell a conversation as Messages."""
    messages: list[dict[str, Any]] = []
    for each in said:
        if each.who == "model":
            messages.append({"role": "assistant", "content": [{"type": "text", "text": "x"}]})
        elif each.who == "result":
            part = {
                "type": "tool_result",
                "tool_use_id": f"toolu_{each.call}",
                "content": each.text,
            }
            messages.append({"role": "user", "content": [{**part, "is_error": each.failed}]})
        else:
            messages.append({"role": "user", "content": [{"type": "text", "text": each.text}]})
    return "/v1/messages?beta=true", {"messages": messages, "tools": TOOLS}


def chat(said: list[Told]) -> tuple[str, dict[str, Any]]:
    """Spell a conversation as Chat Completions."""
    messages: list[dict[str, Any]] = []
    for each in said:
        if each.who == "model":
            messages.append({"role": "assistant", "content": None, "tool_calls": []})
        elif each.who == "result":
            call = f"call_{each.call}"
            messages.append({"role": "tool", "tool_call_id": call, "content": each.text})
        else:
            messages.append({"role": "user", "content": each.text})
    return "/v1/chat/completions", {"messages": messages, "tools": TOOLS}


def responses(said: list[Told]) -> tuple[str, dict[str, Any]]:
    """Spell a conversation as Responses, an answer of two items included."""
    items: list[dict[str, Any]] = []
    for each in said:
        if each.who == "model":
            items += [{"type": "reasoning"}, {"type": "function_call", "call_id": "x"}]
        elif each.who == "result":
            call = f"call_{each.call}"
            items.append({"type": "function_call_output", "call_id": call, "output": each.text})
        else:
            part = {"type": "input_text", "text": each.text}
            items.append({"type": "message", "role": "user", "content": [part]})
    return "/v1/responses", {"input": items, "tools": TOOLS}


def gemini(said: list[Told]) -> tuple[str, dict[str, Any]]:
    """Spell a conversation as generateContent, where results have no id."""
    contents: list[dict[str, Any]] = []
    for each in said:
        if each.who == "model":
            contents.append({"role": "model", "parts": [{"text": "x"}]})
        elif each.who == "result":
            answer = {"error": each.text} if each.failed else {"output": each.text}
            part = {"functionResponse": {"name": "read", "response": answer}}
            contents.append({"role": "user", "parts": [part]})
        else:
            contents.append({"role": "user", "parts": [{"text": each.text}]})
    return "/v1beta/models/m:generateContent", {"contents": contents, "tools": TOOLS}


Spelling = Callable[[list[Told]], tuple[str, dict[str, Any]]]
WIRES = pytest.mark.parametrize("spell", [anthropic, chat, responses, gemini])
BEGUN = [Told("user", "[script main] go")]
GONE_ON = [
    *BEGUN,
    Told("model"),
    Told("result", "one", "main-0-0"),
    Told("result", "2", "main-0-1"),
]


def calls_in(answer: Any) -> list[tuple[str, Any]]:
    """Return the calls of an answer of any protocol."""
    if "content" in answer:
        return [(b["name"], b["input"]) for b in answer["content"] if b["type"] == "tool_use"]
    if "choices" in answer:
        found = answer["choices"][0]["message"].get("tool_calls", [])
        return [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in found]
    if "output" in answer:
        found = [i for i in answer["output"] if i["type"] == "function_call"]
        return [(c["name"], json.loads(c["arguments"])) for c in found]
    parts = answer["candidates"][0]["content"]["parts"]
    return [
        (p["functionCall"]["name"], p["functionCall"]["args"]) for p in parts if "text" not in p
    ]


@WIRES
def test_a_script_is_followed_over_every_protocol(spell: Spelling) -> None:
    """The first turn calls tools, the second talks, and the results are kept under their calls."""
    with LoopbackModel(SCRIPT) as model:
        path, body = spell(BEGUN)
        assert calls_in(post(model.url + path, body)) == [
            ("read", {"path": "a"}),
            ("write", {"path": "b"}),
        ]
        path, body = spell(GONE_ON)
        answer = post(model.url + path, body)
        assert calls_in(answer) == []
        assert "all done" in json.dumps(answer)
        assert set(model.results) == {"main-0-0", "main-0-1"}
        assert "one" in model.results["main-0-0"].text
        assert len(model.asked) == 2


@WIRES
def test_questions_on_the_side_do_not_move_the_script(spell: Spelling) -> None:
    """A request without tools gets words, and the script stands where it stood."""
    with LoopbackModel(SCRIPT) as model:
        path, body = spell(BEGUN)
        assert calls_in(post(model.url + path, {**body, "tools": []})) == []
        assert calls_in(post(model.url + path, body))


@pytest.mark.parametrize("spell", [anthropic, chat, responses])
def test_a_stream_tells_what_the_plain_answer_tells(spell: Spelling) -> None:
    """Every call of the plain answer is in the stream, whole, and the stream ends as it must."""
    with LoopbackModel(SCRIPT) as model:
        path, body = spell(BEGUN)
        told = post(model.url + path, {**body, "stream": True})
    text = "".join(told)
    for word in ("read", "write"):
        assert f'"{word}"' in text
    assert told[-1] == "[DONE]" or json.loads(told[-1])["type"] in (
        "message_stop",
        "response.completed",
    )


def test_gemini_streams_one_chunk() -> None:
    """Its stream is asked for by the path, and holds the plain answer."""
    with LoopbackModel(SCRIPT) as model:
        path, body = gemini(BEGUN)
        (told,) = post(model.url + path.replace(":g", ":streamG"), body)
        assert calls_in(json.loads(told)) == calls_in(post(model.url + path, body))


def test_a_tool_of_free_text_and_one_in_a_namespace() -> None:
    """Responses knows tools that take text instead of an object, and tools in namespaces."""
    script = {"main": [Use([("apply_patch", Text("*** Begin")), ("space/do", {})])]}
    with LoopbackModel(script) as model:
        path, body = responses(BEGUN)
        patch, spaced = post(model.url + path, body)["output"]
    assert (patch["type"], patch["input"]) == ("custom_tool_call", "*** Begin")
    assert (spaced["namespace"], spaced["name"]) == ("space", "do")


def test_bodies_come_packed_and_in_chunks() -> None:
    """What clients may do with a body is understood."""
    with LoopbackModel(SCRIPT) as model:
        path, body = chat(BEGUN)
        packed = gzip.compress(json.dumps(body).encode())
        assert calls_in(post(model.url + path, packed, **{"content-encoding": "gzip"}))
        request = urllib.request.Request(
            model.url + path,
            iter([json.dumps(body).encode()[:10], json.dumps(body).encode()[10:]]),
            {"content-type": "application/json", "transfer-encoding": "chunked"},
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert calls_in(json.loads(answer.read()))


def test_what_it_does_not_speak_is_not_found() -> None:
    """Another path is 404, no JSON is 400, and counts and lists are answered."""
    with LoopbackModel(SCRIPT) as model:
        for path, body, status in (("/v1/other", {}, 404), ("/v1/messages", b"no", 400)):
            with pytest.raises(urllib.error.HTTPError) as failed:
                post(model.url + path, body)
            assert failed.value.code == status
            failed.value.close()
        assert post(model.url + "/v1/messages/count_tokens", {}) == {"input_tokens": 1}
        with urllib.request.urlopen(model.url + "/v1/models", timeout=10) as answer:
            assert json.loads(answer.read())["data"]


BROKEN = (
    b"content-length: 3\r\ncontent-encoding: gzip\r\n\r\nabc",
    b"content-length: -1\r\n\r\n",
    b"content-length: 999999999999\r\n\r\n",
    b"transfer-encoding: chunked\r\n\r\nzz\r\n",
    b"transfer-encoding: chunked\r\n\r\n-1\r\n",
    b"transfer-encoding: chunked\r\n\r\nfffffffff\r\n",
)


@pytest.mark.parametrize("rest", BROKEN)
def test_a_body_that_cannot_be_read_is_refused(
    rest: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without waiting for what will not come, and without a word on the terminal."""
    with LoopbackModel(SCRIPT) as model:
        client = socket.create_connection(("127.0.0.1", int(model.url.rpartition(":")[2])), 5)
        client.sendall(b"POST /v1/messages HTTP/1.1\r\n" + rest)
        assert client.recv(15).startswith(b"HTTP/1.1 400")
        client.close()
    assert capfd.readouterr().err == ""


def test_a_body_is_limited_when_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small one that unpacks to a large one is not kept."""
    monkeypatch.setattr(module, "MAX_BODY_BYTES", 10_000)
    with LoopbackModel(SCRIPT) as model:
        path, body = chat([*BEGUN, Told("user", "x" * 20_000)])
        packed = gzip.compress(json.dumps(body).encode())
        with pytest.raises(urllib.error.HTTPError, match="400"):
            post(model.url + path, packed, **{"content-encoding": "gzip"})


def test_a_client_that_goes_away_is_no_news(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent is ended while it asks, and its terminal shows no traceback of ours."""
    ended = threading.Event()
    finish = socketserver.ThreadingMixIn.process_request_thread

    def told(server: Any, request: Any, address: Any) -> None:
        finish(server, request, address)
        ended.set()

    monkeypatch.setattr(socketserver.ThreadingMixIn, "process_request_thread", told)
    with LoopbackModel(SCRIPT) as model:
        client = socket.create_connection(("127.0.0.1", int(model.url.rpartition(":")[2])))
        client.sendall(b"POST /v1/messages HTTP/1.1\r\n")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()  # as the kernel does for one that is killed
        assert ended.wait(10)
    assert capfd.readouterr().err == ""


def test_it_keeps_no_key() -> None:
    """A key that an agent sends is not among what the model remembers."""
    with LoopbackModel(SCRIPT) as model:
        path, body = chat(BEGUN)
        post(model.url + path, body, authorization="Bearer sk-secret")
        assert "sk-secret" not in json.dumps([model.asked, str(vars(model))])


def test_it_forwards_nothing() -> None:
    """Asked as a proxy it refuses, and remembers where the agent wanted to go."""
    with LoopbackModel(SCRIPT) as model:
        proxies = {"http": model.url, "https": model.url}
        opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies))
        for url in ("http://provider.example/v1/messages", "https://provider.example/"):
            for body in (None, b"{}"):
                with pytest.raises(urllib.error.URLError, match=r"403|Forbidden"):
                    opener.open(url, body, timeout=10)
        body = json.dumps({"messages": [], "tools": TOOLS}).encode()
        with opener.open(f"{model.url}/v1/messages", body, timeout=10) as answer:
            assert answer.status == 200  # which is no proxy's business, and so answered
    assert len(model.elsewhere) == 4
    assert all("provider.example" in place for place in model.elsewhere)
    assert len(model.asked) == 1


def test_it_may_be_started_late_and_closed_early() -> None:
    """Clients connect before it answers; one that never started can be closed."""
    LoopbackModel(SCRIPT).close()
    model = LoopbackModel(SCRIPT)
    early = socket.create_connection(("127.0.0.1", int(model.url.rpartition(":")[2])))
    early.sendall(b"GET /v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    model.start()
    early.settimeout(10)
    assert early.recv(15).startswith(b"HTTP/1.1 200")
    early.close()
    model.close()
    model.close()


def test_nobody_speaks_to_it_without_its_word() -> None:
    """With a secret in its address, who does not know it can neither ask nor tell it anything."""
    with LoopbackModel(SCRIPT, "secret") as model:
        assert model.url == f"{model.proxy}/secret"
        body = {"messages": [{"role": "user", "content": "[script main] go"}], "tools": TOOLS}
        for front in (model.proxy, f"{model.proxy}/secre", f"{model.proxy}/secrets"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                post(f"{front}/v1/messages", body)
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"{front}/v1/models", timeout=10)
        assert (model.asked, model.results) == ([], {})
        assert post(f"{model.url}/v1/messages", body)["content"][0]["name"] == "read"
