"""The page about the builder has every step."""

import pytest

from dags.builder import BuiltStream, StreamWindow
from tests.documentation.pages import page


@pytest.mark.parametrize(("heading", "kind"), [("Steps", BuiltStream), ("Windows", StreamWindow)])
def test_every_step_is_described(heading: str, kind: type) -> None:
    """In the order in which the class has them."""
    steps = [name for name, part in vars(kind).items() if callable(part) and not name.startswith("_")]
    assert steps == page("docs/builder.md").table(heading).column()
