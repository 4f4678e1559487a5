"""The chart, linted and rendered by Helm itself. No cluster is at hand to install it on."""

from types import ModuleType
from typing import Any

import pytest
import yaml

from manager.settings import Settings
from tests import needs
from tests.deploy.calls import wrong_with
from tests.deploy.manifests import CHART, MANIFESTS, manifests, objects, rendered

URLS = {"broker": {"url": "mqtts://b:s@mqtt.example"}, "database": {"url": "postgresql://d:s@db.example/braid"}}
ALL_VALUES: dict[str, Any] = {
    **URLS,
    "image": {"repository": "registry.example/braid", "tag": "1.2.3", "pullPolicy": "Always", "pullSecrets": ["pull"]},
    "secret": "addresses",
    "root": {"storageClass": "files", "size": "1Ti"},
    "certificate": "shown",
    "manager": {"cpu": "2", "memory": "1Gi", "settings": {"placement": "plan", "defragment": False, "pace": 0.5}},
    "hosts": {"count": 3, "cpu": "4", "memory": "8Gi"},
    "store": {"url": "s3://bucket/folder", "secret": "cloud", "disk": "5Gi"},
}


@pytest.fixture(autouse=True)
def helm() -> ModuleType:
    return needs.helm()


def named(text: str) -> dict[str, dict[str, Any]]:
    """The objects of a text by kind and name."""
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in objects(text)}


def container(kind: str, name: str, objects: dict[str, dict[str, Any]]) -> dict[str, Any]:
    (only,) = objects[f"{kind}/{name}"]["spec"]["template"]["spec"]["containers"]
    return dict(only)


@pytest.mark.parametrize("values", [{}, ALL_VALUES], ids=["none", "all"])
def test_helm_finds_nothing_wrong(values: dict[str, Any], helm: ModuleType) -> None:
    """Its linter has no warning and no error, whatever values are given."""
    result = helm.lint(CHART, values)
    # Information is that a chart could have an icon.
    assert ([], []) == (result["errors"], [each for each in result["messages"] if each["severity"] > 1])


def test_the_manifests_are_the_chart_without_values() -> None:
    """Without Helm, one gets the same objects."""
    assert manifests() == MANIFESTS.read_text(encoding="utf-8"), "run `make manifests`"


def test_every_value_does_something() -> None:
    """Each leaf of the values, changed, changes what is rendered; those of the other way to keep files do so there."""
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    # What both ways ignore has no effect, and should not be there.
    ways = [{**URLS}, {**URLS, "store": {"url": "s3://bucket"}}]
    changed = {
        "store.secret": "cloud",
        "store.disk": "5Gi",
        "manager.settings": {"pace": 0.5},
        "image.pullSecrets": ["pull"],
        "image.pullPolicy": "Always",
        "hosts.executors.memoryOverhead": "3g",
        "hosts.executors.memory": "3g",
        "broker.url": "mqtt://other.example",
        "database.url": "postgresql://other.example/braid",
        "store.url": "s3://other",
    }
    for path, value in leaves(values):
        new = changed.get(path, value + 1 if isinstance(value, int) else "7")
        assert any(rendered(way) != rendered(with_value(way, path, new)) for way in ways), path


def leaves(values: dict[str, Any], above: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in values.items():
        found += leaves(value, f"{above}{name}.") if isinstance(value, dict) and value else [(f"{above}{name}", value)]
    return found


def with_value(values: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    name, _, rest = path.partition(".")
    return {**values, name: with_value(values.get(name, {}), rest, value) if rest else value}


def test_settings_are_those_of_the_manager() -> None:
    """Each becomes its variable, with a value that the manager reads as it was meant."""
    env = container("Deployment", "manager", named(rendered(ALL_VALUES)))["env"]
    given = {each["name"].removeprefix("BRAID_").lower(): each["value"] for each in env if "value" in each}
    settings = Settings.model_validate(given)
    assert ("plan", False, 0.5) == (settings.placement, settings.defragment, settings.pace)
    assert given.keys() == {*ALL_VALUES["manager"]["settings"], "certificate", "certificate_key"}


@pytest.mark.parametrize("secret", ["", "shown"])
def test_a_certificate_is_served_and_asked_for(secret: str) -> None:
    """The manager reads it from the secret, probes speak TLS, and the port is called so; without one, nothing does."""
    made = named(rendered({"certificate": secret}))
    manager = container("Deployment", "manager", made)
    settings = Settings.model_validate(
        {each["name"].removeprefix("BRAID_").lower(): each["value"] for each in manager["env"] if "value" in each}
    )
    files = settings.tls or ()
    assert (["tls.crt", "tls.key"] if secret else []) == [file.name for file in files]
    mounts = {mount["name"]: mount["mountPath"] for mount in manager["volumeMounts"]}
    volumes = made["Deployment/manager"]["spec"]["template"]["spec"]["volumes"]
    mounted = {(each["secret"]["secretName"], mounts[each["name"]]) for each in volumes if "secret" in each}
    assert {(secret, str(file.parent)) for file in files} == mounted
    scheme = "https" if secret else "http"
    assert settings.here == f"{scheme}://127.0.0.1:8642"
    probes = [manager[name]["httpGet"] for name in ("readinessProbe", "livenessProbe")]
    assert [(scheme, scheme.upper())] * 2 == [(probe["port"], probe["scheme"]) for probe in probes]
    (port,) = made["Service/manager"]["spec"]["ports"]
    assert {scheme} == {port["name"], port["targetPort"], *(each["name"] for each in manager["ports"])}


def test_urls_become_a_secret_or_are_in_one(helm: ModuleType) -> None:
    """Given in the values, both are in a secret that every pod reads; without, the secret is the operator's."""
    given, own = named(rendered(ALL_VALUES)), named(rendered({"secret": "mine"}))
    urls = {"broker": URLS["broker"]["url"], "database": URLS["database"]["url"]}
    assert urls == given["Secret/addresses"]["stringData"]
    assert "Secret/mine" not in own
    for made, name in ((given, "addresses"), (own, "mine")):
        for kind, workload in (("Deployment", "manager"), ("StatefulSet", "host")):
            read = [each["valueFrom"] for each in container(kind, workload, made)["env"] if "valueFrom" in each]
            assert {name} == {each["secretKeyRef"]["name"] for each in read if "secretKeyRef" in each}
    with pytest.raises(helm.HelmError, match=r"give both broker\.url and database\.url"):
        rendered({"broker": URLS["broker"]})


def test_with_a_store_hosts_have_disks_of_their_own() -> None:
    """They start no executors, may ask the cluster for nothing, and the command line takes their arguments."""
    made = named(rendered(ALL_VALUES))
    assert not {"Role/host", "RoleBinding/host", "ConfigMap/spark"} & made.keys()
    pod = container("StatefulSet", "host", made)
    assert "" == wrong_with([word.replace("$(POD_NAME)", "host-0") for word in pod["args"]])
    assert "--store=s3://bucket/folder" in pod["args"]
    assert [{"secretRef": {"name": "cloud"}}] == pod["envFrom"]
    spec = made["StatefulSet/host"]["spec"]
    (disk,) = spec["volumeClaimTemplates"]
    mounts = {each["name"]: each["mountPath"] for each in pod["volumeMounts"]}
    assert f"--root={mounts[disk['metadata']['name']]}" in pod["args"]
    assert mounts.keys() == {disk["metadata"]["name"], *(each["name"] for each in spec["template"]["spec"]["volumes"])}


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"hosts": {"count": -1}}, "/hosts/count"),
        ({"hots": {"count": 2}}, "hots"),
        ({"database": {"url": "sqlite:///braid.db"}}, "/database/url"),
        ({"broker": {"url": "mqtt.example:1883"}}, "/broker/url"),
        ({"manager": {"settings": {"Pace": 1}}}, "invalid propertyName 'Pace'"),
        ({"manager": {"settings": {"broker": "mqtt://elsewhere"}}}, "invalid propertyName 'broker'"),
        ({"manager": {"settings": {"certificate": "/a.pem"}}}, "invalid propertyName 'certificate'"),
        ({"root": {"size": "much"}}, "/root/size"),
    ],
    ids=str,
)
def test_odd_values_are_refused(values: dict[str, Any], why: str, helm: ModuleType) -> None:
    """Before anything is installed, with the place of what is wrong."""
    with pytest.raises(helm.HelmError, match=why):
        rendered(values)
