"""What was learnt of what things cost, kept in the database: a manager that is started anew need not begin anew."""

import logging
from dataclasses import dataclass, field

from pydantic import TypeAdapter, ValidationError

from manager.defragmentation.calibration import Calibration, Disrupted
from manager.store.database import Store
from manager.store.tables import Leadership, LearntRow

log = logging.getLogger("braid.defragmenting")


@dataclass(frozen=True, slots=True, kw_only=True)
class LearntCosts:
    """All that is learnt; made by `Chooser`, and by `LearntCostStore` of what it had written down."""

    calibration: Calibration = field(default_factory=Calibration)
    past: tuple[Disrupted, ...] = ()
    """What the latest defragmentations did."""


_LEARNT = TypeAdapter(LearntCosts)


class LearntCostStore:
    """Where it is written down; of one manager, which writes only while it leads."""

    def __init__(self, store: Store, name: str) -> None:
        """`name` is what the manager is called as a candidate."""
        self._store = store
        self._name = name

    def read(self) -> LearntCosts:
        """What was written last, nothing if that is none of what is learnt now."""
        with self._store.read() as session:
            row = session.get(LearntRow, 1)
        if row is None:
            return LearntCosts()
        try:
            found = _LEARNT.validate_python(row.told)
        except ValidationError as error:
            log.warning("what things cost is learnt anew: another Braid has written down what it knew (%s)", error)
            return LearntCosts()
        amounts = len(Calibration().taken)
        if {len(found.calibration.taken), *map(len, found.calibration.products)} != {amounts}:
            log.warning("what things cost is learnt anew: another Braid told apart more or fewer of them")
            return LearntCosts()
        return found

    def write(self, learnt: LearntCosts) -> None:
        """Write it down, unless another manager leads by now, which knows better."""
        with self._store.write() as session:
            if session.get_one(Leadership, 1).leader == self._name:
                session.merge(LearntRow(at=self._store.now(session), told=_LEARNT.dump_python(learnt, mode="json")))
