"""How much the service changes by itself to save cores, or to have enough of them."""

from enum import StrEnum


class Autoscale(StrEnum):
    """The setting of operators."""

    OFF = "off"
    PREVIEW = "preview"
    """The journal says what would be done."""
    ON = "on"

    @property
    def verb(self) -> str:
        """What becomes of a change, for the log."""
        return "would get a pace of" if self is Autoscale.PREVIEW else "gets a pace of"
