"""Names: what stands in a planning problem, as PDDL can write it, and back.

>>> value_name('"low"'), value_name("null")
('text__low', 'json__null')
"""

from dags.pddl.names import name, parts
from planning.places import Place
from planning.planning_problem import Outlet


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
