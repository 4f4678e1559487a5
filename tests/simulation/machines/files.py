"""Files of a host, and disks that keep them."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ring.fleet import Carriage


@dataclass(frozen=True, slots=True)
class Record:
    """What one batch did."""

    number: int
    last: int
    """The spool file up to which it has read."""
    events: tuple[int, ...]
    """Its output."""
    state: tuple[int, ...]
    """All events so far."""


@dataclass(frozen=True, slots=True)
class Write:
    """A spool file or a record is written, or removed if it has no content."""

    number: int
    spool: tuple[int, ...] | None = None
    record: Record | None = None
    of_records: bool = False


@dataclass(slots=True)
class Files:
    """The root of a host, or a copy of it."""

    spools: dict[int, tuple[int, ...]] = field(default_factory=dict)
    records: dict[int, Record] = field(default_factory=dict)

    def copy(self) -> "Files":
        return Files(dict(self.spools), dict(self.records))

    def last(self) -> Record:
        """The newest record, which says how far the spool was read."""
        return self.records[max(self.records)] if self.records else Record(0, 0, (), ())

    def unread(self) -> list[int]:
        return [number for number in sorted(self.spools) if number > self.last().last]

    def next_spool(self) -> int:
        return max([self.last().last, *self.spools]) + 1

    def has(self, events: set[int]) -> bool:
        """Whether all these events were processed or still will be."""
        return events <= {*self.last().state, *(event for number in self.unread() for event in self.spools[number])}

    def apply(self, write: Write) -> None:
        if write.spool is not None:
            self.spools[write.number] = write.spool
        elif write.record is not None:
            self.records[write.number] = write.record
        elif write.of_records:
            self.records.pop(write.number, None)
        else:
            self.spools.pop(write.number, None)


def difference(there: Files, here: Files) -> Iterator[Write]:
    """What makes a copy the same, so that at every moment it is what some root might have been.

    First goes what another carrier wrote and this one never had, newest first: a record must not outlive the spool that
    it was made of. Then comes what is missing, in the order of what depends on what, and last goes what is not needed
    any more.
    """
    read, first = here.last().last, min(here.records, default=0)
    for number in sorted(there.records, reverse=True):
        if number >= first and there.records[number] != here.records.get(number):
            yield Write(number, of_records=True)
    for number in sorted(there.spools, reverse=True):
        if number > read and there.spools[number] != here.spools.get(number):
            yield Write(number)
    yield from (Write(each, spool=here.spools[each]) for each in sorted(here.spools))
    yield from (Write(each, record=here.records[each]) for each in sorted(here.records))
    yield from (Write(each) for each in sorted(there.spools) if each not in here.spools and each <= read)
    yield from (Write(each, of_records=True) for each in sorted(there.records) if each < first)


@dataclass(slots=True)
class Disk:
    """What survives a restart of a machine. A machine that lost it has another one, with a root of another id."""

    root: str
    files: dict[str, Files] = field(default_factory=dict)
    """By host."""
    orders: dict[str, Carriage] = field(default_factory=dict)
    """What was last ordered about each host."""
    promises: dict[str, tuple[int, frozenset[str]]] = field(default_factory=dict)
    """The version under which the machine gates on more peers than were ordered, and these: written before reported."""
    terms: dict[str, int] = field(default_factory=dict)
    """The highest known term of each host: written before anything is done in it."""

    def of(self, host: str) -> Files:
        return self.files.setdefault(host, Files())

    def know(self, host: str, term: int) -> None:
        self.terms[host] = max(term, self.terms.get(host, 0))
