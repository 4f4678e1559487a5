"""The client of the service, and the methods of both clients: one for each function that makes a request."""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from pydantic import BaseModel

from braid_client import requests
from braid_client import sources as source_requests
from braid_client.answers.base import Page
from braid_client.connection import ServiceConnection
from braid_client.request import Request

if TYPE_CHECKING:
    from braid_client.async_connection import AsyncServiceConnection
A = TypeVar("A", bound=BaseModel)
P = ParamSpec("P")


class _Sends(Generic[P, A]):
    """A method that sends the request which a function makes; without a client it is that function."""

    def __init__(self, request: Callable[P, Request[A]]) -> None:
        self._request = request

    @overload
    def __get__(self, client: ServiceConnection, owner: type) -> Callable[P, A]: ...
    @overload
    def __get__(self, client: "AsyncServiceConnection", owner: type) -> Callable[P, Coroutine[Any, Any, A]]: ...
    @overload
    def __get__(self, client: None, owner: type) -> Callable[P, Request[A]]: ...
    def __get__(self, client: "ServiceConnection | AsyncServiceConnection | None", owner: type) -> Callable[P, Any]:
        return _asking(self._request, None if client is None else client.ask)


class _Lists(Generic[P, A]):
    """A method that lists what a function requests; pages are requested one after the other."""

    def __init__(self, request: Callable[P, Request[Page[A]]]) -> None:
        self._request = request

    @overload
    def __get__(self, client: ServiceConnection, owner: type) -> Callable[P, Iterator[A]]: ...
    @overload
    def __get__(self, client: "AsyncServiceConnection", owner: type) -> Callable[P, AsyncIterator[A]]: ...
    @overload
    def __get__(self, client: None, owner: type) -> Callable[P, Request[Page[A]]]: ...
    def __get__(self, client: "ServiceConnection | AsyncServiceConnection | None", owner: type) -> Callable[P, Any]:
        return _asking(self._request, None if client is None else client.items)


def _asking(request: Callable[P, Any], ask: Callable[[Any], Any] | None) -> Callable[P, Any]:
    """A method that asks with the request of a function, and looks like it; the function itself if nobody asks."""
    if ask is None:
        return request

    @wraps(request)
    def method(*args: P.args, **kwargs: P.kwargs) -> Any:
        return ask(request(*args, **kwargs))

    return method


class ClientMethods:
    """The methods of both clients."""

    # Dataflows.
    submit = _Sends(requests.submit)
    submit_together = _Sends(requests.submit_together)
    explain = _Sends(requests.explain)
    explain_together = _Sends(requests.explain_together)
    try_document = _Sends(requests.try_document)
    replace = _Sends(requests.replace)
    remove = _Sends(requests.remove)
    preview_removal = _Sends(requests.preview_removal)
    task_events = _Sends(requests.task_events)
    dataflow_tasks = _Sends(requests.dataflow_tasks)
    dataflows = _Lists(requests.dataflows)
    reconfigure = _Sends(requests.reconfigure)
    reconfigurations = _Lists(requests.reconfigurations)
    reconfiguration = _Sends(requests.reconfiguration)
    cancel_reconfiguration = _Sends(requests.cancel_reconfiguration)
    undo_reconfiguration = _Sends(requests.undo_reconfiguration)

    # Pipelines and dataflows that adapt.
    replan = _Sends(requests.replan)
    adaptation = _Sends(requests.adaptation)
    set_policy = _Sends(requests.set_policy)
    choose = _Sends(requests.choose)
    publish_module = _Sends(requests.publish_module)
    modules = _Lists(requests.modules)
    module_versions = _Lists(requests.module_versions)
    module = _Sends(requests.module)
    deprecate_module = _Sends(requests.deprecate_module)
    vouch_for_module = _Sends(requests.vouch_for_module)
    withdraw_vouch = _Sends(requests.withdraw_vouch)
    put_wheel = _Sends(requests.put_wheel)
    wheels = _Lists(requests.wheels)
    remove_wheel = _Sends(requests.remove_wheel)

    # Sources, task types and dead letters.
    register_source = _Sends(source_requests.register_source)
    propose_source = _Sends(source_requests.propose_source)
    sources = _Lists(source_requests.sources)
    source = _Sends(source_requests.source)
    send_events = _Sends(source_requests.send_events)
    producer = _Sends(source_requests.producer)
    set_visibility = _Sends(source_requests.set_visibility)
    declare_fields = _Sends(source_requests.declare_fields)
    revoke_source = _Sends(source_requests.revoke_source)
    make_webhook = _Sends(source_requests.make_webhook)
    rotate_webhook = _Sends(source_requests.rotate_webhook)
    webhook = _Sends(source_requests.webhook)
    revoke_webhook = _Sends(source_requests.revoke_webhook)
    task_types = _Lists(requests.task_types)
    dead_letters = _Lists(requests.dead_letters)
    dead_letter_groups = _Lists(requests.dead_letter_groups)
    replay_dead_letter = _Sends(requests.replay_dead_letter)
    replay_dead_letters = _Sends(requests.replay_dead_letters)
    discard_dead_letter = _Sends(requests.discard_dead_letter)
    discard_dead_letters = _Sends(requests.discard_dead_letters)

    # What runs, and reports.
    running_tasks = _Lists(requests.running_tasks)
    running_dags = _Lists(requests.running_dags)
    jobs = _Lists(requests.jobs)
    job = _Sends(requests.job)
    streams = _Lists(requests.streams)
    hosts = _Lists(requests.hosts)
    overview = _Sends(requests.overview)
    fragmentation = _Sends(requests.fragmentation)
    preview_defragmentation = _Sends(requests.preview_defragmentation)
    defragment = _Sends(requests.defragment)
    explain_placement = _Sends(requests.explain_placement)
    export_placement = _Sends(requests.export_placement)
    check_placement_plan = _Sends(requests.check_placement_plan)
    history = _Sends(requests.history)
    savings = _Sends(requests.savings)
    savings_series = _Sends(requests.savings_series)
    bill = _Sends(requests.bill)
    operations = _Lists(requests.operations)
    audit = _Lists(requests.audit)

    # Machines, their classes and images.
    machines = _Lists(requests.machines)
    admit_machine = _Sends(requests.admit_machine)
    drain_machine = _Sends(requests.drain_machine)
    undrain_machine = _Sends(requests.undrain_machine)
    forget_machine = _Sends(requests.forget_machine)
    machine_classes = _Lists(requests.machine_classes)
    put_machine_class = _Sends(requests.put_machine_class)
    remove_machine_class = _Sends(requests.remove_machine_class)
    rentals = _Lists(requests.rentals)
    images = _Lists(requests.images)
    put_image = _Sends(requests.put_image)
    remove_image = _Sends(requests.remove_image)

    # Tenants, keys and secrets.
    admit = _Sends(requests.admit)
    tenants = _Lists(requests.tenants)
    set_quota = _Sends(requests.set_quota)
    set_publishing = _Sends(requests.set_publishing)
    broker_login = _Sends(requests.broker_login)
    make_credentials = _Sends(requests.make_credentials)
    make_key = _Sends(requests.make_key)
    keys = _Lists(requests.keys)
    revoke_key = _Sends(requests.revoke_key)
    make_console_link = _Sends(requests.make_console_link)
    put_secret = _Sends(requests.put_secret)
    secrets = _Lists(requests.secrets)
    remove_secret = _Sends(requests.remove_secret)


class Client(ClientMethods, ServiceConnection):
    """Asks one service with one API key; close it, or use it as a context manager."""
