"""The check of `braid doctor` that published code can be confined on this machine."""

from engine.code.cells import Cells, NoCells
from engine.code.store import CodeStore, digest_of
from manager.process.finding import Finding, ok, warn
from manager.process.settings import Settings

_SECONDS = 10.0


def published_code(settings: Settings) -> Finding:
    """Check that code runs here for which no operator vouches: start a cell that does nothing."""
    cells = Cells("event")
    try:
        cells.run(b"", path=CodeStore(settings.root).path(digest_of("")), seconds=_SECONDS)
    except NoCells as error:
        return warn(
            "published code", str(error), "run hosts where the kernel allows Landlock and seccomp, or vouch for modules"
        )
    finally:
        cells.close()
    return ok("published code", "can be confined, also if no operator vouches for it")
