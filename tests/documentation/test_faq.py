"""Every message that the page of questions explains is one that the code has."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.documentation.pages import ROOT, page
from tests.documentation.test_tree import TREES

MESSAGES = re.findall(r"^### `(.+)`$", (ROOT / "docs" / "faq.md").read_text(encoding="utf-8"), re.MULTILINE)


def texts() -> Iterator[str]:
    """The texts in the code, with `…` where something is put in."""
    for tree in TREES.values():
        for node in ast.walk(tree):
            match node:
                case ast.Constant(value=str() as text):
                    yield text
                case ast.JoinedStr(values=parts):
                    yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in parts)


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_that_is_explained_is_one_that_there_is(message: str) -> None:
    """Word for word, with anything in place of `…`."""
    words = re.compile(".*".join(map(re.escape, message.split("…"))), re.DOTALL)
    assert any(words.search(text) for text in texts())


def test_there_are_the_dozen_that_people_meet_first() -> None:
    """Under headings of their own."""
    assert len(MESSAGES) >= 12
    assert set(MESSAGES) <= set(page("docs/faq.md").code)
