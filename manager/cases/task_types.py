"""Task types: listed by name."""

from dags import AnyTaskType
from manager.answers import Page, TaskTypeAnswer
from manager.cases.base import Base, Paging, paged


class TaskTypes(Base):
    """The task types that documents may name; they are the same for every caller."""

    def page(self, paging: Paging, *, name: str | None = None) -> Page[TaskTypeAnswer]:
        """The installed types, by name, or the one of that name, which may be in a namespace."""
        catalogue = self._tools.catalogue
        if name is not None:
            found = catalogue.find(name)
            return Page(items=() if found is None else (_answer(found),))
        names = sorted(each for each in catalogue.types if each > (paging.after or ""))
        return paged(
            names[: paging.limit + 1],
            paging.limit,
            cursor=lambda each: each,
            answer=lambda each: _answer(catalogue.types[each]),
        )


def _answer(found: AnyTaskType) -> TaskTypeAnswer:
    fixed = found.ports is None
    return TaskTypeAnswer(
        name=found.name,
        version=found.version,
        summary=found.summary,
        inputs=found.inputs if fixed else None,
        outputs=found.outputs if fixed else None,
        state=found.state,
        config=found.config.model_json_schema(),
    )
