"""
A run as one file that a person reads in a browser.

Decided here: what the page shows, and that it asks nobody for anything: no script, no picture, no
address of elsewhere, and a policy in its head that would forbid them. Not decided here: what is in
the run.

Rules a maintainer keeps: everything that a run says is escaped, and what cannot be seen is spelled
out, since an agent may have chosen it; the page is made piece by piece; a long payload is cut, and
so are all of them together, and each cut says so.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterator
from typing import Final

from broker.errors import TraceError
from broker.receipt.display import escaped
from broker.trace import graph
from broker.trace.bodies import all_rebuilt
from broker.trace.format import Event
from broker.trace.reader import RunReader
from broker.trace.summary import Summary, summary

PAYLOAD_CHARS: Final = 20_000  # characters of one payload that are shown
PAGE_CHARS: Final = 24_000_000  # characters of all payloads of a page
_MOST_PROBLEMS: Final = 100

_STYLE: Final = """
:root{color-scheme:light dark;--dim:#777;--line:#8883;--bad:#b00020;--good:#0a7d33;--mark:#8882}
@media(prefers-color-scheme:dark){:root{--bad:#ff7a85;--good:#5fd38a}}
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem}
h1{font-size:1.4rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;margin:1rem 0}
dt{color:var(--dim)}dd{margin:0;overflow-wrap:anywhere}
details{border-top:1px solid var(--line)}summary{cursor:pointer;padding:.25rem 0}
details details{margin-left:1rem}details details summary{font-size:.9rem}
code,pre,.n,.at{font-family:ui-monospace,monospace;font-size:.85rem}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--mark);padding:.5rem}
.n,.at{color:var(--dim);display:inline-block;min-width:4.5rem;text-align:right;margin-right:.75rem}
.k{display:inline-block;min-width:9.5rem;font-weight:600}.dim{color:var(--dim)}
.bad{color:var(--bad);font-weight:600}.good{color:var(--good)}
:target>summary{background:var(--mark)}
""".strip()
_POLICY: Final = (
    "default-src 'none'; style-src 'sha256-"
    + base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    + "'; base-uri 'none'; form-action 'none'"
)


def page(reader: RunReader) -> Iterator[str]:
    """
    Yield the page of a run, piece by piece.

    Raises:
        TraceError: the run cannot be read, or has more events than are held in memory.
    """
    events = reader.events()
    problems = reader.problems()
    run_id = _text(reader.manifest.run_id)
    yield (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(_POLICY)}">'
        f'<meta name="viewport" content="width=device-width">'
        f'<meta name="referrer" content="no-referrer">'
        f"<title>{run_id}</title><style>{_STYLE}</style></head>\n<body><h1>{run_id}</h1>\n"
    )
    yield from _head(reader, summary(events))
    if problems:
        yield "<h2>What is wrong with the recording</h2><ul>\n"
        yield from (f"<li>{_text(each)}</li>\n" for each in problems[:_MOST_PROBLEMS])
        if len(problems) > _MOST_PROBLEMS:
            yield f"<li>and {len(problems) - _MOST_PROBLEMS} more</li>\n"
        yield "</ul>\n"
    yield "<h2>What happened</h2>\n"
    payloads = _Payloads(reader)
    for turn in graph.turns_of(events):
        yield from _turn(turn, payloads)
    yield (
        '<p class="dim">A recording is no proof: whoever can write it can write another. '
        "<code>broker verify</code> holds it against the signed receipt.</p>\n</body></html>\n"
    )


def _head(reader: RunReader, found: Summary) -> Iterator[str]:
    about, integrity = reader.manifest, reader.integrity()
    sealed = {
        "ok": '<span class="good">as sealed</span>',
        "mismatch": '<span class="bad">not what was sealed</span>',
    }
    rows: list[tuple[str, str]] = [
        ("agent", _text(" ".join(str(v) for v in about.adapter.values()))),
        ("command", f"<code>{_text(' '.join(about.argv))}</code>"),
        ("folder", f"<code>{_text(about.cwd)}</code>"),
        ("began", _text(about.created_at)),
        ("ran", f"{found.duration_us / 1e6:.1f} s"),
        ("exit code", "unknown" if about.exit_code is None else str(about.exit_code)),
        ("recording", f"{found.events} events, {sealed.get(integrity, 'never sealed')}"),
    ]
    if about.parent_run:
        rows.append(("forked from", _text(f"{about.parent_run} at {about.fork_point}")))
    if found.requests:
        models = ", ".join(f"{name} ({count})" for name, count in found.models.most_common())
        tokens = f"{found.input_tokens} tokens in, {found.output_tokens} out"
        rows.append(("model", _text(f"{found.requests} requests, {tokens}: {models}")))
    if found.calls:
        tools = ", ".join(f"{name} ({count})" for name, count in found.tools.most_common())
        rows.append(("tools", _text(f"{found.calls} calls: {tools}")))
    if found.allowed or found.refused:
        rows.append(("decisions", f"{found.allowed} allowed, {found.refused} refused"))
    yield "<dl>\n"
    yield from (f"<dt>{name}</dt><dd>{value}</dd>\n" for name, value in rows)
    yield "</dl>\n"


def _turn(turn: graph.RunTurn, payloads: _Payloads) -> Iterator[str]:
    many = f"{len(turn.events)} event{'' if len(turn.events) == 1 else 's'}"
    yield f'<details open><summary>Turn {turn.turn} <span class="dim">{many}</span></summary>\n'
    for each in turn.events:
        yield _event(each, payloads)
    yield "</details>\n"


def _event(each: Event, payloads: _Payloads) -> str:
    told = "  ".join(f"{key}={_short(value)}" for key, value in each.attrs.items())
    bad = each.type in ("error", "divergence") or each.attrs.get("allowed") is False
    kind = f'<span class="k{" bad" if bad else ""}">{_text(each.type)}</span>'
    causes = ", ".join(f'<a href="#e{cause}">{cause}</a>' for cause in each.causes)
    details = [f"<p>because of {causes}</p>"] if causes else []
    if each.attrs:
        details.append(f"<pre>{_lines(_json(each.attrs))}</pre>")
    if each.redacted:
        hidden = ", ".join(each.redacted)
        details.append(f'<p class="dim">hidden: {_text(hidden)}</p>')
    if each.payload is not None:
        details.append(f"<pre>{payloads.of(each)}</pre>")
    return (
        f'<details id="e{each.seq}"><summary><span class="n">{each.seq}</span>'
        f'<span class="at">{each.mono_us / 1e6:.3f} s</span>{kind}'
        f'<span class="dim">{_text(told[:160])}</span></summary>{"".join(details)}</details>\n'
    )


class _Payloads:
    """The payloads of a run as they are shown, until the page is full."""

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader
        self._requests = all_rebuilt(reader)
        self._next: tuple[int, object] | None = next(self._requests, None)
        self._left = PAGE_CHARS

    def of(self, each: Event) -> str:
        """Return the payload of an event, escaped."""
        if self._left <= 0:
            return '<span class="dim">left out: the page is full</span>'
        try:
            value = self._request(each.seq) if each.type == "model.request" else self._plain(each)
        except TraceError as error:
            return f'<span class="bad">{_text(error.message)}</span>'
        text = value if isinstance(value, str) else _json(value)
        cut = text[: min(PAYLOAD_CHARS, self._left)]
        self._left -= len(cut)
        more = len(text) - len(cut)
        rest = f'\n<span class="dim">… and {more} more characters</span>' if more else ""
        return _lines(cut) + rest

    def _plain(self, each: Event) -> object:
        value = self._reader.payload(each)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value

    def _request(self, seq: int) -> object:
        """Return the whole body of a request; they are asked for in about their order."""
        while self._next is not None and self._next[0] < seq:
            self._next = next(self._requests, None)
        if self._next is None or self._next[0] != seq:
            raise TraceError("the request cannot be made whole")
        body = self._next[1]
        if isinstance(body, TraceError):
            raise body
        return body.decode("utf-8", "replace") if isinstance(body, bytes) else body


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:79] + "…"


def _text(text: str) -> str:
    return html.escape(escaped(text))


def _lines(text: str) -> str:
    """Return a text of several lines, escaped; a JSON text's own line ends show as such."""
    return "\n".join(_text(line.replace("\t", "    ")) for line in text.split("\n"))
