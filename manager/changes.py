"""All changes of the committed state, by what they are about."""

from dataclasses import dataclass

from dags import Catalogue
from manager.dataflows.changes import BundleChanges, DataflowChanges, DrainChanges
from manager.jobs.changes import JobChanges
from manager.kernel.committer import Committer
from manager.moves.changes import MoveChanges
from manager.outputs.retained import RetiredTopicChanges
from manager.reconfigurations.changes import ReconfigurationChanges
from manager.store.database import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """One manager's; made by `changes_of`."""

    dataflows: DataflowChanges
    bundles: BundleChanges
    jobs: JobChanges
    moves: MoveChanges
    drains: DrainChanges
    reconfigurations: ReconfigurationChanges
    retired_topics: RetiredTopicChanges


def changes_of(committer: Committer, store: Store, catalogue: Catalogue) -> Changes:
    """All changes that a committer makes."""
    dataflows = DataflowChanges(committer, store, catalogue)
    return Changes(
        dataflows=dataflows,
        bundles=BundleChanges(committer, store, catalogue),
        jobs=JobChanges(committer),
        moves=MoveChanges(committer),
        drains=DrainChanges(committer, store, dataflows),
        reconfigurations=ReconfigurationChanges(committer, store, catalogue),
        retired_topics=RetiredTopicChanges(committer),
    )
