"""The manifests for Kubernetes, read by the models of its API that come with Spark: no cluster is at hand to ask.

They are those with which Spark itself reads the template of an executor. A field that they do not know is found, and so
is a value of another kind. What a cluster's own rules refuse is not.
"""

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark import java_gateway

from engine.spark.kubernetes_executor import BACKEND, OPTIONS, NotOnKubernetes, executor_command
from engine.spark.programs import find_java
from manager.settings import SETTINGS_PREFIX, Settings
from tests import needs
from tests.deploy.calls import wrong_with
from tests.deploy.manifests import MANIFESTS, objects, rendered
from tests.deploy.test_helm import ALL_VALUES
from tests.documentation.pages import ROOT

OBJECTS: list[dict[str, Any]] = list(yaml.safe_load_all(MANIFESTS.read_text(encoding="utf-8")))
(CONFIG,) = (each["data"] for each in OBJECTS if each["kind"] == "ConfigMap")
TEMPLATE: dict[str, Any] = yaml.safe_load(CONFIG["executor.yaml"])
WORKLOADS = [each for each in OBJECTS if "template" in each.get("spec", {})]
PODS = {each["metadata"]["name"]: each["spec"]["template"] for each in WORKLOADS} | {"executor": TEMPLATE}
EACH = pytest.mark.parametrize("pod", PODS)
MODELS = "io.fabric8.kubernetes.api.model"
IMAGE = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")


def properties() -> Mapping[str, str]:
    """The settings of Spark."""
    words = (line.split() for line in CONFIG["spark-defaults.conf"].splitlines() if line and not line.startswith("#"))
    return dict(words)


def container(pod: str) -> dict[str, Any]:
    """The only container of a pod."""
    (found,) = PODS[pod]["spec"]["containers"]
    return dict(found)


@pytest.fixture(scope="module")
def java() -> Iterator[Any]:
    """A JVM with everything that Spark brings, and without a session."""
    environment = dict(os.environ)
    find_java(environment)
    with pytest.MonkeyPatch.context() as patch:
        if "JAVA_HOME" in environment:
            patch.setenv("JAVA_HOME", environment["JAVA_HOME"])
        launch: Any = java_gateway.launch_gateway
        made = launch()
    yield made
    made.shutdown()
    made.proc.stdin.close()
    made.proc.wait(60)


@pytest.mark.full
@pytest.mark.spark
def test_every_field_is_one_that_kubernetes_knows(java: Any) -> None:
    """Each manifest is read by the model of its kind, and neither it nor anything in it has a field besides."""
    needs.helm()
    serialization = java.jvm.io.fabric8.kubernetes.client.utils.Serialization
    more = objects(rendered(ALL_VALUES))
    assert {"Secret"} == {each["kind"] for each in more} - {each["kind"] for each in OBJECTS}
    for each in (*OBJECTS, TEMPLATE, *more):
        read = serialization.unmarshal(json.dumps(each))
        assert f"{MODELS}.{each['kind']}" in re.sub(r"\.(?:apps|rbac)(?=\.)", "", read.getClass().getName())
        assert [] == list(unknown_fields(read)), f"{each['kind']} {each['metadata'].get('name')}"
    mistyped = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "container": []}}
    assert ["container"] == list(unknown_fields(serialization.unmarshal(json.dumps(mistyped))))


def unknown_fields(read: Any) -> Iterator[str]:
    """The fields that the model of a value does not know, or that of anything in it."""
    if not hasattr(read, "getClass"):
        return
    if not read.getClass().getName().startswith(MODELS):
        for each in read if hasattr(read, "iterator") else ():
            yield from unknown_fields(each)
        return
    for method in read.getClass().getMethods():
        name = method.getName()
        if name == "getAdditionalProperties":
            yield from map(str, read.getAdditionalProperties())
        elif re.match(r"get(?!Class$)", name) and not method.getParameterTypes():
            yield from unknown_fields(getattr(read, name)())


def host_set(objects: list[dict[str, Any]]) -> dict[str, Any]:
    """The hosts among the objects of a service."""
    (hosts,) = (each for each in objects if each["kind"] == "StatefulSet")
    return hosts


def machine_pod(folder: Path, hosts: dict[str, Any], *words: str) -> str:
    """What the command of a class says to kubectl, which knows some hosts, and writes what it is called with."""
    (folder / "hosts.json").write_text(json.dumps(hosts))
    kubectl = folder / "kubectl"
    kubectl.write_text(
        f'#!/bin/sh\necho "$@" >> {folder}/called\n'
        f'case "$1" in get) cat {folder}/hosts.json ;; apply) cat > {folder}/pod.json ;; esac\n'
    )
    kubectl.chmod(0o755)
    command = ROOT / "deploy" / "kubernetes" / "pod"
    path = f"{folder}:{os.environ['PATH']}"
    subprocess.run([command, *words], env={**os.environ, "PATH": path}, check=True)  # noqa: S603 - our own file
    return (folder / "called").read_text()


def test_a_machine_of_a_class_is_a_pod_like_those_of_hosts(tmp_path: Path) -> None:
    """Under its own name, by which executors find it; it goes by that name too."""
    hosts = host_set(OBJECTS)
    machine_pod(tmp_path, hosts, "add", "added-1", "large", "jobs need more cores")
    pod = json.loads((tmp_path / "pod.json").read_text())
    template = PODS["host"]
    assert ("v1", "Pod", "added-1") == (pod["apiVersion"], pod["kind"], pod["metadata"]["name"])
    assert template["spec"] | {"hostname": "added-1", "subdomain": "hosts"} == pod["spec"]
    assert template["metadata"]["labels"] | {"app.kubernetes.io/instance": "large"} == pod["metadata"]["labels"]
    called = machine_pod(tmp_path, hosts, "remove", "added-1", "large", "jobs need fewer cores")
    assert "delete pod added-1 --ignore-not-found --wait=false" == called.splitlines()[-1]


@pytest.mark.full
@pytest.mark.spark
def test_every_field_of_a_machine_is_one_that_kubernetes_knows(java: Any, tmp_path: Path) -> None:
    """With a disk of its own where the hosts have one, so that every mount has its volume."""
    needs.helm()
    serialization = java.jvm.io.fabric8.kubernetes.client.utils.Serialization
    for hosts, disks in ((host_set(OBJECTS), 0), (host_set(objects(rendered(ALL_VALUES))), 1)):
        machine_pod(tmp_path, hosts, "add", "added-1", "large", "jobs need more cores")
        text = (tmp_path / "pod.json").read_text()
        spec = json.loads(text)["spec"]
        volumes = {each["name"] for each in spec["volumes"]}
        assert volumes == {each["name"] for each in spec["containers"][0]["volumeMounts"]}
        assert disks == sum("ephemeral" in each for each in spec["volumes"])
        read = serialization.unmarshal(text)
        assert read.getClass().getName().endswith(".Pod")
        assert [] == list(unknown_fields(read))


@pytest.mark.full
@pytest.mark.spark
def test_every_setting_is_one_that_spark_knows(java: Any) -> None:
    """So are the program of an executor, and the variables that Spark sets for it."""
    jvm = java.jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for name in ("org.apache.spark.deploy.k8s.Config$", "org.apache.spark.internal.config.package$", f"{BACKEND}$"):
        jvm.java.lang.Class.forName(name, True, loader)  # noqa: FBT003 - Java's own signature
    entries = jvm.org.apache.spark.internal.config.ConfigEntry
    assert [] == [name for name in properties() if entries.findEntry(name) is None]
    constants = jvm.java.lang.Class.forName("org.apache.spark.deploy.k8s.Constants$").getMethods()
    holder = getattr(jvm, "org.apache.spark.deploy.k8s.Constants$").__getattr__("MODULE$")
    known = {
        getattr(holder, each.getName())()
        for each in constants
        if each.getName().startswith("ENV_") and not each.getParameterTypes()
    }
    assert {*OPTIONS.values(), "SPARK_EXECUTOR_MEMORY", "SPARK_JAVA_OPT_", "SPARK_CLASSPATH"} <= known


def test_an_executor_gets_what_spark_tells_its_container() -> None:
    """Every option has its value, the options of the JVM come in their order, and Spark's classes are found."""
    settings = {name: f"the {option[2:]}" for option, name in OPTIONS.items()}
    options = {f"SPARK_JAVA_OPT_{number}": f"-D{number}" for number in (10, 2, 0)}
    command = executor_command(
        {**settings, **options, "SPARK_EXECUTOR_MEMORY": "1g", "SPARK_CLASSPATH": "/more"},
        Path("/java"),
        Path("/spark"),
    )
    at = command.index(BACKEND)
    assert ["/java", "-D0", "-D2", "-D10", "-Xms1g", "-Xmx1g", "-cp", "/more:/spark/jars/*"] == command[:at]
    assert {option: f"the {option[2:]}" for option in OPTIONS} == dict(
        zip(command[at + 1 :: 2], command[at + 2 :: 2], strict=True)
    )


def test_an_executor_that_spark_did_not_start_says_so() -> None:
    """The message names what is missing."""
    with pytest.raises(NotOnKubernetes, match=r"SPARK_DRIVER_URL.* is not set; only Spark's driver"):
        executor_command({}, Path("/java"), Path("/spark"))


@pytest.mark.parametrize("pod", ["manager", "host"])
def test_the_command_line_takes_the_arguments_of_a_pod(pod: str) -> None:
    """Each command is one of `braid`, with flags that it has and settings that are known."""
    words = [word.replace("$(POD_NAME)", "host-0") for word in container(pod)["args"]]
    assert "" == wrong_with(words)
    known = {f"{SETTINGS_PREFIX}{setting.upper()}" for setting in Settings.model_fields}
    assert {each["name"] for each in container(pod)["env"] if each["name"].startswith(SETTINGS_PREFIX)} <= known


@EACH
def test_every_volume_is_there_and_used(pod: str) -> None:
    """A mount has a volume, a volume a mount; claims and config maps are made here, or as the first lines say."""
    spec = PODS[pod]["spec"]
    mounted = {each["name"]: each["mountPath"] for each in container(pod)["volumeMounts"]}
    assert mounted.keys() == {each["name"] for each in spec["volumes"]}
    assert re.findall(r"BRAID_ROOT=(\S+)", IMAGE) == [mounted["root"]]
    claims = {each["metadata"]["name"] for each in OBJECTS if each["kind"] == "PersistentVolumeClaim"}
    named = {each["persistentVolumeClaim"]["claimName"] for each in spec["volumes"] if "persistentVolumeClaim" in each}
    assert claims == named


@EACH
def test_a_pod_may_do_little(pod: str) -> None:
    """It is nobody important, as in the image, and writes only where something is mounted."""
    assert re.findall(r"--uid (\d+)", IMAGE) == [str(PODS[pod]["spec"]["securityContext"]["runAsUser"])]
    may = container(pod)["securityContext"]
    assert (True, False) == (may["readOnlyRootFilesystem"], may["allowPrivilegeEscalation"])
    assert {"drop": ["ALL"]} == may["capabilities"]


def test_pods_are_found_by_those_that_look_for_them() -> None:
    """Selectors of services and workloads have the labels of pods, and a set has its service."""
    services = {each["metadata"]["name"]: each["spec"]["selector"] for each in OBJECTS if each["kind"] == "Service"}
    for each in WORKLOADS:
        labels = each["spec"]["template"]["metadata"]["labels"]
        assert each["spec"]["selector"]["matchLabels"] == labels
        assert labels in services.values()
        if each["kind"] == "StatefulSet":
            assert services[each["spec"]["serviceName"]] == labels
            (address,) = (e["value"] for e in container("host")["env"] if e["name"] == "SPARK_LOCAL_HOSTNAME")
            assert f"$(POD_NAME).{each['spec']['serviceName']}" == address
    assert {"host"} == {each["metadata"]["name"] for each in OBJECTS if each["kind"] in {"Role", "ServiceAccount"}}


def test_driver_and_executors_are_of_one_kind() -> None:
    """They have one image, one Python and one root, and the driver finds what Spark reads."""
    settings = properties()
    assert {container(pod)["image"] for pod in ("manager", "host")} == {settings["spark.kubernetes.container.image"]}
    mounts = {each["name"]: each["mountPath"] for each in container("host")["volumeMounts"]}
    template = Path(settings["spark.kubernetes.executor.podTemplateFile"])
    assert (mounts["spark"], True) == (str(template.parent), template.name in CONFIG)
    assert settings["spark.kubernetes.executor.podTemplateContainerName"] == container("executor")["name"]
    pythons = {
        each["value"] for pod in ("host", "executor") for each in container(pod)["env"] if "PYTHON" in each["name"]
    }
    assert pythons == {container("executor")["command"][0]}
    assert "engine.spark.kubernetes_executor" == container("executor")["command"][-1]
