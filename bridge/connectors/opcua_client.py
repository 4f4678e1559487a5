"""The client of connectors of kind `opcua`: subscribes to nodes of an OPC UA server, and takes their changes.

The server looks at each node, keeps the changes in a queue for the node, and tells them all at an interval. So a few
late answers lose no change. A thread of its own runs asyncio, so that the connection lives while a spool is full; then
changes wait here, and beyond a bound the oldest are dropped, which is reported as rejected. After a failure the run
makes a new client, as for all connectors, with a new session: what changed meanwhile is lost, but for the last values.

The client connects to the addresses that were checked, whatever the server calls itself. A certificate of the server
is compared with the one in the secret if there is one. Otherwise any server is believed, as OPC UA clients mostly do.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from asyncua import ua
from asyncua.client.client import Client
from asyncua.crypto import security_policies
from asyncua.crypto.uacrypto import CertProperties
from asyncua.ua.attribute_ids import AttributeIds
from cryptography import x509

from bridge.connectors.connector_run import ClientAssignment, ConnectorTrouble, TakenEvents
from bridge.connectors.node_values import NodeChange, NodeValues, in_utc, plain_value
from bridge.messages import LARGEST_EVENT
from bridge.raw_events import Unfit, rows_in, why_too_large
from dags.connectors import OpcuaConnector

_ANSWER = 10.0
"""Seconds within which a server answers."""
_CONNECTING = 40.0
"""Seconds within which it is connected and subscribed to."""
_LEAVING = 5.0
_KEPT = 1_000
"""Changes of a node that the server is asked to keep until it tells them."""
_MOST_WAITING = 100_000
"""Changes that wait here."""
_ALIVE = 5.0
"""Seconds after which a server says that nothing has changed."""
_LIFE = 60.0
"""Seconds for which it keeps the subscription of a client that is silent."""
_LARGEST_MESSAGE = 16_000_000
_AT = "at"
_REFUSED = (ua.uaerrors.BadUserAccessDenied, ua.uaerrors.BadIdentityTokenRejected, ua.uaerrors.BadIdentityTokenInvalid)
_SHOWN = 3
"""Nodes that an error names."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Login:
    """What a secret says."""

    user: str = ""
    password: str = ""
    certificate: str = ""
    private_key: str = ""
    server_certificate: str = ""


class _CheckedClient(Client):
    """A client that connects to an address that was checked, whatever the URL's host stands for by now."""

    address = ""

    async def connect_socket(self) -> None:
        """Connect to the address."""
        await self.uaclient.connect_socket(self.address, self.server_url.port or 4840)


class OpcuaClient:
    """A subscription to nodes; used by one thread, beside the one that has the connection."""

    def __init__(self, connector: OpcuaConnector, assignment: ClientAssignment) -> None:
        logging.getLogger("asyncua").setLevel(logging.CRITICAL)
        self._connector = connector
        self._assignment = assignment
        self._fields = tuple(connector.nodes)
        self._nodes = [_node(name, connector.nodes[name]) for name in self._fields]
        whole = connector.events == "state"
        self._values = NodeValues(self._fields, whole=whole, since=assignment.positions.get(_AT, 0))
        self._groups: deque[list[NodeChange]] = deque()
        """The changes that wait, together with those that came at once."""
        self._count = self._dropped = 0
        self._using = threading.Lock()
        self._news = threading.Event()
        self._lost = ""
        self._client: _CheckedClient | None = None
        self._silence = _LIFE
        """Seconds of silence after which the server is taken for dead."""
        self._heard = time.monotonic()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"hears {assignment.stream}", daemon=True)
        self._thread.start()
        try:
            self._client = self._do(self._connected(), _CONNECTING)
        except BaseException as error:
            self.close(for_good=False)
            if isinstance(error, TimeoutError):
                raise ConnectorTrouble(f"{connector.url} does not answer in time; look after it") from None
            raise
        self._patience = time.monotonic() + max(_ALIVE, 3 * connector.interval / 1000)
        """Until when the first event waits for values of all nodes."""

    def take(self, seconds: float) -> TakenEvents | None:
        """Return the events of what changed."""
        self._news.wait(seconds)
        self._news.clear()
        with self._using:
            groups, dropped = list(self._groups), self._dropped
            self._groups.clear()
            self._count = self._dropped = 0
        events = [event for changes in groups for event in self._values.events(changes)]
        if self._values.is_waiting and time.monotonic() >= self._patience:
            events += self._values.waiting()
        if not events and not dropped:
            self._check_alive()
            return None
        unfit: list[Unfit] = []
        if dropped:
            reason = "the oldest changes of nodes were dropped, because the spool was full for too long"
            unfit.append(Unfit(event="", reason=reason, count=dropped))
        return self._arrived(events, unfit)

    def spooled(self) -> None:
        """Nothing is let go: a server does not keep what it has sent."""

    def close(self, *, for_good: bool) -> None:
        """End the session."""
        _ = for_good
        if self._loop.is_closed():
            return
        if self._client is not None:
            with suppress(Exception):
                self._do(self._client.disconnect(), _LEAVING)
        with suppress(Exception):
            self._do(_end_tasks(), _LEAVING)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_LEAVING)
        if not self._thread.is_alive():
            self._loop.close()

    def _do(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        """Have the thread of the connection do something, and wait for it."""
        future = asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, seconds), self._loop)
        return future.result(seconds + _LEAVING)

    def _check_alive(self) -> None:
        if self._lost:
            raise ConnectorTrouble(self._lost)
        if time.monotonic() - self._heard > self._silence:
            raise ConnectorTrouble(f"{self._connector.url} has said nothing for {self._silence:,.0f} s; look after it")

    def _arrived(self, events: Sequence[Any], unfit: list[Unfit]) -> TakenEvents:
        sizes = [len(msgspec.json.encode(event)) for event in events]
        unfit += [Unfit(event="", reason=why_too_large(size)) for size in sizes if size > LARGEST_EVENT]
        fitting = [event for event, size in zip(events, sizes, strict=True) if size <= LARGEST_EVENT]

        def refuse(place: int, error: ValueError) -> None:
            unfit.append(Unfit(event=msgspec.json.encode(fitting[place]).decode(), reason=str(error)))

        batch = rows_in(fitting, self._assignment.schema, on_unfit=refuse)
        return TakenEvents(events=batch, unfit=tuple(unfit), positions={_AT: self._values.newest})

    async def _connected(self) -> _CheckedClient:
        """Connect and subscribe."""
        url, login = self._connector.url, self._login()
        try:
            addresses = await asyncio.to_thread(self._assignment.outside.addresses, urlsplit(url).hostname or "")
        except OSError as error:
            raise ConnectorTrouble(f"cannot connect to {url}: {error}") from None
        why: Exception = OSError("it has no address")
        for address in addresses:
            client = _CheckedClient(url, timeout=_ANSWER, watchdog_intervall=_ANSWER)
            client.address = address
            client.max_messagesize = _LARGEST_MESSAGE
            client.connection_lost_callback = self._on_lost
            try:
                await self._secure(client, login)
                await client.connect()
            except (OSError, TimeoutError) as error:
                why = error
                continue
            except Exception as error:
                raise self._refused(error) from error
            try:
                await self._subscribe(client)
            except BaseException:
                with suppress(Exception):
                    await client.disconnect()
                raise
            return client
        raise ConnectorTrouble(
            f"cannot connect to {url}: {str(why) or 'it does not answer'}; start it, or correct the URL"
        )

    def _login(self) -> _Login:
        """The secret, as user:password or as JSON."""
        if (secret := self._connector.secret) is None:
            return _Login()
        text = secret.revealed.strip()
        if not text.startswith("{"):
            user, _, password = text.partition(":")
            return _Login(user=user, password=password)
        try:
            return _Login(**msgspec.json.decode(text, type=dict[str, str]))
        except (msgspec.MsgspecError, TypeError):
            known = ", ".join(_Login.__slots__)
            raise ConnectorTrouble(
                f"the secret {secret.secret!r} is neither user:password nor a JSON object of texts; give {known}"
            ) from None

    async def _secure(self, client: _CheckedClient, login: _Login) -> None:
        if login.user:
            client.set_user(login.user)
            client.set_password(login.password)
        if self._connector.security is None:
            return
        secret = self._connector.secret.secret if self._connector.secret is not None else ""
        if not (login.certificate and login.private_key):
            raise ConnectorTrouble(
                f"the secret {secret!r} has no certificate; put a JSON object with certificate and private_key, in PEM"
            )
        policy, _, mode = self._connector.security.partition(",")
        try:
            client.application_uri = _uri_of(login.certificate)
            pinned = _pem(login.server_certificate) if login.server_certificate else None
        except ValueError:
            raise ConnectorTrouble(
                f"a certificate in the secret {secret!r} cannot be read; give it in PEM, with a URI as alternative name"
            ) from None
        await client.set_security(
            getattr(security_policies, f"SecurityPolicy{policy}"),
            _pem(login.certificate),
            _pem(login.private_key),
            server_certificate=pinned,
            mode=ua.MessageSecurityMode[mode],
        )

    def _refused(self, error: Exception) -> ConnectorTrouble:
        if isinstance(error, ConnectorTrouble):
            return error
        url, secret = self._connector.url, self._connector.secret
        if isinstance(error, _REFUSED):
            remedy = (
                f"correct the secret {secret.secret!r}"
                if secret is not None
                else "name a secret with user and password"
            )
            return ConnectorTrouble(f"{url} refuses the user or its password ({type(error).__name__}); {remedy}")
        return ConnectorTrouble(
            f"{url} refuses the connection: {_short(error)}; correct security and secret, or have the server trust the "
            "certificate"
        )

    async def _subscribe(self, client: _CheckedClient) -> None:
        interval = self._connector.interval
        parameters = ua.CreateSubscriptionParameters(
            RequestedPublishingInterval=interval,
            RequestedMaxKeepAliveCount=max(1, round(_ALIVE * 1000 / interval)),
            RequestedLifetimeCount=max(10, round(_LIFE * 1000 / interval)),
            MaxNotificationsPerPublish=10_000,
            PublishingEnabled=True,
        )
        session = client.uaclient.session
        try:
            made = await session.create_subscription(parameters, self._on_publish)
            self._silence = 3 * made.RevisedMaxKeepAliveCount * made.RevisedPublishingInterval / 1000 + _ANSWER
            self._heard = time.monotonic()
            results = await session.create_monitored_items(
                ua.CreateMonitoredItemsParameters(
                    SubscriptionId=made.SubscriptionId,
                    TimestampsToReturn=ua.TimestampsToReturn.Both,
                    ItemsToCreate=[self._item(number) for number in range(len(self._fields))],
                )
            )
        except ua.uaerrors.UaError as error:
            raise ConnectorTrouble(
                f"{self._connector.url} refuses to subscribe: {_short(error)}; choose fewer nodes or a longer interval"
            ) from error
        wrong = [
            f"{self._connector.nodes[name]!r} of the field {name!r} ({result.StatusCode.name})"
            for name, result in zip(self._fields, results, strict=True)
            if not result.StatusCode.is_good()
        ]
        if wrong:
            more = f", and {len(wrong) - _SHOWN:,} more" if len(wrong) > _SHOWN else ""
            raise ConnectorTrouble(
                f"{self._connector.url} cannot read the node {', the node '.join(wrong[:_SHOWN])}{more}; correct the "
                "source's nodes"
            )

    def _item(self, number: int) -> ua.MonitoredItemCreateRequest:
        sampling = self._connector.sampling
        return ua.MonitoredItemCreateRequest(
            ItemToMonitor=ua.ReadValueId(NodeId=self._nodes[number], AttributeId=AttributeIds.Value),
            MonitoringMode=ua.MonitoringMode.Reporting,
            RequestedParameters=ua.MonitoringParameters(
                ClientHandle=number,
                SamplingInterval=self._connector.interval if sampling is None else sampling,
                QueueSize=_KEPT,
                DiscardOldest=True,
            ),
        )

    async def _on_lost(self, error: Exception) -> None:
        self._lose(f"the connection to {self._connector.url} was lost: {_short(error)}")

    def _lose(self, why: str) -> None:
        self._lost = self._lost or why
        self._news.set()

    async def _on_publish(self, result: ua.PublishResult) -> None:
        """Note what the server tells; in the thread of the connection."""
        self._heard = time.monotonic()
        changes: list[NodeChange] = []
        for notification in result.NotificationMessage.NotificationData or ():
            if isinstance(notification, ua.DataChangeNotification):
                changes += [
                    self._change(item)
                    for item in notification.MonitoredItems
                    if 0 <= item.ClientHandle < len(self._fields)
                ]
            elif isinstance(notification, ua.StatusChangeNotification):
                self._lose(f"{self._connector.url} has ended the subscription: {notification.Status.name}")
        if not changes:
            return
        with self._using:
            self._groups.append(changes)
            self._count += len(changes)
            while self._count > _MOST_WAITING and len(self._groups) > 1:
                dropped = len(self._groups.popleft())
                self._count -= dropped
                self._dropped += dropped
        self._news.set()

    def _change(self, item: ua.MonitoredItemNotification) -> NodeChange:
        data = item.Value
        status = data.StatusCode or ua.StatusCode()
        moment = data.SourceTimestamp or data.ServerTimestamp
        return NodeChange(
            field=self._fields[item.ClientHandle],
            value=None if data.Value is None or status.is_bad() else plain_value(data.Value.Value),
            status="" if status.is_good() else status.name,
            at=datetime.now(UTC) if moment is None else in_utc(moment),
        )


def _node(name: str, text: str) -> ua.NodeId:
    try:
        return ua.NodeId.from_string(text)
    except (ua.uaerrors.UaError, ValueError):
        raise ConnectorTrouble(f"the node {text!r} of the field {name!r} is no id of a node; correct it") from None


async def _end_tasks() -> None:
    """End what the library still does, such as waiting for changes."""
    rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)


def _pem(text: str) -> CertProperties:
    return CertProperties(text.encode(), extension="pem")


def _uri_of(certificate: str) -> str:
    """The name of the application that a certificate is for, which the client has to call itself."""
    names = x509.load_pem_x509_certificate(certificate.encode()).extensions
    try:
        found = names.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        raise ValueError("it has no alternative names") from None
    return found.get_values_for_type(x509.UniformResourceIdentifier)[0]


def _short(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:200]
