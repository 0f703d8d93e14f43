"""A proxy on 127.0.0.1 in front of a service: it keeps a record of the requests, and breaks those that a rule names.

A rule is asked for each request, and answers None (pass it on) or a fault. Like a network it can lose the request, lose
the response of a request that took effect, be slow, or answer itself as a store would that is overloaded or refuses.
"""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple, Self
from urllib.parse import urlsplit


class Request(NamedTuple):
    """A request as it came: its number from 0, method, path with query, and headers in lower case."""

    number: int
    method: str
    path: str
    headers: dict[str, str]


class Answer(NamedTuple):
    """Answer so, and pass nothing on."""

    status: int
    code: str = ""
    detail: str = ""

    @property
    def body(self) -> bytes:
        """The error as S3 writes it."""
        return (
            f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{self.code}</Code>'
            f"<Message>{self.code} happened</Message>{self.detail}</Error>"
        ).encode()


class LoseRequest(NamedTuple):
    """Close the connection, and pass nothing on."""


class LoseResponse(NamedTuple):
    """Pass the request on, and close the connection."""


class Delay(NamedTuple):
    """Wait, then pass the request on."""

    seconds: float


class IgnoreCondition(NamedTuple):
    """Pass the request on without its condition, as some services do that speak S3."""


Fault = Answer | LoseRequest | LoseResponse | Delay | IgnoreCondition
Rule = Callable[[Request], Fault | None]


class FaultProxy:
    """The proxy, from ``with`` to the end of its block. ``requests`` are those since the last ``forget``."""

    def __init__(self, upstream: str) -> None:
        self.upstream = urlsplit(upstream).netloc
        self.rule: Rule = lambda _request: None
        self.requests: list[Request] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        proxy = self

        class Handler(_Handler):
            owner = proxy

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def heal(self) -> None:
        """Break nothing from now on, and forget the requests."""
        self.rule = lambda _request: None
        self.requests = []

    def break_first(self, count: int, fault: Fault, method: str = "") -> None:
        """Break so many requests from now on, of one method if it is given; forget the requests so far."""
        self.requests = []
        left = [count]

        def rule(request: Request) -> Fault | None:
            if left[0] == 0 or not request.method.startswith(method):
                return None
            left[0] -= 1
            return fault

        self.rule = rule

    def received(self, method: str, path: str, headers: dict[str, str]) -> Fault | None:
        """Note a request, and what is to become of it."""
        with self._lock:
            request = Request(len(self.requests), method, path, headers)
            self.requests.append(request)
            return self.rule(request)


class _Handler(BaseHTTPRequestHandler):
    owner: FaultProxy
    disable_nagle_algorithm = True
    protocol_version = "HTTP/1.1"

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        fault = self.owner.received(self.command, self.path, headers)
        if isinstance(fault, Answer):
            self._answer(fault.status, {"Content-Type": "application/xml"}, fault.body)
            return
        if isinstance(fault, LoseRequest):
            self.close_connection = True
            return
        if isinstance(fault, Delay):
            time.sleep(fault.seconds)
        if isinstance(fault, IgnoreCondition):
            headers.pop("if-none-match", None)
        upstream = http.client.HTTPConnection(self.owner.upstream, timeout=60)
        try:
            upstream.request(self.command, self.path, body, headers)
            response = upstream.getresponse()
            found = response.read()
        finally:
            upstream.close()
        if isinstance(fault, LoseResponse):
            self.close_connection = True
            return
        self._answer(response.status, dict(response.getheaders()), found)

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        try:
            self.send_response_only(status)
            for name, value in headers.items():
                if name.lower() not in {"content-length", "connection", "transfer-encoding"}:
                    self.send_header(name, value)
            is_head = self.command == "HEAD"
            known = {name.lower(): value for name, value in headers.items()}.get("content-length")
            self.send_header("Content-Length", (known if is_head else None) or str(len(body)))
            self.end_headers()
            if not is_head:
                self.wfile.write(body)
        except OSError:
            self.close_connection = True  # the client has given up

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _handle  # noqa: N815 - the names that http.server calls

    def log_message(self, *_: object) -> None:
        """Nothing."""
