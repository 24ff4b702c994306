"""
A conversation from the records of the session that it was held in.

Decided here: that the last request of the first agent tells the conversation, since each request
holds all of it, and that its answer goes behind it when it came whole. Not decided here: what a
record is (``broker.records``).

A rule a maintainer keeps: secrets were hidden before a body was kept, so what is rebuilt has their
placeholders; nothing is guessed where a body was not kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from broker.agentloop.chat import ChatDialect
from broker.agentloop.conversation import Dialogue
from broker.agentloop.dialect import ApiDialect, gathered
from broker.agentloop.messages import MessagesDialect
from broker.agentloop.responses import ResponsesDialect
from broker.errors import InputError
from broker.harness.script import MAIN
from broker.records.model import ProviderRequest, ProviderResponse
from broker.records.store import KeptRecords

_DIALECTS: Final[Mapping[str, ApiDialect]] = MappingProxyType(
    {each.api: each for each in (MessagesDialect(), ResponsesDialect(), ChatDialect())}
)


def kept_conversation(kept: KeptRecords, sid: str) -> Dialogue:
    """
    Return the first agent's conversation of a session.

    Args:
        kept: the session's records.
        sid: its name, for messages.

    Raises:
        InputError: nothing was asked in it, or its bodies were not kept.
        UnverifiableError: a body is not the one that was kept.
    """
    asked = [
        record
        for record in kept.records
        if isinstance(record, ProviderRequest) and record.branch == MAIN and record.api in _DIALECTS
    ]
    if not asked:
        raise InputError(f"session `{sid}` has no conversation to go on with")
    last = asked[-1]
    if last.body is None:
        raise InputError(
            f"session `{sid}` kept no bodies (BROKER_PROVIDER_AUDIT was 0), so its conversation "
            "is not there"
        )
    dialect = _DIALECTS[last.api]
    talk = Dialogue(dialect.pieces(json.loads(kept.body(last.body))))
    for record in kept.records:
        if isinstance(record, ProviderResponse) and record.id == last.id:
            if record.failure is not None or record.body is None:
                continue
            reply = gathered(dialect, kept.body(record.body).decode("utf-8", "replace"))
            if reply is not None:
                talk.add(reply)
    return talk
