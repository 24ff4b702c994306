"""
A token of a time-stamping authority over a checkpoint (RFC 3161).

Decided here: what is asked, and when a token counts: granted, signed under one of our roots,
over the SHA-256 of this very note, and with our nonce when it was fresh. Not decided here: which
authority is believed.

The token bounds a checkpoint from above: it existed at that time. It cannot be taken back, and
it does not say whether there are others.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker.anchors.anchor import AnchorError, Attested, Consistency
from broker.anchors.web import post
from broker.errors import Break, ConfigError, UnverifiableError

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

QUERY = "application/timestamp-query"
REPLY = "application/timestamp-reply"
_MISSING = "RFC 3161 needs another package: pip install 'capability-broker[anchors]'"


@dataclass(frozen=True, slots=True)
class Authority:
    """
    A time-stamping authority.

    Args:
        name: what its owner calls it.
        url: where requests are sent.
        roots: a PEM file with the certificates that are believed; intermediates may be in it.
    """

    name: str
    url: str
    roots: Path
    every_origin: bool = True

    def submit(self, note: bytes, consistency: Consistency) -> bytes:
        """Ask for a token over the note; see ``Anchor``."""
        client = _client()
        builder = client.TimestampRequestBuilder().data(note)
        request = builder.hash_algorithm(client.base.HashAlgorithm.SHA256).nonce(nonce=True).build()
        token = post(self.url, request.as_bytes(), QUERY, REPLY)
        self._verify(note, token, nonce=request.nonce)
        return token

    def check(self, note: bytes, evidence: bytes, now: int) -> Attested:
        """Check a token; see ``Anchor``."""
        moment = self._verify(note, evidence)
        at = int(moment.timestamp()) * 1_000_000_000
        late = ("the token is dated in the future",) if at > now else ()
        return Attested(self.name, at, late)

    def newest(self, origin: str) -> None:
        """Return None: an authority keeps nothing."""

    def _verify(self, note: bytes, token: bytes, nonce: int | None = None) -> Any:
        client = _client()
        builder = client.VerifierBuilder()
        for certificate in self._certificates():
            if certificate.issuer == certificate.subject:
                builder = builder.add_root_certificate(certificate)
            else:
                builder = builder.add_intermediate_certificate(certificate)
        if nonce is not None:
            builder = builder.nonce(nonce)
        try:
            response = client.decode_timestamp_response(token)
            builder.build().verify_message(response, note)
        except (client.VerificationError, ValueError) as error:
            raise Break(
                "timestamp", f"the token of `{self.name}` does not fit: {_plain(error)}"
            ) from error
        return response.tst_info.gen_time

    def _certificates(self) -> list[Certificate]:
        from cryptography.x509 import load_pem_x509_certificates  # noqa: PLC0415  not loaded before

        try:
            found = load_pem_x509_certificates(self.roots.read_bytes())
        except OSError as error:
            raise UnverifiableError(
                f"`{self.roots}`, the certificates of `{self.name}`, cannot be read",
                code="unverifiable.unreadable",
            ) from error
        except ValueError as error:
            raise ConfigError(f"`{self.roots}` holds no certificates in PEM form") from error
        if not any(c.issuer == c.subject for c in found):
            raise ConfigError(f"`{self.roots}` holds no root certificate")
        return found


def _client() -> Any:
    """Return the library; it is an extra, since most installations have no authority."""
    try:
        import rfc3161_client  # noqa: PLC0415  an extra
    except ImportError:
        raise AnchorError(_MISSING) from None
    return rfc3161_client


def _plain(error: Exception) -> str:
    text = str(error).split("\n", 1)[0] or type(error).__name__
    return text[:1].lower() + text[1:200].rstrip(".")
