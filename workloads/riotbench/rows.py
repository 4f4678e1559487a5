"""Rows in the benchmark's form, and the benchmark's own files with them.

A row is SenML after the time, all values as texts. The benchmark publishes and replays such rows:

    1422748800000,{"e":[{"u":"string","n":"source","sv":"ci4lr75"},{"v":"8","n":"dust"}],"bt":1422748800000}

A file may also be CSV, with the columns of the set's schema in any order, and a header; an empty value is left out. Its
`timestamp` is in milliseconds since 1970, or a date and time in ISO 8601, in UTC if it has no zone.
"""

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import Any, TextIO

from workloads.riotbench.datasets import TIMESTAMP, DataSet, Field


def opened(name: str, unit: str, *, text: bool = False) -> str:
    """The text before a value in a row.

    >>> opened("dust", "per") + '20.5"}'
    '{"u":"per","n":"dust","v":"20.5"}'
    """
    return f'{{"u":"{unit}","n":"{name}","{"sv" if text else "v"}":"'


def before(field: Field) -> str:
    """The text before a field's value, after another field."""
    return "," + opened(field.name, field.unit, text=field.text)


def head(data: DataSet) -> str:
    """The text before the name of the sensor."""
    return '{"e":[' + opened(data.key, "string", text=True)


def row(data: DataSet, time: int, sensor: str, values: Mapping[str, str]) -> str:
    """A row; fields without a value are left out.

    >>> from workloads.riotbench.datasets import GRID
    >>> row(GRID, 1000, "7", {"energyconsumed": "2.5"})
    '1000,{"e":[{"u":"string","n":"meterid","sv":"7"},{"u":"kwh","n":"energyconsumed","v":"2.5"}],"bt":1000}'
    """
    fields = [f'{before(field)}{_inside(values[field.name])}"}}' for field in data.fields if values.get(field.name)]
    return f'{time},{head(data)}{_inside(sensor)}"}}{"".join(fields)}],"bt":{time}}}'


def _inside(text: str) -> str:
    return json.dumps(text)[1:-1]


_SENML = re.compile(r"\s*-?\d*\s*,?\s*\{")
"""The beginning of a row of SenML."""


class WrongFile(ValueError):
    """A file with wrong content; the message says where, what is wrong, and what to do."""


def read_rows(path: Path, data: DataSet) -> Iterator[str]:
    """Read the rows of a file in order; raises at the first wrong line."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from _rows(path, data, file)
    except OSError as error:
        raise WrongFile(f"{path}: {error.strerror}; choose a file of the benchmark") from None
    except UnicodeDecodeError as error:
        raise WrongFile(f"{path}: is not UTF-8 text: {error.reason}; unpack it first if it is compressed") from None


def _rows(path: Path, data: DataSet, file: TextIO) -> Iterator[str]:
    first = file.readline()
    if not first.strip():
        raise WrongFile(f"{path}, line 1: is empty; start with a row, or with the names of the columns")
    lines = chain([first], file)
    if _SENML.match(first):
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield _senml(f"{path}, line {number}", data, line.strip())
        return
    reader = csv.reader(lines)
    columns = [name.strip() for name in next(reader)]
    if missing := [name for name in (data.key, TIMESTAMP, *data.observed) if name not in columns]:
        raise WrongFile(
            f"{path}, line 1: is neither a row of SenML nor a header with the column {missing[0]!r}; the set "
            f"{data.name} has the columns {', '.join((data.key, TIMESTAMP, *(field.name for field in data.fields)))}"
        )
    try:
        for values in reader:
            if values:
                yield _from_csv(f"{path}, line {reader.line_num}", data, columns, values)
    except csv.Error as error:
        raise WrongFile(f"{path}, line {reader.line_num}: {error}; correct the line") from None


def _senml(place: str, data: DataSet, line: str) -> str:
    start = line.partition("{")[0].strip().removesuffix(",").strip()
    try:
        record: Any = json.loads(line[line.index("{") :])
        names = {entry["n"] for entry in record["e"]}
    except (ValueError, KeyError, TypeError) as error:
        raise WrongFile(f"{place}: is no row of SenML: {error!r}; correct or remove the line") from None
    if not start and record.get("bt") is None:
        raise WrongFile(f'{place}: the row has no time; add milliseconds before it, or "bt" in it')
    if data.key not in names:
        raise WrongFile(f"{place}: the row has no {data.key!r}; is it from the set {data.name}?")
    return line


def _from_csv(place: str, data: DataSet, columns: Sequence[str], values: Sequence[str]) -> str:
    if len(values) != len(columns):
        raise WrongFile(f"{place}: has {len(values)} values for {len(columns)} columns; correct the line")
    named = {name: value.strip() for name, value in zip(columns, values, strict=True)}
    for field in data.fields:
        if not field.text and not _is_number(named.get(field.name, "")):
            raise WrongFile(f"{place}: {field.name!r} is {named[field.name]!r}, which is no number; correct the value")
    if not named[data.key]:
        raise WrongFile(f"{place}: {data.key!r} is empty; enter the sensor")
    return row(data, _time(place, named[TIMESTAMP]), named[data.key], named)


def _is_number(text: str) -> bool:
    try:
        return not text or isfinite(float(text))
    except ValueError:
        return False


def _time(place: str, text: str) -> int:
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise WrongFile(
            f"{place}: {TIMESTAMP!r} is {text!r}; use milliseconds since 1970, or a time such as 2015-02-01T00:00:00Z"
        ) from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000)
