"""Bundled example dataflows of four tenants of one city, and the sources they read.

They are plain documents, so that `braid check` takes them as it takes a tenant's own.
Begin with `EXAMPLES` and `SOURCES`.
"""

from pathlib import Path

_HERE = Path(__file__).parent

SOURCES = _HERE / "sources.json"
EXAMPLES = {
    "school": _HERE / "school-weather.json",
    "health": _HERE / "heat-warning.json",
    "taxi-office": _HERE / "taxi-fares.json",
    "planning": _HERE / "rides-and-heat.json",
}
"""A document for each tenant."""
