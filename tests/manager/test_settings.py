"""Settings: where they come from, which goes first, and what is said of those that cannot be used."""

import stat
from pathlib import Path

import pytest
from pydantic import SecretStr

from manager.settings import (
    SECRET_SETTINGS,
    ClientSettings,
    Settings,
    WrongSettings,
    read_client_settings,
    read_key,
    read_settings,
    write_key,
)


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings but those of the test."""
    monkeypatch.chdir(tmp_path)
    for name in [*Settings.model_fields, *ClientSettings.model_fields, "settings"]:
        monkeypatch.delenv(f"BRAID_{name.upper()}", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def complaint(**flags: object) -> str:
    with pytest.raises(WrongSettings) as raised:
        read_settings(flags)
    return str(raised.value)


def test_without_any_setting_the_service_serves_this_machine(tmp_path: Path) -> None:
    """The defaults are a loopback address, a broker and a database of its own, and a host."""
    assert read_settings() == Settings(
        root=tmp_path / "data" / "braid",
        listen="127.0.0.1",
        port=8642,
        broker=None,
        database=None,
        master=None,
        host="local",
        pace=1.0,
    )


def test_flags_go_before_the_environment_and_that_before_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each setting is taken from the first of the three that has it; a flag that is None was not given."""
    Path("braid.toml").write_text('port = 1\npace = 1.5\nlisten = "::1"')
    monkeypatch.setenv("BRAID_PORT", "2")
    monkeypatch.setenv("BRAID_PACE", "2.5")
    read = read_settings({"port": 3, "pace": None})
    assert (3, 2.5, "::1") == (read.port, read.pace, read.listen)


def test_tags_are_a_list_in_a_file_and_separated_by_commas_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flag is given once for each; what is no tag is refused."""
    Path("braid.toml").write_text('tag = ["gpu"]')
    tags = [read_settings().tag]
    monkeypatch.setenv("BRAID_TAG", "gpu,big")
    tags += [read_settings().tag, read_settings({"tag": ["small"]}).tag]
    assert [("gpu",), ("gpu", "big"), ("small",)] == tags
    assert complaint(tag=["--x"]).startswith("--tag: ")


def test_the_file_is_the_one_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flag names it, or else the environment, or else it is braid.toml here."""
    for number, name in enumerate(["braid.toml", "named.toml", "flag.toml"], start=1):
        (tmp_path / name).write_text(f"port = {number}")
    assert read_settings().port == 1
    monkeypatch.setenv("BRAID_SETTINGS", "named.toml")
    assert read_settings().port == 2
    assert read_settings(file=Path("flag.toml")).port == 3


def test_an_empty_variable_counts_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that was emptied leaves the setting to the file and the default."""
    monkeypatch.setenv("BRAID_BROKER", "")
    assert read_settings().broker is None


def test_each_wrong_setting_is_named_with_where_it_came_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flag, variable and line of the file are distinguished, and all of them are reported at once."""
    Path("braid.toml").write_text("pace = -1")
    monkeypatch.setenv("BRAID_HOST", "x" * 64)
    assert complaint(port=0).splitlines() == [
        "--port: the value should be greater than or equal to 1; change it",
        "BRAID_HOST: the text is longer than 63 characters; shorten it",
        "braid.toml, pace: the value should be greater than 0; change it",
    ]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("porrt = 1", "braid.toml, porrt: unknown setting; did you mean 'port'?"),
        ("port = ", "braid.toml: is not TOML: Invalid value (at end of document); correct it there"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_the_remedy(content: str, expected: str) -> None:
    """An unknown setting gets the nearest known one, and a broken file the place."""
    Path("braid.toml").write_text(content)
    assert expected == complaint()


def test_a_named_file_that_is_not_there_is_reported() -> None:
    """A file that somebody named is not passed over."""
    with pytest.raises(WrongSettings, match=r"none\.toml: No such file or directory; name a file of settings"):
        read_settings(file=Path("none.toml"))


@pytest.mark.parametrize("name", ["broker", "database"])
def test_a_wrong_secret_is_reported_without_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said of a URL that cannot be used does not repeat it."""
    monkeypatch.setenv(f"BRAID_{name.upper()}", "http://me:hush@example")
    message = complaint()
    assert message.startswith(f"BRAID_{name.upper()}: a")
    assert "hush" not in message


def test_no_secret_is_shown_with_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings can be logged, whole or in parts."""
    monkeypatch.setenv("BRAID_BROKER", "mqtts://me:hush@example")
    monkeypatch.setenv("BRAID_DATABASE", "postgresql://me:hush@example/braid")
    monkeypatch.setenv("BRAID_KEY", "hush")
    shown = [(repr(each), str(each), each.model_dump_json()) for each in (read_settings(), read_client_settings())]
    assert "hush" not in repr(shown)


def test_every_secret_is_one_by_its_type() -> None:
    """The list of secrets is what the types say."""
    fields = Settings.model_fields | ClientSettings.model_fields
    assert SECRET_SETTINGS == {name for name, field in fields.items() if "SecretStr" in str(field.annotation)}


@pytest.mark.parametrize(
    ("listen", "expected"),
    [
        ("127.0.0.1", "http://127.0.0.1:8642"),
        ("0.0.0.0", "http://127.0.0.1:8642"),  # noqa: S104 - nothing listens
        ("::", "http://[::1]:8642"),
        ("10.0.0.7", "http://10.0.0.7:8642"),
    ],
)
def test_the_client_finds_the_service_of_this_machine_by_the_same_settings(listen: str, expected: str) -> None:
    """Without a URL, it is made of where the service listens."""
    assert expected == read_client_settings({"listen": listen}).service


@pytest.mark.parametrize("url", ["braid:8642", "http://me:hush@braid:8642", "http://", "http://braid?key=hush"])
def test_a_url_of_another_form_is_refused(url: str) -> None:
    """The service's URL is one that a path can follow, and holds no secret."""
    with pytest.raises(WrongSettings, match="--url: the service's URL is http://host:port") as raised:
        read_client_settings({"url": url})
    assert "hush" not in str(raised.value)


def test_the_key_file_is_for_its_owner_only(tmp_path: Path) -> None:
    """It can be read back, and nobody else has any right to it; a later key takes its place."""
    write_key(tmp_path, "first")
    path = write_key(tmp_path, "hush")
    assert (0o600, SecretStr("hush")) == (stat.S_IMODE(path.stat().st_mode), read_key(tmp_path))


def test_a_key_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    """A key that others may have read is not used in silence."""
    path = write_key(tmp_path, "hush")
    path.chmod(0o644)
    with pytest.raises(WrongSettings, match=f"{path}: others may read this API key; revoke it, or say: chmod 600"):
        read_key(tmp_path)


@pytest.mark.parametrize("url", [None, "http://127.0.0.1:8642", "http://localhost:8642/"])
def test_on_this_machine_the_first_operators_key_is_used(url: str | None, tmp_path: Path) -> None:
    """The operator of the service needs to name no key."""
    write_key(tmp_path, "hush")
    assert read_client_settings({"url": url, "root": tmp_path}).key == SecretStr("hush")


@pytest.mark.parametrize("url", ["http://127.0.0.1:9999", "https://braid.example", "http://127.0.0.1:8642.example"])
def test_the_first_operators_key_is_shown_to_no_other_service(url: str, tmp_path: Path) -> None:
    """The key of this machine's service is not sent elsewhere."""
    write_key(tmp_path, "hush")
    assert read_client_settings({"url": url, "root": tmp_path}).key is None


def test_a_key_that_is_named_goes_before_the_key_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant on the service's machine is not an operator by accident."""
    write_key(tmp_path, "operator")
    monkeypatch.setenv("BRAID_KEY", "mine")
    assert read_client_settings({"root": tmp_path}).key == SecretStr("mine")
