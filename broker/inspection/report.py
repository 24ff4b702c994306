"""
The report on a harness that was put together and has done nothing.

Decided here: what the report says, and that it is the same bytes for the same composition, on any
day and in any folder: everything is sorted but hooks, whose order has a meaning; paths are told
from the workspace and from the configuration folder; a scope is told as it was typed where it
stands for an instant that is not there yet. Not decided here: what a harness consists of.

With content it also tells the texts: descriptions, schemas, settings. Secrets are hidden either
way.

Rules a maintainer keeps: nothing is dispatched, opened or minted for it; a change of its shape is
a new version of its format.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Any, Final

from broker.agentloop.prompt import SECTIONS, prompt_text
from broker.capabilities.bundle import Capabilities
from broker.capabilities.fs import Folder
from broker.catalogs import Catalogs
from broker.catalogs.entry import ToolEntry
from broker.harness.composition import TRUSTED, Composition
from broker.harness.items import CallHook
from broker.harness.outcome import STAGES
from broker.harness.projecthooks import ProjectHooks, project_hooks
from broker.harness.trust import Trust
from broker.home import Home
from broker.inspection.workspace import workspace_files
from broker.limits import MAX_CATALOG_BYTES
from broker.permissions.effects import EFFECTS
from broker.permissions.modes import MODES, answer
from broker.policy import policy_loader
from broker.redaction.hiding import Hider
from broker.redaction.trees import hide_object
from broker.resolve import canonical_digest
from broker.scope import parse_scope, render
from broker.sessions.ground import POLICIES
from broker.sessions.records import DISTRIBUTION

FORMAT: Final = "broker.inspect.runtime/2"
_DAY_NS: Final = 86_400 * 10**9

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Brought:
    """The hooks that a workspace brings along, and whether a person trusts what they execute."""

    found: ProjectHooks
    trusted: bool

    @property
    def hooks(self) -> tuple[CallHook, ...]:
        """Those that a run would register."""
        return self.found.hooks if self.trusted else ()


def brought_along(world: Capabilities, home: Home, root: str) -> Brought | None:
    """
    Return the hooks of a workspace; None where it brings none. Nobody is asked.

    Raises:
        ConfigError: what it brings is not understood.
    """
    found = project_hooks(world.fs.below(world.fs.real(root)), world.process)
    if found is None:
        return None
    trust = Trust(world.fs.below(os.path.join(home.state, TRUSTED)))
    return Brought(found, trust.holds(found.executables))


def runtime_report(
    composition: Composition,
    scope: Sequence[str],
    *,
    brought: Brought | None = None,
    content: bool = False,
) -> Document:
    """
    Return the report on a composition, for a scope that a person typed.

    Args:
        composition: what was put together.
        scope: the texts, as typed; none at all permits everything.
        brought: the hooks that the workspace brings along.
        content: tell descriptions, schemas and settings too.

    Raises:
        ScopeError, InputError: the scope is malformed.
    """
    trusted = brought.found.executables.files if brought and brought.trusted else {}
    document: Document = {
        "format": FORMAT,
        "writer": _writer(),
        "pipeline": list(STAGES),
        **_registered(composition, content=content),
        "prompt": _prompt(content=content),
        "settings": _settings(composition, content=content),
        "ticket": _ticket(composition, scope),
        "permissions": _permissions(composition),
        "catalogs": _catalogs(composition.catalogs, composition),
        "project_hooks": _brought(brought, content=content),
        "workspace": [
            {
                "path": file.path,
                "role": file.role,
                "size_bytes": file.size_bytes,
                "sha256": file.sha256,
                "trusted": trusted.get(file.path) == file.sha256 is not None,
            }
            for file in workspace_files(_workspace(composition))
        ],
    }
    hidden, paths = hide_object(document, Hider())
    # Their names are ours, and one of them is `credentials`.
    kinds = dict(sorted(composition.world.kinds().items()))
    return {**hidden, "capabilities": kinds, "redacted": sorted(paths)}


def report_text(document: Mapping[str, object]) -> str:
    """
    Return a report as the one text that it has: sorted keys, two blanks, ASCII.

    >>> report_text({"b": 1, "a": []})
    '{\\n  "a": [],\\n  "b": 1\\n}'
    """
    return json.dumps(document, indent=2, sort_keys=True)


def _writer() -> str:
    try:
        return f"{DISTRIBUTION} {version(DISTRIBUTION)}"
    except PackageNotFoundError:
        return f"{DISTRIBUTION} unknown"


def _workspace(composition: Composition) -> Folder:
    fs = composition.world.fs
    return fs.below(fs.real(composition.root))


# ── what is registered ──


def _registered(composition: Composition, *, content: bool) -> Document:
    now = composition.registry.current
    told: Document = {
        "tools": [
            {
                "name": tool.name,
                "schema_sha256": canonical_digest(dict(tool.schema)),
                "about_sha256": _digest(tool.about),
                "paths": sorted(tool.paths),
                "parallel": tool.parallel,
                "vouched": _vouched(composition.catalogs.lookup(tool.name)),
                **({"about": tool.about, "schema": dict(tool.schema)} if content else {}),
            }
            for _, tool in sorted(now.tools.items())
        ],
        "hooks": [
            {"name": hook.name, "when": hook.when, "timeout_s": hook.timeout_s}
            for hook in now.hooks.values()
        ],
        "commands": [
            {"name": command.name, **({"about": command.about} if content else {})}
            for _, command in sorted(now.commands.items())
        ],
        "shortcuts": [
            {"keys": shortcut.keys, "command": shortcut.command}
            for _, shortcut in sorted(now.shortcuts.items())
        ],
        "flags": [
            {
                "name": flag.name,
                "default": now.defaults[flag.name],
                **({"about": flag.about} if content else {}),
            }
            for _, flag in sorted(now.flags.items())
        ],
        "providers": [
            {"name": provider.name, **({"settings": dict(provider.settings)} if content else {})}
            for _, provider in sorted(now.providers.items())
        ],
    }
    return told


def _brought(brought: Brought | None, *, content: bool) -> Document:
    """Tell which hooks the workspace brings, whether they are trusted, and what they execute."""
    if brought is None:
        return {"trusted": False, "hooks": [], "executes": {}}
    pairs = zip(brought.found.hooks, brought.found.commands, strict=True)
    return {
        "trusted": brought.trusted,
        "hooks": [
            {"name": hook.name, "when": hook.when, **({"command": command} if content else {})}
            for hook, command in pairs
        ],
        "executes": dict(sorted(brought.found.executables.files.items())),
    }


def _vouched(entry: ToolEntry | None) -> bool:
    """Whether a catalog that may vouch for tools says what the arguments of this one mean."""
    return entry is not None and entry.vouched


# ── settings, ticket, rules ──


def _prompt(*, content: bool) -> Document:
    """Tell what the model is told first, as a whole and by its sections."""
    return {
        "sha256": _digest(prompt_text()),
        "sections": [
            {
                "name": section.name,
                "sha256": _digest(section.text),
                **({"text": section.text} if content else {}),
            }
            for section in SECTIONS
        ],
    }


def _settings(composition: Composition, *, content: bool) -> Document:
    config, choices = composition.config, composition.choices
    return {
        "enabled": config.enabled,
        "canary": config.canary,
        "record": config.record,
        "forward": config.forward is not None,
        "mode": config.mode,
        "model": config.model or None,
        "models": [
            {"name": each.name, "api": each.api, **({"url": each.url} if content else {})}
            for each in sorted(config.models, key=lambda each: each.name)
        ],
        "servers": [
            {
                "name": each.name,
                "started": bool(each.command),
                "sha256": _digest(json.dumps([each.command, each.url])),
                **({"command": list(each.command), "url": each.url} if content else {}),
                "environ": sorted(each.environ),
                "headers": sorted(each.headers),
            }
            for each in sorted(config.servers, key=lambda each: each.name)
        ],
        "anchors": [
            {
                "name": anchor.name,
                "kind": anchor.kind,
                **({"settings": dict(anchor.settings)} if content else {}),
            }
            for anchor in sorted(config.anchors, key=lambda anchor: anchor.name)
        ],
        "chosen": {
            "mode": choices.mode,
            "said_yes": sorted(choices.said_yes),
            "depth": choices.depth,
            "verify_sha256": _digest(choices.verify) if choices.verify else None,
            **({"verify": choices.verify} if content else {}),
        },
    }


def _ticket(composition: Composition, scope: Sequence[str]) -> Document:
    """Tell what a ticket of this scope would be: nothing is minted."""
    groups = composition.catalogs.groups()
    policies = policy_loader((composition.home.config / POLICIES,), groups=groups)
    # Read as of two days: what differs stands for an instant that only a run will have.
    first, second = (
        parse_scope(scope, at=at, groups=groups, policies=policies) for at in (0, _DAY_NS)
    )
    caveats = []
    for early, late in zip(first.caveats, second.caveats, strict=True):
        fixed = render([early]) == render([late])
        text = " ".join(render([early])) if fixed else "counted from the start of a run"
        caveats.append({"kind": early.kind, "text": text})
    return {
        "typed": list(scope),
        "unrestricted": not first.caveats,
        "caveats": caveats,
        "warnings": list(first.warnings),
    }


def _permissions(composition: Composition) -> Document:
    return {
        "mode": composition.mode,
        "modes": list(MODES),
        "effects": {
            effect: {
                "answer": answer(composition.mode, effect),
                "after_untrusted_output": answer(composition.mode, effect, tainted=True),
                "said_yes": effect in composition.choices.said_yes,
            }
            for effect in EFFECTS
        },
    }


# ── catalogs ──


def _catalogs(catalogs: Catalogs, composition: Composition) -> list[Document]:
    told = []
    for source in catalogs.sources:
        entries = [entry for entry in catalogs.tools() if entry.source == source]
        place, content = _source(source, composition)
        told.append(
            {
                "source": place,
                "sha256": None if content is None else hashlib.sha256(content).hexdigest(),
                "tools": len(entries),
                "vouched": not place.startswith("workspace:"),
            }
        )
    return sorted(told, key=lambda each: str(each["source"]))


def _source(source: str, composition: Composition) -> tuple[str, bytes | None]:
    """Return where a catalog comes from, without the folder that this machine has it in."""
    if not os.path.isabs(source):
        return f"shipped:{source}", files("broker.catalogs").joinpath(source).read_bytes()
    for name, folder in (("workspace", composition.root), ("config", str(composition.home.config))):
        below = os.path.relpath(source, folder)
        if not below.startswith(".."):
            return f"{name}:{below}", _read(composition, folder, below)
    return f"elsewhere:{os.path.basename(source)}", None


def _read(composition: Composition, folder: str, below: str) -> bytes | None:
    fs = composition.world.fs
    try:
        return fs.below(fs.real(folder)).read(below, limit_bytes=MAX_CATALOG_BYTES)
    except OSError:
        return None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
