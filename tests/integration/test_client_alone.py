"""The client's distribution by itself: what its README shows, where nothing is installed but the client and pandas."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from braid_client.answers.tenants import KeyForm, TenantForm
from tests.documentation.pages import page
from tests.integration.serving import Served, serving
from tests.releases.distributions import UV, build, declared, environment

ROOT = Path(__file__).parents[2]
ALLOWED = {
    *("braid-client", "httpx", "httpcore", "h11", "certifi", "idna", "anyio", "sniffio"),
    *("pydantic", "pydantic-core", "annotated-types", "typing-extensions", "typing-inspection"),
}
"""The client, and what its two dependencies bring."""
HOLDS = "from importlib.metadata import distributions\nprint(*(each.name.lower() for each in distributions()))\n"


MISSPELT = """
from dags.problems import suggestion
print(suggestion("streit", ["street", "city"], "name another"))
"""


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """The Python of an environment with the client that is built from its source distribution."""
    (client,) = (distribution for distribution in declared(ROOT) if distribution.name == "braid-client")
    _, wheel = build(client, tmp_path)
    uv(["venv", "--quiet", "--python", sys.executable, str(tmp_path / "environment")])
    install(tmp_path / "environment" / "bin" / "python", str(wheel))
    return tmp_path / "environment" / "bin" / "python"


def uv(words: list[str]) -> None:
    done = subprocess.run([UV, *words], env=environment(), check=False, capture_output=True, text=True)  # noqa: S603 - our own words
    assert 0 == done.returncode, done.stderr


def install(python: Path, what: str) -> None:
    lock = str(ROOT / "requirements.lock")
    uv(["pip", "install", "--quiet", "--python", str(python), "--constraint", lock, what])


def run(python: Path, code: str) -> str:
    # Far from the repository, whose packages nothing here should find.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "BRAID_"))}
    done = subprocess.run(  # noqa: S603 - our own code
        [python, "-c", code], cwd=python.parent, env=kept, check=False, capture_output=True, text=True
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout


@pytest.mark.full
@pytest.mark.spark
def test_the_readme_goes_from_a_key_to_a_table(python: Path, tmp_path: Path) -> None:
    """It says all that has to be installed and typed, and prints what it shows."""
    assert set(run(python, HOLDS).replace("_", "-").split()) <= ALLOWED
    assert "did you mean 'street'" in run(python, MISSPELT)
    install(python, "pandas")
    (example,) = (example for example in page("client/README.md").examples if example.language == "python")
    with serving(Served(tmp_path)) as service:
        url = f"http://127.0.0.1:{service.port}"
        with service.client() as operator:
            operator.admit(TenantForm(name="ann"))
            key = operator.make_key(KeyForm(tenant="ann")).key
        code = example.text.replace("http://127.0.0.1:8642", url).replace("the API key of ann", key)
        assert example.output == run(python, code)
