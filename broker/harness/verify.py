"""
The check that a person declared: it must pass before a run that changed something ends well.

Decided here: how often it is tried, and what the model reads when it fails. Not decided here: when
it is due (``broker.harness.agent``).

Rules a maintainer keeps: the check is the person's own command, typed for this run, and runs with
their authority, not the agent's: what it executes may be files that the agent wrote, so a person
who does not want that declares none. A check that cannot be run has not passed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from broker.capabilities.process import Command, Processes
from broker.errors import BrokerError
from broker.harness.shell import passed_on
from broker.limits import MAX_RESULT_CHARS


class VerifyError(BrokerError):
    """What the agent changed does not pass the check that the person declared."""

    code = "verify"


@dataclass(slots=True)
class VerifyGate:
    """
    A declared check.

    Args:
        processes: what runs it.
        command: a command line for ``sh``.
        folder: where it runs.
        attempts: how often it may fail, at most.
        told: is told of every outcome, for the receipt.

    >>> from broker.capabilities.process import Finished, ScriptedProcesses
    >>> VerifyGate(ScriptedProcesses([Finished(0)]), "make test", "/ws").check() is None
    True
    """

    processes: Processes
    command: str
    folder: str
    attempts: int = 3
    timeout_s: float = 600.0
    told: Callable[[str], object] = field(default=lambda text: None)
    failed: int = 0

    def check(self) -> str | None:
        """
        Run the check; return what the model is told when it fails, or None when it passes.

        Raises:
            VerifyError: it has failed as often as it may.
        """
        said = self._said()
        self.told(f"the check `{self.command}` {said[0] if said else 'passed'}")
        if said is None:
            return None
        self.failed += 1
        if self.failed >= self.attempts:
            raise VerifyError(
                f"the check `{self.command}` {said[0]}, {self.failed} times; what was changed "
                "stays as it is"
            )
        left = self.attempts - self.failed
        return (
            f"the check `{self.command}` {said[0]}. Mend what you changed; it is tried {left} "
            f"more times.\n{said[1]}"
        )

    def _said(self) -> tuple[str, str] | None:
        asked = Command(
            ("/bin/sh", "-c", self.command),
            self.folder,
            passed_on(self.processes.environ),
            timeout_s=self.timeout_s,
            output_bytes=MAX_RESULT_CHARS,
            merged=True,
        )
        try:
            ended = self.processes.run(asked)
        except OSError as error:
            return f"cannot be run: {(error.strerror or str(error)).lower()}", ""
        if ended.code == 0:
            return None
        how = "takes too long" if ended.code is None else f"ends with {ended.code}"
        return how, ended.stdout.decode("utf-8", "replace")
