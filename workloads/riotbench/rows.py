"""Rows as the benchmark has them: SenML behind the time, all values as texts."""

import json
from collections.abc import Mapping

from workloads.riotbench.datasets import DataSet, Field


def opened(name: str, unit: str, *, text: bool = False) -> str:
    """What stands before a value in a row.

    >>> opened("dust", "per") + '20.5"}'
    '{"u":"per","n":"dust","v":"20.5"}'
    """
    return f'{{"u":"{unit}","n":"{name}","{"sv" if text else "v"}":"'


def before(field: Field) -> str:
    """What stands before a field's value, behind another."""
    return "," + opened(field.name, field.unit, text=field.text)


def head(data: DataSet) -> str:
    """What stands before the name of whoever measured."""
    return '{"e":[' + opened(data.key, "string", text=True)


def row(data: DataSet, time: int, sensor: str, values: Mapping[str, str]) -> str:
    """A row; what has no value is left out.

    >>> from workloads.riotbench.datasets import GRID
    >>> row(GRID, 1000, "7", {"energyconsumed": "2.5"})
    '1000,{"e":[{"u":"string","n":"meterid","sv":"7"},{"u":"kwh","n":"energyconsumed","v":"2.5"}],"bt":1000}'
    """
    told = [f'{before(field)}{_inside(values[field.name])}"}}' for field in data.fields if values.get(field.name)]
    return f'{time},{head(data)}{_inside(sensor)}"}}{"".join(told)}],"bt":{time}}}'


def _inside(text: str) -> str:
    """A text as it stands between the quotes of JSON."""
    return json.dumps(text)[1:-1]
