"""Bundles: documents that are planned and submitted together, all or none."""

from manager.answers import BundleAnswer, BundleExplainAnswer, ExplainAnswer, Start
from manager.cases.adaptive.resolver import Resolved, Resolver, dynamic_in
from manager.cases.base import Base, Caller, tenant_of
from manager.cases.dataflows import Dataflows
from manager.cases.planned.composer import Composed, PipelineComposer, pipeline_in
from manager.cases.planned.plan_answers import plan_answer
from manager.committer.bundle_changes import Bundle, BundleDocument
from manager.problem import NotFound
from manager.store.tables import TenantRow
from manager.submissions.bundle import documents_in, of_document


class Bundles(Base):
    """Documents submitted and explained together."""

    def submit(
        self,
        caller: Caller,
        sent: bytes,
        *,
        tenant: str | None = None,
        idempotency_key: str | None = None,
        start: Start = Start.LATEST,
    ) -> BundleAnswer:
        """Submit all documents, or none. The same key and bundle get the same dataflows again."""
        owner = tenant_of(caller, tenant)
        dataflows = Dataflows(self._tools)
        documents = documents_in(sent)
        if idempotency_key is not None:
            # They are not planned again: there may be no plan by now.
            before = self._changes.bundles.submitted_before(owner, sent, idempotency_key, start)
            if before:
                return BundleAnswer(dataflows=tuple(map(dataflows.submitted, before)))
        made = self._made(owner, documents)
        rows = self._changes.bundles.submit(
            Bundle(
                tenant=owner,
                documents=tuple(map(_kept, documents, made)),
                sent=sent,
                who=caller.who,
                idempotency_key=idempotency_key,
                start=start,
            )
        )
        return BundleAnswer(dataflows=tuple(map(dataflows.submitted, rows, made)))

    def explain(
        self, caller: Caller, sent: bytes, *, tenant: str | None = None, start: Start = Start.LATEST
    ) -> BundleExplainAnswer:
        """A preview of what submitting the documents together would do; nothing is changed."""
        owner = tenant_of(caller, tenant)
        with self._store.read() as session:
            if session.get(TenantRow, owner) is None:
                raise NotFound("tenant", owner)
        documents = documents_in(sent)
        made = self._made(owner, documents)
        plain = [_kept(raw, each).document for raw, each in zip(documents, made, strict=True)]
        dataflows = Dataflows(self._tools)
        # First, since it refuses what is wrong with all of them.
        started = self._changes.bundles.started(owner, plain, start)
        explained: list[ExplainAnswer] = []
        for at, (document, each) in enumerate(zip(plain, made, strict=True)):
            with of_document(at):
                plan = plan_answer(each.planned) if isinstance(each, Composed) else None
                explained.append(dataflows.explained(owner, document, start, plan))
        return BundleExplainAnswer(documents=tuple(explained), started=started)

    def _made(self, owner: str, documents: tuple[bytes, ...]) -> tuple[Composed | Resolved | None, ...]:
        """The documents that do not run as they are written; None for those that do."""
        resolver = Resolver(self._committer, self._store, self._tools.catalogue)
        resolved: dict[int, Resolved] = {}
        for at, raw in enumerate(documents):
            with of_document(at):
                if dynamic_in(raw):
                    resolved[at] = resolver.resolved(owner, raw)
        plain = tuple(resolved[at].document if at in resolved else raw for at, raw in enumerate(documents))
        composed: tuple[Composed | None, ...] = (None,) * len(documents)
        if any(map(pipeline_in, plain)):
            composed = PipelineComposer(self._committer, self._store, self._tools.catalogue).together(owner, plain)
        return tuple(resolved.get(at, each) for at, each in enumerate(composed))


def _kept(raw: bytes, made: Composed | Resolved | None) -> BundleDocument:
    return BundleDocument(raw) if made is None else BundleDocument(made.document, made.origin)
