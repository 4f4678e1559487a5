"""Names that the doctests may use, and the hypothesis profiles."""

from typing import Any

import pytest

import dags.canonical
from tests import notation


@pytest.fixture(autouse=True)
def _names_for_doctests(doctest_namespace: dict[str, Any]) -> None:
    """Doctests of the passes write dataflows in one line, see `tests/notation.py`, and call any pass by name."""
    doctest_namespace |= {name: getattr(dags.canonical, name) for name in dags.canonical.__all__}
    doctest_namespace |= {"draft": notation.draft, "accepted": notation.accepted}
