"""
The AuthZEN Authorization API 1.0, as far as this service speaks it: what its messages mean here.

Decided here: which tool call an evaluation is about, which ticket it is asked under, and how an
answer is spelled. Not decided here: what passes (``broker.session``), how messages travel
(``broker.service.app``). Source: OpenID AuthZEN, Authorization API 1.0, sections 5 to 9.

Two readings, told apart by ``resource.type``:

- ``tool``: a call of an agent. ``resource.id`` is the tool, ``action.properties`` are its
  arguments, ``resource.properties.server`` is the MCP server that answers. ``action.name`` is
  ``call``.
- any other type: ``action.name`` is the tool; its arguments are the resource, as ``type``, ``id``
  and its properties, and the action's properties. So a scope speaks of them by name, as in
  ``tools=can_update(type="todo", ownerID="alice", id)``.

A ticket's wire form stands in ``subject.properties.ticket`` or ``context.ticket``. Where there is
none, the subject's own ticket is meant. ``context.call_id`` and ``context.cwd`` are the call's;
nothing else in the context is looked at.

Rules a maintainer keeps: nothing of an action or a resource is overlooked, since what is not judged
could be what does harm, so a property beside ``properties`` counts as one, and a name that would
mean two arguments is an error; a message that cannot be read allows nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, cast, get_args

from broker.calls import Decision
from broker.errors import BrokerError, InputError, LimitError
from broker.limits import MAX_EVALUATIONS

Semantic = Literal["execute_all", "deny_on_first_deny", "permit_on_first_permit"]

TOOL: Final = "tool"  # the type of a resource that is a tool of an agent
CALL: Final = "call"  # the name of the action on it
EVALUATION: Final = "/access/v1/evaluation"
EVALUATIONS: Final = "/access/v1/evaluations"
METADATA: Final = "/.well-known/authzen-configuration"
_PARTS: Final = ("subject", "action", "resource", "context")
Object = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """
    One question: may this subject make this call?

    ``ticket`` is a wire form, or empty where the subject's own ticket is meant.
    """

    subject: tuple[str, str]
    tool: str
    arguments: Object
    ticket: str = ""
    server: str | None = None
    call_id: str = ""
    cwd: str | None = None

    @property
    def actor(self) -> str:
        """How the receipt names the subject."""
        return ":".join(self.subject)


@dataclass(frozen=True, slots=True)
class Evaluations:
    """Several questions in one request. One that could not be read is the error that it made."""

    semantic: Semantic
    items: tuple[Evaluation | BrokerError, ...]


def read_evaluation(body: Object) -> Evaluation:
    """
    Read one evaluation.

    >>> subject = {"type": "agent", "id": "main"}
    >>> action = {"name": "call", "properties": {"path": "a.py"}}
    >>> found = read_evaluation({"subject": subject, "action": action,
    ...                          "resource": {"type": "tool", "id": "read_file"}})
    >>> found.actor, found.tool, found.arguments
    ('agent:main', 'read_file', {'path': 'a.py'})

    Raises:
        InputError: it is not one, or its parts contradict each other.
    """
    subject, action = _object(body, "subject"), _object(body, "action")
    resource, context = _object(body, "resource"), _object(body, "context", needed=False)
    who = _text(subject, "subject", "type"), _text(subject, "subject", "id")
    kind, ident = _text(resource, "resource", "type"), _text(resource, "resource", "id")
    name = _text(action, "action", "name")
    done = _properties(action, "action", ("name",))
    touched = _properties(resource, "resource", ("type", "id"))
    server = None
    if kind == TOOL:
        if name != CALL:
            raise InputError(f"the action on a tool is `{CALL}`: its arguments are the action's")
        tool, arguments = ident, done
        server = _optional(touched, "resource.properties", "server")
        if touched.keys() - {"server"}:
            raise InputError("a tool's arguments stand in `action.properties`")
    else:
        tool = name
        arguments = _together({"type": kind, "id": ident}, touched, done)
    return Evaluation(
        who,
        tool,
        arguments,
        _ticket(subject, context),
        server,
        _optional(context, "context", "call_id") or "",
        _optional(context, "context", "cwd"),
    )


def read_evaluations(body: Object) -> Evaluations | None:
    """
    Read a request of several evaluations; None where it asks for one, as without the key.

    Raises:
        InputError: the request as a whole is malformed.
        LimitError: it has more than MAX_EVALUATIONS.
    """
    options = _object(body, "options", needed=False)
    wanted = options.get("evaluations_semantic", "execute_all")
    if wanted not in get_args(Semantic):
        known = ", ".join(get_args(Semantic))
        raise InputError(f"`options.evaluations_semantic` is one of {known}")
    found = body.get("evaluations", [])
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise InputError("`evaluations` is a list of objects")
    if len(found) > MAX_EVALUATIONS:
        raise LimitError(f"a request has at most {MAX_EVALUATIONS} evaluations")
    if not found:
        return None
    usual = {part: _object(body, part) for part in _PARTS if part in body}
    items = tuple(_item(usual, each) for each in found)
    return Evaluations(cast(Semantic, wanted), items)


def stops(semantic: Semantic, decision: Decision) -> bool:
    """
    Whether nothing is evaluated after this decision.

    >>> stops("permit_on_first_permit", Decision(None)), stops("execute_all", Decision(None))
    (True, False)
    """
    if semantic == "deny_on_first_deny":
        return not decision.allowed
    return semantic == "permit_on_first_permit" and decision.allowed


def answer(decision: Decision) -> dict[str, object]:
    """
    Return a decision as an evaluation's answer.

    >>> answer(Decision(None))
    {'decision': True, 'context': {'enforcement': 'gate'}}
    """
    context: dict[str, object] = {"enforcement": decision.enforcement}
    if decision.refusal is None:
        return {"decision": True, "context": context}
    refusal = decision.refusal
    context |= {"caveat": refusal.caveat, "value": refusal.value, "reason": refusal.reason}
    return {"decision": False, "context": context}


def unread(error: BrokerError) -> dict[str, object]:
    """
    Return the answer to one evaluation of several that could not be read.

    >>> unread(InputError("no"))
    {'decision': False, 'context': {'error': {'status': 400, 'code': 'input', 'message': 'no'}}}
    """
    told = {"status": 400, "code": error.code, "message": str(error)}
    return {"decision": False, "context": {"error": told}}


def metadata(base: str) -> dict[str, object]:
    """
    Return what a client learns of this service before it asks.

    Args:
        base: the address that clients use, such as ``https://pdp.example.com``.
    """
    return {
        "policy_decision_point": base,
        "access_evaluation_endpoint": base + EVALUATION,
        "access_evaluations_endpoint": base + EVALUATIONS,
    }


def _item(usual: Object, each: Object) -> Evaluation | BrokerError:
    try:
        return read_evaluation({**usual, **each})
    except InputError as error:
        return error


def _object(body: Object, name: str, *, needed: bool = True) -> Object:
    found = body.get(name)
    if found is None and not needed and name not in body:
        return {}
    if not isinstance(found, dict):
        raise InputError(f"`{name}` is an object")
    return found


def _text(body: Object, part: str, name: str) -> str:
    found = body.get(name)
    if not isinstance(found, str) or not found:
        raise InputError(f"`{part}.{name}` is a text that is not empty")
    return found


def _optional(body: Object, part: str, name: str) -> str | None:
    found = body.get(name)
    if found is not None and not isinstance(found, str):
        raise InputError(f"`{part}.{name}` is a text")
    return found


def _properties(entity: Object, part: str, own: tuple[str, ...]) -> dict[str, object]:
    """Return what an entity says beside its name: in ``properties``, and next to it."""
    held = entity.get("properties", {})
    if not isinstance(held, dict):
        raise InputError(f"`{part}.properties` is an object")
    beside = {key: value for key, value in entity.items() if key not in (*own, "properties")}
    return _together(beside, held)


def _together(*parts: Object) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in _pairs(parts):
        if key in found:
            raise InputError(f"`{key[:80]}` would be two arguments of one call")
        found[key] = value
    return found


def _pairs(parts: tuple[Object, ...]) -> Iterator[tuple[str, object]]:
    for part in parts:
        yield from part.items()


def _ticket(subject: Object, context: Object) -> str:
    properties = subject.get("properties", {})
    if not isinstance(properties, dict):
        raise InputError("`subject.properties` is an object")
    named = [
        _optional(properties, "subject.properties", "ticket"),
        _optional(context, "context", "ticket"),
    ]
    found = {text for text in named if text is not None}
    if "" in found or len(found) > 1:
        raise InputError("a ticket is named once, by its wire form")
    return found.pop() if found else ""
