"""Examples of modules and wheels."""

from datetime import UTC, datetime
from typing import Any

from manager.answers import ModuleAnswer, ModuleDetail, Page, WheelAnswer
from planning.shape import ModuleShape

MODULE_FORM: dict[str, Any] = {
    "name": "plausible",
    "version": 1,
    "summary": "Drops temperatures that no thermometer in the city can have measured.",
    "shape": "filter",
    "installed": {"type": "range_filter", "config": {"field": "temperature", "min": -12.5, "max": 43.1}},
    "variables": {"plausible": [True]},
    "ensure": {"plausible": True},
    "cost": 0.004,
    "tags": ["cleaning"],
}
MODULE = ModuleAnswer(
    name="plausible",
    version=1,
    owner="ann",
    summary=MODULE_FORM["summary"],
    shape=ModuleShape.FILTER,
    type="range_filter",
    tags=("cleaning",),
    cost=0.004,
    quality=None,
    published=datetime(2026, 3, 1, 12, tzinfo=UTC),
    deprecated=None,
    vouched=False,
)
MODULE_DETAIL = ModuleDetail(**dict(MODULE), form=MODULE_FORM)
WHEEL = WheelAnswer(
    digest="5df5e2f1a8e7a4c1b6b1e7e9a1d7f3c2b4a6958473625140f9e8d7c6b5a49382",
    owner="ann",
    name="tiny",
    version="1.0",
    bytes=1_204,
    requires=(),
    sent=datetime(2026, 3, 1, 11, tzinfo=UTC),
)
WHEEL_PAGE = Page[WheelAnswer](items=(WHEEL,))
MODULE_PAGE = Page[ModuleAnswer](items=(MODULE,))
