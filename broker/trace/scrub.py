"""
Taking a text out of a run that is over, or searching it anew for secrets.

Decided here: what is rewritten, in which order, and what is said of it in the run. Not decided
here: what a secret is (``broker.redaction``).

The new blobs are written first, then the events in one step, then the manifest; only then the blobs
go that nothing refers to any more. Whoever is killed in between leaves a run that can be read, and
that the next scrub finishes.

A scrubbed run says so, in a `note` at its end: how much was hidden, and whether the events were
still what they had been sealed with. It is sealed anew, and so is as little a proof as before.

Rules a maintainer keeps: a run that is being written is left alone; a line that cannot be read is
dropped, since nobody can look into it; a request that was kept as a change is made whole, searched,
and made a change again; what was asked for is looked for in every byte afterwards.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from broker.capabilities.clock import Clock
from broker.errors import InputError, TraceError
from broker.receipt.disk import CREATE, DISK
from broker.redaction.bodies import hide_content
from broker.redaction.hiding import Hider
from broker.redaction.texts import Span, disjoint
from broker.redaction.trees import hide_object, hide_tree
from broker.trace.blobs import BlobStore
from broker.trace.bodies import all_rebuilt, delta
from broker.trace.format import (
    BLOBS,
    DIGEST,
    EVENTS,
    MANIFEST,
    REDACTIONS,
    blob_ref,
)
from broker.trace.hiding import MAX_PATHS, below, inline, spelled
from broker.trace.reader import RunReader, lines_of
from broker.trace.rest import at_rest
from broker.trace.safefiles import open_inside
from broker.trace.stamps import Stamps

LEAST_CHARS: Final = 6  # of a text that is taken out; a shorter one would hit the innocent
SNAPSHOTS: Final = "fs"
_KIND: Final = "scrub"
_CAPTURED: Final = frozenset(("attrs", "payload", "redacted"))
_TOLD: Final = ("adapter", "argv", "cwd", "env_allowlisted", "git")  # of a manifest, by the run
_POLICY: Final = "policy_version"


@dataclass(frozen=True, slots=True)
class Scrubbed:
    """
    What was done to a run.

    Attributes:
        hidden: how much of each kind was hidden.
        events: how many events were changed.
        lines_lost: lines that could not be read, and went.
        left: files of the run in which a text that was to go still stands.
        snapshots: ``kept`` unsearched, ``dropped``, or ``none``.
    """

    hidden: dict[str, int]
    events: int
    lines_lost: int
    left: tuple[str, ...]
    snapshots: str


class _Asked(Hider):
    """Hides secrets as ever, and the texts that a person named, however they are spelled."""

    def __init__(self, texts: Sequence[str]) -> None:
        super().__init__()
        self._texts = [form for text in texts for form in spellings(text)]

    def find(self, text: str) -> list[Span]:
        """Return what is to be hidden in a text."""
        found = super().find(text)
        for form in self._texts:
            at = text.find(form)
            while at >= 0:
                found.append(Span(at, at + len(form), _KIND))
                at = text.find(form, at + len(form))
        return disjoint(text, found) if found else found


def spellings(text: str) -> list[str]:
    """
    Return how a text may stand in another: as it is, within JSON, or in a URL; the longest first.

    >>> spellings('a "b"')
    ['a%20%22b%22', 'a \\\\"b\\\\"', 'a "b"']
    """
    forms = {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    forms.add(quote(text.encode("utf-8", "surrogatepass"), safe=""))
    return sorted(forms, key=lambda form: (-len(form), form))


def scrub(
    folder: Path, texts: Sequence[str] = (), *, clock: Clock, drop_snapshots: bool = False
) -> Scrubbed:
    """
    Search a run anew for secrets, take texts out of it, and seal it anew if it was sealed.

    Args:
        folder: the run's folder.
        texts: what is to go, wherever it stands; at least ``LEAST_CHARS`` characters each.
        clock: what tells the time.
        drop_snapshots: also remove the snapshots of the workspace, which are not searched.

    Raises:
        InputError: a text is too short, or the run is being written.
        TraceError: it cannot be read or written.
    """
    for text in texts:
        if len(text) < LEAST_CHARS:
            raise InputError(
                f"a text of {len(text)} characters would be found everywhere: give {LEAST_CHARS}"
            )
    with at_rest(folder):
        try:
            return _Scrub(folder, texts, clock).run(drop_snapshots=drop_snapshots)
        except OSError as error:
            raise TraceError(f"`{folder.name}` cannot be scrubbed: {error.strerror}") from None


class _Scrub:
    """One scrub of one run."""

    def __init__(self, folder: Path, texts: Sequence[str], clock: Clock) -> None:
        self._folder = folder
        self._texts = texts
        self._hider = _Asked(texts)
        self._stamps = Stamps(clock)
        self._reader = RunReader.open(folder)
        self._blobs = BlobStore(folder)
        self._bodies = all_rebuilt(self._reader)
        self._scrubbed: dict[object, tuple[int, object]] = {}
        self._used: set[str] = set()
        self._places: list[dict[str, object]] = []
        self._digest = hashlib.sha256()
        self._changed = 0
        self._lost = 0
        self._last: dict[str, object] = {"seq": -1, "mono_us": 0, "turn": 0}

    def run(self, *, drop_snapshots: bool) -> Scrubbed:
        before = self._reader.integrity()
        fresh = self._folder / f".{EVENTS}.new"
        fresh.unlink(missing_ok=True)
        fd = os.open(fresh, os.O_WRONLY | CREATE, 0o600)
        with os.fdopen(fd, "wb") as file:
            count = 0
            for row in self._rows():
                line = spelled(row).encode() + b"\n"
                self._digest.update(line)
                file.write(line)
                count += 1
            manifest, redactions = self._manifest()  # what is hidden there counts, too
            line = spelled(self._note(before)).encode() + b"\n"
            self._digest.update(line)
            file.write(line)
            file.flush()
            DISK.sync(file.fileno())
        os.rename(fresh, self._folder / EVENTS)
        self._put(manifest, redactions, count + 1)
        self._sweep()
        snapshots = self._snapshots(drop=drop_snapshots)
        return Scrubbed(
            dict(sorted(self._hider.counts.items())),
            self._changed,
            self._lost,
            tuple(left_in(self._folder, self._texts)),
            snapshots,
        )

    def _rows(self) -> Iterator[dict[str, object]]:
        """Yield the lines that can be read, searched."""
        for line in lines_of(open_inside(self._folder, EVENTS)):
            try:
                row = json.loads((line or b"").decode("utf-8", "replace"))
                if not isinstance(row, dict):
                    raise TypeError  # noqa: TRY301  a line that is no object is lost like one that is no JSON
                yield self._row(row)
            except (ValueError, TypeError, RecursionError):
                self._lost += bool(line is None or line.strip())

    def _row(self, row: dict[str, object]) -> dict[str, object]:
        before = sum(self._hider.counts.values())
        found: list[str] = []
        # What makes it a line of the format stays; only what was captured is searched.
        fresh = {key: value for key, value in row.items() if key not in _CAPTURED}
        if isinstance(row.get("attrs"), dict):
            fresh["attrs"], paths = hide_tree(row["attrs"], self._hider)
            found += [f"attrs.{path}" for path in paths]
        if row.get("payload") is not None:
            fresh["payload"], paths = self._payload(fresh, row["payload"])
            found += paths
        for key in ("seq", "mono_us", "turn"):
            if isinstance(fresh.get(key), int):
                self._last[key] = fresh[key]
        if sum(self._hider.counts.values()) > before:
            self._changed += 1
            fresh["redacted"] = [*_texts(row.get("redacted"), self._hider), *found][:MAX_PATHS]
            self._places.append({"seq": fresh.get("seq"), "paths": found[:MAX_PATHS]})
        elif "redacted" in row:
            fresh["redacted"] = row["redacted"]
        return fresh

    def _payload(self, row: dict[str, object], payload: object) -> tuple[object, list[str]]:
        """Return the payload as it is written anew, and the paths of what was hidden."""
        attrs = row.get("attrs")
        if isinstance(attrs, dict) and attrs.get("delta") is True:
            return self._request(row, attrs, payload)
        if not (isinstance(payload, dict) and "$blob" in payload):
            fresh, paths = hide_tree(payload, self._hider)
            if row.get("type") == "model.request":
                self._keep(row, fresh)
            return fresh, [below(path) for path in paths]
        try:
            ref = blob_ref(payload)
            content = self._reader.blob(ref)
        except TraceError:
            return (
                payload,
                [],
            )  # it is not there, or is not what it says: nothing can be found in it
        said, paths = hide_content(content, self._hider)
        if row.get("type") == "model.request":
            self._keep(row, _value(said))
        return self._kept(said, ref.media_type), [below(path) for path in paths]

    def _request(
        self, row: dict[str, object], attrs: dict[str, object], payload: object
    ) -> tuple[object, list[str]]:
        """Search a request that was kept as a change: as a whole, and make it a change again."""
        body = next((each for seq, each in self._bodies if seq == row.get("seq")), None)
        if body is None or isinstance(body, TraceError):
            return {"lost": "it could not be made whole, so nobody can look into it"}, []
        fresh, paths = hide_tree(body, self._hider)
        base = self._scrubbed.get(attrs.get("conversation"))
        self._keep(row, fresh)
        told = [below(path) for path in paths]
        if base is not None:
            change: object = {"base": base[0], "change": delta(base[1], fresh)}
        else:
            attrs.pop("delta")
            change = fresh
        text = spelled(change)
        return (
            change if inline(change, text) else self._kept(text.encode(), "application/json")
        ), told

    def _keep(self, row: dict[str, object], body: object) -> None:
        attrs, seq = row.get("attrs"), row.get("seq")
        if isinstance(attrs, dict) and isinstance(seq, int):
            self._scrubbed[attrs.get("conversation")] = (seq, body)

    def _kept(self, content: bytes, media_type: str) -> dict[str, object]:
        ref = self._blobs.put(content, media_type)
        self._used.add(ref.digest)
        return ref.document()

    def _note(self, before: str) -> dict[str, object]:
        seq, at = self._last["seq"], self._last["mono_us"]
        assert isinstance(seq, int)  # noqa: S101  kept as one
        hidden = dict(sorted(self._hider.counts.items()))
        attrs = {"kind": _KIND, "hidden": hidden, "lines_lost": self._lost, "before": before}
        return {
            "seq": seq + 1,
            "ts": self._stamps.wall(),
            "mono_us": at,
            "turn": self._last["turn"],
            "type": "note",
            "actor": "orca",
            "attrs": attrs,
        }

    def _manifest(self) -> tuple[dict[str, object], dict[str, object]]:
        """Return manifest and redactions without what is to go."""
        document = dict(self._reader.manifest.document)
        told = {key: document[key] for key in _TOLD if document.get(key) is not None}
        document |= hide_object(told, self._hider)[0]
        try:
            with os.fdopen(open_inside(self._folder, REDACTIONS), "rb") as file:
                known = json.load(file)
        except (TraceError, ValueError, RecursionError):
            known = {}
        redactions, _ = hide_object(known if isinstance(known, dict) else {}, self._hider)
        return document, redactions

    def _put(self, manifest: dict[str, object], redactions: dict[str, object], events: int) -> None:
        fired = Counter(_fired(manifest))
        fired.update(self._hider.counts)
        manifest["counts"] = {"events": events, "blobs": len(self._used)}
        manifest["redaction"] = {_POLICY: 1, "rules_fired": dict(sorted(fired.items()))}
        if manifest.get("integrity") is not None:
            manifest["integrity"] = {
                "events_sha256": self._digest.hexdigest(),
                "blob_count": len(self._used),
            }
        DISK.replace(self._folder / MANIFEST, spelled(manifest).encode() + b"\n")
        redactions.setdefault(_POLICY, 1)
        known = redactions.get("scrubbed")
        redactions["scrubbed"] = [*(known if isinstance(known, list) else []), *self._places]
        DISK.replace(self._folder / REDACTIONS, spelled(redactions).encode() + b"\n")

    def _sweep(self) -> None:
        """Remove the blobs that nothing refers to any more, and what an earlier scrub left."""
        for shard in (self._folder / BLOBS).iterdir():
            if shard.is_symlink() or not shard.is_dir():
                continue
            for blob in shard.iterdir():
                if blob.name not in self._used and (
                    DIGEST.match(blob.name) or blob.name.startswith(".")
                ):
                    blob.unlink()
            if not any(shard.iterdir()):
                shard.rmdir()

    def _snapshots(self, *, drop: bool) -> str:
        place = self._folder / SNAPSHOTS
        if not os.path.lexists(place):
            return "none"
        if not drop:
            return "kept"
        if place.is_symlink():
            place.unlink()
        else:
            shutil.rmtree(place)
        return "dropped"


def left_in(folder: Path, texts: Iterable[str]) -> Iterator[str]:
    """
    Yield the files of a run in which a text still stands; snapshots are not looked into.

    Raises:
        OSError: a file cannot be read.
    """
    forms = [form.encode("utf-8", "surrogatepass") for text in texts for form in spellings(text)]
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not path.is_file() or name.startswith(f"{SNAPSHOTS}/"):
            continue
        content = path.read_bytes()
        if any(form in content for form in forms):
            yield name


def _texts(value: object, hider: Hider) -> list[str]:
    found = value if isinstance(value, list) else []
    return [hider.text(each) for each in found if isinstance(each, str)]


def _value(content: bytes) -> object:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return content


def _fired(manifest: dict[str, object]) -> dict[str, int]:
    redaction = manifest.get("redaction")
    fired = redaction.get("rules_fired") if isinstance(redaction, dict) else None
    return {k: v for k, v in fired.items() if isinstance(v, int)} if isinstance(fired, dict) else {}
