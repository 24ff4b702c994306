"""
Runs a command and records it, without a ticket.

Decided here: that nothing is refused and no receipt is kept, which is said first. Not decided
here: what is recorded (``recording``).

Rule a maintainer keeps: within a run nothing of this begins: what a tool starts is recorded there.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from broker.agents.adapter import Launch, Prepared, adapter_for
from broker.capture.begin import Begins, NotRecorded, begin
from broker.child import Child
from broker.errors import LaunchError, TraceError
from broker.events import Bus
from broker.home import Home
from broker.launchwords import Streams
from broker.program import program_of
from broker.service.client import SESSION_VARIABLE, SOCKET_VARIABLE


def record(
    command: Sequence[str],
    *,
    home: Home | None = None,
    environ: Mapping[str, str] | None = None,
    stderr: TextIO | None = None,
    quiet: bool = False,
    cwd: Path | None = None,
    begins: Begins = begin,
) -> int:
    """
    Run ``command``, record it, and return its exit code.

    Args:
        command: the program and its arguments.
        home: the broker's folders; the user's by default.
        environ: the environment; this process's by default.
        stderr: where the broker's own lines go.
        quiet: say only warnings and what went wrong.
        cwd: the folder that it starts in; the current one by default.
        begins: begins the recording; a replay has one of its own.

    Returns:
        The command's exit code; 128 + N when signal N ended it.

    Raises:
        LaunchError: the command cannot be started.
        TraceError: nothing can be recorded, and nothing was started.
    """
    given = dict(os.environ if environ is None else environ)
    streams = Streams(stderr or sys.stderr)
    if given.get(SOCKET_VARIABLE) or given.get(SESSION_VARIABLE):
        raise LaunchError("this is inside a run already: what is started here is recorded there")
    found = Home.find(given) if home is None else home
    program = program_of(command, given)
    adapter = adapter_for(command)
    with Child() as child, tempfile.TemporaryDirectory(prefix="broker-record-") as made:
        # What an agent needs for this run, a copy of a key perhaps, goes when the run is over.
        where = cwd or Path.cwd()
        launch = Launch(tuple(command), given, where, Path(made), Path(os.devnull))
        recording = begins(True, found.runs, launch, adapter, streams.say, closed=found.own())
        if isinstance(recording, NotRecorded):
            raise TraceError("nothing can be recorded, and nothing was started")
        if not quiet:
            streams.say(f"no ticket: nothing is refused while `{command[0]}` runs")
        try:
            prepared = recording.through(adapter, launch, Prepared(launch.command))
            variables = recording.around({**given, **prepared.environ})
            child.start(program, prepared.command, variables, prepared.cwd or launch.cwd)
            recording.start(Bus())
            code = child.wait(recording.lost)
            recording.ended(code)
        finally:
            recording.end(quiet=quiet)
    if child.stopped:
        streams.say(f"it was stopped: {child.stopped}")
    return code
