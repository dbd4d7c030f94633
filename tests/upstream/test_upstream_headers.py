"""Headers at the border: nothing of a client's identity crosses, and `retry-after` is read in all its forms."""

from __future__ import annotations

import pytest

from serving.upstream.headers import request_headers, retry_after_s

NOW = 1_800_000_000.0  # Fri, 15 Jan 2027 08:00:00 GMT


def test_credentials_and_hops_stay_here() -> None:
    """Of a client's headers only the request id and the trace go on; the key is ours (litellm#32202)."""
    client = {
        "Authorization": "Bearer client",
        "Cookie": "session=1",
        "X-Api-Key": "client",
        "Host": "gateway",
        "Connection": "keep-alive, x-secret",
        "Transfer-Encoding": "chunked",
        "Content-Length": "99",
        "Accept-Encoding": "gzip, br",
        "X-Forwarded-For": "10.1.1.1",
        "X-Request-ID": "req-1",
        "traceparent": "00-1-2-01",
    }
    sent = {name.lower(): value for name, value in request_headers(client, "ours").items()}
    assert sent == {
        "content-type": "application/json",
        "accept-encoding": "identity",
        "user-agent": "tierwise",
        "x-request-id": "req-1",
        "traceparent": "00-1-2-01",
        "authorization": "Bearer ours",
    }
    assert "Authorization" not in request_headers(client, None)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "Fri, 15 Jan 2027 08:01:30 GMT"}, 90.0),
        ({"retry-after": "Fri, 15 Jan 2027 07:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "99", "retry-after-ms": "250"}, 0.25),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    """Seconds, milliseconds or a date become seconds from now; nonsense becomes nothing."""
    assert retry_after_s(headers, NOW) == seconds
