"""Answers about what runs, most for operators: tasks, DAGs, jobs, streams, hosts, machines, images, moves of tasks."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from braid_client.answers.base import Answer, Form
from dags.document import MOST_TAGS, HostTag
from dags.vocabulary import LEAST_FIGURE, MOST_FIGURE


class RunningTaskFigures(Answer):
    """What a running task does, as means over the last minute; made by `running_task_figures`. None is not known."""

    cores: float | None = None
    """The cores that it takes."""
    events_in_per_second: float | None = None
    events_out_per_second: float | None = None


class RunningTaskAnswer(RunningTaskFigures):
    """A running or paused instance."""

    instance: int
    type: str
    name: str = ""
    """The name of its source, or the id that a dataflow of the caller gives it."""
    job: str
    state: Literal["active", "paused", "failed"]
    inputs: tuple[int, ...]
    dataflows: int
    tenants: int = 1
    """The number of tenants whose dataflows these are."""
    tenant: str = ""
    """The tenant if it is one; empty where several share it."""
    since: datetime
    """When it started; for tenants the hour."""
    dag: int | None
    failed: str = ""
    """The reason why its events are parked, if it failed."""
    cpu_seconds: float | None = None
    """CPU since the last start of its job. This and the fields below are None if nothing is known."""
    events_in: int | None = None
    """The events that it received since then."""
    events_out: int | None = None
    events_dead: int | None = None
    """The events that it failed on."""
    state_bytes: int | None = None
    """The size of its state; 0 if that is less than 10,000 bytes."""


class RunningDagAnswer(Answer):
    """A running DAG."""

    id: int
    tasks: int
    dataflows: int
    jobs: tuple[str, ...]


class JobFigures(Answer):
    """The performance of a job in the last minute; made by `figures_of`. None means that it is not known."""

    batch_seconds_p50: float | None = None
    """Median duration of its batches."""
    batch_seconds_p99: float | None = None
    events_in_per_second: float | None = None
    events_out_per_second: float | None = None
    """The rate of events sent to tenants and to other jobs."""
    lag_events: int | None = None
    """The number of events that wait in its spools."""
    lag_seconds: float | None = None
    """The time that the oldest of them has been waiting."""
    latency_seconds_p50: float | None = None
    """Median age of its output events when they left, since Braid received the events that caused them."""
    latency_seconds_p99: float | None = None


class ShardFigures(Answer):
    """The load of a job's shards in the last minute; made by `shard_figures`."""

    shard_cores: tuple[float, ...] = ()
    """The cores that the tasks of each shard took; empty for one shard, or until it is known."""
    hot_group: int | None = None
    """The key group that had more events than a shard would have if all had as many, if there is one."""
    hot_group_part: float | None = None
    """Its part of the events that are divided by key."""


class JobAnswer(JobFigures, ShardFigures):
    """A job: its plan, and the status that its host reports."""

    job: str
    host: str
    version: int
    in_effect: int
    state: str
    trouble: str
    active: int
    paused: int
    batch: int
    pace: float = 1.0
    """Seconds from one batch to the next, by its newest plan."""
    shards: int = 1
    """The number of tasks that a batch runs as, by its newest plan."""
    workers: str = ""
    """The tenant whose tasks alone its workers run, since it is or was in quarantine; empty for most."""
    restarts: int = 0
    seen: datetime | None = None
    """When its host last reported on it."""


class StreamAnswer(Answer):
    """A derived stream that is forwarded over a bridge."""

    instance: int
    port: str
    producer: str
    consumers: tuple[str, ...]


class HostAnswer(Answer):
    """A host."""

    name: str
    alive: bool
    jobs: tuple[str, ...]
    spools: dict[str, str]
    dropped: int
    cpu: dict[str, float]
    cores: float | None = None
    """The number of tasks that its Spark runs at once."""
    tags: tuple[str, ...] = ()
    """The tags that tasks may require: its own, and those of its image."""
    image: str = ""
    """The image that it was made from; empty if it names none."""
    trouble: str = ""
    """Why it offers less than it should, and what to do."""
    release: str = ""
    seen: datetime | None


class PlacedTaskAnswer(Answer):
    """A task where it runs."""

    task: str
    instance: int
    job: str
    host: str
    image: str = ""
    """The image of its host; empty if that names none."""
    tags: tuple[str, ...] = ()
    """What its host must offer, as it was started."""
    own: bool = True
    """Whether no other dataflow uses it."""
    why: str = ""


class WorthOfMoreAnswer(Answer):
    """What one more of something would save, in cores."""

    tags: str
    host: float
    """The cores that one more such host would save."""
    core: float
    """The cores that one more core in each of them would save."""


class OtherPlaceAnswer(Answer):
    """Where else a task could be, all others being where they are."""

    tags: str
    """The tags that the hosts there offer."""
    job: str = ""
    """The job that it would join; empty if a new one, or one of other tasks of the dataflow alone."""
    joins: tuple[str, ...] = ()
    """The dataflow's own tasks that it would be with."""
    more: float | None = None
    """The cores that this costs more; None if it is not possible."""
    why_not: tuple[str, ...] = ()


class PlacementAnswer(Answer):
    """Where a dataflow runs, what that costs, and what would cost less.

    Costs are in cores, for batches, bridges and the slowest path, beyond what other dataflows cause anyway.
    """

    dataflow: str
    tasks: tuple[PlacedTaskAnswer, ...]
    cost: float
    """The cost of the tasks that no other dataflow uses, where they are."""
    cheapest: float
    """The cost of these in the cheapest known groups."""
    second: float | None = None
    """The cost of these in the cheapest other groups; None if none are known."""
    bound: float | None = None
    """The least that any groups can cost; None if nothing was proven."""
    saves: dict[str, float] = Field(default_factory=dict)
    """What one host would save of each registered image that has none, if it does."""
    more: tuple[WorthOfMoreAnswer, ...] = ()
    """What one more host or core would save where there are hosts, of registered images with a price, a start or a
    limit."""
    elsewhere: tuple[OtherPlaceAnswer, ...] = ()
    """Where else the task that was asked for could be: the cheapest first, and last what is not possible."""


class PlacementPddlAnswer(Answer):
    """The tasks of a dataflow that no other one uses, as a planning problem in PDDL."""

    dataflow: str
    domain: str
    problem: str


class PlacementPlanForm(Form):
    """A plan that some planner made for the problem of a dataflow."""

    plan: Annotated[str, Field(min_length=1, max_length=1_000_000)]
    """A step in each line, as in `(open__gpu group0)`; what stands behind a semicolon is no step."""


class PlannedGroupAnswer(Answer):
    """Tasks that a plan has run together."""

    tags: str
    """What hosts of it offer, as the problem names it."""
    tasks: tuple[str, ...]


class PlacementPlanAnswer(Answer):
    """What a plan makes of a dataflow; nothing is moved. Costs are in cores, as if nothing else ran."""

    dataflow: str
    groups: tuple[PlannedGroupAnswer, ...]
    cost: float
    now: float
    """The cost of the groups in which the tasks are now."""


class HostSafety(Answer):
    """How safe a host is that a machine carries."""

    standby: tuple[str, ...] = ()
    """The machines that could go on with it at once: those that have everything and are alive."""
    behind_bytes: int | None = None
    """The bytes that the slowest peer does not have yet; None if its machine does not report them."""
    troubles: dict[str, str] = Field(default_factory=dict)
    """What is wrong with its copies, by peer."""
    under_replicated: bool = False
    """Whether fewer machines have everything than the setting `replicas` asks for."""
    stays: str = ""
    """Why it cannot leave a machine that drains or is lost, and what to do."""


class CarriedHostAnswer(HostSafety):
    """A host at the machine that carries it."""

    name: str
    home: str = ""
    """The machine that it goes to when that can have it: the owner of its point on the ring."""
    load: float | None = None
    """The cores that its jobs took in the last minute; None if none of them has reported."""
    heir: str = ""
    """The machine that it is being handed to."""
    peers: tuple[str, ...] = ()
    """The machines that its files are sent to."""
    kept_by: tuple[str, ...] = ()
    """The peers that have everything anybody outside has seen."""


class MachineAnswer(Answer):
    """A machine."""

    name: str
    alive: bool
    waits: str = ""
    """Why a process of this name waits to be admitted, and what to do; empty if none does."""
    key: str = ""
    """The public key of what waits, else that of the machine."""
    draining: bool = False
    """Whether it gives up all hosts that it carries, and takes none."""
    zone: str = ""
    """The failure zone; machines of one zone may be lost together."""
    shares_root_with: tuple[str, ...] = ()
    """The other machines with the same root, which need no copies of its hosts."""
    takes_copies: bool = False
    at: str = ""
    """The address, as host:port, at which it takes copies; empty if it takes none."""
    full: str = ""
    """Why copies leave it; empty if its disk has room for them."""
    cores: float | None = None
    speed: float | None = None
    """How fast a core is, by the reference core, as the machine measured it when it began."""
    share: float | None = None
    """Its part of the ring; None before it has a place there."""
    load: float | None = None
    """The cores that its hosts' jobs took in the last minute; None if none of them has reported."""
    tags: tuple[str, ...] = ()
    image: str = ""
    """The image that its hosts were made from; they offer the tags of that, too."""
    hosts: tuple[CarriedHostAnswer, ...] = ()
    keeps: tuple[str, ...] = ()
    """The hosts of others that it has everything of."""


class ImageForm(Form):
    """An image: what each of its hosts offers, has and costs."""

    tags: Annotated[frozenset[HostTag], Field(max_length=MOST_TAGS)] = frozenset()
    cores: Annotated[float, Field(ge=LEAST_FIGURE, le=MOST_FIGURE)] = 1.0
    start: Annotated[float, Field(ge=0, le=MOST_FIGURE)] = 0.0
    """Seconds until a new host is there."""
    price: Annotated[float, Field(ge=0, le=MOST_FIGURE)] = 0.0
    """The price of a host for an hour, in any currency."""
    most: Annotated[int | None, Field(ge=0, le=int(MOST_FIGURE))] = None
    """How many hosts there may be; any number if it is left out."""


class ImageAnswer(Answer):
    """A registered image, and the hosts that were made from it."""

    name: str
    tags: tuple[str, ...]
    cores: float
    start: float
    price: float
    most: int | None
    hosts: tuple[str, ...] = ()
    """The hosts that are alive."""


class MoveAnswer(Answer):
    """A move of tasks from job to job that is under way."""

    id: str
    phase: str
    since: datetime
    tasks: int
    leaves: tuple[str, ...]
    joins: tuple[str, ...]


class SavesAnswer(Answer):
    """What sharing and packing saved in the last hour, as in `SavedAnswer`, and what defragmenting would save now."""

    sharing: float | None = None
    """Cores; None if no work was shared."""
    packing: float
    """Cores."""
    defragmenting: float
    """Cores that consolidating the jobs would save now."""
    most: str
    """The one that saves most; empty if none saves anything."""
    work_per_batch_seconds: float
    """CPU seconds of the tasks in a batch, if each dataflow had a job of its own."""
    crossover_seconds: float | None = None
    """The work per batch above which sharing saves more than packing; None if there is none."""


class DefragmentationPreviewAnswer(Answer):
    """What a defragmentation would do now; nothing is moved."""

    tasks: int
    """The number of instances that would move; 0 if none would be better off elsewhere."""
    leaves: tuple[str, ...] = ()
    opens: tuple[str, ...] = ()
    """The host of each job that would be opened."""
    jobs: int
    bridges: int
    planned: bool
    """Whether planning chooses which tasks run together; the strategy `plan` does that."""
    why: str = ""
    """Whether it is worth it, and what it saves and costs."""


class FragmentationAnswer(Answer):
    """The fragmentation of the jobs."""

    jobs: int
    fewest: int
    """The fewest jobs that could run all tasks."""
    bridges: int
    paused: int
    """Paused tasks that plans still have."""
    hops: int
    """The most bridges on one path."""
    cores: float
    """The predicted cost of the fragmentation."""
    latency_seconds: float
    """The latency that the longest path of bridges adds."""
    saves: SavesAnswer
    move: MoveAnswer | None = None
