"""Names: what stands in a problem, as PDDL can write it, and back.

PDDL knows no upper case and few signs, so all else is written as its number.

>>> name("out", "Street", "out")
'out___53_treet__out'
>>> parts("out___53_treet__out")
('out', 'Street', 'out')
>>> value_name('"low"'), value_name("null")
('text__low', 'json__null')
"""

import re

from planning.places import Place
from planning.planning_problem import Outlet

_OTHER = re.compile(r"[^a-z0-9-]")
_TOKEN = re.compile(r"(__)|_([0-9a-f]+)_|([a-z0-9-]+)")


def name(kind: str, *texts: str) -> str:
    """The name of something of a kind."""
    return "__".join([kind, *(_OTHER.sub(lambda found: f"_{ord(found[0]):x}_", text) for text in texts)])


def parts(found: str) -> tuple[str, ...]:
    """The kind of a name, and the texts that it is made of."""
    texts = [""]
    for separator, number, plain in _TOKEN.findall(found):
        if separator:
            texts.append("")
        else:
            texts[-1] += plain or chr(int(number, 16))
    return tuple(texts)


def place_name(place: Place) -> str:
    """The name of a place."""
    return name("out" if isinstance(place, Outlet) else "in", *place)


def outlet(found: str) -> Outlet:
    """What emits the stream of that name."""
    _, origin, port = parts(found)
    return Outlet(origin, port)


def variable_name(variable: str) -> str:
    """The name of a state variable."""
    return name("variable", variable)


def value_name(value: str) -> str:
    """The name of a JSON text."""
    is_text = len(value) > 1 and value[0] == value[-1] == '"'
    return name("text", value[1:-1]) if is_text else name("json", value)


def value(found: str) -> str:
    """The JSON text of that name."""
    kind, text = parts(found)
    return f'"{text}"' if kind == "text" else text
