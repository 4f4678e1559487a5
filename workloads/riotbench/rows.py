"""Rows in the benchmark's form: SenML after the time, all values as texts."""

import json
from collections.abc import Mapping

from workloads.riotbench.datasets import DataSet, Field


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
    """A text as it is within the quotes of JSON."""
    return json.dumps(text)[1:-1]
