"""The changes of what is kept beside a dynamic dataflow: its policy, and what was chosen by hand."""

from collections.abc import Mapping

from manager.answers import OperationKind
from manager.committer.committer import Committer
from manager.committer.kept_rows import RowKeeper
from manager.store.database import Store
from manager.store.tables import DataflowRow


class AdaptationChanges:
    """All that is kept of dynamic dataflows. Nothing that runs changes by it."""

    def __init__(self, committer: Committer, store: Store) -> None:
        self._rows = RowKeeper(committer, store)

    def keep_policy(self, dataflow: str, policy: bytes, *, who: str) -> DataflowRow:
        """Keep another policy in the place of the document's own."""

        def keep(row: DataflowRow) -> None:
            row.policy = policy.decode()

        return self._rows.keep(dataflow, keep, OperationKind.SET_POLICY, who=who)

    def keep_pinned(self, dataflow: str, pinned: Mapping[str, str | bool], *, who: str) -> DataflowRow:
        """Keep what is chosen by hand."""

        def keep(row: DataflowRow) -> None:
            row.pinned = dict(pinned) or None

        words = {True: "open", False: "closed"}
        chosen = (f"{name}: {words[each] if isinstance(each, bool) else each}" for name, each in sorted(pinned.items()))
        note = ", ".join(chosen) or "nothing"
        return self._rows.keep(dataflow, keep, OperationKind.CHOOSE, who=who, note=note)

    def note(self, dataflow: str, why: str, *, who: str) -> None:
        """Note in the journal why a dataflow adapts."""
        self._rows.keep(dataflow, lambda _row: None, OperationKind.ADAPT, who=who, note=why)
