"""A server of the S3 API on this machine, for tests."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import s3fs
from moto.server import ThreadedMotoServer


@contextmanager
def serving_s3() -> Iterator[str]:
    """Serve an empty bucket to this process and to those that it starts; yields the bucket's URL."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "tester")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "a secret of these tests")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        try:
            # All servers of a process share what they keep, so each one's bucket has another name.
            bucket = f"braid-tests-{port}"
            s3fs.S3FileSystem(skip_instance_cache=True).mkdir(bucket)
            yield f"s3://{bucket}/copies"
        finally:
            server.stop()
