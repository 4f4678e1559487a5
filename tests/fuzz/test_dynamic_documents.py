"""Whatever dynamic document or policy is sent is understood or refused with problems that can be read."""

import copy
import json
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from adaptation.document_reader import read_dynamic, read_policy
from adaptation.documents import choices_in, resolve
from adaptation.flow import flow_of
from dags import InvalidDocument
from tests.adaptation.documents.test_bad_documents import DOCUMENT
from tests.adaptation.drawn import canonical, conditions, dynamic_documents, module
from tests.fuzz.test_documents import (
    CODE,
    VALUES,
    add,
    delete,
    double,
    leads_somewhere,
    nest,
    nodes,
    parsed,
    rename,
    replace,
    splice,
)


@st.composite
def tampered(draw: st.DrawFn, documents: st.SearchStrategy[Any]) -> Any:
    """A sound value to which a few things happened."""
    value = copy.deepcopy(draw(documents))
    for _ in range(draw(st.integers(1, 4))):
        if places := list(nodes(value)):
            inside, key = places[draw(st.integers(0, len(places) - 1))]
            if draw(st.integers(0, 3)):
                happen = draw(st.sampled_from([replace, add, delete, double, nest, splice, rename]))
                happen(draw, places, inside, key)
            else:
                inside[key] = draw(conditions() | conditions().map(lambda each: {"activate": each}))
    return value


def understood(raw: str, read: Callable[[str], Any]) -> Any:
    """What is read of a text; None if it is refused, with problems that are held against it."""
    try:
        return read(raw)
    except InvalidDocument as error:
        refused = error
    assert refused.problems
    value = parsed(raw)
    for problem in refused.problems:
        assert CODE.fullmatch(problem.code)
        assert problem.message.strip()
        assert problem.remedy.strip()
        assert leads_somewhere(value, problem.pointer), problem
    return None


@settings(max_examples=80)
@given(tampered(st.just(DOCUMENT) | dynamic_documents()))
def test_documents_that_something_happened_to(value: Any) -> None:
    """Mostly almost right. What is understood resolves."""
    found = understood(json.dumps(value), lambda raw: read_dynamic(raw, module=module, canonical=canonical))
    if found is not None:
        assert found.first == choices_in(resolve(found, found.first), found)
        assert flow_of(found).need(found.first) >= 0


@settings(max_examples=30)
@given(tampered(st.just(DOCUMENT)))
def test_documents_that_nobody_checks_again(value: Any) -> None:
    """As they are read once they were accepted; without a check of what they resolve to."""
    understood(json.dumps(value), lambda raw: read_dynamic(raw, module=module))


@settings(max_examples=50)
@given(tampered(st.just(DOCUMENT["policy"])) | VALUES)
def test_policies_that_something_happened_to(value: Any) -> None:
    """Mostly almost right."""
    dynamic = read_dynamic(json.dumps(DOCUMENT), module=module)
    understood(json.dumps(value), lambda raw: read_policy(raw, dynamic))
