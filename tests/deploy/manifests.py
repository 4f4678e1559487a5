"""The manifests for Kubernetes, which are what Helm makes of the chart: `make manifests` writes them."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm"
MANIFESTS = ROOT / "deploy" / "kubernetes" / "braid.yaml"
NAMESPACE = "braid"
_HEAD = """\
# Braid on Kubernetes: a manager, and hosts that are Spark applications in client mode. The driver of each runs in a pod
# of its own, and starts executors as pods. Written by `make manifests`: it is what the chart in ../helm makes without
# any values. Broker and database are your own:
#
#     kubectl create namespace braid
#     kubectl config set-context --current --namespace=braid
#     kubectl create secret generic urls --from-file=broker --from-file=database
#     kubectl apply --filename braid.yaml
#
# The files hold the URLs of broker and database. The image is that of ../Dockerfile, in a registry that the cluster
# reaches; name it in all three places. The root is one volume that manager, hosts and executors share. It needs a
# storage class with ReadWriteMany and POSIX rename.
"""


def rendered(values: Mapping[str, Any]) -> str:
    """Return what Helm makes of the chart with some values. Raises `helm_python.HelmError`."""
    # 250 MB, which `make helm` installs.
    with import_module("helm_python").Chart.load(CHART) as chart:
        made = chart.render(dict(values), name="braid", namespace=NAMESPACE)
    return "---\n".join(text.strip() + "\n" for _, text in sorted(made.items()) if text.strip())


def objects(text: str) -> list[dict[str, Any]]:
    """Return the objects in a text of manifests."""
    return list(yaml.safe_load_all(text))


def manifests() -> str:
    """Return the manifests for those who have no Helm."""
    return f"{_HEAD}\n{rendered({})}"


if __name__ == "__main__":
    MANIFESTS.write_text(manifests(), encoding="utf-8")
