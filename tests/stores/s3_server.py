"""An S3 server in a process of its own: moto's, which knows ranges, conditions and uploads in parts."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, Final

import boto3

BUCKET: Final = "data"


class S3Server:
    """The server, running, with one bucket."""

    def __init__(self, port: int) -> None:
        self.environment: Mapping[str, str] = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "an-id-of-the-tests",
            "AWS_SECRET_ACCESS_KEY": "a-secret-of-the-tests",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        self.client: Any = boto3.client(
            "s3",
            endpoint_url=self.environment["AWS_ENDPOINT_URL"],
            aws_access_key_id=self.environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.environment["AWS_SECRET_ACCESS_KEY"],
            region_name=self.environment["AWS_DEFAULT_REGION"],
        )
        self.client.create_bucket(Bucket=BUCKET)

    def put(self, key: str, data: bytes) -> str:
        """Puts an object there; returns its URL."""
        self.client.put_object(Bucket=BUCKET, Key=key, Body=data)
        return f"s3://{BUCKET}/{key}"

    def get(self, key: str) -> bytes:
        """What an object holds."""
        data: bytes = self.client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        return data

    def names(self) -> list[str]:
        """The objects that there are."""
        return [each["Key"] for each in self.client.list_objects_v2(Bucket=BUCKET).get("Contents", ())]

    def uploads(self) -> list[str]:
        """The keys of the uploads in parts that are neither complete nor aborted."""
        return [each["Key"] for each in self.client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", ())]


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """The server, until the block ends. It answers inside of it."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:  # it says so once it listens
            if b"Running on" in line:
                break
        yield S3Server(port)
    finally:
        process.kill()
        process.communicate()
