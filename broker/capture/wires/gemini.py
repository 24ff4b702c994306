"""Gemini: ``POST …/models/MODEL:generateContent`` and ``:streamGenerateContent``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from broker.capture.wires.said import (
    CallResult,
    ModelCall,
    SaidMessage,
    SaidReply,
    SaidRequest,
    digest,
    framed,
    names,
    rows,
    table,
    text_of,
    value_of,
)
from broker.records.apis import events
from broker.records.failures import failed, told
from broker.redaction.hiding import clipped

_MAX_WORD_CHARS = 256


class GeminiReader:
    """The wire of Gemini. Calls may have no id: they are known by their order."""

    api = "gemini.generate"

    def asked(self, body: Mapping[str, object], path: str) -> SaidRequest:
        """Return what a request says; the model stands in its path."""
        declared = [
            row
            for tool in rows(body.get("tools"))
            for key in ("functionDeclarations", "function_declarations")
            for row in rows(tool.get(key))
        ]
        tools = names(row.get("name") for row in declared)
        instructions = body.get("systemInstruction") or body.get("system_instruction")
        return SaidRequest(
            path.rpartition("/models/")[2].partition(":")[0],
            tuple(_message(each) for each in rows(body.get("contents"))),
            tools,
            framed(instructions, tools),
            ":stream" in path,
        )

    def reply(self, text: str, *, stream: bool) -> SaidReply:
        """Return what an answer says. A stream without events is a list of answers."""
        whole = value_of(text) if not stream or text.lstrip()[:1] in ("[", "{") else None
        chunks = (
            list(map(table, events(text)))
            if whole is None
            else rows(whole if isinstance(whole, list) else [whole])
        )
        said: list[str] = []
        calls: list[ModelCall] = []
        finish, usage, failure = "", table(None), None
        for chunk in chunks:
            if chunk.get("error"):
                failure = told(chunk["error"])
            usage = table(chunk.get("usageMetadata")) or usage
            for candidate in rows(chunk.get("candidates"))[:1]:
                finish = text_of(candidate.get("finishReason")) or finish
                parts = rows(table(candidate.get("content")).get("parts"))
                said += [text_of(p.get("text")) for p in parts if not p.get("thought")]
                calls += _calls(parts)
        if failure is None and not finish:
            failure = failed("network", "the answer ended before it named a reason to stop")
        return SaidReply(
            "".join(said),
            tuple(calls),
            clipped(finish, _MAX_WORD_CHARS) or None,
            _count(usage.get("promptTokenCount")),
            _count(usage.get("candidatesTokenCount")),
            failure,
        )


def _message(content: Mapping[str, object]) -> SaidMessage:
    parts = rows(content.get("parts"))
    model = content.get("role") == "model"
    # What a model thought, and how it signed that, is sent again or not.
    shown = [
        {key: value for key, value in part.items() if key != "thoughtSignature"}
        for part in parts
        if not part.get("thought")
    ]
    return SaidMessage(
        "model" if model else "user",
        digest(["model" if model else "user", shown]),
        tuple(_calls(parts)),
        tuple(_results(parts)),
    )


def _calls(parts: list[dict[str, object]]) -> Iterator[ModelCall]:
    for part in parts:
        call = table(part.get("functionCall"))
        if call:
            yield ModelCall(text_of(call.get("id")), text_of(call.get("name")), call.get("args"))


def _results(parts: list[dict[str, object]]) -> Iterator[CallResult]:
    for part in parts:
        found = table(part.get("functionResponse"))
        if found:
            response = found.get("response")
            failed_ = isinstance(response, dict) and "error" in response
            yield CallResult(
                text_of(found.get("id")), text_of(found.get("name")), response, failed_
            )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
