"""
What a program needs of the machine to run at all, and what it must never see.

A ticket's patterns speak of the workspace; that a program may run implies that it finds its
interpreter, its libraries and a place for temporary files. So these are readable under every
ticket, and nothing else outside of the workspace is, where a ticket limits reading (ADR-0031).

Decided here: which places those are. Not decided here: how they are shown or hidden
(``bubblewrap``, ``landlock``). Lists are data; a place that is not there counts for nothing.

Rules a maintainer keeps: nothing of a person's stands among what is readable; a socket by which a
program outside can be told to act is hidden under every ticket, even one that limits nothing.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

# Programs, libraries, and what describes the machine. The rest of /etc is left out: it holds
# shadow files, host keys and other people's credentials.
SYSTEM: Final = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix", "/gnu"),
    *("/home/linuxbrew", "/var/lib/snapd/snap", "/snap", "/sys/devices/system/cpu"),
    *("/sys/fs/cgroup/cgroup.controllers", "/run/systemd/resolve", "/run/current-system"),
)
_ETC: Final = (
    *(
        "alternatives",
        "bash.bashrc",
        "bash_completion.d",
        "bindresvport.blacklist",
        "ca-certificates",
    ),
    *("ca-certificates.conf", "crypto-policies", "debian_version", "default/locale", "emacs"),
    *("environment", "ethertypes", "fonts", "gai.conf", "gitattributes", "gitconfig", "group"),
    *("host.conf", "hostname", "hosts", "inputrc", "issue", "java-11-openjdk", "java-17-openjdk"),
    *(
        "java-21-openjdk",
        "ld.so.cache",
        "ld.so.conf",
        "ld.so.conf.d",
        "locale.alias",
        "locale.conf",
    ),
    *("localtime", "login.defs", "lsb-release", "machine-id", "magic", "mailcap", "mime.types"),
    *("nanorc", "nsswitch.conf", "openssl", "os-release", "pam.d/common-session", "passwd", "perl"),
    *("pki/ca-trust", "pki/tls/cert.pem", "pki/tls/certs", "pki/tls/openssl.cnf", "profile"),
    *("profile.d", "protocols", "python3", "redhat-release", "resolv.conf", "rpc", "services"),
    *("shells", "skel", "ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf", "static", "terminfo"),
    *("timezone", "vim", "vimrc", "xattr.conf", "xdg", "zsh", "zshrc"),
)
# For walls that show the machine's own devices: neither other terminals nor shared memory.
DEVICES: Final = (
    *("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"),
)

# Below the person's home: where programs are installed for one user, and how git is set up.
_TOOLS: Final = (
    *(".pyenv", ".rbenv", ".nodenv", ".nvm", ".volta", ".asdf", ".sdkman", ".rustup", ".bun"),
    *(".local/share/mise", ".local/share/uv", ".local/share/fnm", ".local/lib", ".local/pipx"),
    *(".local/share/pipx", ".local/share/pnpm", ".deno/bin", ".gitconfig", ".config/git/config"),
    *(".config/git/ignore", ".config/git/attributes"),
)

# Settings of the kernel, by which root would act for the whole machine. They are read-only under
# every ticket: being root here is no reason to be root there.
KERNEL: Final = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/sys")

# Below the person's home. Hidden under every ticket that walls are built for.
_CREDENTIALS: Final = (
    *(".ssh", ".aws", ".azure", ".gnupg", ".kube", ".docker", ".netrc", "_netrc", ".pypirc"),
    *(".npmrc", ".yarnrc.yml", ".git-credentials", ".vault-token", ".boto", ".s3cfg", ".pgpass"),
    *(".my.cnf", ".rclone.conf", ".password-store", ".terraform.d", ".terraformrc", ".m2"),
    *(".gradle/gradle.properties", ".cargo/credentials", ".cargo/credentials.toml"),
    *(".gem/credentials", ".bash_history", ".zsh_history", ".python_history", ".node_repl_history"),
    *(".psql_history", ".mozilla", ".thunderbird", ".1password", ".bitwarden", ".electrum"),
    *(".bitcoin", ".ethereum", ".config/gcloud", ".config/gh", ".config/hub", ".config/glab-cli"),
    *(".config/git/credentials", ".config/op", ".config/rclone", ".config/containers"),
    *(
        ".config/google-chrome",
        ".config/chromium",
        ".config/BraveSoftware",
        ".config/microsoft-edge",
    ),
    *(".config/Bitwarden", ".config/pip", ".config/composer", ".config/doctl", ".config/heroku"),
    *(".config/netlify", ".config/vercel", ".local/share/keyrings", ".local/share/kwalletd"),
    *(
        ".config/systemd",
        ".config/autostart",
        "Library/Keychains",
        "Library/Application Support/Google",
    ),
    *(".claude/.credentials.json", ".codex/auth.json", ".gemini/oauth_creds.json"),
    *(".local/share/opencode/auth.json", ".pi/agent/auth.json", ".qwen/oauth_creds.json"),
)
_SECRETS: Final = (
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers"),
    *("/etc/sudoers.d", "/etc/ssh", "/etc/ssl/private", "/etc/krb5.keytab", "/etc/wireguard"),
    *("/etc/NetworkManager/system-connections", "/etc/letsencrypt", "/etc/docker", "/root/.ssh"),
)
# Where services listen. Each of them would act outside of the walls for whoever asks.
SOCKETS: Final = (
    *("/run", "/var/run", "/var/lib/lxd", "/var/snap/lxd", "/var/lib/incus", "/var/lib/docker"),
)
# What tells a program where such a service listens.
VARIABLES: Final = frozenset(
    (
        *("SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS"),
        *("DBUS_SYSTEM_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DOCKER_HOST"),
        *("CONTAINER_HOST", "PODMAN_SOCK", "XDG_RUNTIME_DIR", "TMUX", "TMUX_PANE", "STY"),
        *(
            "PULSE_SERVER",
            "VSCODE_IPC_HOOK_CLI",
            "VSCODE_GIT_IPC_HANDLE",
            "VSCODE_GIT_ASKPASS_MAIN",
        ),
        *("GIT_ASKPASS", "SSH_ASKPASS", "NVIM", "NVIM_LISTEN_ADDRESS", "KITTY_LISTEN_ON"),
        *("I3SOCK", "SWAYSOCK", "SUDO_ASKPASS", "LD_PRELOAD", "LD_AUDIT"),
    )
)


def readable(program: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """
    Return what is readable under every ticket: the system, the tools, and a program's own files.

    Args:
        program: the file that is started.
        environ: its environment; the folders of its ``PATH`` hold the person's tools.

    >>> "/usr" in readable("/usr/bin/env", {"PATH": "/usr/bin"})
    True
    """
    found = [*SYSTEM, *(f"/etc/{name}" for name in _ETC)]
    home = os.path.abspath(environ.get("HOME") or "/")
    for folder in environ.get("PATH", "").split(os.pathsep):
        if os.path.isabs(folder) and _narrow(folder, home) and not _in_system(folder):
            found += [folder, *_led_to(folder)]
    found += [os.path.join(home, name) for name in _TOOLS]
    found += [sys.prefix, sys.base_prefix, str(Path(__file__).resolve().parents[1])]
    found += _package(program)
    node = shutil.which("node", path=environ.get("PATH"))
    if node is not None:
        found += [str(Path(os.path.realpath(node)).parents[1])]
    return tuple(each for each in dict.fromkeys(found) if _narrow(each, home))


def _narrow(place: str, home: str) -> bool:
    """Whether a place is neither the person's home nor above it."""
    real = os.path.realpath(place)
    return real != "/" and not f"{os.path.realpath(home)}/".startswith(f"{real}/")


def _in_system(place: str) -> bool:
    return f"{os.path.realpath(place)}/".startswith(tuple(f"{each}/" for each in SYSTEM))


def _led_to(folder: str) -> Iterable[str]:
    """Yield the files that links in a folder of programs lead to, where they lie elsewhere."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if entry.is_symlink():
            yield from _package(entry.path, alone=True)


def _package(program: str, *, alone: bool = False) -> list[str]:
    """Return the files that belong to a program: its package's tree, or itself and its link."""
    real = os.path.realpath(program)
    parts = Path(real).parts
    if "node_modules" in parts:
        return [program, str(Path(*parts[: parts.index("node_modules") + 1]))]
    if _in_system(real):
        return []
    return [real] if alone else [program, real]


def hidden(environ: Mapping[str, str], own: Sequence[str]) -> tuple[str, ...]:
    """
    Return what is hidden under every ticket that walls are built for, of what there is.

    Args:
        environ: the environment; its ``HOME`` holds the person's credentials.
        own: what is the broker's own.
    """
    home = environ.get("HOME") or "/"
    found = [*own, *_SECRETS, *(os.path.join(home, name) for name in _CREDENTIALS)]
    found += [
        place for name in ("SSH_AUTH_SOCK", "XDG_RUNTIME_DIR") if (place := environ.get(name))
    ]
    return tuple(each for each in dict.fromkeys(found) if os.path.lexists(each))


def cleaned(environ: Mapping[str, str]) -> dict[str, str]:
    """
    Return an environment without what leads to services outside of the walls.

    >>> cleaned({"HOME": "/h", "SSH_AUTH_SOCK": "/tmp/a"})
    {'HOME': '/h'}
    """
    return {name: value for name, value in environ.items() if name not in VARIABLES}
