"""
What a run is made of, put together in one place.

Decided here: what a harness consists of and how its parts are joined, whoever asks for it: the
command, an inspection that runs nothing, a replay on fakes. Not decided here: what the parts do.

Rules a maintainer keeps: there is no second way to put a harness together; putting it together
dispatches no call, asks no model, opens no session and writes nothing.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass

from broker.capabilities.bundle import Capabilities
from broker.catalogs import Catalogs, load_catalogs
from broker.config import Config, load_config
from broker.errors import InputError
from broker.harness.agent import Agent, Models
from broker.harness.approval import Approver, ask_at
from broker.harness.files import Files
from broker.harness.held import Held
from broker.harness.items import Item
from broker.harness.outcome import Watch, Watcher
from broker.harness.pipeline import Pipeline, nobody_watches
from broker.harness.registry import Registry
from broker.harness.spill import Spill
from broker.harness.tools import TOOLS
from broker.harness.verify import VerifyGate
from broker.home import Home
from broker.permissions.depth import USUAL_DEPTH, checked_depth
from broker.permissions.effects import EFFECTS
from broker.permissions.modes import Mode, read_mode, settled
from broker.resolve import Resolver

RESULTS = "results"  # the folder of long results, in the state folder
RECORDS = "records"  # the folder of a session's records, beside its receipt
TRUSTED = "trusted"  # the folder of what a person trusted, in the state folder


@dataclass(frozen=True, slots=True)
class Choices:
    """What a person chose for one run; ``mode`` is None where they left it to the settings."""

    mode: str | None = None
    said_yes: Sequence[str] = ()
    depth: int = USUAL_DEPTH
    verify: str = ""


@dataclass(frozen=True, slots=True)
class Composition:
    """
    A harness that is put together, and has done nothing yet.

    ``mode`` is what the choices, the settings and the environment come to.
    """

    world: Capabilities
    home: Home
    root: str
    config: Config
    catalogs: Catalogs
    registry: Registry
    choices: Choices
    mode: Mode

    def agent(
        self,
        held: Held,
        sid: str,
        models: Models,
        watcher: Watcher,
        watch: Watch = nobody_watches,
    ) -> Agent:
        """
        Return the agent of a run.

        Args:
            held: the session that holds it.
            sid: the session's name.
            models: who answers it.
            watcher: is told what is said and called.
            watch: is told of every call at its end.
        """
        resolver = Resolver(self.root, self.catalogs, own=self.home.own())
        results = posixpath.join(str(self.home.state), RESULTS, sid)
        pipeline = Pipeline(
            held,
            Approver(resolver, self.choices.said_yes, ask_at(self.world.terminal)),
            self.world,
            Files(self.world.fs, self.world.fs.real(self.root)),
            lambda: self.registry.current,
            Spill(self.world.fs.below(results)),
            watch,
        )
        verify = None
        if self.choices.verify:
            verify = VerifyGate(self.world.process, self.choices.verify, self.root, told=held.note)
        return Agent(pipeline, models, watcher, self.mode, self.choices.depth, verify)


def settle(world: Capabilities, choices: Choices) -> tuple[Home, Config, Mode]:
    """
    Return where the broker's files lie, the person's settings, and the mode of a run.

    Raises:
        InputError, ConfigError: a choice or a setting is not understood.
    """
    home = Home.find(world.process.environ)
    config = load_config(home.config)
    typed = None if choices.mode is None else read_mode(choices.mode)
    mode = settled(typed, config.mode, world.process.environ)
    checked_depth(choices.depth)
    for effect in choices.said_yes:
        if effect not in EFFECTS:
            raise InputError(f"no such effect `{effect}`: one of {', '.join(EFFECTS)}")
    return home, config, mode


def compose(
    world: Capabilities,
    root: str,
    choices: Choices,
    items: Sequence[Item] = TOOLS,
) -> Composition:
    """
    Put a harness together for a workspace.

    Args:
        world: the capabilities.
        root: the absolute path of the workspace.
        choices: what the person chose.
        items: what is registered, in this order.

    Raises:
        InputError, ConfigError, CatalogError: a choice, a setting or a catalog is not understood.
    """
    home, config, mode = settle(world, choices)
    registry = Registry()
    with registry.batch() as batch:
        batch.add(*items)
    catalogs = load_catalogs(root, home.config)
    return Composition(world, home, root, config, catalogs, registry, choices, mode)
