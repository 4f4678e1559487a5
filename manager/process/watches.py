"""The watches of a manager: what its main thread has looked at between two words, once all is ready."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from manager.cases.planned.fallback_taker import FallbackTaker
from manager.cases.planned.follower import PipelineFollower
from manager.cases.tools import Tools
from manager.defragmentation.greedy_tenants import GreedyTenants
from manager.defragmentation.state_quotas import StateQuotas
from manager.defragmentation.watcher import Watcher
from manager.process.settings import Settings
from manager.savings.meter import Meter


class ManagerWatch(NamedTuple):
    """A part that looks again and again, and what is missed if it fails."""

    look: Callable[[], None]
    otherwise: str


def watches_of(
    tools: Tools, meter: Meter, settings: Settings, latencies: Callable[[], Mapping[str, float]]
) -> tuple[ManagerWatch, ...]:
    """The watches in their order; `latencies` are the seconds that dataflows allow, as the watcher takes them."""
    changes = tools.changes
    watcher = Watcher(
        tools.committer,
        changes.moves,
        changes.jobs,
        tools.chooser,
        by_itself=settings.defragment,
        every=settings.defragment_every,
        autoscale=settings.autoscale,
        latencies=latencies,
    )
    greedy = GreedyTenants(tools.committer, tools.seeing)
    quotas = StateQuotas(tools.committer, tools.store, tools.seeing)
    fallbacks = [ManagerWatch(FallbackTaker(tools).look, "modules that fail stay where they are")]
    return (
        ManagerWatch(greedy.look, "nobody comes into quarantine"),
        ManagerWatch(quotas.look, "states of tenants grow beyond their quotas"),
        ManagerWatch(watcher.look, "jobs stay scattered"),
        ManagerWatch(PipelineFollower(tools).look, "pipelines stay as they are"),
        *(fallbacks if settings.replan_failed else ()),
        ManagerWatch(meter.look, "nothing is metered"),
    )
