"""Fallbacks: for each module of a plan the next best plan, which does without it.

They are planned when they are needed and not kept. That takes a tenth of a second, a failure is known after three
batches, and what is kept grows old with every change of modules, sources and what runs.
"""

from manager.answers import FallbackAnswer
from manager.cases.planned.composer import TOO_LONG, Composed, PipelineComposer, Present, countdown, steady
from manager.cases.planned.plan_answers import changed_places
from manager.problem import InvalidDataflow
from planning.pipelines.candidates import NO_OP

_MOST_MODULES = 20
"""With more modules, all fallbacks take too long to plan."""


def fallbacks_of(
    composer: PipelineComposer, tenant: str, composed: Composed, *, dataflow: str = "planned"
) -> tuple[FallbackAnswer, ...]:
    """What would happen if one of the modules of a plan failed; nothing for a plan of very many."""
    modules = sorted(set(composed.planned.fillings.values()) - {NO_OP})
    if len(modules) > _MOST_MODULES:
        return ()
    left = countdown()
    fillings = composed.planned.fillings
    criteria = steady(composed.planned.pipeline.blueprint.form.prefer)
    found = []
    for module in modules:
        present = Present(dataflow=dataflow, fillings=fillings, without=frozenset({module}))
        try:
            other = composer.composed(
                tenant, composed.pipeline, present=present, criteria=criteria, left=left, reasons=False
            )
        except InvalidDataflow as refused:
            if TOO_LONG in refused.errors:
                # What would happen is not known.
                break
            found.append(FallbackAnswer(module=module, no_plan="; ".join(each.message for each in refused.errors)))
        else:
            found.append(FallbackAnswer(module=module, places=changed_places(fillings, other.planned.fillings)))
    return tuple(found)
