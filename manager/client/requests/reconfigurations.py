"""The requests about reconfigurations of running dataflows."""

from manager.answers import Page, ReconfigurationAnswer, ReconfigurationForm
from manager.client.requests.request import IDEMPOTENCY_HEADER, Request, form_body, given, list_request, path_to


def reconfigure(
    dataflow: str, form: ReconfigurationForm, *, dry_run: bool, idempotency_key: str
) -> Request[ReconfigurationAnswer]:
    """Change tasks of a dataflow while they run, or preview that. It is done once, however often the key arrives."""
    return Request(
        method="POST",
        path=path_to("dataflows", dataflow, "reconfigurations"),
        answer=ReconfigurationAnswer,
        query=given(dry_run="true" if dry_run else None),
        headers={IDEMPOTENCY_HEADER: idempotency_key},
        body=form_body(form),
    )


def reconfigurations(dataflow: str) -> Request[Page[ReconfigurationAnswer]]:
    """The reconfigurations of a dataflow."""
    return list_request(path_to("dataflows", dataflow, "reconfigurations"), Page[ReconfigurationAnswer])


def reconfiguration(dataflow: str, number: str) -> Request[ReconfigurationAnswer]:
    """One reconfiguration."""
    return Request(path=path_to("dataflows", dataflow, "reconfigurations", number), answer=ReconfigurationAnswer)


def cancellation(dataflow: str, number: str) -> Request[ReconfigurationAnswer]:
    """Cancel a reconfiguration."""
    path = path_to("dataflows", dataflow, "reconfigurations", number)
    return Request(method="DELETE", path=path, answer=ReconfigurationAnswer)


def undoing(dataflow: str, number: str, *, dry_run: bool, idempotency_key: str) -> Request[ReconfigurationAnswer]:
    """Undo a reconfiguration, or preview that. It is done once, however often the key arrives."""
    return Request(
        method="POST",
        path=path_to("dataflows", dataflow, "reconfigurations", number, "undo"),
        answer=ReconfigurationAnswer,
        query=given(dry_run="true" if dry_run else None),
        headers={IDEMPOTENCY_HEADER: idempotency_key},
    )
