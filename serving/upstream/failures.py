"""aiohttp's exceptions, told apart by the boundary that was crossed."""

from __future__ import annotations

from typing import Final

import aiohttp
from aiohttp.http_exceptions import ContentEncodingError, HttpProcessingError
from aiohttp.streams import EofStream

from serving.upstream.dispatch import Dispatch
from serving.upstream.errors import ConnectError, ConnectionLost, ProtocolError, TotalTimeout, UpstreamError

BOUNDARY_ERRORS: Final = (aiohttp.ClientError, HttpProcessingError, EofStream, OSError)
"""What aiohttp raises when the other side fails, as opposed to a mistake of ours."""

_NO_CONNECTION: Final = {
    aiohttp.InvalidURL: "has an address that is no http(s) URL",
    aiohttp.NonHttpUrlClientError: "has an address that is no http(s) URL",
    aiohttp.ClientConnectorDNSError: "has a host name that does not resolve",
    aiohttp.ClientConnectorCertificateError: "has a TLS certificate that is not trusted",
    aiohttp.ClientConnectorSSLError: "does not speak TLS as we do",
}


def as_upstream_error(error: Exception, dispatch: Dispatch) -> UpstreamError:
    """The name of what happened to `dispatch`.

    Whatever escapes while a deadline is over is that deadline: aborting the connection raises errors of its own.
    """
    if dispatch.watchdog.error is not None:
        return dispatch.watchdog.error
    if isinstance(error, aiohttp.ClientResponseError):
        return ProtocolError("the upstream did not answer in HTTP")
    if not dispatch.was_sent:
        return _not_sent(error, dispatch)
    if dispatch.had_headers:
        return _broken_body(error)
    return ConnectionLost("the upstream closed the connection before it answered")


def _not_sent(error: Exception, dispatch: Dispatch) -> UpstreamError:
    if isinstance(error, TimeoutError):
        if dispatch.is_total_nearer:
            return TotalTimeout(was_dispatched=False)
        return ConnectError("the upstream did not accept a connection in time")
    why = next(
        (why for kind, why in _NO_CONNECTION.items() if isinstance(error, kind)), "accepts no connection"
    )
    return ConnectError(f"the upstream {why}")


def _broken_body(error: Exception) -> UpstreamError:
    if isinstance(error, HttpProcessingError) or isinstance(error.__cause__, ContentEncodingError):
        return ProtocolError("the upstream's answer is garbled")
    return ConnectionLost("the upstream closed the connection before the answer was whole", had_headers=True)
