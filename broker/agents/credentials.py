"""
The provider's keys that an agent hands on to its tools.

An agent needs its provider's key in its environment, and gives its environment to the commands
that its tools start. So what a shell may do, it may do with the key. That is said at the launch,
by the name of the variable and never by its value.

Decided here: which variables hold such a key, and which agents keep one to themselves. Not
decided here: how it is said (``broker.launch``).

Rule a maintainer keeps: a variable is named only where it is set and was seen to be handed on;
the tests of the real agents look.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

KNOWN: Final = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CODEX_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "DASHSCOPE_API_KEY",
    "OPENROUTER_API_KEY",
    "COPILOT_PROVIDER_API_KEY",
    "COPILOT_GITHUB_TOKEN",
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "AWS_BEARER_TOKEN_BEDROCK",
)
# What an agent takes out of the environment of its tools, by the agent's name.
KEPT: Final[Mapping[str, frozenset[str]]] = {
    "claude-code": frozenset(("CLAUDE_CODE_OAUTH_TOKEN",)),
    "copilot-cli": frozenset(
        (
            *("ANTHROPIC_API_KEY", "OPENAI_API_KEY"),
            *("COPILOT_PROVIDER_API_KEY", "COPILOT_GITHUB_TOKEN"),
        )
    ),
}


def handed_on(agent: str, environ: Mapping[str, str], more: Iterable[str] = ()) -> tuple[str, ...]:
    """
    Return the variables with a provider's key that an agent's tools can read.

    Args:
        agent: the agent's name.
        environ: its environment.
        more: variables that its configuration names for a key.

    >>> handed_on("claude-code", {"ANTHROPIC_API_KEY": "k", "PATH": "/"})
    ('ANTHROPIC_API_KEY',)
    """
    kept = KEPT.get(agent, frozenset())
    names = dict.fromkeys((*KNOWN, *more))
    return tuple(name for name in names if environ.get(name) and name not in kept)
