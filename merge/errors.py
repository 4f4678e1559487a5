"""Why a change cannot be: each says what is in the way and what to do."""

from dags import Key


class DataflowExists(ValueError):
    """A dataflow was submitted under an id that another one has."""

    def __init__(self, dataflow: str) -> None:
        super().__init__(
            f"a dataflow with the id {dataflow!r} is already submitted; remove it first, or use another id"
        )
        self.dataflow = dataflow


class NoSuchDataflow(LookupError):
    """A dataflow was named that is not submitted, or not any more."""

    def __init__(self, dataflow: str) -> None:
        super().__init__(f"no dataflow with the id {dataflow!r} is submitted; list the submitted ones to find its id")
        self.dataflow = dataflow


class StaleChange(RuntimeError):
    """A change was computed from another state than the one it is applied to."""

    def __init__(self, base: int, version: int) -> None:
        super().__init__(f"the change was computed from version {base} and this is version {version}; compute it anew")
        self.base = base
        self.version = version


class SignatureCollision(RuntimeError):
    """Two tasks that compute different things have the same signature; nothing was shared."""

    def __init__(self, key: Key) -> None:
        super().__init__(
            f"the signature {key.signature.hex()} already stands for another task; "
            "submit with a changed config and report this"
        )
        self.key = key


class NoHost(RuntimeError):
    """No host offers what a task needs, or none of those that share files with what it reads."""

    remedy = "add a host that offers that"

    def __init__(self, type_name: str, tags: frozenset[str], where: str = "") -> None:
        """`where` tells the hosts among which none offers that, if it is not all of them."""
        needs = " on ".join(filter(None, (", ".join(sorted(tags)), where))) or "a host"
        super().__init__(f"no host can run a task of type {type_name!r}: it needs {needs}; {self.remedy}")
        self.tags = tags


class TooManyStreams(RuntimeError):
    """What starts would need more streams between jobs than its host can receive."""

    remedy = "submit a smaller part of it, or have an operator add a host"

    def __init__(self, needs: int, most: int) -> None:
        super().__init__(f"{needs:,} more streams between jobs are needed, and the host has room for {most:,}")


class RootsApart(NoHost):
    """Tasks would read streams that are sent to several roots already, and a stream is sent to one root only."""

    remedy = "feed it from fresh tasks, which run beside those that are shared"

    def __init__(self, type_name: str, keys: frozenset[Key]) -> None:
        super().__init__(type_name, frozenset(), "a host that every stream which it reads can be sent to")
        self.keys = keys
        """The tasks."""
