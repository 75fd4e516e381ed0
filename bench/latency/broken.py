"""What the client receives of a response that a fault has changed.

The messages are small, and are changed as a whole: what a client does with half of one does not
depend on how fast the half came.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import struct
from urllib.parse import urlsplit, urlunsplit

from bench.latency.fate import Fault
from bench.latency.framing import Body, Ending, Head, pieces

__all__ = ["received", "refusal", "reset", "unranged"]

_LENGTH = re.compile(rb"(?im)^(content-length:[ \t]*)\d+")
_CODES = {500: "InternalError", 503: "SlowDown"}
_REASONS = {500: "Internal Server Error", 503: "Service Unavailable"}


def refusal(status: int, method: str) -> bytes:
    """The store's error, after which it closes the connection."""
    code = _CODES[status]
    body = f"<Error><Code>{code}</Code><Message>The proxy responds so.</Message></Error>".encode()
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: application/xml\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (b"" if method == "HEAD" else body)


def reset(writer: asyncio.StreamWriter) -> None:
    """End a connection by a reset, not in order."""
    sock: socket.socket | None = writer.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def received(
    fault: Fault, response: Head, body: Body, answers: asyncio.StreamReader, method: str
) -> bytes:
    """What arrives of ``response`` before its connection ends."""
    data = b"".join([piece.data async for piece in pieces(answers, body)])
    if fault is Fault.ERROR_APPLIED:
        return refusal(500, method)
    if fault is not Fault.SHORT_LENGTH:
        return response.data + data[: len(data) // 2]
    if body.ending is not Ending.LENGTH:
        # No Content-Length to change: half of the body as if it were the whole of it.
        data = data[: len(data) // 2]
        return response.data + data
    return _LENGTH.sub(rb"\g<1>%d" % (body.length // 2), response.data) + data


def unranged(request: Head, host: str, port: int) -> bytes | None:
    """The request for the complete object, in place of one for a range: signed by the keys of the
    environment, as the client's signature includes its Range. None without keys."""
    from botocore.auth import S3SigV4QueryAuth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    keys = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
    if keys[0] is None or keys[1] is None:
        return None
    plain = AWSRequest("GET", f"http://{host}:{port}{request.target}")
    region = os.environ.get("AWS_REGION", "us-east-1")
    S3SigV4QueryAuth(Credentials(*keys), "s3", region, expires=60).add_auth(plain)
    target = urlunsplit(("", "", *urlsplit(plain.url)[2:]))
    return f"GET {target} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()
