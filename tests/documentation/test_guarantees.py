"""The page of guarantees: each promise about neighbours names the test that holds it."""

import ast

from tests.documentation.pages import ROOT, Page

PAGE = Page(ROOT / "docs" / "guarantees.md")


def test_each_promise_about_neighbours_names_a_test_that_exists() -> None:
    """By its file and name, so that nobody has to believe it."""
    (table,) = (each for each in PAGE.tables if each.heading == "Neighbours")
    named = [each.partition("::") for each in table.column(2)]
    assert named
    for path, _, name in named:
        parsed = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert name in {each.name for each in parsed.body if isinstance(each, ast.FunctionDef)}, (path, name)
