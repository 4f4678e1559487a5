"""The requests about dynamic dataflows."""

from manager.answers import AdaptationAnswer, ChoiceForm
from manager.client.requests.request import Document, Request, document_body, form_body, path_to


def adaptation(dataflow: str) -> Request[AdaptationAnswer]:
    """Show what a dynamic dataflow has chosen."""
    return Request(method="GET", path=path_to("dataflows", dataflow, "adaptation"), answer=AdaptationAnswer)


def set_policy(dataflow: str, policy: Document) -> Request[AdaptationAnswer]:
    """Replace the policy of a dynamic dataflow."""
    return Request(
        method="PUT",
        path=path_to("dataflows", dataflow, "policy"),
        answer=AdaptationAnswer,
        body=document_body(policy),
    )


def choose(dataflow: str, form: ChoiceForm) -> Request[AdaptationAnswer]:
    """Choose alternates and streams by hand."""
    return Request(
        method="PUT", path=path_to("dataflows", dataflow, "choice"), answer=AdaptationAnswer, body=form_body(form)
    )
