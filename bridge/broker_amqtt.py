"""How amqtt is set up, and the script that runs it as a process of its own.

amqtt is there for a first try on a machine without mosquitto: it comes from PyPI and speaks MQTT 3.1.1 only. Sessions
and messages live in its memory, so that a restart loses them. The script is run by its path, so that the broker's
process loads nothing of Braid.
"""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path


def write_passwords(folder: Path, users: Mapping[str, str]) -> None:
    """Write the password file, hashed."""
    from pwdlib import PasswordHash  # noqa: PLC0415 - comes with amqtt, which need not be installed
    from pwdlib.hashers.argon2 import Argon2Hasher  # noqa: PLC0415 - as above

    hasher = PasswordHash((Argon2Hasher(),))
    passwords = folder / "passwords"
    passwords.touch(mode=0o600)
    passwords.write_text(
        "".join(f"{user}:{hasher.hash(password)}\n" for user, password in users.items()), encoding="utf-8"
    )


def command(folder: Path, host: str, port: int) -> list[str]:
    """Name the command that runs amqtt."""
    return [sys.executable, "-I", __file__, host, str(port), str(folder / "passwords")]


async def _serve(host: str, port: int, passwords: str) -> None:
    from amqtt.broker import Broker  # noqa: PLC0415 - only the broker's own process needs it

    broker = Broker(
        {
            "listeners": {"default": {"type": "tcp", "bind": f"[{host}]:{port}" if ":" in host else f"{host}:{port}"}},
            "plugins": {"amqtt.plugins.authentication.FileAuthPlugin": {"password_file": passwords}},
        }
    )
    # amqtt's own script would go on without a listener when this fails; ours ends, and says why.
    await broker.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
