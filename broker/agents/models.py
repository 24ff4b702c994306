"""
Where an agent's model is, and how a run points the agent at a server of ours instead.

Decided here: what every agent's own file answers with, and how a key of the environment is kept
out of it. Not decided here: where one agent's model is (its own room).

What the person configured stays theirs: the model, the account and the key. Our server stands
before that address for one run, and hands on what is said. Where a key came from the
environment, the agent gets a token of the run in its place: its tools then find no key that is
worth anything elsewhere.

Rule a maintainer keeps: where it is not certain which server an agent would have asked, it is
left alone, and the answer says why.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from broker.agents.adapter import Prepared

Front = Callable[[str], str]  # the address of ours that stands for a model's, by that one's name
MARK: Final = "broker-run-"  # how a token begins, so that a person knows it when they see it
_TOKEN_BYTES: Final = 20

ANTHROPIC: Final = "https://api.anthropic.com"
OPENAI: Final = "https://api.openai.com/v1"
GEMINI: Final = "https://generativelanguage.googleapis.com"


@dataclass(frozen=True, slots=True)
class ModelAddress:
    """
    A model's address as the person configured it, under a name for our own paths.

    ``keys`` are the keys that stand behind tokens of the run, by token.
    """

    name: str
    url: str
    keys: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Redirected:
    """How an agent is started so that it asks us, and which models we stand for; or why not."""

    prepared: Prepared
    models: tuple[ModelAddress, ...] = ()
    off: str = ""


def pointed(
    prepared: Prepared,
    models: Sequence[ModelAddress],
    variables: Mapping[str, str],
    environ: Mapping[str, str],
    keys: Sequence[str] = (),
) -> Redirected:
    """
    Return an agent that is pointed at us by variables of its environment.

    Args:
        prepared: how it is started.
        models: the models that we stand for.
        variables: what is set.
        environ: the environment of the run.
        keys: the variables that hold a key of these models and of nothing else.

    >>> model = ModelAddress("m", "http://x")
    >>> found = pointed(Prepared(("a",)), [model], {}, {"KEY": "k"}, ["KEY"])
    >>> list(found.models[0].keys.values()), found.prepared.tokens
    (['k'], ('KEY',))
    """
    given = {name: value for name in keys if (value := environ.get(name))}
    tokens = {name: MARK + secrets.token_hex(_TOKEN_BYTES) for name in given}
    behind = {tokens[name]: value for name, value in given.items()}
    return Redirected(
        replace(
            prepared,
            environ={**prepared.environ, **variables, **tokens},
            tokens=(*prepared.tokens, *tokens),
        ),
        tuple(replace(model, keys={**model.keys, **behind}) for model in models),
    )


def anywhere(prepared: Prepared, front: Front, environ: Mapping[str, str]) -> Redirected:
    """
    Return any command, pointed at us by the variables that the makers of models read.

    Its keys are left alone: nobody knows what else it uses them for.

    >>> found = anywhere(Prepared(("a",)), "http://p/{}".format, {"OPENAI_BASE_URL": "http://x/v1"})
    >>> found.prepared.environ["OPENAI_BASE_URL"], found.models[1].url
    ('http://p/openai', 'http://x/v1')
    """
    known = (
        ("anthropic", "ANTHROPIC_BASE_URL", ANTHROPIC),
        ("openai", "OPENAI_BASE_URL", OPENAI),
        ("gemini", "GOOGLE_GEMINI_BASE_URL", GEMINI),
    )
    models = [ModelAddress(name, environ.get(variable) or url) for name, variable, url in known]
    variables = {variable: front(name) for name, variable, _ in known}
    return pointed(prepared, models, variables, environ)
