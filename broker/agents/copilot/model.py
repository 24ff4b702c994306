"""
Where GitHub Copilot CLI's model is, and how a run points it at a server of ours.

Decided here: that only a provider of the person's own, which the environment names, is asked
through us. Models of GitHub's are asked with a login, at addresses that GitHub gives.
"""

from __future__ import annotations

from typing import Final

from broker.agents.adapter import Launch, Prepared
from broker.agents.models import Front, ModelAddress, Redirected, pointed

_BASE: Final = "COPILOT_PROVIDER_BASE_URL"
_KEY: Final = "COPILOT_PROVIDER_API_KEY"


def redirected(launch: Launch, prepared: Prepared, front: Front) -> Redirected:
    """Return Copilot CLI, pointed at us, or why it is not."""
    url = launch.environ.get(_BASE)
    if not url:
        return Redirected(prepared, off=f"GitHub gives its models; only `{_BASE}` is known")
    model = ModelAddress("provider", url)
    return pointed(prepared, [model], {_BASE: front(model.name)}, launch.environ, [_KEY])
