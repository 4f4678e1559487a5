"""The markers of a batch: cuts that are aligned at its end, and the switches that plans announce."""

from collections.abc import Iterator, Sequence

from engine.kernel.layout import Layout
from engine.offset import Offset
from engine.plan import Entry, is_switch
from engine.records.record import Cut, EmittedEvents
from engine.records.state import InstanceStates
from engine.supply import Bridged


def cuts_at(layout: Layout, end: Offset) -> Iterator[Cut]:
    """The cuts that are aligned at the end of a batch. A switch takes none."""
    # Instances whose streams enter over a bridge have their states in the other job.
    elsewhere = {each.instance for each in layout.entry.plan.ingress if isinstance(each.supply, Bridged)}
    for name, streams in sorted(end.cuts.items()):
        if is_switch(name):
            continue
        parts = [part for part in layout.parts if part.streams & set(streams)]
        yield Cut(
            name=name,
            instances=tuple(sorted(instance for part in parts for instance in part.instances - elsewhere)),
            positions={stream: end.at[stream] for part in parts for stream in sorted(part.streams) if stream in end.at},
        )


def cut_markers(layout: Layout, cuts: Sequence[Cut], state: InstanceStates) -> Iterator[EmittedEvents]:
    """The markers, which follow the events of every stream that leaves a part with a cut."""
    forwarded = dict.fromkeys(each.origin for each in layout.entry.plan.forwards)
    for cut in cuts:
        for origin in forwarded:
            if origin.instance in cut.instances:
                yield EmittedEvents(
                    origin=origin, first=state.of(origin.instance).advance(origin.port, 1), marker=cut.name
                )


def switch_markers(entries: Sequence[Entry], state: InstanceStates) -> Iterator[EmittedEvents]:
    """The markers of switches, at the place where their plans take effect."""
    for switch in (each for entry in entries if (each := entry.plan.switch) is not None):
        for origin in switch.announces:
            yield EmittedEvents(
                origin=origin, first=state.of(origin.instance).advance(origin.port, 1), marker=switch.marker
            )
