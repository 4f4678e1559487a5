"""The sync connection is the async one without `async`."""

from tests.braid_client.sync_client import FOLDER, GENERATED, generated


def test_the_sync_connection_is_generated_from_the_async_one() -> None:
    """Its module is the one that `make client` writes."""
    written = {name: (FOLDER / f"{name}.py").read_text(encoding="utf-8") for name in GENERATED.values()}
    assert generated() == written
