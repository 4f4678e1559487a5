"""How each documented answer of each route is reached on the real service: the table that OpenAPI is compared with.

An operation has one request that is done well. What refuses any request alike is made from it: no key, a parameter that
nobody knows, a body that is too large or no JSON, a service that waits or is broken. What is the operation's own stands
beside it, by the code of its problem.
"""

import hmac
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from dags.json_text import MOST_DOCUMENT_BYTES
from engine.code.wheel_file import MOST_WHEEL_BYTES
from manager.rest import examples
from manager.rest.bodies import MOST_FORM_BYTES, OCTETS
from manager.rest.examples import MODULE_FORM, SENT_EVENTS
from tests.engine.code.publication import wheel
from tests.manager.rest.town import HOOK_HEADER, HOOK_SECRET, NEEDED, UNNEEDED, USED

KEYS_OF = {"the key of ann": "ann", "the key of hasty": "hasty"}
"""In a body; what sends it puts the key there."""
ANNS_KEY, HASTYS_KEY = KEYS_OF
WELL = ""
"""The code of an answer that is no problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request; the path may name what `town` has places for."""

    who: str | None
    path: str
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    by_cookie: bool = False
    """Whether it comes by a session rather than with the key, and not from the console."""
    last: bool = False
    """Whether it is sent after everything else."""
    when: str = "well"
    """In which state the service is asked: `well`, `waiting` for the lead, `away` from its database, `keyless` without
    keys of its provider, or `broken`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """An operation, and how its answers are reached."""

    well: Ask
    own: Mapping[str, Ask] = field(default_factory=dict)
    waits: bool = False
    """Whether only a manager that leads can answer it."""
    queued: tuple[Ask, ...] = ()
    """What is answered later, sent after everything else, because then much waits."""
    is_document: bool = False
    most: int = MOST_FORM_BYTES
    """The most bytes of a body."""
    only_looks: bool = False
    """Whether it changes nothing, though it may look as if it did."""


def _ask(who: str | None, path: str, body: Any = None, **headers: str) -> Ask:
    return Ask(who=who, path=path, body=body, headers=headers)


_DOCUMENT = examples.DOCUMENT
_OF_ANOTHER = {"If-Match": '"of-another-document"'}
_BUNDLE = {"documents": [_DOCUMENT]}
_TRIAL = {"document": _DOCUMENT, "events": {"street": SENT_EVENTS}}
_PATCH = {"tasks": {"plausible": {"config": {"max": 50.0}}}}
_HOTTER = json.loads(json.dumps(_DOCUMENT).replace('"max": 43.1', '"max": 50.5')) | {"goals": []}
_TENANT, _QUOTA = {"name": "dora"}, {"dataflows": 1, "tasks": 4, "submits_per_minute": 0, "wheel_bytes": 0}
_SOURCE = {
    "name": "fresh",
    "connection": {"kind": "topic", "topic": "ann/fresh"},
    "schema": {"temperature": "float"},
}
_FILE = {"name": "file", "connection": {"kind": "replay", "path": "/file"}, "schema": {"temperature": "float"}}
_FAST = {"kind": "rate", "per_second": 200_000.0}
_PUBLIC = {"visibility": "public"}
_SCHEMA = {"schema": {"temperature": "float"}}


_MODULE = MODULE_FORM | {"name": "made"}
_CODE = {"name": "made", "version": 1, "shape": "filter", "code": {"source": "def process(event): return event"}}


SENT = wheel("sent")


def digest_of(content: bytes) -> str:
    """The digest of a wheel."""
    return sha256(content).hexdigest()


def _send(who: str, content: bytes) -> Ask:
    return Ask(who=who, path=f"/v1/wheels/{digest_of(content)}", body=content, headers={"Content-Type": OCTETS})


def _posted(token: str) -> Ask:
    """What a service posts to a webhook that is made as `town` makes them."""
    body = json.dumps(SENT_EVENTS)
    signature = hmac.digest(HOOK_SECRET.encode(), body.encode(), "sha256").hex()
    return Ask(who=None, path=f"/v1/hooks/{token}", body=body.encode(), headers={HOOK_HEADER: signature})


def _operators(path: str) -> Route:
    return Route(
        well=_ask("operator", path),
        own={"forbidden": _ask("ann", path)},
        waits=path not in {"/v1/hosts", "/v1/images", "/v1/machine-classes", "/v1/rentals"},
    )


ROUTES: dict[str, Route] = {
    "overview": Route(well=_ask("ann", "/v1/overview"), waits=True),
    "begin_session": Route(
        well=_ask(None, "/v1/session", {"key": ANNS_KEY}),
        own={
            "database-away": Ask(who=None, path="/v1/session", body={"key": ANNS_KEY}, when="away"),
            "too-many-requests": _ask(None, "/v1/session", {"key": HASTYS_KEY}),
            "foreign-page": _ask(None, "/v1/session", {"key": ANNS_KEY}, Origin="http://elsewhere.example"),
            "unauthenticated": _ask(None, "/v1/session", {"key": "guessed"}),
            "unexpected": Ask(who=None, path="/v1/session", body={"key": ANNS_KEY}, when="broken"),
        },
    ),
    "make_console_link": Route(well=_ask("ann", "/v1/session/link"), only_looks=True),
    "session": Route(well=_ask("ann", "/v1/session")),
    "end_session": Route(well=_ask("ann", "/v1/session"), only_looks=True),
    "submit": Route(
        well=_ask("ann", "/v1/dataflows", _DOCUMENT),
        own={
            "conflict": _ask("ann", "/v1/dataflows", _DOCUMENT, **{"Idempotency-Key": USED}),
            "not-found": _ask("ann", "/v1/dataflows?tenant=bob", _DOCUMENT),
            "quota-exceeded": _ask("poor", "/v1/dataflows", _DOCUMENT),
        },
        waits=True,
        is_document=True,
    ),
    "submit_bundle": Route(
        well=_ask("ann", "/v1/dataflows/bundle", _BUNDLE),
        own={
            "conflict": _ask("ann", "/v1/dataflows/bundle", _BUNDLE, **{"Idempotency-Key": USED}),
            "invalid-dataflow": _ask("ann", "/v1/dataflows/bundle", {"documents": [{}]}),
            "not-found": _ask("ann", "/v1/dataflows/bundle?tenant=bob", _BUNDLE),
            "quota-exceeded": _ask("poor", "/v1/dataflows/bundle", _BUNDLE),
        },
        waits=True,
        most=MOST_DOCUMENT_BYTES,
    ),
    "dataflows": Route(well=_ask("ann", "/v1/dataflows"), waits=True),
    "dataflow": Route(
        well=_ask("ann", "/v1/dataflows/{running}"),
        own={"not-found": _ask("bob", "/v1/dataflows/{running}")},
        waits=True,
    ),
    "replace": Route(
        well=_ask("ann", "/v1/dataflows/{edited}", _DOCUMENT),
        own={
            "changed": _ask("ann", "/v1/dataflows/{edited}", _DOCUMENT, **_OF_ANOTHER),
            "conflict": _ask("ann", "/v1/dataflows/{drained}", _DOCUMENT),
            "not-found": _ask("bob", "/v1/dataflows/{running}", _DOCUMENT),
            "quota-exceeded": _ask("poor", "/v1/dataflows/{poors}", _DOCUMENT),
        },
        waits=True,
        is_document=True,
    ),
    "adaptation": Route(
        well=_ask("ann", "/v1/dataflows/{adaptive}/adaptation"),
        own={
            "conflict": _ask("ann", "/v1/dataflows/{running}/adaptation"),
            "not-found": _ask("bob", "/v1/dataflows/{adaptive}/adaptation"),
        },
    ),
    "set_policy": Route(
        well=_ask("ann", "/v1/dataflows/{adaptive}/policy", {"latency": 10}),
        own={
            "conflict": _ask("ann", "/v1/dataflows/{running}/policy", {}),
            "not-found": _ask("bob", "/v1/dataflows/{adaptive}/policy", {}),
        },
        waits=True,
        most=MOST_DOCUMENT_BYTES,
    ),
    "choose": Route(
        well=_ask("ann", "/v1/dataflows/{adaptive}/choice", {"choose": {}}),
        own={
            "conflict": _ask("ann", "/v1/dataflows/{running}/choice", {"choose": {}}),
            "not-found": _ask("bob", "/v1/dataflows/{adaptive}/choice", {"choose": {}}),
        },
        waits=True,
    ),
    "reconfigure": Route(
        well=_ask("ann", "/v1/dataflows/{alone}/reconfigurations?dry_run=true", _PATCH),
        own={
            "changed": _ask("ann", "/v1/dataflows/{alone}/reconfigurations", _PATCH, **_OF_ANOTHER),
            "conflict": _ask("ann", "/v1/dataflows/{drained}/reconfigurations", _PATCH),
            "forbidden": _ask("ann", "/v1/dataflows/{alone}/reconfigurations", _PATCH | {"dataflows": ["d-1"]}),
            "invalid-dataflow": _ask("ann", "/v1/dataflows/{alone}/reconfigurations", {"tasks": {"nobody": {}}}),
            "not-found": _ask("bob", "/v1/dataflows/{running}/reconfigurations", _PATCH),
            "quota-exceeded": _ask("poor", "/v1/dataflows/{poors}/reconfigurations", _PATCH),
        },
        waits=True,
        queued=(
            _ask("ann", "/v1/dataflows/{edited}/reconfigurations", _PATCH),
            _ask("ann", "/v1/dataflows/{alone}/reconfigurations", _PATCH),
        ),
    ),
    "reconfigurations": Route(
        well=_ask("ann", "/v1/dataflows/{alone}/reconfigurations"),
        own={"not-found": _ask("bob", "/v1/dataflows/{running}/reconfigurations")},
    ),
    "reconfiguration": Route(
        well=_ask("ann", "/v1/dataflows/{alone}/reconfigurations/{changed}"),
        own={"not-found": _ask("ann", "/v1/dataflows/{running}/reconfigurations/{changed}")},
    ),
    "cancel_reconfiguration": Route(
        well=_ask("ann", "/v1/dataflows/{alone}/reconfigurations/{abandoned}"),
        own={
            "conflict": _ask("ann", "/v1/dataflows/{alone}/reconfigurations/{changed}"),
            "not-found": _ask("ann", "/v1/dataflows/{running}/reconfigurations/{changed}"),
            "not-ready": Ask(who="ann", path="/v1/dataflows/{alone}/reconfigurations/{changed}", when="waiting"),
        },
    ),
    "undo_reconfiguration": Route(
        well=_ask("ann", "/v1/dataflows/{alone}/reconfigurations/{changed}/undo?dry_run=true"),
        own={
            "conflict": _ask("ann", "/v1/dataflows/{alone}/reconfigurations/{abandoned}/undo"),
            "not-found": _ask("ann", "/v1/dataflows/{running}/reconfigurations/{changed}/undo"),
            "quota-exceeded": _ask("poor", "/v1/dataflows/{poors}/reconfigurations/{poors_change}/undo"),
        },
        waits=True,
        queued=(_ask("ann", "/v1/dataflows/{alone}/reconfigurations/{changed}/undo"),),
    ),
    "replan": Route(
        well=_ask("poor", "/v1/dataflows/{poors}/replan?dry_run=true", {}),
        own={
            "conflict": _ask("ann", "/v1/dataflows/{alone}/replan", {}),
            "invalid-dataflow": _ask("poor", "/v1/dataflows/{poors}/replan", {"pipeline": {"version": 1}}),
            "not-found": _ask("bob", "/v1/dataflows/{poors}/replan", {}),
            "quota-exceeded": _ask("poor", "/v1/dataflows/{poors}/replan", {"pipeline": _HOTTER}),
        },
        waits=True,
    ),
    "remove": Route(
        well=_ask("ann", "/v1/dataflows/{drained}"),
        own={
            "changed": _ask("ann", "/v1/dataflows/{running}", **_OF_ANOTHER),
            "conflict": _ask("ann", "/v1/dataflows/{removed}"),
            "not-found": _ask("bob", "/v1/dataflows/{running}"),
        },
        waits=True,
    ),
    "preview_dataflow_removal": Route(
        well=_ask("ann", "/v1/dataflows/{running}/removal"),
        own={
            "conflict": _ask("ann", "/v1/dataflows/{removed}/removal"),
            "not-found": _ask("bob", "/v1/dataflows/{running}/removal"),
        },
        waits=True,
    ),
    "dataflow_tasks": Route(
        well=_ask("ann", "/v1/dataflows/{running}/tasks"),
        own={"not-found": _ask("bob", "/v1/dataflows/{running}/tasks")},
        waits=True,
    ),
    "watch": Route(
        well=_ask("ann", "/v1/dataflows/{running}/outputs/averages/events"),
        own={
            "conflict": _ask("ann", "/v1/dataflows/{removed}/outputs/averages/events"),
            "not-found": _ask("ann", "/v1/dataflows/{running}/outputs/nothing/events"),
            "quota-exceeded": _ask("poor", "/v1/dataflows/{poors}/outputs/averages/events"),
        },
        waits=True,
    ),
    "task_events": Route(
        well=_ask("ann", "/v1/dataflows/{running}/tasks/averages/events"),
        own={
            "conflict": _ask("ann", "/v1/dataflows/{removed}/tasks/averages/events"),
            "not-found": _ask("ann", "/v1/dataflows/{running}/tasks/nothing/events"),
            "quota-exceeded": _ask("poor", "/v1/dataflows/{poors}/tasks/averages/events"),
        },
        waits=True,
    ),
    "outputs": Route(
        well=_ask("ann", "/v1/dataflows/{running}/outputs"),
        own={
            "conflict": _ask("ann", "/v1/dataflows/{removed}/outputs"),
            "not-found": _ask("ann", "/v1/dataflows/{running}/outputs?sink=nothing"),
            "quota-exceeded": _ask("poor", "/v1/dataflows/{poors}/outputs"),
        },
        waits=True,
    ),
    "send_events": Route(
        well=_ask("city", "/v1/sources/street/events", SENT_EVENTS),
        own={
            "conflict": _ask("city", "/v1/sources/spare/events", SENT_EVENTS),
            "forbidden": _ask("ann", "/v1/sources/city:street/events", SENT_EVENTS),
            "not-found": _ask("ann", "/v1/sources/street/events", SENT_EVENTS),
            "not-taken": _ask("bob", "/v1/sources/quiet/events", SENT_EVENTS),
            "quota-exceeded": _ask("operator", "/v1/sources/city:street/events", SENT_EVENTS),
        },
        waits=True,
    ),
    "make_webhook": Route(
        well=_ask("city", "/v1/sources/hookless/webhook", {"scheme": "github"}),
        own={
            "conflict": _ask("city", "/v1/sources/spare/webhook", {}),
            "forbidden": _ask("ann", "/v1/sources/city:street/webhook", {}),
            "not-found": _ask("ann", "/v1/sources/street/webhook", {}),
        },
        waits=True,
    ),
    "rotate_webhook": Route(
        well=_ask("city", "/v1/sources/street/webhook/rotate", {}),
        own={
            "conflict": _ask("city", "/v1/sources/ticks/webhook/rotate", {}),
            "forbidden": _ask("ann", "/v1/sources/city:street/webhook/rotate", {}),
            "not-found": _ask("ann", "/v1/sources/street/webhook/rotate", {}),
        },
        waits=True,
    ),
    "webhook": Route(
        well=_ask("city", "/v1/sources/street/webhook"),
        own={
            "conflict": _ask("city", "/v1/sources/ticks/webhook"),
            "forbidden": _ask("ann", "/v1/sources/city:street/webhook"),
            "not-found": _ask("ann", "/v1/sources/street/webhook"),
        },
        waits=True,
    ),
    "revoke_webhook": Route(
        well=_ask("city", "/v1/sources/spare/webhook"),
        own={
            "conflict": _ask("city", "/v1/sources/ticks/webhook"),
            "forbidden": _ask("ann", "/v1/sources/city:street/webhook"),
            "not-found": _ask("ann", "/v1/sources/street/webhook"),
        },
        waits=True,
    ),
    "deliver": Route(
        well=_posted("{streets_hook}"),
        own={
            "unauthenticated": _ask(None, "/v1/hooks/{streets_hook}", SENT_EVENTS),
            "too-many-requests": _posted("{hastys_hook}"),
            "conflict": _posted("{spares_hook}"),
            "not-taken": _posted("{bobs_hook}"),
            "quota-exceeded": _posted("{poors_hook}"),
            "database-away": replace(_posted("{streets_hook}"), when="away"),
            "unexpected": replace(_posted("{streets_hook}"), when="broken"),
        },
        waits=True,
    ),
    "propose_source": Route(
        only_looks=True,
        well=_ask("ann", "/v1/sources/propose", {"topic": "ann/pavement", "seconds": 1}),
        own={
            "forbidden": _ask("ann", "/v1/sources/propose", {"topic": "city/street"}),
            "quota-exceeded": _ask("poor", "/v1/sources/propose", {"topic": "poor/street"}),
        },
        waits=True,
    ),
    "producer": Route(
        well=_ask("city", "/v1/sources/street/producers/day"),
        own={
            "conflict": _ask("city", "/v1/sources/spare/producers/day"),
            "forbidden": _ask("ann", "/v1/sources/city:street/producers/day"),
            "not-found": _ask("ann", "/v1/sources/street/producers/day"),
            "not-taken": _ask("bob", "/v1/sources/quiet/producers/day"),
            "quota-exceeded": _ask("operator", "/v1/sources/city:street/producers/day"),
        },
        waits=True,
    ),
    "explain": Route(
        only_looks=True,
        well=_ask("ann", "/v1/explain", _DOCUMENT),
        own={"not-found": _ask("ann", "/v1/explain?tenant=bob", _DOCUMENT)},
        waits=True,
        is_document=True,
    ),
    "explain_bundle": Route(
        only_looks=True,
        well=_ask("ann", "/v1/explain/bundle", _BUNDLE),
        own={
            "invalid-dataflow": _ask("ann", "/v1/explain/bundle", {"documents": [{}]}),
            "not-found": _ask("ann", "/v1/explain/bundle?tenant=bob", _BUNDLE),
        },
        waits=True,
        most=MOST_DOCUMENT_BYTES,
    ),
    "try_document": Route(
        well=_ask("ann", "/v1/try", _TRIAL),
        own={
            "invalid-dataflow": _ask("ann", "/v1/try", {"document": []}),
            "not-found": _ask("ann", "/v1/try?tenant=bob", _TRIAL),
            "quota-exceeded": _ask("poor", "/v1/try", _TRIAL),
        },
        waits=True,
        most=MOST_DOCUMENT_BYTES,
    ),
    "task_types": Route(well=_ask("ann", "/v1/task-types")),
    "publish_module": Route(
        well=_ask("ann", "/v1/modules", _MODULE),
        own={
            "conflict": _ask("ann", "/v1/modules", MODULE_FORM | {"summary": "other"}),
            "forbidden": _ask("ann", "/v1/modules", _CODE),
            "invalid-module": _ask("ann", "/v1/modules", {}),
        },
    ),
    "modules": Route(well=_ask("ann", "/v1/modules"), own={"not-found": _ask("ann", "/v1/modules?tenant=bob")}),
    "module_versions": Route(
        well=_ask("ann", "/v1/modules/plausible"), own={"not-found": _ask("bob", "/v1/modules/plausible")}
    ),
    "module": Route(
        well=_ask("ann", "/v1/modules/plausible/1"), own={"not-found": _ask("ann", "/v1/modules/plausible/2")}
    ),
    "deprecate_module": Route(
        well=_ask("ann", "/v1/modules/plausible/1/deprecate"),
        own={
            "forbidden": _ask("ann", "/v1/modules/everybodys/1/deprecate"),
            "not-found": _ask("bob", "/v1/modules/plausible/1/deprecate"),
        },
    ),
    **{
        name: Route(
            well=_ask("operator", "/v1/modules/script/1/vouch?tenant=city"),
            own={
                "conflict": _ask("operator", "/v1/modules/plausible/1/vouch?tenant=ann"),
                "forbidden": _ask("city", "/v1/modules/script/1/vouch"),
                "not-found": _ask("operator", "/v1/modules/script/2/vouch?tenant=city"),
            },
        )
        for name in ("vouch_for_module", "withdraw_vouch")
    },
    "put_wheel": Route(
        well=_send("city", SENT),
        own={
            "conflict": _send("city", wheel("needed", files={})),
            "forbidden": _send("ann", SENT),
            "invalid-wheel": _send("city", b"no wheel"),
            "quota-exceeded": _send("poor", SENT),
        },
        most=MOST_WHEEL_BYTES,
    ),
    "wheels": Route(well=_ask("ann", "/v1/wheels"), own={"not-found": _ask("ann", "/v1/wheels?tenant=bob")}),
    "remove_wheel": Route(
        well=_ask("city", f"/v1/wheels/{digest_of(UNNEEDED)}"),
        own={
            "conflict": _ask("city", f"/v1/wheels/{digest_of(NEEDED)}"),
            "not-found": _ask("ann", f"/v1/wheels/{digest_of(UNNEEDED)}"),
        },
    ),
    "register_source": Route(
        well=_ask("ann", "/v1/sources", _SOURCE),
        own={
            "conflict": _ask("city", "/v1/sources", _SOURCE | {"name": "street"}),
            "forbidden": _ask("ann", "/v1/sources", _FILE),
            "not-found": _ask("operator", "/v1/sources", _SOURCE | {"owner": "nobody"}),
            "quota-exceeded": _ask("ann", "/v1/sources", {"name": "fast", "connection": _FAST}),
        },
        waits=True,
    ),
    "sources": Route(well=_ask("ann", "/v1/sources"), waits=True),
    "source": Route(
        well=_ask("ann", "/v1/sources/city:street"),
        own={"not-found": _ask("ann", "/v1/sources/street")},
        waits=True,
    ),
    "set_visibility": Route(
        well=_ask("city", "/v1/sources/spare/visibility", _PUBLIC),
        own={
            "forbidden": _ask("ann", "/v1/sources/city:spare/visibility", _PUBLIC),
            "not-found": _ask("ann", "/v1/sources/spare/visibility", _PUBLIC),
        },
        waits=True,
    ),
    "declare_fields": Route(
        well=_ask("city", "/v1/sources/spare/schema", _SCHEMA),
        own={
            "conflict": _ask("city", "/v1/sources/ticks/schema", _SCHEMA),
            "forbidden": _ask("ann", "/v1/sources/city:spare/schema", _SCHEMA),
            "not-found": _ask("ann", "/v1/sources/spare/schema", _SCHEMA),
        },
        waits=True,
    ),
    "revoke_source": Route(
        well=_ask("city", "/v1/sources/spare"),
        own={"forbidden": _ask("ann", "/v1/sources/city:spare"), "not-found": _ask("ann", "/v1/sources/spare")},
        waits=True,
    ),
    "admit": Route(
        well=_ask("operator", "/v1/tenants", _TENANT),
        own={
            "conflict": _ask("operator", "/v1/tenants", {"name": "ann"}),
            "forbidden": _ask("ann", "/v1/tenants", _TENANT),
        },
    ),
    "tenants": Route(well=_ask("ann", "/v1/tenants")),
    "set_quota": Route(
        well=_ask("operator", "/v1/tenants/poor/quota", _QUOTA),
        own={
            "forbidden": _ask("poor", "/v1/tenants/poor/quota", _QUOTA),
            "not-found": _ask("operator", "/v1/tenants/nobody/quota", _QUOTA),
        },
    ),
    "set_publishing": Route(
        well=_ask("operator", "/v1/tenants/poor/publishing", {"code": True}),
        own={
            "forbidden": _ask("poor", "/v1/tenants/poor/publishing", {"code": True}),
            "not-found": _ask("operator", "/v1/tenants/nobody/publishing", {"code": True}),
        },
    ),
    "make_credentials": Route(
        well=_ask("ann", "/v1/tenants/ann/credentials"),
        own={"not-found": _ask("ann", "/v1/tenants/bob/credentials")},
    ),
    "broker_login": Route(
        well=_ask("ann", "/v1/tenants/ann/credentials"),
        own={"not-found": _ask("ann", "/v1/tenants/bob/credentials")},
    ),
    "make_key": Route(
        well=_ask("ann", "/v1/keys", {}),
        own={
            "forbidden": _ask("ann", "/v1/keys", {"tenant": "bob"}),
            "not-found": _ask("operator", "/v1/keys", {"tenant": "nobody"}),
        },
    ),
    "keys": Route(well=_ask("ann", "/v1/keys")),
    "revoke_key": Route(
        well=_ask("ann", "/v1/keys/{spare_key}"),
        own={
            "conflict": _ask("operator", "/v1/keys/{operators_key}"),
            "not-found": _ask("bob", "/v1/keys/{spare_key}"),
        },
    ),
    "put_secret": Route(
        well=_ask("ann", "/v1/secrets/lake", {"secret": "hush"}),
        own={"not-found": _ask("ann", "/v1/secrets/lake?tenant=bob", {"secret": "hush"})},
    ),
    "secrets": Route(well=_ask("ann", "/v1/secrets"), own={"not-found": _ask("ann", "/v1/secrets?tenant=bob")}),
    "remove_secret": Route(
        well=_ask("ann", "/v1/secrets/warehouse"), own={"not-found": _ask("bob", "/v1/secrets/warehouse")}
    ),
    "running_tasks": Route(well=_ask("ann", "/v1/running/tasks"), waits=True),
    "running_dags": _operators("/v1/running/dags"),
    "jobs": _operators("/v1/jobs"),
    "job": Route(
        well=_ask("operator", "/v1/jobs/{job}"),
        own={"forbidden": _ask("ann", "/v1/jobs/{job}"), "not-found": _ask("operator", "/v1/jobs/999")},
        waits=True,
    ),
    "streams": _operators("/v1/streams"),
    "hosts": _operators("/v1/hosts"),
    "machines": _operators("/v1/machines"),
    "admit_machine": Route(
        well=_ask("operator", "/v1/machines/north/admit"),
        own={
            "conflict": _ask("operator", "/v1/machines/north/admit?key=another"),
            "forbidden": _ask("ann", "/v1/machines/north/admit"),
            "not-found": _ask("operator", "/v1/machines/nowhere/admit"),
        },
        waits=True,
    ),
    "drain_machine": Route(
        well=_ask("operator", "/v1/machines/north/drain"),
        own={
            "forbidden": _ask("ann", "/v1/machines/north/drain"),
            "not-found": _ask("operator", "/v1/machines/nowhere/drain"),
        },
        waits=True,
    ),
    "undrain_machine": Route(
        well=_ask("operator", "/v1/machines/north/drain"),
        own={
            "forbidden": _ask("ann", "/v1/machines/north/drain"),
            "not-found": _ask("operator", "/v1/machines/nowhere/drain"),
        },
        waits=True,
    ),
    "forget_machine": Route(
        well=_ask("operator", "/v1/machines/south"),
        own={
            "conflict": _ask("operator", "/v1/machines/north"),
            "forbidden": _ask("ann", "/v1/machines/south"),
            "not-found": _ask("operator", "/v1/machines/nowhere"),
        },
        waits=True,
    ),
    "machine_classes": _operators("/v1/machine-classes"),
    "put_machine_class": Route(
        well=_ask("operator", "/v1/machine-classes/small", {"cores": 2, "price": 0.1}),
        own={
            "conflict": _ask("operator", "/v1/machine-classes/rented", {"cores": 2}),
            "forbidden": _ask("ann", "/v1/machine-classes/small", {"cores": 2}),
        },
        waits=True,
    ),
    "remove_machine_class": Route(
        well=_ask("operator", "/v1/machine-classes/large"),
        own={
            "conflict": _ask("operator", "/v1/machine-classes/rented"),
            "forbidden": _ask("ann", "/v1/machine-classes/large"),
            "not-found": _ask("operator", "/v1/machine-classes/nothing"),
        },
        waits=True,
    ),
    "rentals": _operators("/v1/rentals"),
    "images": _operators("/v1/images"),
    "put_image": Route(
        well=_ask("operator", "/v1/images/gpu", {"tags": ["gpu"], "cores": 8}),
        own={"forbidden": _ask("ann", "/v1/images/gpu", {"tags": ["gpu"]})},
        waits=True,
    ),
    "remove_image": Route(
        well=_ask("operator", "/v1/images/gpu"),
        own={"forbidden": _ask("ann", "/v1/images/gpu"), "not-found": _ask("operator", "/v1/images/nothing")},
        waits=True,
    ),
    "explain_placement": Route(
        well=_ask("operator", "/v1/dataflows/{running}/placement"),
        own={
            "conflict": _ask("operator", "/v1/dataflows/{removed}/placement"),
            "forbidden": _ask("ann", "/v1/dataflows/{running}/placement"),
            "not-found": _ask("operator", "/v1/dataflows/nothing/placement"),
        },
        waits=True,
    ),
    "export_placement": Route(
        well=_ask("operator", "/v1/dataflows/{running}/placement/pddl"),
        own={
            "conflict": _ask("operator", "/v1/dataflows/{removed}/placement/pddl"),
            "forbidden": _ask("ann", "/v1/dataflows/{running}/placement/pddl"),
            "not-found": _ask("operator", "/v1/dataflows/nothing/placement/pddl"),
        },
        waits=True,
    ),
    # Nothing of it is its own, so the plan without steps is one.
    "check_placement_plan": Route(
        well=_ask("operator", "/v1/dataflows/{running}/placement/plan", {"plan": ";"}),
        own={
            "conflict": _ask("operator", "/v1/dataflows/{removed}/placement/plan", {"plan": ";"}),
            "forbidden": _ask("ann", "/v1/dataflows/{running}/placement/plan", {"plan": ";"}),
            "not-found": _ask("operator", "/v1/dataflows/nothing/placement/plan", {"plan": ";"}),
        },
        waits=True,
    ),
    "fragmentation": _operators("/v1/fragmentation"),
    "preview_defragmentation": _operators("/v1/defragmentations/preview"),
    "defragment": Route(
        well=_ask("operator", "/v1/defragmentations"),
        own={
            "conflict": _ask("operator", "/v1/defragmentations"),
            "forbidden": _ask("ann", "/v1/defragmentations"),
        },
        waits=True,
    ),
    "dataflow_history": Route(
        well=_ask("ann", "/v1/dataflows/{running}/series?range=15m"),
        own={"not-found": _ask("bob", "/v1/dataflows/{running}/series")},
    ),
    "savings": Route(
        well=_ask("ann", "/v1/reports/savings"),
        own={"not-found": _ask("ann", "/v1/reports/savings?tenant=bob")},
    ),
    "savings_series": Route(
        well=_ask("ann", "/v1/reports/savings/series"),
        own={"not-found": _ask("ann", "/v1/reports/savings/series?tenant=bob")},
    ),
    "bill": Route(
        well=_ask("ann", "/v1/reports/bills"),
        own={"not-found": _ask("ann", "/v1/reports/bills?tenant=bob")},
    ),
    "operations": Route(well=_ask("ann", "/v1/operations")),
    "audit": Route(well=_ask("ann", "/v1/audit")),
    "dead_letters": Route(well=_ask("ann", "/v1/dead-letters")),
    "dead_letter_groups": Route(well=_ask("ann", "/v1/dead-letters/groups")),
    # One first: all of a dataflow would take it as well.
    "replay_dead_letter": Route(
        well=_ask("ann", "/v1/dead-letters/{own_letter}/replay"),
        own={
            "conflict": _ask("ann", "/v1/dead-letters/{sources_letter}/replay"),
            "forbidden": _ask("ann", "/v1/dead-letters/{shared_letter}/replay"),
            "not-found": _ask("bob", "/v1/dead-letters/{own_letter}/replay"),
        },
        waits=True,
    ),
    "replay_dead_letters": Route(
        well=_ask("ann", "/v1/dead-letters/replay?dataflow={alone}"),
        own={
            "conflict": _ask("ann", "/v1/dead-letters/replay?dataflow={running}"),
            "forbidden": _ask("ann", "/v1/dead-letters/replay?dataflow={edited}"),
            "not-found": _ask("bob", "/v1/dead-letters/replay?dataflow={running}"),
        },
        waits=True,
    ),
    "discard_dead_letter": Route(
        well=_ask("ann", "/v1/dead-letters/{letter}"),
        own={"not-found": _ask("bob", "/v1/dead-letters/{letter}")},
    ),
    "discard_dead_letters": Route(
        well=_ask("ann", "/v1/dead-letters?dataflow={drained}"),
        own={"not-found": _ask("bob", "/v1/dead-letters?dataflow={running}")},
    ),
    "events": Route(well=_ask("ann", "/v1/events")),
    "metrics": Route(well=_ask("ann", "/metrics"), waits=True),
    "healthz": Route(well=_ask(None, "/healthz")),
    "readyz": Route(well=_ask(None, "/readyz"), waits=True),
    "about": Route(well=_ask(None, "/problems/conflict"), own={"not-found": _ask(None, "/problems/none")}),
}


def asked(route: Route, *, changes: bool) -> Iterator[tuple[str, Ask]]:
    """Every request that reaches an answer of a route, which may change something, by the code of the answer."""
    well = route.well
    yield "invalid-request", replace(well, path=f"{well.path}{'&' if '?' in well.path else '?'}unknown=1")
    if route.waits:
        yield "not-ready", replace(well, when="waiting")
    if well.who is not None:
        yield "unauthenticated", replace(well, who=None)
        yield "too-many-requests", replace(well, who="hasty")
        if changes:
            yield "foreign-page", replace(well, by_cookie=True)
        if changes and not route.only_looks:
            yield "forbidden", replace(well, who="reader")
        elif well.who == "ann":
            yield WELL, replace(well, who="reader")
        yield "forbidden", replace(well, who="outsider")
        yield "provider-away", replace(well, who="outsider", when="keyless")
        yield "database-away", replace(well, when="away")
        yield "unexpected", replace(well, when="broken")
    if well.body is not None:
        most = MOST_DOCUMENT_BYTES if route.is_document else route.most
        yield "too-large", replace(well, body=b" " * (most + 1))
        yield "unsupported-media-type", replace(well, headers={**well.headers, "Content-Type": "text/plain"})
    if route.is_document:
        yield "invalid-dataflow", replace(well, body={})
    yield from route.own.items()
    yield WELL, well
    for each in route.queued:
        yield WELL, replace(each, last=True)
