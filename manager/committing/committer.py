"""The committer: turns each request into a committed change, one after the other; each family of changes has a file."""

from manager.committing.dataflow_changes import DataflowChanges, Submission
from manager.committing.job_changes import JobChanges
from manager.committing.source_changes import SourceChanges
from manager.committing.writing import OPERATOR


class Committer(DataflowChanges, SourceChanges, JobChanges):
    """One manager's; any thread may call it."""


__all__ = ["OPERATOR", "Committer", "Submission"]
