"""
An opinion of a Cedar policy, evaluated in this process.

Decided here: how a question is spelled as principal, action, resource and context, and when an
evaluation is a yes. Not decided here: Cedar itself (``cedarpy``, in the extra ``cedar``).

- ``Agent::"main"`` is who calls, ``Action::"write_file"`` the tool.
- ``Path::"src/a.py"`` lies in ``Path::"src"`` and in ``Path::"."``, so that ``resource in
  Path::"src"`` is a folder and all below it. A place outside of the workspace is absolute, and lies
  in the folders above it.
- ``Url::"https://api.example.com:443"`` lies in ``Host::"api.example.com"``, in
  ``Host::"example.com"`` and in ``Host::"com"``.
- ``Command::"make test"`` and ``Tool::"think"`` lie in nothing.
- ``context`` has ``session``, ``ticket_id``, ``server`` and what is said of the resource, such as
  ``access``.

Rules a maintainer keeps: a policy that could not be evaluated is no answer, even where another
one allows, since it might have been the one that forbids; the policy is read once, when the
session begins, and its digest goes into what is recorded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from broker.errors import ConfigError
from broker.opinions.opinion import Opined, digest
from broker.opinions.question import Consultation, Question

_TYPES = {"path": "Path", "url": "Url", "command": "Command", "tool": "Tool"}

Uid = dict[str, str]


class Cedar:
    """
    A policy set.

    Args:
        name: how the configuration calls it.
        policy: the policies, in Cedar's own language.
        where: the file that they come from, for messages.

    Raises:
        ConfigError: they cannot be read, or ``cedarpy`` is not installed.
    """

    def __init__(self, name: str, policy: str, where: str) -> None:
        try:
            import cedarpy  # noqa: PLC0415  in an extra: most have no such opinion
        except ImportError as error:
            raise ConfigError(
                f"opinion `{name}` needs Cedar: install it with `pip install "
                "'capability-broker[cedar]'`"
            ) from error
        self.name = name
        self._cedar = cedarpy
        self._digest = digest([policy.encode()])
        try:
            self._policies = cedarpy.PolicySet.from_str(policy)
        except ValueError as error:
            said = " ".join(str(error).split())
            raise ConfigError(f"opinion `{name}`: `{where}` is no Cedar policy: {said}") from None

    def ask(self, inquiry: Consultation) -> Opined:
        """Evaluate every question; all must be allowed."""
        requests = [request(inquiry, question) for question in inquiry.questions]
        known: dict[tuple[str, str], dict[str, Any]] = {}
        for each, question in zip(requests, inquiry.questions, strict=True):
            for entity in entities(question, each["resource"]):
                known[entity["uid"]["type"], entity["uid"]["id"]] = entity
        asked = digest([self._digest.encode(), *(_text(each) for each in requests)])
        try:
            found = self._cedar.is_authorized_batch(requests, self._policies, list(known.values()))
            told = [_told(each) for each in found]
        except (ValueError, TypeError, KeyError) as error:
            return Opined("none", asked, fault=f"it cannot be evaluated: {_short(error)}")
        answered = digest(_text(each) for each in told)
        if len(told) != len(requests):
            return Opined("none", asked, answered, fault="not every question was evaluated")
        for each in told:
            if each["errors"] or each["decision"] not in ("Allow", "Deny"):
                why = each["errors"][0] if each["errors"] else each["decision"]
                fault = f"a policy of it cannot be evaluated: {_short(why)}"
                return Opined("none", asked, answered, fault=fault)
        for each, question in zip(told, inquiry.questions, strict=True):
            if each["decision"] != "Allow":
                by = f"policy {', '.join(each['by'])}" if each["by"] else "no policy permits it"
                what = f"`{question.tool}` on {question.kind} `{question.name[:200]}`"
                return Opined("refuse", asked, answered, f"{what}: {by}")
        return Opined("allow", asked, answered)


def request(inquiry: Consultation, question: Question) -> dict[str, Any]:
    """
    Return a question as Cedar is asked.

    >>> one = Question("read", "path", "src/a.py", {"access": "read"})
    >>> request(Consultation((one,), "main", "k3v", "9f2c", "00", "ab"), one)["resource"]
    {'type': 'Path', 'id': 'src/a.py'}
    """
    return {
        "principal": _uid("Agent", inquiry.actor),
        "action": _uid("Action", question.tool),
        "resource": _uid(_TYPES[question.kind], question.name),
        "context": {
            "session": inquiry.session,
            "ticket_id": inquiry.ticket,
            "server": question.server,
            **question.more,
        },
    }


def entities(question: Question, resource: Uid) -> Iterator[dict[str, Any]]:
    """Yield the resource of a question with all that it lies in."""
    within = list(_within(question))
    yield {"uid": resource, "attrs": {}, "parents": within}
    for parent in within:
        if parent != resource:
            yield {"uid": parent, "attrs": {}, "parents": []}


def _within(question: Question) -> Iterator[Uid]:
    if question.kind == "path" and question.name != ".":
        parts = question.name.split("/")
        for count in range(len(parts) - 1, 0, -1):
            yield _uid("Path", "/".join(parts[:count]) or "/")
        if not question.more.get("outside"):
            yield _uid("Path", ".")
    elif question.kind == "url":
        labels = str(question.more.get("host", "")).split(".")
        for start in range(len(labels)):
            yield _uid("Host", ".".join(labels[start:]))


def _uid(kind: str, name: str) -> Uid:
    return {"type": kind, "id": name}


def _told(result: Any) -> dict[str, Any]:
    """Return what an evaluation came to: the decision, the policies that made it, the faults."""
    named = result.diagnostics.id_annotations_by_reason
    return {
        "decision": str(result.decision.value),
        "by": [str(named.get(each) or each) for each in result.diagnostics.reasons],
        "errors": [str(each) for each in result.diagnostics.errors],
    }


def _text(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _short(error: object) -> str:
    said: Sequence[str] = str(error).split()
    return " ".join(said)[:300]
