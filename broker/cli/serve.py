"""
`broker serve`: the decision service.

Decided here: nothing but what was typed. What the service does is ``broker.service``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from broker.cli.typed import Scopes, Workspace, existing_folder
from broker.errors import InputError, LaunchError

EXAMPLES = """\
\b
Examples:
  broker serve --listen 127.0.0.1:8181 --keys keys --subjects subjects.toml
  broker serve --socket /run/user/1000/pdp --scope 'tools=@reads' --intent 'review'
  broker serve --listen 0.0.0.0:443 --keys keys --tls-cert pdp.pem --tls-key pdp.key

\b
It speaks the AuthZEN Authorization API 1.0: POST /access/v1/evaluation and /access/v1/evaluations,
and under /v1 what that has no words for: mint, attenuate, check, describe, result, end. All that
is described at /openapi.json; /healthz, /readyz and /metrics say how it is. See docs/serve.md.

\b
A line of the file of keys is `ROLE NAME KEY`; an evaluator asks for decisions, an operator is a
person and may also mint. `openssl rand -hex 32` prints a key. The file must have mode 0600.

\b
The log is JSON lines on stderr. SIGTERM ends the service: what is under way is answered, and every
receipt is sealed. Exit code: 0 when all were, 2 otherwise or when it could not begin.
"""


def serve(
    *,
    listen: Annotated[
        str | None,
        typer.Option("--listen", metavar="HOST:PORT", help="Answer over the network; port 0: any."),
    ] = None,
    socket: Annotated[
        str | None,
        typer.Option("--socket", metavar="PATH", help="Answer this user's processes there."),
    ] = None,
    keys: Annotated[
        str | None, typer.Option("--keys", metavar="FILE", help="Who may ask over the network.")
    ] = None,
    scope: Scopes = None,
    subjects: Annotated[
        str | None,
        typer.Option("--subjects", metavar="FILE", help="Whose tickets are kept; TOML."),
    ] = None,
    intent: Annotated[
        str | None,
        typer.Option("--intent", metavar="TEXT", help="What it is for; kept in the receipt."),
    ] = None,
    workspace: Workspace = None,
    tls_cert: Annotated[
        str | None, typer.Option("--tls-cert", metavar="FILE", help="Certificates, as PEM.")
    ] = None,
    tls_key: Annotated[
        str | None, typer.Option("--tls-key", metavar="FILE", help="Their key, as PEM.")
    ] = None,
    client_ca: Annotated[
        str | None,
        typer.Option(
            "--client-ca", metavar="FILE", help="Answer only clients with a certificate of these."
        ),
    ] = None,
    public_url: Annotated[
        str | None,
        typer.Option("--public-url", metavar="URL", help="The address that clients use."),
    ] = None,
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="TLS ends in front of this service.")
    ] = False,
    otlp: Annotated[
        str | None,
        typer.Option("--otlp", metavar="URL", help="Send a span of each request there."),
    ] = None,
    log_requests: Annotated[
        bool, typer.Option("--log-requests", help="Log each request, not only failed ones.")
    ] = False,
) -> int:
    """Answer over HTTP whether calls are allowed, and keep a receipt of every decision."""
    try:
        from broker.service.listening import Tls
        from broker.service.running import Wished, serve
    except ModuleNotFoundError as error:
        raise LaunchError(
            f"`{error.name}` is not installed: `pip install 'capability-broker[serve]'`"
        ) from None
    if (tls_cert is None) != (tls_key is None) or (client_ca is not None and tls_cert is None):
        raise InputError("TLS takes --tls-cert and --tls-key together, and --client-ca both")
    tls = None
    if tls_cert is not None and tls_key is not None:
        tls = Tls(Path(tls_cert), Path(tls_key), None if client_ca is None else Path(client_ca))
    return serve(
        Wished(
            None if listen is None else address(listen),
            None if socket is None else Path(socket).absolute(),
            None if keys is None else Path(keys),
            tuple(scope or ()),
            None if subjects is None else Path(subjects),
            intent,
            Path(existing_folder(workspace)),
            tls,
            None if public_url is None else public_url.rstrip("/"),
            behind_proxy,
            log_requests,
            otlp,
        )
    )


def address(typed: str) -> tuple[str, int]:
    """
    Return host and port of ``HOST:PORT``.

    >>> address("127.0.0.1:8181"), address("[::1]:0")
    (('127.0.0.1', 8181), ('::1', 0))

    Raises:
        InputError: it is not one.
    """
    host, colon, port = typed.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    digits = port.isascii() and port.isdigit() and len(port) <= 5
    if not host or not colon or not digits or int(port) > 65_535:
        raise InputError(f"`{typed}` is not HOST:PORT, such as 127.0.0.1:8181")
    return host, int(port)
