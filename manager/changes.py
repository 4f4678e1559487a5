"""All changes of the committed state, by what they are about."""

from dags import Catalogue
from manager.dataflows.changes import BundleChanges, DataflowChanges, DrainChanges
from manager.jobs.changes import JobChanges
from manager.kernel.committer import Committer
from manager.kernel.dataflow_rows import AdaptationChanges, PipelineChanges
from manager.machines.images import ImageChanges
from manager.moves.changes import MoveChanges
from manager.reconfigurations.changes import ReconfigurationChanges
from manager.sources.changes import SourceChanges
from manager.store.database import Store


class Changes:
    """One manager's, made by its committer."""

    def __init__(self, committer: Committer, store: Store, catalogue: Catalogue) -> None:
        self.dataflows = DataflowChanges(committer, store, catalogue)
        self.bundles = BundleChanges(committer, store, catalogue)
        self.sources = SourceChanges(committer, store)
        self.images = ImageChanges(committer)
        self.pipelines = PipelineChanges(committer)
        self.adaptations = AdaptationChanges(committer)
        self.jobs = JobChanges(committer)
        self.moves = MoveChanges(committer)
        self.drains = DrainChanges(committer, store, self.dataflows)
        self.reconfigurations = ReconfigurationChanges(committer, store, catalogue)
