"""Regular looks: what the manager has its parts do again and again, and does without if it fails."""

import logging
from collections.abc import Callable

from manager.problem import DatabaseAway

log = logging.getLogger("braid.manager")


def look_with(look: Callable[[], None], *, otherwise: str) -> None:
    """Have a part look at what it sees to. Whatever fails must not end the service, which does without."""
    try:
        look()
    except DatabaseAway as error:
        log.debug("%s until the next look: %s", otherwise, error)
    except Exception:  # as above
        log.exception("%s until the next look", otherwise)
