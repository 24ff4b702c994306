"""The stores of real servers: what they say, and what they need of a server."""

from __future__ import annotations

import datetime
import itertools
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import HealthCheck, given, settings

from broker.budgets.opening import open_store
from broker.budgets.setting import BudgetSetting
from broker.budgets.shared import SharedBudget
from broker.budgets.store import UNREACHABLE, Revoked, Store
from broker.errors import ConfigError, StoreError
from tests.budgetkit import LIMITS, STORIES, play, up_to
from tests.serverkit import Server, free_port, postgres_server, redis_server

pytestmark = pytest.mark.server
SERVERS = {"redis": redis_server, "postgres": postgres_server}
NAMES = itertools.count()


@pytest.fixture(params=sorted(SERVERS), scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A running server of each kind."""
    start: Callable[[], AbstractContextManager[Server]] = SERVERS[request.param]
    with start() as running:
        yield running


def store_of(server: Server, try_s: float = 1.0) -> Store:
    """Return a store on a server."""
    return open_store(BudgetSetting(server.url), {}, try_s=try_s)


def fresh() -> str:
    """Return a name that no other test has."""
    return f"{os.getpid()}-{next(NAMES)}-"


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(LIMITS, STORIES)
def test_a_server_counts_what_was_recorded(
    server: Server, limits: dict[str, int | None], story: list[tuple]
) -> None:
    """A story comes to what paper says on each server; so its ruling is that of `ruling.py`."""
    store = store_of(server)
    try:
        assert play(store, limits, story, fresh()).wrong == []
    finally:
        store.close()


def test_a_revocation_holds_for_everybody_at_once(server: Server) -> None:
    """Revoked by one, a ticket and what is below it stop for another; what is above goes on."""
    tree, child = fresh(), fresh()
    mine, other = store_of(server), store_of(server)
    budget = SharedBudget(other, fresh())
    budget.begin(tree)
    assert budget.settle((tree, child), 1, up_to(None, None), limits=(None, None)).allowed
    assert mine.revoke(Revoked(child, "enough", 7))
    assert not mine.revoke(Revoked(child, "again", 8))
    refusal = budget.settle((tree, child, fresh()), 1, up_to(None, None, None), limits=(None,) * 3)
    assert refusal.refusal is not None
    assert (refusal.refusal.caveat, refusal.refusal.value) == ("revoked", child)
    assert "enough" in refusal.refusal.reason
    assert budget.settle((tree,), 1, up_to(None), limits=(None,)).allowed
    assert other.revoked((tree, child)) == Revoked(child, "enough", 7)


def test_a_tree_is_begun_once(server: Server) -> None:
    """Another holder cannot begin a tree again and so win its calls back."""
    tree, store = fresh(), store_of(server)
    assert store.begin(tree, "me")
    assert store.begin(tree, "me")
    assert not store.begin(tree, "you")
    with pytest.raises(StoreError, match="counts calls of ticket"):
        SharedBudget(store, fresh()).begin(tree)


def test_a_server_that_hangs_refuses_in_time(server: Server) -> None:
    """A server that is there and answers nothing refuses in time, and then goes on."""
    budget = SharedBudget(store_of(server), fresh())
    tree = fresh()
    budget.begin(tree)
    server.stop()
    began = time.monotonic()
    try:
        decision = budget.settle((tree,), 1, up_to(5), limits=(5,))
        took = time.monotonic() - began
    finally:
        server.go_on()
    assert decision.refusal is not None
    assert decision.refusal.caveat == "session"
    assert took < 4.0
    assert budget.settle((tree,), 1, up_to(5), limits=(5,)).allowed
    assert budget.spent((tree,)) == (1,)


def test_a_server_that_lost_its_counts_allows_nothing(server: Server) -> None:
    """Where a holder's own calls are not there any more, the whole tree stops, for all."""
    store, tree = store_of(server), fresh()
    budget, other = SharedBudget(store, fresh()), SharedBudget(store, fresh())
    budget.begin(tree)
    joined = SharedBudget(store, fresh(), trees=(tree,))
    assert budget.settle((tree,), 1, up_to(5), limits=(5,)).allowed
    with pytest.raises(StoreError) as raised:  # as after a restart from an older copy
        SharedBudget(store, fresh(), trees=(tree,), at_least=7)
    assert raised.value.code == "store.lost"
    for each in (budget, joined):
        refusal = each.settle((tree,), 1, up_to(5), limits=(5,)).refusal
        assert refusal is not None
        assert refusal.caveat == "session"
        assert "are not there any more" in refusal.reason or "counts nothing" in refusal.reason
    other.close()


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        (("--appendonly", "no"), "appendonly yes"),
        (("--appendfsync", "everysec"), "appendfsync always"),
        (("--maxmemory-policy", "allkeys-lru"), "maxmemory-policy noeviction"),
    ],
)
def test_a_server_that_may_forget_is_not_trusted(setting: tuple[str, str], named: str) -> None:
    """A server that answers before it is durable, or drops keys, is refused with what to set."""
    with redis_server(*setting) as running:
        with pytest.raises(ConfigError, match=named):
            store_of(running)
        open_store(BudgetSetting(running.url, vouched=True), {}).close()


def test_a_password_is_taken_from_the_environment() -> None:
    """A server with a password is reached by the variable's, and not without it or by another."""
    with redis_server("--requirepass", "correct horse") as running:
        setting = BudgetSetting(running.url, password="COUNTS")
        open_store(setting, {"COUNTS": "correct horse"}).close()
        for given in ({"COUNTS": "wrong"}, {}):
            with pytest.raises((StoreError, ConfigError)) as raised:
                open_store(setting, given)
            assert "horse" not in str(raised.value)


def test_a_server_that_is_gone_is_named(server: Server) -> None:
    """An address where nothing listens is an error that another try may mend."""
    setting = BudgetSetting(server.url.replace(str(server.port), "1"))
    with pytest.raises(StoreError) as raised:
        open_store(setting, {})
    assert raised.value.code == UNREACHABLE


def test_a_server_with_an_older_copy_loses_the_tree(tmp_path: Path) -> None:
    """Restored from a copy that lacks calls, it allows nothing, also to one who lacks none."""
    with redis_server(within=tmp_path) as running:
        (folder,) = tmp_path.iterdir()
        budget = SharedBudget(store_of(running), "h")
        budget.begin("r")
        other = SharedBudget(store_of(running), "other", trees=("r",))
        assert other.settle(("r",), 1, up_to(9), limits=(9,)).allowed
        shutil.copytree(folder, tmp_path / "copy")
        assert budget.settle(("r",), 1, up_to(9), limits=(9,)).allowed
        running.kill()
        shutil.rmtree(folder)
        (tmp_path / "copy").rename(folder)
        running.start()
        assert store_of(running).counts(("r",)) == (1,)
        for each in (budget, other, budget):
            refusal = each.settle(("r",), 1, up_to(9), limits=(9,)).refusal
            assert refusal is not None
            assert "has lost what was counted" in refusal.reason


def test_a_server_is_reached_by_tls_and_held_to_its_authority(tmp_path: Path) -> None:
    """With the authority's file it is; by another authority, or none, it is not believed."""
    certificate, key = certified(tmp_path, "right")
    wrong, _ = certified(tmp_path, "wrong")
    port = free_port()
    tls = ("--tls-port", str(port), "--tls-auth-clients", "no")
    with redis_server(*tls, "--tls-cert-file", str(certificate), "--tls-key-file", str(key)):
        setting = BudgetSetting(f"rediss://localhost:{port}/0", authorities=certificate)
        store = open_store(setting, {})
        assert store.begin("r", "h")
        store.close()
        for authorities in (wrong, None):
            with pytest.raises(StoreError, match="cannot be asked"):
                open_store(replace(setting, authorities=authorities), {})
        with pytest.raises(StoreError, match="cannot be asked"):  # another name than it vouches for
            open_store(replace(setting, url=f"rediss://127.0.0.1:{port}/0"), {})


def certified(folder: Path, name: str) -> tuple[Path, Path]:
    """Return the files of a certificate for `localhost` that vouches for itself, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = folder / f"{name}.pem", folder / f"{name}.key"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files
