"""Targets of code: one spelling for each, and nothing that is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planning.pipelines.module import target


@given(st.text(max_size=40) | st.from_regex(r"[A-Za-z0-9.:\[\]-]{1,30}:[0-9]{1,6}", fullmatch=True))
def test_a_target_has_one_spelling_or_is_refused(text: str) -> None:
    """What is taken stays as it is when it is taken again."""
    try:
        found = target(text)
    except ValueError:
        return
    assert found == target(found)


@pytest.mark.parametrize(
    "text",
    [
        *("", "host", "host:", ":80", "host:0", "host:65536", "host:080", "a b:80", "-a:80", "[::1:80", "[::g]:80"),
        *("::1:80", "http://host:80", "host:80/path", "user@host:80", "host:\u0661", "[fe80::1%eth0]:80"),
        "a" * 254 + ":80",
    ],
)
def test_what_is_no_target_is_refused(text: str) -> None:
    """URLs, ranges, wildcards, and ports that there are not."""
    with pytest.raises(ValueError):  # noqa: PT011 - the parser of the module says what is wrong
        target(text)
