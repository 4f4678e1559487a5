"""The topics of Braid.

A stream between jobs has the topic of the instance and port that it leaves. Tenants see one kind only: the outputs of
their own dataflows.
"""

from urllib.parse import quote

ROOT = "braid/1"


def stream(instance: int, port: str) -> str:
    """The topic of the events that leave a port of an instance.

    >>> stream(7, "out")
    'braid/1/streams/7/out'
    >>> stream(7, "a/#")
    'braid/1/streams/7/a%2F%23'
    """
    return f"{ROOT}/streams/{instance}/{quote(port, safe='')}"


def is_stream(topic: str) -> bool:
    """Whether a topic has the events that leave a port of an instance.

    >>> is_stream(stream(7, "out")), is_stream(have(7, "out"))
    (True, False)
    """
    return topic.startswith(f"{ROOT}/streams/")


def again(instance: int, port: str) -> str:
    """The topic on which a receiver asks a producer for missing events."""
    return f"{ROOT}/again/{instance}/{quote(port, safe='')}"


def have(instance: int, port: str) -> str:
    """The topic on which a receiver reports how much of a stream its spool has; retained."""
    return f"{ROOT}/have/{instance}/{quote(port, safe='')}"


def sent(stream: str) -> str:
    """The topic of the numbered events that callers send to a source.

    >>> sent("source/7")
    'braid/1/sent/source%2F7'
    """
    return f"{ROOT}/sent/{quote(stream, safe='')}"


def kept(stream: str) -> str:
    """The topic on which a host answers how many of such events the source's spool has."""
    return f"{ROOT}/kept/{quote(stream, safe='')}"


def dead(instance: int) -> str:
    """The topic of events that an instance could not process."""
    return f"{ROOT}/dead/{instance}"


def unread(topic: str) -> str:
    """The topic of messages and events of another topic, or of a topic filter, that no spool could take.

    >>> unread("sensors/street"), unread("sensors/+")
    ('braid/1/dead/unread/sensors/street', 'braid/1/dead/unread/sensors/%2B')
    """
    return f"{ROOT}/dead/unread/{quote(topic, safe='/') if '+' in topic or '#' in topic else topic}"


def output(tenant: str, dataflow: str, sink: str) -> str:
    """The topic of the outputs that a sink of a tenant's dataflow gets."""
    return f"{ROOT}/out/{tenant}/{dataflow}/{sink}"


def formatted_output(tenant: str, dataflow: str, sink: str, kind: str) -> str:
    """The topic of an output's events in another format than envelopes, if it has no topic of its own.

    >>> formatted_output("ann", "d-1", "averages", "plain")
    'braid/1/out/ann/d-1/averages/plain'
    """
    return f"{output(tenant, dataflow, sink)}/{kind}"


def left_out(tenant: str, dataflow: str, sink: str) -> str:
    """The topic of notices about events that the format of an output cannot say."""
    return f"{output(tenant, dataflow, sink)}/left-out"


def host(name: str, what: str) -> str:
    """A host's topic for its orders, its status, or who carries it."""
    return f"{ROOT}/hosts/{name}/{what}"


def machine(name: str, what: str) -> str:
    """A machine's topic for its status, or for messages to itself.

    >>> machine("north", "status")
    'braid/1/machines/north/status'
    """
    return f"{ROOT}/machines/{name}/{what}"


def common(what: str) -> str:
    """The topic of a part of a file that all machines read, or of the list of these files."""
    return f"{ROOT}/common/{what}"


def job(name: str, what: str) -> str:
    """A job's topic for its plan, its status or its metrics.

    >>> job("3", "plan")
    'braid/1/jobs/3/plan'
    """
    return f"{ROOT}/jobs/{name}/{what}"


def manager(name: str) -> str:
    """A manager's topic for messages to itself, which show that all its retained messages have come."""
    return f"{ROOT}/managers/{name}"
