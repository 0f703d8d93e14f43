"""An S3 service in a process of its own: moto's, one request at a time, as it checks conditions without a lock.

    with S3Server() as server:
        lakespark.Lake(f"s3://{server.make_bucket()}/lake", **server.options)

In tests, the fixture ``s3_server`` of tests/conftest.py is one server for the run; each test makes its own bucket.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from typing import Any, Self

REGION = "us-east-1"
_numbers = itertools.count()


class S3Server:
    """The process, from ``with`` to the end of its block; ``endpoint`` is its URL."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        port = self._process.stdout.readline().strip()
        assert port, "the S3 server did not start"
        self.endpoint = f"http://127.0.0.1:{port}"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate()

    @property
    def options(self) -> dict[str, Any]:
        """What a lake in the server is opened with."""
        return {
            "endpoint": self.endpoint,
            "region": REGION,
            "access_key_id": "test-access-key",
            "secret_access_key": "test-secret-key",
        }

    def client(self) -> Any:
        """boto3's client of the server."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id="test-access-key",
            aws_secret_access_key="test-secret-key",
        )

    def make_bucket(self) -> str:
        """A new bucket, by its name."""
        name = f"bucket-{next(_numbers)}"
        self.client().create_bucket(Bucket=name)
        return name


def _serve() -> None:
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Silent(WSGIRequestHandler):
        def log(self, *_: object) -> None:
            """Nothing."""

    moto, one_at_a_time = DomainDispatcherApplication(create_backend_app), threading.Lock()

    def app(environ: Any, start_response: Any) -> list[bytes]:
        with one_at_a_time:
            return [*moto(environ, start_response)]

    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Silent)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    _serve()
