"""Exit codes: every class of error has one, and the page of codes says so."""

from __future__ import annotations

import pytest

from broker import errors
from broker.errors import BrokerError
from broker.harness import exits
from broker.harness.exits import exit_code
from broker.harness.files import ToolError
from broker.harness.registry import RegistrationError
from broker.harness.verify import VerifyError

CODES = {
    "InputError": 2,
    "ScopeError": 2,
    "RegistrationError": 2,
    "LimitError": 2,
    "ConfigError": 3,
    "LaunchError": 3,
    "ModelError": 7,
    "CapabilityError": 4,
    "VerificationError": 5,
    "Break": 5,
    "TraceError": 5,
    "UnverifiableError": 5,
    "StoreError": 6,
    "FatalStoreError": 6,
    "AttenuationError": 1,
    "Refused": 1,
    "ToolError": 1,
    "VerifyError": 9,
}


def made(kind: type[BrokerError]) -> BrokerError:
    """An error of this class, whatever its constructor takes."""
    error = kind.__new__(kind)
    BrokerError.__init__(error, "…")
    return error


def kinds() -> list[type[BrokerError]]:
    """Every class of error that a run of the agent can end with."""
    found = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, BrokerError)]
    return [*(k for k in found if k is not BrokerError), ToolError, VerifyError, RegistrationError]


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_every_class_is_in_the_table(kind: type[BrokerError]) -> None:
    """No class falls through to the code that stands for none of them."""
    assert any(issubclass(kind, known) for known, _ in exits._CODES)
    assert 1 <= exit_code(made(kind)) <= 9


@pytest.mark.parametrize("name", CODES)
def test_each_class_has_its_code(name: str) -> None:
    """The table is as it is documented."""
    kind = next(kind for kind in kinds() if kind.__name__ == name)
    assert exit_code(made(kind)) == CODES[name]


def test_the_page_names_every_code() -> None:
    """What the module says of a code is there for each code in use."""
    said = {
        int(line.split()[0]) for line in (exits.__doc__ or "").splitlines() if line[:4] == "    "
    }
    assert said == {exits.DONE, *CODES.values()}
