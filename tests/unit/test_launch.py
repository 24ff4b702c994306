"""A run from its beginning to its end."""

from __future__ import annotations

import io
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from broker.agents.adapter import Launch, Plain, Prepared
from broker.errors import ConfigError, InputError, LaunchError, ScopeError, UnverifiableError
from broker.home import Home
from broker.launch import TURN_S, run
from broker.sessions.ground import Outside, key_path
from tests.hookkit import within
from tests.runkit import asker, finished, start
from tests.sessionkit import Bench, bench

__all__ = ["bench"]

pytestmark = pytest.mark.alone


def launch(bench: Bench, *command: str, **more: object) -> tuple[int, str]:
    """Run a command in this process, and return exit code and the broker's own lines."""
    lines = io.StringIO()
    more.setdefault("record", False)
    code = run(
        command,
        texts=("tools=Read,Edit", "paths=src/**"),
        workspace=bench.workspace,
        home=bench.home,
        stderr=lines,
        **more,  # type: ignore[arg-type]  # tests pass what they like
    )
    return code, lines.getvalue()


def only_session(bench: Bench) -> str:
    """Return the name of the one session."""
    (info,) = bench.receipts().sessions()
    return info.sid


def kinds(bench: Bench) -> list[str]:
    """Return the kinds of the one receipt's entries."""
    return [kind for kind, _ in bench.entries(only_session(bench))]


def test_an_agent_runs_under_its_ticket(bench: Bench) -> None:
    """What it asks is decided and recorded, its exit code is the run's, and one line sums up."""
    code, out, err = finished(
        start(asker(2), home=bench.home.state.parent, workspace=bench.workspace, intent="do it")
    )
    assert code == 0, err
    assert out.splitlines() == ["r0 allow", "s0 tools", "r1 allow", "s1 tools"]
    sid = only_session(bench)
    summary = err.splitlines()[-1]
    assert summary.startswith("broker: 2 allowed, 2 refused (tools 2); receipt ")
    assert str(bench.receipts().path(sid)) in summary
    assert f"broker receipt {sid[:8]} --verify" in summary
    assert kinds(bench) == ["open", "intent", "ticket", *["decision"] * 4, "note", "seal"]
    assert bench.verdict(sid).state == "SEALED"


def test_the_streams_are_the_agents(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    """What the agent prints is not touched, and nothing is mixed into it."""
    code, said = launch(bench, "sh", "-c", "echo out; echo err >&2; exit 3")
    assert code == 3
    assert capfd.readouterr() == ("out\n", "err\n")
    assert all(line.startswith("broker: ") for line in said.splitlines())


def test_the_environment_names_the_session_and_no_key(
    bench: Bench, capfd: pytest.CaptureFixture[str]
) -> None:
    """The agent finds its socket and session, no ticket of somebody else's and no secret."""
    given = {**os.environ, "BROKER_TICKET": "old", "MARK": "kept"}
    assert launch(bench, "env", environ=given)[0] == 0
    found = dict(line.split("=", 1) for line in capfd.readouterr().out.splitlines() if "=" in line)
    sid = only_session(bench)
    assert found["BROKER_SESSION"] == sid
    assert found["MARK"] == "kept"
    assert "BROKER_TICKET" not in found
    assert bench.key().secret.hex() not in repr(found)
    assert not os.path.exists(found["BROKER_SOCKET"])


def test_the_password_of_shared_counts_is_not_handed_on(
    bench: Bench, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The variable that the configuration names for it is not in the agent's environment."""
    bench.home.config.mkdir(parents=True, mode=0o700)
    file = bench.home.config / "broker.toml"
    url = f"sqlite://{tmp_path}/counts/file"
    file.write_text(f'[budget]\nurl = "{url}"\npassword = "COUNTS"\n', encoding="utf-8")
    file.chmod(0o600)
    environ = {**os.environ, "COUNTS": "correct horse", "MARK": "kept"}
    assert launch(bench, "sh", "-c", "echo $MARK ${COUNTS-gone}", environ=environ)[0] == 0
    assert capfd.readouterr().out == "kept gone\n"


def test_the_agent_starts_in_the_workspace(
    bench: Bench, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From outside it starts in the workspace, from a folder inside it starts there."""
    monkeypatch.chdir("/")
    launch(bench, "pwd")
    monkeypatch.chdir(bench.workspace / "src")
    launch(bench, "pwd")
    assert capfd.readouterr().out.split() == [str(bench.workspace), str(bench.workspace / "src")]


def test_a_decision_waits_for_no_other_thread(bench: Bench) -> None:
    """While calls are answered threads take short turns, and afterwards those of before."""
    before = sys.getswitchinterval()
    seen: list[float] = []
    outside = Outside()
    outside.bus.subscribe(lambda event: seen.append(sys.getswitchinterval()))
    launch(bench, *asker(1), outside=outside)
    assert seen[0] == seen[-1] == before
    assert min(seen) == pytest.approx(TURN_S)
    assert sys.getswitchinterval() == before


def test_a_plain_command_is_not_called_held(bench: Bench) -> None:
    """Without a hook the person is told that the agent is held only to what it asks."""
    assert "has no hook" in launch(bench, "true")[1]


def test_nothing_is_started_when_something_is_wrong(bench: Bench) -> None:
    """A slip in the scope, an unknown program or no command at all starts nothing."""
    mark = bench.workspace / "mark"
    with pytest.raises(ScopeError):
        run(["touch", str(mark)], texts=["path=x"], home=bench.home, workspace=bench.workspace)
    for command in ([], ["no-such-program-x"], [str(bench.workspace)]):
        with pytest.raises(LaunchError):
            run(command, home=bench.home, workspace=bench.workspace)
    assert not mark.exists()
    assert not bench.home.state.exists()


def test_a_run_inside_a_run_mints_nothing(bench: Bench) -> None:
    """A model that starts the broker again does not get a wider ticket."""
    for name in ("BROKER_SOCKET", "BROKER_SESSION"):
        with pytest.raises(LaunchError, match="inside a run"):
            launch(bench, "true", environ={**os.environ, name: "x"})


def test_an_agent_that_cannot_be_held_is_not_started(bench: Bench) -> None:
    """What the adapter refuses is refused before a session begins."""

    class Unholdable(Plain):
        name = "unholdable"

        def check(self, command: object, environ: object) -> None:
            raise LaunchError("no")

    with pytest.raises(LaunchError):
        launch(bench, "true", adapter=Unholdable())
    assert not bench.home.state.exists()


def test_an_agent_that_slips_away_is_stopped(bench: Bench) -> None:
    """A run that is not held any more ends, and the receipt says why."""

    class Slippery(Plain):
        name = "slippery"

        def escaped(self) -> str | None:
            return "the hook is gone"

    code, said = launch(bench, "sleep", "30", adapter=Slippery())
    assert code == 143
    assert "the hook is gone" in said
    sid = only_session(bench)
    assert bench.verdict(sid).state == "INTERRUPTED"
    notes = [data["text"] for kind, data in bench.entries(sid) if kind == "note"]
    assert notes == [
        "the agent was stopped: the hook is gone",
        "the agent ended with exit code 143",
    ]


@pytest.mark.parametrize(("command", "code"), [("true", 0), ("false", 1)])
def test_what_repeats_the_persons_keys_goes_with_the_run(
    bench: Bench, command: str, code: int
) -> None:
    """The folder of a session stays beside its receipt, however the run ended."""
    made: list[Path] = []

    class Repeating(Plain):
        """Writes a file with what the person configured."""

        def prepare(self, launch: Launch) -> Prepared:
            made.append(launch.folder / "servers.json")
            made[0].write_text("{}")
            return Prepared(launch.command, fleeting=(made[0], launch.folder / "nothing"))

    assert launch(bench, command, adapter=Repeating())[0] == code
    assert not made[0].exists()
    assert made[0].parent.exists()


def test_the_prompt_on_the_command_line_is_the_intent(bench: Bench) -> None:
    """Where the adapter finds a typed prompt it opens the intent, unless one was given."""

    class Prompted(Plain):
        name = "prompted"

        def prompt(self, command: object) -> str | None:
            return "from the prompt"

    launch(bench, "true", adapter=Prompted())
    (data,) = (d for k, d in bench.entries(only_session(bench)) if k == "intent")
    assert data["line"] == "from the prompt"


def test_turned_off_it_says_so_loudly(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    """With the broker turned off there is no veto and no receipt, and nobody can miss that."""
    bench.home.config.mkdir(parents=True)
    config = bench.home.config / "broker.toml"
    config.write_text("[broker]\nenabled = false\n")
    config.chmod(0o600)
    code, said = launch(bench, "sh", "-c", "echo ${BROKER_SOCKET-none}; exit 5")
    assert code == 5
    assert capfd.readouterr().out == "none\n"
    assert "NOT ENABLED" in said
    assert "nothing is refused and nothing is recorded" in said
    assert not bench.home.state.exists()


def test_a_configuration_that_is_not_understood_starts_nothing(bench: Bench) -> None:
    """A slip in the configuration is an error, never *enabled* or *not enabled* by guess."""
    bench.home.config.mkdir(parents=True)
    (bench.home.config / "broker.toml").write_text("[broker]\nenabled = off\n")
    with pytest.raises(ConfigError):
        launch(bench, "true")


def test_a_workspaces_configuration_is_not_read(bench: Bench) -> None:
    """A workspace cannot turn the broker off."""
    for name in ("broker.toml", ".broker/broker.toml"):
        (bench.workspace / name).parent.mkdir(exist_ok=True)
        (bench.workspace / name).write_text("[broker]\nenabled = false\n")
    assert "NOT ENABLED" not in launch(bench, "true")[1]
    assert kinds(bench)[-1] == "seal"


def test_the_socket_lies_in_a_private_folder(
    bench: Bench, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Where the user's own runtime folder is too long or not private, one is made for the run."""
    show = ("sh", "-c", 'echo "$BROKER_SOCKET"; ls -ld "$(dirname "$BROKER_SOCKET")" | cut -c1-10')
    launch(bench, *show)
    long = tmp_path / ("x" * 90)
    for runtime in (long, tmp_path / "open"):
        runtime.mkdir(mode=0o755)
        home = bench.home
        bench.home = Home(home.state, home.data, home.config, runtime)
        launch(bench, *show)
    lines = capfd.readouterr().out.split()
    sockets, modes = lines[::2], lines[1::2]
    assert modes == ["drwx------"] * 3
    assert sockets[0].startswith(str(tmp_path / "home" / "run"))
    for socket in sockets[1:]:
        assert "broker-" in socket
        assert not Path(socket).parent.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
def test_a_signal_seals_the_receipt(bench: Bench, number: signal.Signals, code: int) -> None:
    """Asked to end, the run ends its agent and seals the receipt as interrupted."""
    run_ = start(["sleep", "60"], home=bench.home.state.parent, workspace=bench.workspace)
    assert within(20, (bench.home.data / "keys/receipt.key").exists)
    assert within(20, lambda: bool(list(bench.home.runtime.glob("*"))))
    assert within(20, lambda: child_of(run_.pid) != 0)
    os.kill(run_.pid, number)
    found, _, err = finished(run_)
    assert found == code, err
    verdict = bench.verdict(only_session(bench))
    assert (verdict.state, verdict.reason) == ("INTERRUPTED", "interrupted")


def child_of(pid: int) -> int:
    """Return a child of a process that has become another program, or 0."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return next(
            (
                int(c)
                for c in children
                if os.readlink(f"/proc/{c}/exe") != os.readlink(f"/proc/{pid}/exe")
            ),
            0,
        )
    except OSError:
        return 0


def test_a_crashed_agent_leaves_a_whole_receipt(bench: Bench) -> None:
    """An agent that is killed ends the run with its code, and the receipt is complete."""
    assert launch(bench, "sh", "-c", "kill -9 $$")[0] == 137
    sid = only_session(bench)
    assert bench.verdict(sid).state == "SEALED"
    (note,) = (d for k, d in bench.entries(sid) if k == "note")
    assert note["text"] == "the agent ended with exit code 137"


def test_an_abandoned_session_is_sealed_at_the_next_start(bench: Bench) -> None:
    """What a killed broker left open is sealed by the next run, socket and all."""
    from tests.sessionkit import drop

    session = bench.open()
    drop(session)
    bench.home.runtime.mkdir()
    (bench.home.runtime / session.sid).write_text("")
    launch(bench, "true")
    assert bench.verdict(session.sid).reason == "abandoned"
    assert list(bench.home.runtime.iterdir()) == []


def test_a_terminal_stays_the_agents(bench: Bench) -> None:
    """Started in a terminal, the agent has the terminal, and its size and keys."""
    import pty

    pid, master = pty.fork()
    if pid == 0:
        code, _ = launch(
            bench, "sh", "-c", "test -t 0 && test -t 1 && echo it-is; read x; echo got-$x"
        )
        os._exit(code)
    os.write(master, b"key\n")
    text = b""
    try:
        while part := os.read(master, 1_000):
            text += part
    except OSError:
        pass  # the other end is closed
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert b"it-is" in text
    assert b"got-key" in text
    os.close(master)


LIAR = """
import os, socket, sys, time
path = os.environ["BROKER_SOCKET"]
os.unlink(path)
if sys.argv[1] == "replace":
    socket.socket(socket.AF_UNIX).bind(path)
time.sleep(60)
"""


@pytest.mark.parametrize("how", ["remove", "replace"])
def test_an_agent_that_puts_another_socket_in_place_is_stopped(bench: Bench, how: str) -> None:
    """Nobody else answers in the session's place: the run ends, and the receipt says why."""
    code, said = launch(bench, sys.executable, "-c", LIAR, how)
    assert code == 143
    assert "was removed, replaced" in said
    assert bench.verdict(only_session(bench)).state == "INTERRUPTED"


def test_a_lost_key_is_told(bench: Bench) -> None:
    """Where there are receipts of a key that is gone, no other takes its place by itself."""
    assert "warning" not in launch(bench, "true")[1]
    key_path(bench.home).unlink()
    with pytest.raises(UnverifiableError, match="is gone"):
        launch(bench, "true")
    assert not key_path(bench.home).exists()


@pytest.mark.parametrize(
    ("name", "helps"), [("folder", "is a folder"), ("file", "chmod +x"), ("none", "check its name")]
)
def test_what_is_no_program_is_explained(bench: Bench, name: str, helps: str) -> None:
    """A folder, a file without its bit, and nothing at all each say what is wrong."""
    (bench.workspace / "folder").mkdir()
    (bench.workspace / "file").write_text("true\n")
    with pytest.raises(LaunchError, match=re.escape(helps)):
        launch(bench, str(bench.workspace / name))


def test_a_receipt_that_ends_early_is_named(bench: Bench) -> None:
    """When it cannot be sealed, the last line still says where it lies and how to check it."""
    gone = "import os; os.unlink(os.environ['BROKER_HEAD'] + os.environ['BROKER_SESSION'])"
    environ = {**os.environ, "BROKER_HEAD": f"{bench.home.heads}/"}
    said = launch(bench, sys.executable, "-c", gone, environ=environ)[1].splitlines()[-1]
    assert "ends early" in said
    assert "was removed" in said
    assert "--verify" in said


def test_what_the_broker_says_is_escaped(bench: Bench) -> None:
    """A name that would move the cursor is spelled out."""
    agent = bench.workspace / "a\x1b[2J"
    agent.symlink_to("/bin/true")
    said = launch(bench, str(agent))[1]
    assert "\x1b" not in said
    assert "\\u001b[2J" in said


@pytest.mark.parametrize("which", ["state", "sessions", "heads", "config", "catalogs", "policies"])
def test_a_folder_that_others_can_write_starts_nothing(bench: Bench, which: str) -> None:
    """Where somebody else could put a receipt, a head or a policy, no session begins."""
    home = bench.home
    own = {"catalogs": home.config / "catalogs", "policies": home.config / "policies"}
    folder = own.get(which) or getattr(home, which)
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    with pytest.raises(UnverifiableError, match="chmod 700"):
        launch(bench, "true")


def test_an_open_umask_leaves_no_folder_open(bench: Bench) -> None:
    """Every folder that a run makes is for its owner alone, whatever the umask."""
    before = os.umask(0)
    try:
        launch(bench, "true")
    finally:
        os.umask(before)
    root = bench.home.state.parent
    open_ = [p for p in (root, *root.rglob("*")) if p.stat().st_mode & 0o077 and not p.is_symlink()]
    assert open_ == []


def test_receipts_are_mirrored_beside_the_run(bench: Bench, tmp_path: Path) -> None:
    """What the run signed lies elsewhere when it is over; a folder of the agent's is refused."""
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    bench.home.config.mkdir(parents=True, mode=0o700)
    settings = bench.home.config / "broker.toml"

    def configure(url: str) -> None:
        settings.write_text(f'[receipts]\nmirror = "{url}"\n', encoding="utf-8")
        settings.chmod(0o600)

    configure(f"file://{tmp_path}/store")
    code, said = launch(bench, *asker(1))
    assert code == 0
    assert "not mirrored" not in said
    sid = only_session(bench)
    (folder,) = tmp_path.glob(f"store/*/sessions/{sid}")
    lines = b"".join(path.read_bytes() for path in sorted(folder.glob("*.jsonl")))
    assert lines == bench.receipts().path(sid).read_bytes()
    for url in (f"file://{bench.workspace}/store", "nope://x/y"):
        configure(url)
        with pytest.raises(InputError):
            launch(bench, *asker(1))
    assert only_session(bench) == sid


def test_an_opinion_is_asked_in_a_run(bench: Bench, tmp_path: Path) -> None:
    """A policy that was typed refuses what the scope allows; one in the workspace is refused."""
    pytest.importorskip("cedarpy", reason="Cedar is not installed")
    policy = tmp_path / "house.cedar"
    policy.write_text('forbid (principal, action == Action::"Read", resource);', encoding="utf-8")
    policy.chmod(0o600)
    code, said = launch(bench, *asker(1), opinions=[str(policy)])
    assert code == 0
    assert "0 allowed, 2 refused (opinion 1, tools 1)" in said
    inside = bench.workspace / "house.cedar"
    inside.write_bytes(policy.read_bytes())
    inside.chmod(0o600)
    with pytest.raises(ConfigError, match="workspace"):
        launch(bench, *asker(1), opinions=[str(inside)])
