"""The history of a dataflow, as its tenant and operators may read it."""

import json
import time
from collections.abc import Callable
from datetime import datetime

from braid_client.answers.series import HistoryAnswer, HistoryRange
from manager.problem import invalid
from manager.series.figures import SeriesFigures
from manager.series.resolutions import read_steps, window
from manager.store.tables import DataflowRow
from manager.use_case import Base, Caller, moment


class Histories(Base):
    """Histories of dataflows, removed ones too; any manager has them, because all of it is in the database."""

    def history(
        self, caller: Caller, dataflow: str, *, reach: HistoryRange = HistoryRange.HOUR, since: datetime | None = None
    ) -> HistoryAnswer:
        """The figures of a dataflow since a time, or as far back as a range reaches, as finely as they are kept."""
        row, now = self._own_dataflow(caller, dataflow), time.time()
        begin = now - reach.seconds if since is None else since.timestamp()
        if begin >= now:
            raise invalid(
                "/query/since", "empty-interval", "the history begins in the future", "name a time in the past"
            )
        wanted = window(begin, now)
        with self._store.read() as session:
            steps = read_steps(session, row.id, wanted)

        def series(figure: Callable[[SeriesFigures], float | None]) -> tuple[float | None, ...]:
            values = (None if figures is None else figure(figures) for figures in steps)
            return tuple(None if value is None else round(value, 6) for value in values)

        return HistoryAnswer(
            dataflow=row.id,
            since=moment(wanted.since),
            until=moment(wanted.until),
            step=wanted.step,
            events_in_per_second=series(lambda figures: figures.events_in / figures.seconds),
            events_out_per_second=series(lambda figures: figures.events_out / figures.seconds),
            latency_seconds_p50=series(lambda figures: figures.latency_p50),
            latency_seconds_p99=series(lambda figures: figures.latency_p99),
            waiting=tuple(None if figures is None else figures.waiting for figures in steps),
            dead_letters=tuple(None if figures is None else figures.dead for figures in steps),
            cores=series(lambda figures: figures.cores),
            cores_alone=series(lambda figures: figures.alone),
            latency_bound=_latency_bound(row),
        )


def _latency_bound(row: DataflowRow) -> float | None:
    """The seconds of latency that a policy allows, if the dataflow has one that does."""
    if row.dynamic is None:
        return None
    policy = json.loads(row.dynamic).get("policy") if row.policy is None else json.loads(row.policy)
    return (policy or {}).get("latency")
