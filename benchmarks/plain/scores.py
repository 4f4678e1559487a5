"""Scores of payments by the last amounts of each user; every version stamps another generation on them.

    python -m benchmarks.plain.scores FOLDER FIRST END

Works off the sections of a data set from FIRST to END.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]  # its stubs are not installed
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from benchmarks.plain.sections import Section, work_off

EVENTS_OF_SECTION = 100
RECENT = 10
"""The amounts that are kept of each user."""
_USERS = 10
_SCHEMA = "n long, user long, amount double"


def section(at: int) -> list[dict[str, Any]]:
    """The events of one section."""
    numbers = range(at * EVENTS_OF_SECTION, (at + 1) * EVENTS_OF_SECTION)
    return [{"n": number, "user": number % _USERS, "amount": float(number * 7 % 97)} for number in numbers]


def query(session: SparkSession, raw: str, at: int) -> DataFrame:
    """The version of the query for a section."""
    return (
        session.readStream.schema(_SCHEMA)
        .json(raw)
        .groupBy("user")
        .applyInPandasWithState(
            _scored(at),
            outputStructType="n long, generation long, score double",
            # An array as state fails in this version of Spark.
            stateStructType="recent string",
            outputMode="append",
            timeoutConf=GroupStateTimeout.NoTimeout,
        )
    )


def _scored(generation: int) -> Any:
    def scored(_key: object, pieces: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        recent: list[float] = json.loads(state.get[0]) if state.exists else []
        for piece in pieces:
            ordered = piece.sort_values("n")
            scores = []
            for amount in ordered["amount"]:
                recent = [*recent, amount][-RECENT:]
                scores.append(sum(recent) / len(recent))
            state.update((json.dumps(recent),))
            yield pd.DataFrame({"n": ordered["n"], "generation": generation, "score": scores})

    return scored


if __name__ == "__main__":
    _first, _end = map(int, sys.argv[2:])
    _sections = ((at, Section(section(at), EVENTS_OF_SECTION)) for at in range(_first, _end))
    work_off(query, _sections, Path(sys.argv[1]))
