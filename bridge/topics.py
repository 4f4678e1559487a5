"""The topics that Braid uses, and nobody else may.

A stream between jobs has the topic of the instance and port that it leaves. Tenants meet one kind only: the outputs of
their own dataflows.
"""

from urllib.parse import quote

ROOT = "braid/1"


def stream(instance: int, port: str) -> str:
    """Where a producer forwards what leaves a port of an instance.

    >>> stream(7, "out")
    'braid/1/streams/7/out'
    >>> stream(7, "a/#")
    'braid/1/streams/7/a%2F%23'
    """
    return f"{ROOT}/streams/{instance}/{quote(port, safe='')}"


def again(instance: int, port: str) -> str:
    """Where a receiver asks a producer for what it misses."""
    return f"{ROOT}/again/{instance}/{quote(port, safe='')}"


def have(instance: int, port: str) -> str:
    """Where a receiver tells a producer how much of a stream lies in its spool; retained."""
    return f"{ROOT}/have/{instance}/{quote(port, safe='')}"


def sent(stream: str) -> str:
    """Where a manager publishes the numbered events that callers send to a source.

    >>> sent("source/7")
    'braid/1/sent/source%2F7'
    """
    return f"{ROOT}/sent/{quote(stream, safe='')}"


def kept(stream: str) -> str:
    """Where a host answers how far such events lie in the source's spool."""
    return f"{ROOT}/kept/{quote(stream, safe='')}"


def dead(instance: int) -> str:
    """Where the events go that an instance could not take."""
    return f"{ROOT}/dead/{instance}"


def unread(topic: str) -> str:
    """Where the messages and events of a topic go that no spool could take.

    >>> unread("sensors/street")
    'braid/1/dead/unread/sensors/street'
    """
    return f"{ROOT}/dead/unread/{topic}"


def output(tenant: str, dataflow: str, sink: str) -> str:
    """Where a tenant finds what a sink of its dataflow gets."""
    return f"{ROOT}/out/{tenant}/{dataflow}/{sink}"


def host(name: str, what: str) -> str:
    """A host's topic for what it is told, or its status."""
    return f"{ROOT}/hosts/{name}/{what}"


def job(name: str, what: str) -> str:
    """A job's topic for its plan, its status or its metrics.

    >>> job("3", "plan")
    'braid/1/jobs/3/plan'
    """
    return f"{ROOT}/jobs/{name}/{what}"


def manager(name: str) -> str:
    """Where a manager hears itself, and so that all that was retained for it has come."""
    return f"{ROOT}/managers/{name}"
