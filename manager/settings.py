"""Settings of `braid serve` and of the client: from flags, then the environment, then one file.

The file is `braid.toml` in the working directory, or the one that `--settings` or `BRAID_SETTINGS` names.
Secrets have no flag, since everybody on a machine can see the arguments of its processes.
"""

import os
import re
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
    ValidationError,
    ValidationInfo,
)

from braid_client.answers.base import TENANT_NAME
from braid_client.answers.tenants import Role
from dags.json_text import describe_error
from dags.problems import listed, suggestion


class Autoscale(StrEnum):
    """Whether jobs and machines are scaled without operators."""

    OFF = "off"
    PREVIEW = "preview"
    """The journal says what would be done."""
    ON = "on"

    @property
    def verb(self) -> str:
        """Say for the log what becomes of a change."""
        return "would get a pace of" if self is Autoscale.PREVIEW else "gets a pace of"


class ProvisionAlgorithm(StrEnum):
    """How it is decided which machines and alternates run where jobs and machines are scaled."""

    HORIZON = "horizon"
    """Together, over the paid hours of machines, by worth, prices and forecasts."""
    LOOK_AHEAD = "look-ahead"
    """Together, by the forecast from one cross-over to the next: PLAStiCC."""
    REACTIVE = "reactive"
    """Machines by the load, and alternates for each dataflow by itself."""
    STATIC = "static"
    """Nothing changes that need not."""


FILE = "braid.toml"
SETTINGS_PREFIX = "BRAID_"
NAMED_BY = f"{SETTINGS_PREFIX}SETTINGS"
SECRET_SETTINGS = frozenset({"broker", "database", "key", "oidc_secret"})
"""The settings that are never shown, and have no flag."""
KEY_FILE = "key"
"""In the root: the first operator's API key, for its owner only."""
_HERE = frozenset({"127.0.0.1", "::1", "localhost"})


Placement = Literal["launch", "graft", "pack", "plan"]
"""The strategies of `merge.place`."""
AdmissionMode = Literal["operator", "open"]
"""Who admits a new machine: an operator, or nobody has to."""


class WrongSettings(ValueError):
    """Settings cannot be used; one line for each, with its name, where it came from, and the remedy."""


def data_folder(environment: Mapping[str, str]) -> Path:
    """The folder for data that programs must not lose."""
    home = environment.get("XDG_DATA_HOME") or Path(environment.get("HOME") or "/nonexistent") / ".local" / "share"
    return Path(home) / "braid"


def _broker(value: SecretStr) -> SecretStr:
    from bridge.transport.address import Address  # noqa: PLC0415 - its package brings pyarrow, which clients do without

    Address.parse(value.get_secret_value())
    return value


def _database(value: SecretStr) -> SecretStr:
    if not re.match(r"(postgresql|sqlite)://", value.get_secret_value()):
        raise ValueError("a database's URL begins with postgresql:// or sqlite:///")
    return value


def _service(value: str) -> str:
    if not re.fullmatch(r"https?://[^/?#@\s]+(/[^?#@\s]*)?", value):
        raise ValueError("the service's URL is http://host:port or https://host:port, without a user")
    return value.rstrip("/")


@dataclass(frozen=True, slots=True)
class GroupRole:
    """What the people of a group may do; for operators the tenant is None."""

    role: Role
    tenant: str | None = None


_GROUP_ROLE = re.compile(rf"(operator)|(tenant|read-only) ({TENANT_NAME.strip('^$')})")


def _groups(given: Any) -> Any:
    """The roles of groups, by group, from a table or from `group=role, group=role`."""
    if isinstance(given, str):
        given = dict(row.strip().partition("=")[::2] for row in given.split(","))
    if not isinstance(given, dict):
        raise ValueError("the roles of groups are a table")  # noqa: TRY004 - as pydantic wants it
    roles: dict[str, GroupRole] = {}
    for group, role in given.items():
        if isinstance(role, GroupRole):
            roles[group] = role
        elif (parts := _GROUP_ROLE.fullmatch(str(role))) is not None:
            roles[group] = GroupRole(Role(parts[1] or parts[2]), parts[3])
        else:
            raise ValueError(f"the role of group {group!r} is none; it is operator, tenant NAME, or read-only NAME")
    return roles


def _whole_provider(value: dict[str, GroupRole], info: ValidationInfo) -> dict[str, GroupRole]:
    if info.data.get("oidc_issuer") and not (info.data.get("oidc_client") and value):
        raise ValueError(
            "oidc_issuer goes with oidc_client and oidc_groups; say who Braid is there, and whom to let in"
        )
    return value


def _issuer(value: str) -> str:
    try:
        parts = urlsplit(value)
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _HERE)
    except ValueError:
        is_safe = False
    if not is_safe or "?" in value or "#" in value:
        raise ValueError("the issuer is an address that begins with https://, as its tokens have it")
    return value


def _both_files(value: Path | None, info: ValidationInfo) -> Path | None:
    if (value is None) != (info.data.get("certificate") is None):
        raise ValueError("certificate and certificate_key go together; name both files, or neither")
    return None if value is None else value.expanduser()


class _Kept(BaseModel):
    """The settings by which both sides of the service find each other on one machine."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    root: Annotated[Path, AfterValidator(Path.expanduser)] = Field(
        default_factory=lambda: data_folder(os.environ), validate_default=True, description="The folder for all data."
    )
    listen: str = Field("127.0.0.1", min_length=1, description="The address to serve on. Default: 127.0.0.1.")
    port: int = Field(8642, ge=1, le=65_535, description="The port to serve on. Default: 8642.")

    certificate: Annotated[Path, AfterValidator(Path.expanduser)] | None = Field(
        None, description="The certificate with which REST and the broker are served over TLS. Default: no TLS."
    )
    certificate_key: Annotated[Path | None, AfterValidator(_both_files)] = Field(
        None, validate_default=True, description="The file of the certificate's key."
    )

    @property
    def here(self) -> str:
        """The URL of the service on this machine."""
        host = self.listen_here
        scheme = "http" if self.certificate is None else "https"
        return f"{scheme}://[{host}]:{self.port}" if ":" in host else f"{scheme}://{host}:{self.port}"

    @property
    def tls(self) -> tuple[Path, Path] | None:
        """The files of the certificate and its key, if TLS is served."""
        if self.certificate is None or self.certificate_key is None:
            return None
        return self.certificate.absolute(), self.certificate_key.absolute()

    @property
    def listen_here(self) -> str:
        """The address at which this machine reaches what listens, even on all of its addresses."""
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.listen, self.listen)  # noqa: S104 - nothing listens


class Settings(_Kept):
    """The settings of `braid serve`, whose options say what is described here; made by `read_settings`."""

    broker: Annotated[SecretStr, AfterValidator(_broker)] | None = None
    """The broker, as mqtt://user:password@host:port; one is started in the root if not given."""
    database: Annotated[SecretStr, AfterValidator(_database)] | None = None
    """The database, as postgresql://user:password@host/name; SQLite in the root if not given."""
    master: str | None = Field(None, min_length=1, description="The Spark master. Default: all cores of this machine.")
    host: str = Field(
        "local",
        max_length=63,
        pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._-]*$",
        description="The name of the host that runs here too; none for no host. Default: local.",
    )
    tag: Annotated[
        tuple[Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$")], ...],
        BeforeValidator(lambda given: given.split(",") if isinstance(given, str) else given),
    ] = Field((), description="A tag of that host, such as gpu, for tasks that need it; may be repeated.")
    pace: float = Field(1.0, gt=0, le=3_600, description="The seconds from one batch to the next. Default: 1.")
    placement: Placement = Field(
        "pack", description="Where new tasks run: in new jobs, with their inputs, or packed together. Default: pack."
    )
    defragment: bool = Field(default=True, description="Consolidate scattered jobs once it pays. Default: yes.")
    defragment_every: float | None = Field(
        None, ge=60, le=31_536_000, description="Consolidate them every so many seconds too. Default: no schedule."
    )
    task_state_mb: int = Field(
        256, ge=1, le=1_000_000, description="The most MB of state that one task may keep. Default: 256."
    )
    replicas: int = Field(
        0, ge=0, le=3, description="The machines that keep a copy of each host, at most 3. Default: 0."
    )
    settled_after: float = Field(
        60.0,
        ge=1,
        le=86_400,
        description="Seconds a machine is there, or loads are uneven, before hosts are moved. Default: 60.",
    )
    admission: AdmissionMode | None = Field(
        None, description="Who admits a new machine. Default: an operator where hosts have copies, else nobody."
    )
    autoscale: Autoscale = Field(
        Autoscale.OFF,
        description="Save and add cores by slower jobs and more machines, or only say so. Default: off.",
    )
    provision: ProvisionAlgorithm = Field(
        ProvisionAlgorithm.HORIZON,
        description="How machines and alternates are decided where jobs are scaled. Default: horizon.",
    )
    replan_failed: bool = Field(
        default=False, description="Plan a pipeline without a module that does nothing but fail. Default: no."
    )
    price_per_core_hour: float | None = Field(
        None, ge=0, le=1e9, description="The price of a core for an hour. Default: reports without prices."
    )
    currency: str = Field(
        "", max_length=16, pattern=r"^[^\x00-\x1f\x7f]*$", description="The currency of the price, such as EUR."
    )
    traces: Annotated[str, StringConstraints(pattern=r"^https?://[^/?#@\s]+(/[^?#@\s]*)?$")] | None = Field(
        None, description="Where traces go over OTLP, such as http://localhost:4318. Default: no traces."
    )
    traced_batches: float = Field(
        0.01, ge=0, le=1, description="The part of batches whose parts are traced. Default: 0.01."
    )
    lineage: str | None = Field(
        None, min_length=1, description="The URL or the file that gets events of OpenLineage. Default: none."
    )

    oidc_issuer: Annotated[str, AfterValidator(_issuer)] | None = Field(
        None, description="The provider of OpenID Connect, as its tokens name it. Default: API keys alone let in."
    )
    oidc_client: str | None = Field(None, min_length=1, description="The name by which the provider knows Braid.")
    oidc_secret: Annotated[SecretStr, Field(min_length=1)] | None = None
    """The secret that Braid proves this name with; none for a public client."""
    oidc_audience: str | None = Field(
        None, min_length=1, description="The audience of bearer tokens. Default: the name of Braid there."
    )
    oidc_groups_claim: str = Field(
        "groups", min_length=1, description="The claim of tokens with a person's groups. Default: groups."
    )
    oidc_groups: Annotated[dict[str, GroupRole], BeforeValidator(_groups), AfterValidator(_whole_provider)] = Field(
        default_factory=dict,
        validate_default=True,
        description="The roles of groups, as GROUP=operator, GROUP=tenant NAME or GROUP=read-only NAME, with commas.",
    )

    @property
    def asks_operators(self) -> bool:
        """Whether a new machine waits until an operator admits it."""
        return self.admission == "operator" if self.admission else self.replicas > 0


class ClientSettings(_Kept):
    """The settings of the client: whom it asks, and as whom; made by `read_client_settings`."""

    url: Annotated[str, AfterValidator(_service)] | None = None
    """The service; the one on this machine if not given."""
    key: Annotated[SecretStr, Field(min_length=1)] | None = None
    """The API key; for the service on this machine, what it wrote into its root if not given."""
    ca: Annotated[Path, AfterValidator(Path.expanduser)] | None = None
    """The certificates of authorities by which the service's is checked; those of the system if not given."""

    @property
    def service(self) -> str:
        """The URL of the service."""
        return self.url or self.here

    @property
    def trusted(self) -> tuple[Path, bool] | None:
        """The file of certificates that are trusted, and whether the service's has to name its host.

        The service on this machine is known by its certificate itself, whatever host that names.
        """
        if self.ca is not None:
            return self.ca, True
        if self.certificate is not None and self.service == self.here:
            return self.certificate, False
        return None


_S = TypeVar("_S", bound=_Kept)


def read_settings(flags: Mapping[str, Any] | None = None, file: Path | None = None) -> Settings:
    """The settings of the service; of the flags those that are None were not given."""
    return _read(Settings, flags or {}, file)


def read_client_settings(flags: Mapping[str, Any] | None = None, file: Path | None = None) -> ClientSettings:
    """The settings of the client, with the key that a service on this machine wrote for its first operator.

    That key is shown to nobody but the service of this machine.
    """
    settings = _read(ClientSettings, flags or {}, file)
    scheme = settings.here.partition(":")[0]
    local = {settings.here} | {f"{scheme}://{name}:{settings.port}" for name in _HERE if settings.listen in _HERE}
    if settings.key is None and settings.service in local:
        return settings.model_copy(update={"key": read_key(settings.root)})
    return settings


def read_key(root: Path) -> SecretStr | None:
    """The key of the first operator, where there is one that this user may read."""
    path = root / KEY_FILE
    try:
        others = stat.S_IMODE(path.stat().st_mode) & 0o077
        key = path.read_text(encoding="utf-8").strip()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise WrongSettings(
            f"{path}: holds no API key: {error}; remove it, and name one in {SETTINGS_PREFIX}KEY"
        ) from None
    if others:
        raise WrongSettings(f"{path}: others may read this API key; revoke it, or say: chmod 600 {path}")
    return SecretStr(key) if key else None


def write_key(root: Path, key: str) -> Path:
    """Keep the first operator's API key in the root, for its owner only; says where."""
    path = root / KEY_FILE
    path.unlink(missing_ok=True)
    # Nobody else may read it, not even for a moment.
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(f"{key}\n")
    return path


def settings_file(named: Path | None = None) -> Path | None:
    """The file of settings that is read, if there is one."""
    if named is not None:
        return named
    if path := os.environ.get(NAMED_BY):
        return Path(path)
    return Path(FILE) if Path(FILE).exists() else None


def _read(kind: type[_S], flags: Mapping[str, Any], file: Path | None) -> _S:
    path = settings_file(file)
    filed = _filed(path) if path is not None else {}
    variables = {variable.upper(): value for variable, value in os.environ.items()}
    named = {name: variables.get(f"{SETTINGS_PREFIX}{name.upper()}") for name in kind.model_fields}
    environment = {name: value for name, value in named.items() if value}
    given = {name: value for name, value in flags.items() if value is not None}
    try:
        return kind(**(filed | environment | given))
    except ValidationError as error:
        wrong = (_wrong(problem, given, environment, path) for problem in error.errors(include_url=False))
        raise WrongSettings("\n".join(wrong)) from None


def _filed(path: Path) -> dict[str, Any]:
    """The settings in the file. It serves both sides, so each meets settings of the other in it."""
    known = Settings.model_fields | ClientSettings.model_fields
    try:
        filed = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WrongSettings(f"{path}: {error.strerror}; name a file of settings that can be read") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        # The line itself is not repeated, since it may hold a secret.
        raise WrongSettings(f"{path}: is not TOML: {error}; correct it there") from None
    if unknown := sorted(filed.keys() - known.keys()):
        otherwise = f"known are {listed(known, most=20)}"
        lines = (f"{path}, {name}: unknown setting; {suggestion(name, known, otherwise)}" for name in unknown)
        raise WrongSettings("\n".join(lines))
    return filed


def _wrong(problem: Any, given: Mapping[str, Any], environment: Mapping[str, Any], path: Path | None) -> str:
    """One line on a setting that cannot be used. Its value is not repeated, since it may be a secret."""
    name = str(problem["loc"][0]) if problem["loc"] else ""
    if name in given:
        place = f"--{name}"
    elif name in environment:
        place = f"{SETTINGS_PREFIX}{name.upper()}"
    else:
        place = f"{path}, {name}" if path else name
    if problem["type"] == "value_error":
        return f"{place}: {problem['ctx']['error']}; correct it there"
    _, message, remedy = describe_error(problem, ())
    return f"{place}: {message}; {remedy}"
