"""
OpenAI Responses, its questions read and spelled; its answers are in ``responsesaid``.

Decided here: how a question of this protocol is read into ``talk``, and spelled from it. Nothing is
kept at the provider: a question that leans on what is kept there is an error. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from broker.replay.translation import talk
from broker.replay.translation.chat import custom_tool
from broker.replay.translation.shapes import rows, some, table, text
from broker.replay.translation.talk import (
    CallPart,
    ImagePart,
    ModelQuestion,
    OfferedTool,
    Part,
    ResultPart,
    SpokenTurn,
    TextPart,
    ToolNames,
    untold,
)

API: Final = "openai.responses"
LOCAL_SHELL: Final = "local_shell"
_CHOICES: Final = {"required": "any", "any": "required"}
_SYSTEM: Final = ("system", "developer")
_TEXTS: Final = ("input_text", "output_text", "text")
_KEPT_THERE: Final = ("previous_response_id", "conversation", "prompt")
_NOTHING: Final[Mapping[str, object]] = {"type": "object", "properties": {}}


def read_question(body: Mapping[str, Any]) -> ModelQuestion:
    """
    Return what a request asks.

    Raises:
        InputError: it holds what cannot be carried.
    """
    for name in _KEPT_THERE:
        if body.get(name):
            raise untold(f"what is kept at the provider (`{name}`)")
    given, left_out = body.get("input"), list[str]()
    items = [{"role": "user", "content": given}] if isinstance(given, str) else rows(given)
    tools = list(_tools(body.get("tools"), left_out))
    for item in items:
        if item.get("type") == "additional_tools":
            tools += _tools(item.get("tools"), left_out)
    first = next((n for n, each in enumerate(items) if each.get("role") not in _SYSTEM), len(items))
    begun = [text(body.get("instructions"))]
    begun += ["\n".join(_plain_texts(each.get("content"))) for each in items[:first]]
    chosen = body.get("tool_choice")
    name, choice = text(table(chosen).get("name")), text(chosen) or "auto"
    form = table(table(body.get("text")).get("format"))
    apart = body.get("parallel_tool_calls")
    return ModelQuestion(
        "\n\n".join(filter(None, begun)),
        talk.same_turns(_turn(item, left_out) for item in items[first:]),
        tuple(tools),
        f"={name}" if name else _CHOICES.get(choice, choice),
        apart if isinstance(apart, bool) else None,
        some(body.get("max_output_tokens")),
        (),
        table(form.get("schema")) or None,
        body.get("stream") is True,
        left_out=tuple(dict.fromkeys(left_out)),
    )


def _turn(item: Mapping[str, Any], left_out: list[str]) -> SpokenTurn:
    kind, id_ = text(item.get("type")) or "message", text(item.get("call_id"))
    if kind == "message":
        role = item.get("role")
        who: talk.Who = "system" if role in _SYSTEM else "model" if role == "assistant" else "user"
        return SpokenTurn(who, tuple(_parts(item.get("content"))))
    if kind == "function_call":
        name = talk.whole(text(item.get("name")), text(item.get("namespace")))
        arguments = talk.arguments_of(text(item.get("arguments")))
        return SpokenTurn("model", (CallPart(id_, name, arguments),))
    if kind == "custom_tool_call":
        call = CallPart(id_, text(item.get("name")), text(item.get("input")))
        return SpokenTurn("model", (call,))
    if kind == "local_shell_call":
        command = table(item.get("action")).get("command")
        return SpokenTurn("model", (CallPart(id_, LOCAL_SHELL, {"command": command}),))
    if kind.endswith("call_output"):
        return SpokenTurn("user", (ResultPart(id_, tuple(_parts(item.get("output")))),))
    if kind == "reasoning":
        left_out.append("thoughts")
        return SpokenTurn("model", ())
    if kind == "additional_tools":
        return SpokenTurn("user", ())
    raise untold(f"an item of the type `{kind[:40]}`")


def _parts(content: object) -> Iterator[TextPart | ImagePart]:
    if isinstance(content, str):
        yield TextPart(content)
    for part in rows(content):
        kind = part.get("type")
        if kind in _TEXTS:
            yield TextPart(text(part.get("text")))
        elif kind == "refusal":
            yield TextPart(text(part.get("refusal")))
        elif kind == "input_image" and text(part.get("image_url")):
            yield ImagePart.read(text(part.get("image_url")))
        else:
            raise untold(f"a part of the type `{str(kind)[:40]}`")


def _plain_texts(content: object) -> Iterator[str]:
    for part in _parts(content):
        if not isinstance(part, TextPart):
            raise untold("an image among the instructions")
        yield part.text


def _tools(value: object, left_out: list[str], space: str = "") -> Iterator[OfferedTool]:
    for row in rows(value):
        kind, name = row.get("type"), text(row.get("name"))
        if kind == "function":
            schema = table(row.get("parameters")) or _NOTHING
            yield OfferedTool(name, text(row.get("description")), schema, space=space)
        elif kind == "custom":
            yield custom_tool(row)
        elif kind == LOCAL_SHELL:
            about = "Runs a command: its words, the program first."
            yield OfferedTool(LOCAL_SHELL, about, kind="local_shell")
        elif kind == "namespace":
            yield from _tools(row.get("tools"), left_out, name)
        else:
            left_out.append(f"the provider's own tool `{name or str(kind)[:40]}`")


def write_question(asked: ModelQuestion, model: str, names: ToolNames) -> dict[str, object]:
    """
    Return the body of a request.

    Raises:
        InputError: it names words to stop at, which this protocol has no place for.
    """
    if asked.stops:
        raise untold("a word to stop at")
    items = [item for turn in asked.turns for item in _items(turn, names)]
    body: dict[str, object] = {"model": model, "input": items, "store": False}
    if asked.system:
        body["instructions"] = asked.system
    if asked.most_tokens is not None:
        body["max_output_tokens"] = asked.most_tokens
    if asked.tools:
        body["tools"] = [
            {
                "type": "function",
                "name": name,
                "description": tool.about,
                "parameters": dict(tool.plain),
                "strict": False,
            }
            for name, tool in names.told()
        ]
        if asked.choice.startswith("="):
            body["tool_choice"] = {"type": "function", "name": names.spelled(asked.choice[1:])}
        else:
            body["tool_choice"] = _CHOICES.get(asked.choice, asked.choice)
        if asked.parallel is not None:
            body["parallel_tool_calls"] = asked.parallel
    if asked.form is not None:
        form = {"type": "json_schema", "name": "answer", "schema": dict(asked.form)}
        body["text"] = {"format": form}
    if asked.stream:
        body["stream"] = True
    return body


def _items(turn: SpokenTurn, names: ToolNames) -> Iterator[dict[str, object]]:
    role = {"model": "assistant", "system": "developer"}.get(turn.who, "user")
    said: list[dict[str, object]] = []
    for part in turn.parts:
        if isinstance(part, TextPart | ImagePart):
            said.append(_spelled(part, turn.who))
            continue
        if said:
            yield {"type": "message", "role": role, "content": said}
            said = []
        yield _item(part, names)
    if said:
        yield {"type": "message", "role": role, "content": said}


def _item(part: Part, names: ToolNames) -> dict[str, object]:
    if isinstance(part, CallPart):
        return {
            "type": "function_call",
            "call_id": talk.lawful_id(part.id),
            "name": names.spelled(part.name),
            "arguments": talk.as_text(part.arguments),
        }
    assert isinstance(part, ResultPart)  # noqa: S101 - the other two were told before
    only = part.parts[0] if len(part.parts) == 1 else None
    plain = only.text if isinstance(only, TextPart) else ""
    output: object = plain if only or not part.parts else None
    if not isinstance(only, TextPart) and part.parts:
        output = [_spelled(each, "user") for each in part.parts]
    id_ = talk.lawful_id(part.id)
    return {"type": "function_call_output", "call_id": id_, "output": output}


def _spelled(part: TextPart | ImagePart, who: talk.Who) -> dict[str, object]:
    if isinstance(part, ImagePart):
        return {"type": "input_image", "detail": "auto", "image_url": part.address}
    kind = "output_text" if who == "model" else "input_text"
    return {"type": kind, "text": part.text}
