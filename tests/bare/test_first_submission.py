"""The README's first submission, on a machine that has nothing for it."""

from pathlib import Path

import pytest

from tests.bare.first_submission import submit_first

pytestmark = pytest.mark.bare


def test_the_first_submission_does_what_the_readme_says(tmp_path: Path) -> None:
    """Every block ends well and prints what stands after it; Ctrl-C then ends the service and all that it started."""
    submit_first(tmp_path)
