"""
Which run is meant on the command line, and its calls as they can still be told.

Decided here: that nothing of a receipt is used before it is verified, that values which it only
commits to are taken where they are held, and what stands in for a workspace that is gone. Not
decided here: what the calls touched (``broker.replay.reading``).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from broker.cli import completing
from broker.errors import InputError

if TYPE_CHECKING:
    from broker.catalogs import Catalogs
    from broker.cli.kept import Kept
    from broker.home import Home
    from broker.receipt import Entry
    from broker.replay.exact import Again
    from broker.replay.reading import ReadCall
    from broker.replay.seen import SeenRun
    from broker.trace.reader import RunReader

_RUN: Final = "run_"  # how the name of a recorded run begins

Run = Annotated[
    str | None,
    typer.Argument(
        autocompletion=completing.session_ids, metavar="[RUN]", show_default="the latest session"
    ),
]
Runs = Annotated[
    list[str] | None,
    typer.Argument(
        autocompletion=completing.session_ids,
        metavar="[RUN]...",
        show_default="the latest session",
    ),
]


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run, what is known of its tools, and its calls as they were read."""

    run: SeenRun
    catalogs: Catalogs
    calls: tuple[ReadCall, ...]


@contextmanager
def recorded(name: str | None, home: Home, *, attempted: bool = False) -> Iterator[RecordedRun]:
    """
    Give a session or a recorded run by the beginning of its name; None means the latest session.

    What is known of both is put together: decisions from the receipt, arguments from the recording.

    Args:
        name: as typed; that of a recorded run begins with ``run_``, and a path is one's folder.
        home: the broker's folders.
        attempted: take in the calls that were refused then.

    Raises:
        InputError: there is no such run.
        Break: its receipt does not verify.
        UnverifiableError: that cannot be told.
        TraceError: the recording cannot be read.
    """
    from broker.catalogs import load_catalogs
    from broker.replay.reading import CallReader

    run, reader = _run(name, home)
    catalogs = load_catalogs(Path(run.workspace), home.config)
    with tempfile.TemporaryDirectory(prefix="broker-read-") as made:
        where = Path(made, "files")
        restore = None if reader is None else restorer(reader)
        if restore is not None:
            restore(where)
        else:
            where.mkdir()
        how: Literal["snapshot", "text"] = "text" if restore is None else "snapshot"
        own = home.own()
        files = CallReader(run.workspace, catalogs, own, str(where), how)
        calls = run.calls if attempted else run.ran
        yield RecordedRun(run, catalogs, tuple(map(files.read, calls)))


def played(name: str | None, home: Home) -> Again:
    """
    Return a recorded run by the beginning of its name, as it is to be played; None: the latest.

    Raises:
        InputError: there is no such run.
        TraceError: it cannot be read.
        Break, UnverifiableError: it ran under a ticket, and its receipt does not verify.
    """
    from broker.replay.exact import Again
    from broker.trace.reader import RunReader
    from broker.trace.runs import find

    folder = find(home.runs, name)
    if folder.resolve().parent != home.runs.resolve():
        # Its own words would say which program is started here, and with what.
        raise InputError(
            f"`{folder}` is no run of this installation: only those are played again; "
            "`broker runs show` and `broker whatif` read any"
        )
    reader = RunReader.open(folder)
    sid = _sid(reader)
    return Again(reader, _of_session(sid, home) if sid else None, restorer(reader))


def restorer(reader: RunReader) -> Callable[[Path], str] | None:
    """Return what lays out the workspace as it was when a run began; None: nothing was kept."""
    from broker.capture.restoring import restore, restore_folders

    snapshot = next(
        (e for e in reader.stream() if e.type == "fs.snapshot" and e.text("tree")), None
    )
    store = reader.folder / "fs"
    if snapshot is None or not store.is_dir():
        return None
    tree, empty = snapshot.text("tree"), snapshot.attrs.get("empty_folders")

    def lay_out(into: Path) -> str:
        found = restore(store, tree, into)
        restore_folders(empty if isinstance(empty, list) else (), into)
        return str(found)

    return lay_out


def _run(name: str | None, home: Home) -> tuple[SeenRun, RunReader | None]:
    """Return a run as its receipt and its recording tell of it."""
    from broker.replay.seen import seen_trace, with_arguments
    from broker.trace.reader import RunReader
    from broker.trace.runs import find

    if name is not None and (name.startswith(_RUN) or os.sep in name):
        reader = RunReader.open(find(home.runs, name))
        sid = "" if os.sep in name else _sid(reader)
        if not sid:
            return seen_trace(reader), reader
        return with_arguments(_of_session(sid, home), _told(reader)), reader
    run = _of_session(name, home)
    folder = _recording_of(run.name, home)
    if folder is None:
        return run, None
    reader = RunReader.open(folder)
    return with_arguments(run, _told(reader)), reader


def _recording_of(sid: str, home: Home) -> Path | None:
    """Return the recording of a session: the run whose link leads to it."""
    from broker.trace.runs import names

    for name in names(home.runs):
        with suppress(OSError):
            if os.path.basename(os.readlink(home.runs / name / "receipt")) == sid:
                return home.runs / name
    return None


def _told(reader: RunReader) -> Iterator[tuple[str, object]]:
    """Yield the calls that a model asked for: their ids and arguments."""
    for event in reader.stream():
        if event.type == "tool.call":
            yield event.text("call"), reader.payload(event)


def _sid(reader: RunReader) -> str:
    """Return the session of a recorded run; empty where there is none."""
    return next((e.text("sid") for e in reader.stream() if e.type == "run.start"), "")


def _of_session(name: str | None, home: Home) -> SeenRun:
    from broker.cli.evidence import Asked, evidence, is_file
    from broker.cli.kept import Kept
    from broker.receipt.inspection import inspecting
    from broker.replay.seen import seen_run

    if is_file(name):
        raise InputError("name a session (see `broker sessions`) or a recorded run, not a file")
    what = evidence(Asked(name), home)
    kept = Kept(what.path.parent)
    with inspecting(what) as found:
        return seen_run(what.sid, [_whole(entry, kept) for entry in found.entries()])


def _whole(entry: Entry, kept: Kept) -> Entry:
    """Return an entry with the values that it only commits to, where they are held."""
    shown = kept.shown(entry.data)
    if shown is None:
        return entry
    data: Mapping[str, object] = {**entry.data, **shown.values}
    if shown.kept_out and entry.kind == "decision" and "subjects" not in data:
        data = {**data, "subjects": [{"more": shown.kept_out}]}
    return entry._replace(data=data)
