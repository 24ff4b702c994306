"""
The official clients over a transport that is handed in.

Decided here: how a client is made so that every byte passes the transport that is given, and which
of its errors is which failure. Trying again is left to the client. Not decided here: what is asked.

It needs the extra ``agent``. Rules a maintainer keeps: this is the only module that names an
official client; a client is never made without the transport that records, so no proxy of the
environment is mounted beside it (``outbound`` goes through that proxy below the recorder); an error
that is ours passes as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from broker.agentloop.models import unanswered
from broker.agentloop.providers import ModelChoice
from broker.capabilities.credentials import Secret
from broker.errors import BrokerError, CapabilityError
from broker.records.failures import answered, failed, told
from broker.records.model import Failure

RETRIES: Final = 4
_KEYLESS: Final = "none"  # a client wants some text where a server wants no key


class OfficialClient:
    """
    One model behind its provider's official client; see ``official_client``.

    Args:
        choice: which model.
        create: the client's method, bound; it is given the body.
        errors: what the client raises.
        closes: ends its connections.
    """

    def __init__(
        self,
        choice: ModelChoice,
        create: Callable[..., Any],
        errors: tuple[type[Exception], ...],
        closes: Callable[[], None],
    ) -> None:
        self._choice = choice
        self._create = create
        self._errors = errors
        self.close = closes

    def events(self, body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """
        Send a request and yield the events of its answer.

        Raises:
            ModelError: the provider does not answer, and trying again did not help.
            BrokerError: what our own transport raises, such as ``StoreError``.
        """
        with self._told_apart(), self._create(**body, stream=True) as stream:
            for event in stream:
                yield event.to_dict()

    @contextmanager
    def _told_apart(self) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            ours = _ours(error)
            if ours is error:
                raise
            if ours is not None:
                raise ours from error
            raise unanswered(_failure(error), str(self._choice)) from error


def official_client(
    choice: ModelChoice, secret: Secret | None, transport: Any, *, retries: int = RETRIES
) -> OfficialClient:
    """
    Return the client of a model, over a transport of ``httpx2``.

    Args:
        choice: which model of which provider.
        secret: the provider's key.
        transport: what every request passes, such as ``recording_transport`` makes.
        retries: how often the client tries again what the provider had no room for.

    Raises:
        CapabilityError: the extra is not installed.
    """
    messages = choice.endpoint.api == "messages"
    try:
        import httpx2  # noqa: PLC0415  an extra, loaded by whoever asks a model

        if messages:
            import anthropic as library  # noqa: PLC0415
        else:
            import openai as library  # type: ignore[no-redef]  # noqa: PLC0415
    except ImportError as error:
        raise CapabilityError(
            "`broker agent` needs an extra: install `capability-broker[agent]`",
            code="capability.unavailable",
        ) from error
    found: Any = library
    client = (found.Anthropic if messages else found.OpenAI)(
        api_key=_KEYLESS if secret is None else secret.reveal(),
        base_url=choice.endpoint.url,
        max_retries=retries,
        http_client=found.DefaultHttpxClient(transport=transport),
    )
    # A stream that breaks, or is none, reaches the caller as the library's own error.
    errors = (httpx2.TransportError, httpx2.StreamError, httpx2.DecodingError, ValueError)
    failures = (found.AnthropicError if messages else found.OpenAIError, *errors)
    create: Callable[..., Any]
    if messages:
        create = client.messages.create
    elif choice.endpoint.api == "chat":
        create = client.chat.completions.create
    else:
        create = client.responses.create
    return OfficialClient(choice, create, failures, client.close)


def outbound(url: str, environ_proxies: Callable[[], Mapping[str, str]]) -> Any:
    """
    Return the real way out to an address, through the proxy that the environment names for it.

    Args:
        url: the provider's address.
        environ_proxies: returns the proxies by scheme, as ``urllib.request.getproxies`` does.
    """
    from urllib.parse import urlsplit  # noqa: PLC0415
    from urllib.request import proxy_bypass  # noqa: PLC0415

    import httpx2  # noqa: PLC0415  as above

    parts = urlsplit(url)
    proxies = environ_proxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if proxy and proxy_bypass(parts.hostname or ""):
        proxy = None
    return httpx2.HTTPTransport(proxy=proxy)


def _ours(error: BaseException | None) -> BrokerError | None:
    """Return the error of our own that a client has wrapped in its own, if it is one."""
    while error is not None:
        if isinstance(error, BrokerError):
            return error
        error = error.__cause__
    return None


def _failure(error: Exception) -> Failure:
    """Return why there is no answer, in the words of a record."""
    status = getattr(error, "status_code", None)
    response = getattr(error, "response", None)
    body = getattr(error, "body", None)
    if isinstance(status, int) and status >= 400 and response is not None:
        return answered(status, response.text)
    if body:  # a stream that says so in its midst
        return told(body.get("error", body) if isinstance(body, dict) else body)
    if isinstance(error, ValueError):
        return failed("provider", f"what came is no answer: {error}")
    return failed("network", f"{type(error).__name__}: {error.__cause__ or error}")
