"""
Where models are had, and which one a person means.

Decided here: the providers that are known, how ``PROVIDER/MODEL`` is read, and which model is taken
when nobody names one. Not decided here: how a provider is asked (``clients``).

A rule a maintainer keeps: a key is looked up by the name of its variable when a client is made, and
is no part of anything that is kept, shown or registered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from broker.agentloop.chat import ChatDialect
from broker.agentloop.dialect import ApiDialect
from broker.agentloop.messages import MessagesDialect
from broker.agentloop.responses import ResponsesDialect
from broker.capabilities.credentials import Secret
from broker.config import ModelSetting
from broker.errors import CapabilityError, InputError
from broker.harness.items import Provider
from broker.language.urls import read_url

DIALECTS: Final[Mapping[str, type[ApiDialect]]] = {
    "messages": MessagesDialect,
    "responses": ResponsesDialect,
    "chat": ChatDialect,
}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """
    One provider: its name, the API that it speaks, its address, and the variable of its key.

    ``usual`` is the model that is taken when a person names none; ``key`` is empty for a server
    that wants none.
    """

    name: str
    api: str
    url: str
    key: str = ""
    usual: str = ""


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """One model of one provider."""

    endpoint: Endpoint
    model: str

    @property
    def dialect(self) -> ApiDialect:
        """How a conversation with it is told."""
        return DIALECTS[self.endpoint.api]()

    def secret(self, environ: Mapping[str, str]) -> Secret | None:
        """
        Return the provider's key; None for a server that wants none.

        Raises:
            CapabilityError: it wants one, and the environment has none.
        """
        variable = self.endpoint.key
        if not variable:
            return None
        if not environ.get(variable):
            raise CapabilityError(
                f"`{self.endpoint.name}` wants a key: set {variable} in the environment",
                code="capability.unavailable",
            )
        return Secret(environ[variable])

    def __str__(self) -> str:
        return f"{self.endpoint.name}/{self.model}"


def endpoints(
    configured: Sequence[ModelSetting], environ: Mapping[str, str]
) -> tuple[Endpoint, ...]:
    """
    Return the providers: the two that are known, and those that a person configured.

    >>> [each.name for each in endpoints((), {})]
    ['anthropic', 'openai']
    """
    known = (
        Endpoint(
            "anthropic",
            "messages",
            environ.get("ANTHROPIC_BASE_URL") or "https://api.anthropic.com",
            "ANTHROPIC_API_KEY",
            "claude-sonnet-5-5",
        ),
        Endpoint(
            "openai",
            "responses",
            environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1",
            "OPENAI_API_KEY",
            "gpt-6.2-sol",
        ),
    )
    own = tuple(Endpoint(each.name, each.api, each.url, each.key) for each in configured)
    taken = {each.name for each in own}
    return (*(each for each in known if each.name not in taken), *own)


def provider_items(found: Sequence[Endpoint]) -> tuple[Provider, ...]:
    """Return the providers as a registry holds them."""
    return tuple(
        Provider(each.name, partial(ModelChoice, each), {"api": each.api, "url": each.url})
        for each in found
    )


def chosen_model(found: Sequence[Endpoint], wanted: str, environ: Mapping[str, str]) -> ModelChoice:
    """
    Return the model that is meant.

    Args:
        found: the providers.
        wanted: ``PROVIDER/MODEL``, ``PROVIDER`` for its usual model, or nothing for the first
            provider whose key the environment has.
        environ: where keys are.

    Raises:
        InputError: there is no such provider, its address is none, or none is named and none has
            a key.

    >>> str(chosen_model(endpoints((), {}), "openai/gpt-5", {}))
    'openai/gpt-5'
    >>> str(chosen_model(endpoints((), {}), "", {"ANTHROPIC_API_KEY": "k"}))
    'anthropic/claude-sonnet-5-5'
    """
    if not wanted:
        for each in found:
            if each.usual and environ.get(each.key):
                return _reachable(each, each.usual)
        keys = " or ".join(each.key for each in found if each.usual)
        raise InputError(f"no model: give --model PROVIDER/MODEL, or set {keys}")
    name, _, model = wanted.partition("/")
    for each in found:
        if each.name == name:
            if not (model or each.usual):
                raise InputError(f"which model of `{name}`: write --model {name}/MODEL")
            return _reachable(each, model or each.usual)
    known = ", ".join(each.name for each in found)
    raise InputError(
        f"no such provider `{name}`: {known}; write PROVIDER/MODEL, and others into `[models.NAME]`"
    )


def _reachable(endpoint: Endpoint, model: str) -> ModelChoice:
    try:
        there = read_url(endpoint.url).scheme in ("http", "https")
    except InputError:
        there = False
    if not there:
        set_by = {"anthropic": "ANTHROPIC_BASE_URL", "openai": "OPENAI_BASE_URL"}
        where = set_by.get(endpoint.name, f"`url` of `[models.{endpoint.name}]`")
        raise InputError(
            f"`{endpoint.name}` has no address that can be asked: {where} begins with http:// or "
            "https://, and names a host"
        )
    return ModelChoice(endpoint, model)
