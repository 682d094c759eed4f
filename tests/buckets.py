"""A bucket on a simulated S3, for tests of what is stored in files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def simulated_bucket(monkeypatch: pytest.MonkeyPatch, name: str) -> Iterator[str]:
    """Start the server and create the bucket. Returns its address, `s3://name`."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    for variable, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(variable, value)
    boto3.client("s3", region_name="us-east-1", endpoint_url=f"http://{host}:{port}").create_bucket(Bucket=name)
    yield f"s3://{name}"
    server.stop()
