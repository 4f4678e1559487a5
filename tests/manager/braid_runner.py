"""A runner of `braid` with a service that gives scripted answers."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

from braid_client import Client
from manager import cli
from manager.command import app
from manager.settings import ClientSettings, Settings
from tests.braid_client.scripted_service import KEY, URL, Service


class Braid:
    """The command line of a user with settings, and a service that answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        monkeypatch.chdir(folder)
        for name in [*Settings.model_fields, *ClientSettings.model_fields, "settings"]:
            monkeypatch.delenv(f"BRAID_{name.upper()}", raising=False)
        monkeypatch.setenv("XDG_DATA_HOME", str(folder))
        monkeypatch.setenv("BRAID_URL", URL)
        monkeypatch.setenv("BRAID_KEY", KEY)
        monkeypatch.setattr(cli, "Client", self._client)
        self.service = Service([httpx.ConnectError("nobody")])

    def __call__(self, *words: str, answers: Any = (), typed: str | None = None) -> Result:
        """Call `braid`; the service gives these answers in turn."""
        self.service = Service([answers] if isinstance(answers, httpx.Response) else list(answers))
        return CliRunner().invoke(app, list(words), input=typed)

    def printed_json(self, *words: str, answers: Any = ()) -> Any:
        """The JSON document that a command prints with --json."""
        return json.loads(self(*words, "--json", answers=answers).stdout)

    def requests(self) -> list[str]:
        """The method and path of each request to the service."""
        return [f"{each.method} {each.url.raw_path.decode()}" for each in self.service.asked]

    def sent(self) -> Any:
        """The body of the last request."""
        return json.loads(self.service.asked[-1].content)

    def _client(self, url: str, key: Any, **_trust: Any) -> Client:
        return Client(url, key, transport=httpx.MockTransport(self.service.answer), sleep=self.service.waited.append)
