"""Learnt costs, stored in the database so that they outlive a manager."""

import logging
from dataclasses import dataclass, field

from pydantic import TypeAdapter, ValidationError

from manager.defragmentation.calibration import Calibration, MeasuredDisruption
from manager.store.database import Store
from manager.store.tables import Leadership, LearntRow

log = logging.getLogger("braid.defragmenting")


@dataclass(frozen=True, slots=True, kw_only=True)
class LearntCosts:
    """The calibration and the latest disruptions; made by `Chooser`, and read by `LearntCostStore`."""

    calibration: Calibration = field(default_factory=Calibration)
    past: tuple[MeasuredDisruption, ...] = ()
    """The costs of the latest defragmentations."""


_LEARNT = TypeAdapter(LearntCosts)


class LearntCostStore:
    """Reads and writes learnt costs for one manager, which writes only while it leads."""

    def __init__(self, store: Store, name: str) -> None:
        """`name` is the manager's name as a candidate for the lead."""
        self._store = store
        self._name = name

    def read(self) -> LearntCosts:
        """Return the costs written last; empty ones if there are none, or if they cannot be read."""
        with self._store.read() as session:
            row = session.get(LearntRow, 1)
        if row is None:
            return LearntCosts()
        try:
            found = _LEARNT.validate_python(row.costs)
        except ValidationError as error:
            log.warning("costs are learnt anew: another release of Braid has stored other costs (%s)", error)
            return LearntCosts()
        amounts = len(Calibration().taken)
        if {len(found.calibration.taken), *map(len, found.calibration.products)} != {amounts}:
            log.warning("costs are learnt anew: another release of Braid has stored more or fewer prices")
            return LearntCosts()
        return found

    def write(self, learnt: LearntCosts) -> None:
        """Write the costs, unless another manager leads by now."""
        with self._store.write() as session:
            if session.get_one(Leadership, 1).leader == self._name:
                session.merge(LearntRow(at=self._store.now(session), costs=_LEARNT.dump_python(learnt, mode="json")))
