from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.replicas.scene import Scene


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.close()
