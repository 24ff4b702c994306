"""A person's home, in which tests of each agent's `model` write what that person configured."""

from __future__ import annotations

import json
from pathlib import Path

from broker.agents.adapter import Launch, Prepared, adapter_for
from broker.agents.models import Redirected

FRONT = "http://127.0.0.1:1/word/{}"


class Person:
    """Somebody who starts an agent by its name."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.session = root / "session"
        self.session.mkdir()

    def has(self, name: str, content: object) -> Path:
        """Write a file into the home, an object as JSON."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    def launch(self, *command: str, **environ: str) -> Launch:
        """Return what is launched."""
        return Launch(
            command, {"HOME": str(self.root), **environ}, self.root, self.session, self.root / "s"
        )

    def points(self, *command: str, prepared: Prepared | None = None, **environ: str) -> Redirected:
        """Point an agent at us."""
        launch = self.launch(*command, **environ)
        adapter = adapter_for(command)
        return adapter.through(launch, prepared or Prepared(command), FRONT.format)


def urls(found: Redirected) -> dict[str, str]:
    """Return the addresses that we stand for, by name."""
    return {model.name: model.url for model in found.models}
