"""The request that plans a running pipeline anew."""

from manager.answers import ReplanAnswer, ReplanForm
from manager.client.requests.request import Request, form_body, given, path_to


def replan(dataflow: str, form: ReplanForm, *, dry_run: bool) -> Request[ReplanAnswer]:
    """Plan a pipeline anew and apply the difference, or preview that."""
    return Request(
        method="POST",
        path=path_to("dataflows", dataflow, "replan"),
        answer=ReplanAnswer,
        query=given(dry_run="true" if dry_run else None),
        body=form_body(form),
    )
