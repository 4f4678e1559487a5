"""Laws of what is refused: stale changes, ids twice or never submitted, and colliding signatures."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merge import (
    DataflowExists,
    NoSuchDataflow,
    RunningGraph,
    SignatureCollision,
    StaleChange,
    explain,
    merge,
    unmerge,
)
from tests.graphs import applied
from tests.laws.pictures import expected, picture
from tests.notation import flow
from tests.strategies import START, Document, Walk, documents, families, ran, walks


@given(family=families(least=2, most=2), removes=st.booleans())
def test_a_stale_change_is_refused(family: tuple[Document, ...], removes: bool) -> None:  # noqa: FBT001 - drawn
    """A change that was computed before another one was applied is refused, and leaves no trace."""
    old = applied(RunningGraph(), merge(RunningGraph(), flow(family[0], "first"), START))
    stale = unmerge(old, "first") if removes else merge(old, flow(family[1], "late"), START)
    new = applied(old, merge(old, flow(family[1], "second"), START))
    seen = picture(new)
    with pytest.raises(StaleChange) as refusal:
        new.advance(stale)
    assert str(refusal.value) == "the change was computed from version 1 and this is version 2; compute it anew"
    assert (refusal.value.base, refusal.value.version) == (1, 2)
    assert (seen, 2) == (picture(new), new.version)
    with pytest.raises(StaleChange):
        applied(new, stale)


@given(family=families(least=2, most=2))
def test_an_id_is_submitted_once(family: tuple[Document, ...]) -> None:
    """Another dataflow under a submitted id is refused, the same one or not; after a removal the id is free."""
    running = applied(RunningGraph(), merge(RunningGraph(), flow(family[0], "mine"), START))
    for document in family:
        with pytest.raises(DataflowExists) as refusal:
            merge(running, flow(document, "mine"), START)
        assert str(refusal.value) == (
            "a dataflow with the id 'mine' is already submitted; remove it first, or use another id"
        )
        assert refusal.value.dataflow == "mine"
        with pytest.raises(DataflowExists):
            explain(running, flow(document, "mine"), START)
    removed = applied(running, unmerge(running, "mine"))
    other = applied(removed, merge(removed, flow(family[1], "mine"), START))
    assert expected([flow(family[1], "mine")]) == picture(other)


@given(walk=walks(most=4))
def test_what_is_not_submitted_cannot_be_asked_for(walk: Walk) -> None:
    """A dataflow that never came, or went, is named in the refusal of whatever is asked about it."""
    running = ran(walk)
    gone = {step.dataflow for step in walk.steps} - set(running.dataflows)
    for name in ("never", *gone):
        for ask in (running.dataflow, running.produced, running.dags_of, lambda name: unmerge(running, name)):
            with pytest.raises(NoSuchDataflow) as refusal:
                ask(name)
            assert str(refusal.value) == (
                f"no dataflow with the id {name!r} is submitted; list the submitted ones to find its id"
            )
            assert refusal.value.dataflow == name


@given(document=documents(), place=st.integers(0, 20))
def test_a_collision_of_signatures_is_refused(document: Document, place: int) -> None:
    """Where a running task has the same signature and another text, nothing is shared and nothing changes."""
    honest = flow(document)
    place %= len(honest.tasks)
    forged = replace(honest.tasks[place], text=honest.tasks[place].text + b" ")
    running = applied(RunningGraph(), merge(RunningGraph(), honest, START))
    tasks = (*honest.tasks[:place], forged, *honest.tasks[place + 1 :])
    with pytest.raises(SignatureCollision) as refusal:
        merge(running, replace(honest, id="forged", tasks=tasks), START)
    assert refusal.value.key == forged.key
    assert str(refusal.value) == (
        f"the signature {forged.key.signature.hex()} already stands for another task; "
        "submit with a changed config and report this"
    )
    assert expected([honest]) == picture(running)
