"""
Which connections leave the walls: the same hosts as the gate's, read by the same code.

Decided here: what a request to the proxy is asked for, and in which words it is refused. Not
decided here: what a host pattern means (``broker.hosts``), where a name leads (``addresses``).

Rules a maintainer keeps: every list of the ticket must admit, or the agent's own needs must; an
address is reached under the spelling that was judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from broker.authorize import ASK
from broker.calls import Refusal
from broker.hosts import Url, UrlError, host_matcher, read_url
from broker.sandbox.plan import Plan

if TYPE_CHECKING:
    from broker.capture.upstream import ModelUpstream

_SHOWN: Final = 6


@dataclass(frozen=True, slots=True)
class Admission:
    """
    The hosts that processes within the walls may reach.

    ``lists`` are the ticket's, all of which must admit; ``network`` is false where it leaves the
    network out. ``needs`` are the agent's own hosts, which are admitted beside.
    """

    lists: tuple[tuple[str, ...], ...]
    network: bool
    needs: tuple[str, ...] = ()

    @classmethod
    def of(cls, plan: Plan, needs: Sequence[str]) -> Admission:
        """Return what a plan and an agent's needs admit."""
        return cls(plan.hosts, plan.network, tuple(needs))

    def judge(self, url: Url) -> Refusal | None:
        """
        Return why a URL is not reached, or None.

        >>> Admission((("example.com",),), True).judge(read_url("https://evil.test/")).caveat
        'hosts'
        """
        if host_matcher(self.needs).match(url.keys):
            return None
        shown = url.keys[0] if url.keys else url.scheme
        if not self.network:
            why = f"the scope limits paths and names no hosts, so `{shown}` is not reached; {ASK}"
            return Refusal("hosts", shown, why)
        for patterns in self.lists:
            if not url.keys or not host_matcher(patterns).match(url.keys):
                listed = ", ".join(patterns[:_SHOWN]) or "none"
                more = f" and {len(patterns) - _SHOWN} more" if len(patterns) > _SHOWN else ""
                why = f"host `{shown}` is not in hosts: {listed}{more}; {ASK}"
                return Refusal("hosts", shown, why)
        return None

    def names(self, address: str, port: int) -> bool:
        """Return whether the ticket, or a need, names an address outright."""
        scheme = "http" if port == 80 else "https"
        try:
            url = read_url(f"{scheme}://{address}:{port}/")
        except UrlError:
            return False
        return self.judge(url) is None and bool(self.lists or self.needs)


def unnamed(admission: Admission, models: Mapping[str, ModelUpstream]) -> list[str]:
    """Return the names of the models whose address is not admitted, or is none that can be read."""
    found = []
    for name, model in models.items():
        try:
            url = read_url(f"{model.scheme}://{model.host}:{model.port}/")
        except UrlError:
            found.append(name)
            continue
        if admission.judge(url) is not None:
            found.append(name)
    return found


def tunnel(target: str) -> Url:
    """
    Return the URL that a ``CONNECT host:port`` stands for.

    A port 80 is that of plain http; every other is taken for https, whose default is 443.

    Raises:
        UrlError: it is no host and port, or parsers read it differently.

    >>> tunnel("example.com:443").keys, tunnel("example.com:80").keys[0]
    (('example.com', 'example.com:443'), 'example.com')
    """
    host, colon, port = target.rpartition(":")
    if not colon or not host or "/" in target or "@" in target:
        raise UrlError("`CONNECT` names a host and a port")
    return read_url(f"{'http' if port == '80' else 'https'}://{target}/")
