"""Resolutions: how long the steps of series are, and how they are written, joined into longer ones, read and pruned.

Each resolution keeps as many steps, so a dataflow takes bounded room however long it runs. Only the leading manager
writes. A longer step is made of shorter ones once it is over, in the database, so a new leader goes on where the last
one ended. A step that nothing is known of has no row.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict, fields
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

from sqlalchemy import Integer, Select, case, cast, delete, func, insert, literal, literal_column, select
from sqlmodel import Session

from manager.series.figures import SeriesFigures
from manager.store.tables import Leadership, SeriesRow, table_of

SERIES_STEPS = (15, 300, 3_600)
"""The seconds of a step in each resolution. Each is a multiple of the one before."""
FINEST = SERIES_STEPS[0]
MOST_SERIES_STEPS = 500
"""The steps that each resolution keeps, and the most that are answered."""
_NEWEST = 4
"""Finest steps after which figures are not of now."""
_TABLE = table_of(SeriesRow)
_ROWS = _TABLE.c
_NAMES = tuple(field.name for field in fields(SeriesFigures))


def write_step(session: Session, leader: str, at: int, known: Mapping[str, SeriesFigures]) -> bool:
    """Write the figures of the dataflows that are known in a step, and what follows for longer steps; prune old ones.

    Returns false, and writes nothing, if `leader` does not lead. A step that is not newer than all others is left out.
    """
    if session.get_one(Leadership, 1).leader != leader:
        return False
    if at <= _last(session, FINEST):
        return True
    rows = [{"step": FINEST, "at": at, "dataflow": name, **asdict(figures)} for name, figures in known.items()]
    if rows:
        session.execute(insert(_TABLE), rows)
    now = at + FINEST
    for finer, step in pairwise(SERIES_STEPS):
        since, until = _last(session, step) + step, now - now % step
        if since < until:
            joined = _joined(finer, step).where(_ROWS.at >= since, _ROWS.at < until)
            row = joined.add_columns(_ROWS.dataflow, literal(step, Integer))
            session.execute(insert(_TABLE).from_select(["at", *_NAMES, "dataflow", "step"], row))
    for step in SERIES_STEPS:
        session.execute(delete(_TABLE).where(_ROWS.step == step, _ROWS.at < now - MOST_SERIES_STEPS * step))
    return True


def _last(session: Session, step: int) -> int:
    """The beginning of the last step of a resolution; far in the past if there is none."""
    last: int | None = session.scalar(select(func.max(_ROWS.at)).where(_ROWS.step == step))
    return -step if last is None else last


# Slow to make, compared with what it does.
@cache
def _joined(finer: int, step: int) -> "Select[*tuple[object, ...]]":
    """Select steps that are made of finer ones: counts and seconds add up, peaks stay, and cores are means."""

    def mean(column: str) -> object:
        known = case((_ROWS[column].is_not(None), _ROWS.seconds))
        return func.sum(_ROWS[column] * _ROWS.seconds) / func.sum(known)

    # Not as a parameter: PostgreSQL would not know that what is selected is what rows are grouped by.
    at = _ROWS.at - _ROWS.at % literal_column(str(step), Integer)
    joined = {
        **{
            name: cast(func.sum(_ROWS[name]), _ROWS[name].type)
            for name in ("seconds", "events_in", "events_out", "dead")
        },
        **{name: func.max(_ROWS[name]) for name in ("waiting", "latency_p99")},
        **{name: mean(name) for name in ("latency_p50", "cores", "alone")},
    }
    return (
        select(at.label("at"), *(joined[name] for name in _NAMES))
        .where(_ROWS.step == finer)
        .group_by(at, _ROWS.dataflow)
    )


class Window(NamedTuple):
    """The steps that are answered; made by `window`."""

    step: int
    since: int
    until: int

    @property
    def steps(self) -> range:
        """The beginning of each step."""
        return range(self.since, self.until, self.step)


def window(since: float, now: float) -> Window:
    """Choose the finest resolution that reaches back to a time, and its steps until now.

    The last one is not over yet where steps are long.

    >>> window(10_000 - 900, 10_000)
    Window(step=15, since=9090, until=9990)
    >>> window(100_000 - 86_400, 100_000)
    Window(step=300, since=13500, until=100200)
    >>> window(0, 10**9).steps == range(10**9 + 800 - 500 * 3600, 10**9 + 800, 3600)
    True
    """
    step = next((step for step in SERIES_STEPS if since >= now - MOST_SERIES_STEPS * step), SERIES_STEPS[-1])
    until = int(now) // step * step + (0 if step == FINEST else step)
    first = int(since) // step * step
    return Window(step, min(max(first, until - MOST_SERIES_STEPS * step), until - step), until)


def read_steps(session: Session, dataflow: str, wanted: Window) -> list[SeriesFigures | None]:
    """Return the figures of a dataflow in each step; None where nothing is known."""
    columns = select(_ROWS.at, *map(_ROWS.__getitem__, _NAMES)).where(_ROWS.step == wanted.step)
    # By their times, as the key begins with them.
    known = _figures_by_time(session, columns.where(_ROWS.at.in_(wanted.steps), _ROWS.dataflow == dataflow))
    if wanted.step > FINEST:
        # The last steps are not joined yet.
        bounds = (
            wanted.since,
            _last(session, wanted.step) + wanted.step,
            wanted.until - wanted.step - MOST_SERIES_STEPS * FINEST,
        )
        fine = _joined(FINEST, wanted.step).where(
            _ROWS.at.in_(range(max(bounds), wanted.until, FINEST)), _ROWS.dataflow == dataflow
        )
        known |= _figures_by_time(session, fine)
    return [known.get(at) for at in wanted.steps]


def read_newest(session: Session, dataflows: Collection[str], now: float) -> dict[str, SeriesFigures]:
    """Return the figures of each of some dataflows in its newest finest step, unless that is over for long."""
    steps = range(int(now) // FINEST * FINEST - _NEWEST * FINEST, int(now) + 1, FINEST)
    columns = select(_ROWS.dataflow, *map(_ROWS.__getitem__, _NAMES)).where(_ROWS.step == FINEST, _ROWS.at.in_(steps))
    rows = session.execute(columns.where(_ROWS.dataflow.in_(dataflows)).order_by(_ROWS.at))
    return {dataflow: SeriesFigures(**dict(zip(_NAMES, values, strict=True))) for dataflow, *values in rows}


def _figures_by_time(session: Session, wanted: "Select[*tuple[Any, ...]]") -> dict[int, SeriesFigures]:
    return {at: SeriesFigures(**dict(zip(_NAMES, values, strict=True))) for at, *values in session.execute(wanted)}
