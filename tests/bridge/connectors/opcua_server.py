"""An OPC UA server on this machine, for tests."""

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TypeVar

from asyncua import ua
from asyncua.crypto.permission_rules import User, UserRole
from asyncua.server.server import Server

from workloads.service import free_port

T = TypeVar("T")


def _moment(at: datetime | None) -> ua.DateTime | None:
    return None if at is None else ua.DateTime.fromtimestamp(at.timestamp(), UTC)


class Passwords:
    """Lets in one user."""

    def get_user(
        self, _server: Any, username: str | None = None, password: str | None = None, **_more: Any
    ) -> User | None:
        return User(role=UserRole.User) if (username, password) == ("ann", "s3:cret") else None


class PlantServer:
    """A server of some nodes; its loop is in a thread of its own."""

    def __init__(
        self,
        values: Mapping[str, Any],
        *,
        port: int = 0,
        login: bool = False,
        certificate: tuple[str, str] | None = None,
    ) -> None:
        self.port = port or free_port()
        self.url = f"opc.tcp://127.0.0.1:{self.port}"
        self._values = values
        self._login = login
        self._certificate = certificate
        self._nodes: dict[str, Any] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server: Server = self._do(self._started())

    def write(self, name: str, value: Any, at: datetime | None = None, status: int = 0) -> None:
        data = ua.DataValue(ua.Variant(value), ua.StatusCode(ua.UInt32(status)), SourceTimestamp=_moment(at))
        self._do(self._server.write_attribute_value(self._nodes[name].nodeid, data))

    def write_all(self, values: Mapping[str, Any], at: datetime) -> None:
        """Without an await in between, so that all are told together."""

        async def write() -> None:
            for name, value in values.items():
                data = ua.DataValue(ua.Variant(value), SourceTimestamp=_moment(at))
                await self._server.write_attribute_value(self._nodes[name].nodeid, data)

        self._do(write())

    def stop(self) -> None:
        if not self._loop.is_closed():
            with suppress(Exception):
                self._do(self._server.stop())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)
            self._loop.close()

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _started(self) -> Server:
        server = Server(user_manager=Passwords() if self._login else None)  # type: ignore[arg-type]  # as it is called
        await server.init()
        server.set_endpoint(f"{self.url}/plant")
        server.set_security_policy([ua.SecurityPolicyType.NoSecurity])
        if self._certificate is not None:
            certificate, key = self._certificate
            await server.load_certificate(certificate.encode(), "pem")
            await server.load_private_key(key.encode(), None, "pem")
            server.set_security_policy([ua.SecurityPolicyType.Basic256Sha256_SignAndEncrypt])
        if self._login:
            server.set_identity_tokens([ua.UserNameIdentityToken])
        for name, value in self._values.items():
            self._nodes[name] = await server.nodes.objects.add_variable(
                ua.NodeId.from_string(f"ns=2;s={name}"), ua.QualifiedName(name, 2), value
            )
        await server.start()
        return server
