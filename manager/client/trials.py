"""The request that tries a document, as in `manager.client.requests`."""

import json
from collections.abc import Mapping, Sequence

from manager.answers.trials import TrialAnswer
from manager.client.errors import Document, Request, path_to


def try_document(
    document: Document,
    *,
    events: Mapping[str, Sequence[Mapping[str, object]]] | None = None,
    newest: int | None = None,
    tenant: str | None = None,
) -> Request[TrialAnswer]:
    """Try a document, which may have problems, on a few events before it is submitted; nothing of it runs on.

    `events` are those of a source, by the id of its task or by its name. Of other sources the newest events are taken
    that are kept, so many at most.
    """
    given = {"events": events, "newest": newest}
    wishes = {name: wish for name, wish in given.items() if wish is not None}
    more = "".join(f", {json.dumps(name)}: {json.dumps(wish)}" for name, wish in wishes.items())
    # The document as it was written.
    text = document if isinstance(document, bytes) else json.dumps(document, ensure_ascii=False).encode()
    return Request(
        method="POST",
        path=path_to("try"),
        answer=TrialAnswer,
        query={} if tenant is None else {"tenant": tenant},
        body=b'{"document": %b%b}' % (text, more.encode()),
    )
