"""Pass: decide what may be shared."""

from dataclasses import replace

from dags.canonical.draft import Accepted
from dags.dataflow import Scope


def settle_scopes(accepted: Accepted) -> Accepted:
    """Give every task its scope: none where it may be shared, else one that its descendants inherit.

    A task whose parents have different scopes gets one of its own. If it inherited one of them, two tasks could have
    equal signatures and scopes although one follows the shared and the other the confined twin of the same parent.

    >>> settled = settle_scopes(accepted("s:source > a:map > k:sink s > r:random > b:map > l:sink"))
    >>> dict(zip(settled.ids, settled.scopes))["b"]
    Scope(dataflow='flow', task='r')
    """
    scopes: list[Scope | None] = [None] * len(accepted.ids)
    for i in accepted.order:
        above = {scopes[wire.origin] for wire in accepted.inputs[i]}
        own = accepted.fresh[i] or not accepted.types[i].shareable or len(above) > 1
        scopes[i] = Scope(accepted.dataflow, accepted.ids[i]) if own else next(iter(above), None)
    return replace(accepted, scopes=tuple(scopes))
