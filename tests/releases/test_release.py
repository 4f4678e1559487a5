"""A release of a small repository, and of this one: all or nothing, and only what is whole and works elsewhere."""

import subprocess
import tarfile
import tomllib
import zipfile
from datetime import date
from pathlib import Path

import pytest

from braid_client.version import CLIENT_VERSION
from tests.releases.distributions import Distribution, declared, faults, project_files
from tests.releases.release import ROOT, NotReleased, check, prepare, release, unreleased

PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "0.1.0"
description = "One of two."
readme = "README.md"
requires-python = ">=3.11"
license = "Apache-2.0"
license-files = ["LICENSE"]
dependencies = [{dependencies}]

[tool.hatch.build.targets.sdist]
include = ["/{package}"]

[tool.hatch.build.targets.wheel]
only-include = ["{package}"]
"""
CHANGELOG = """\
# Changelog

Versions follow a rule. Nothing has been released yet.

## Unreleased

- It does something.
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of two distributions, of which the second needs the first."""
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Ann")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "ann@example.org")
    top = tmp_path / "repository"
    for folder, name, package, needs in ((top / "first", "yarn", "yarn", ""), (top, "loom", "loom", '"yarn==0.1.0"')):
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").write_text('"""One of two."""\n')
        (folder / package / "page.html").write_text("<p>\n")
        (folder / "pyproject.toml").write_text(PROJECT.format(name=name, package=package, dependencies=needs))
        (folder / "README.md").write_text("# One of two\n")
        (folder / "LICENSE").write_text("As you like.\n")
    (top / "deploy" / "helm").mkdir(parents=True)
    (top / "deploy" / "helm" / "Chart.yaml").write_text('apiVersion: v2\nversion: 0.1.0\nappVersion: "0.1.0"\n')
    (top / "braid_client").mkdir()
    (top / "braid_client" / "version.py").write_text('CLIENT_VERSION = "0.1.0"\n')
    (top / "CHANGELOG.md").write_text(CHANGELOG)
    (top / ".gitignore").write_text("dist/\n")
    (top / "requirements.lock").write_text("")
    git(top, "init", "--quiet")
    commit(top)
    return top


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True)  # noqa: S603, S607
    return done.stdout.strip()


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=More")


def test_every_distribution_of_the_repository_is_declared() -> None:
    """Braid's own is among them, with its command, its console and its migrations, and all that is built is sent."""
    (braid,) = (each for each in declared(ROOT) if each.name == "braid")
    assert "braid" in braid.commands
    assert {"manager/console/index.html", "manager/store/migrations/env.py"} <= braid.files
    targets = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    assert ["/CHANGELOG.md", *(f"/{each}" for each in targets["wheel"]["only-include"])] == targets["sdist"]["include"]


def test_all_distributions_have_one_version_and_no_file_twice() -> None:
    """They are released together, and installed into one place."""
    projects = {path: tomllib.loads(path.read_text())["project"] for path in project_files(ROOT)}
    assert {CLIENT_VERSION} == {project["version"] for project in projects.values()}
    assert f"braid-client=={CLIENT_VERSION}" in projects[ROOT / "pyproject.toml"]["dependencies"]
    files = [name for each in declared(ROOT) for name in each.files]
    assert len(files) == len(set(files))


def test_a_version_is_set_and_the_changelog_dated(repository: Path) -> None:
    """Everywhere: of each distribution, what one needs of another, chart and client, and above what is new."""
    prepare(repository, "0.2.0", date(2026, 12, 1))
    projects = [tomllib.loads((repository / each / "pyproject.toml").read_text())["project"] for each in (".", "first")]
    assert ["0.2.0", "0.2.0"] == [project["version"] for project in projects]
    assert ["yarn==0.2.0"] == projects[0]["dependencies"]
    chart = (repository / "deploy" / "helm" / "Chart.yaml").read_text()
    assert 'apiVersion: v2\nversion: "0.2.0"\nappVersion: "0.2.0"\n' == chart
    assert 'CLIENT_VERSION = "0.2.0"\n' == (repository / "braid_client" / "version.py").read_text()
    changelog = (repository / "CHANGELOG.md").read_text()
    assert "## Unreleased\n\n## 0.2.0 - 2026-12-01\n\n- It does something.\n" in changelog
    assert "Versions follow a rule.\n" in changelog
    assert "" == unreleased(changelog).strip()


def test_what_cannot_become_a_release_is_refused(repository: Path) -> None:
    """An odd version, one that is not newer, a tree that is not clean, and a changelog with nothing new."""
    check(repository, "0.1.0")
    for odd in ("1.2", "v1.2.3", "1.2.3rc1", "01.2.3"):
        with pytest.raises(NotReleased, match=r"is no version; write it as 1\.2\.3"):
            check(repository, odd)
    git(repository, "tag", "v0.10.0")
    with pytest.raises(NotReleased, match=r"0\.9\.0 is not newer than 0\.10\.0, which has a tag"):
        check(repository, "0.9.0")
    (repository / "more").write_text("")
    with pytest.raises(NotReleased, match="the tree is not clean"):
        check(repository, "1.0.0")
    (repository / "more").unlink()
    (repository / "CHANGELOG.md").write_text(CHANGELOG.replace("- It does something.", "## 0.1.0\n\n- It did."))
    commit(repository)
    with pytest.raises(NotReleased, match="nothing under Unreleased"):
        check(repository, "1.0.0")


@pytest.mark.full
def test_a_release_is_built_used_committed_and_tagged(repository: Path) -> None:
    """Both distributions are in `dist/`, the commit has a tag, and nothing is left over."""
    made = release(repository, "0.2.0")
    assert [
        "loom-0.2.0-py3-none-any.whl",
        "loom-0.2.0.tar.gz",
        "yarn-0.2.0-py3-none-any.whl",
        "yarn-0.2.0.tar.gz",
    ] == [path.name for path in made]
    assert all(path.parent == repository / "dist" and path.is_file() for path in made)
    assert "Release 0.2.0" == git(repository, "log", "-1", "--format=%s")
    assert git(repository, "rev-parse", "HEAD") == git(repository, "rev-parse", "v0.2.0^{commit}")
    assert "" == git(repository, "status", "--porcelain")
    assert 1 == len(git(repository, "worktree", "list").splitlines())


@pytest.mark.full
@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        ("first/pyproject.toml", None, "yarn: the wheel lacks yarn/page.html"),
        pytest.param(
            *("loom/__init__.py", "import nothing_such\n"),
            "loom does not work where it is installed: .*nothing_such",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["it is not whole", "it needs what it does not say"],
)
def test_nothing_changes_unless_all_is_good(repository: Path, file: str, text: str | None, why: str) -> None:
    """What is not whole or does not work is no release: the branch, the tags and `dist/` stay as they were."""
    before = (repository / file).read_text()
    (repository / file).write_text(text or before + 'exclude = ["*.html"]\n')
    commit(repository)
    head = git(repository, "rev-parse", "HEAD")
    with pytest.raises(NotReleased, match=f"(?s){why}"):
        release(repository, "0.2.0")
    assert (head, "") == (git(repository, "rev-parse", "HEAD"), git(repository, "tag"))
    assert not (repository / "dist").exists()
    assert 1 == len(git(repository, "worktree", "list").splitlines())


def test_what_is_wrong_with_built_files_is_named(tmp_path: Path) -> None:
    """A file too many, one too few, metadata of another version or without a description, and no licence."""
    wheel, source = tmp_path / "yarn.whl", tmp_path / "yarn.tar.gz"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("yarn/__init__.py", "")
        archive.writestr("tests/test_yarn.py", "")
        archive.writestr("yarn-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: yarn\nVersion: 1.0\n")
    with tarfile.open(source, "w:gz") as tar:
        tar.add(__file__, "yarn-1.0/yarn/page.html")
    files = frozenset({"yarn/__init__.py", "yarn/page.html"})
    distribution = Distribution(folder=tmp_path, name="yarn", files=files, commands=frozenset())
    assert [
        "yarn: its metadata are of yarn 1.0",
        "yarn: its metadata have no description in Markdown",
        "yarn: the wheel has no licence",
        "yarn: the wheel lacks yarn/page.html",
        "yarn: the wheel has tests/test_yarn.py, which is in none of its packages",
        "yarn: the source distribution lacks yarn/__init__.py",
    ] == faults(distribution, "1.1.0", source, wheel)


@pytest.mark.slow
@pytest.mark.spark
def test_this_repository_can_be_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clone of it becomes a release: the README's first submission works with what is installed elsewhere."""
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Ann")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "ann@example.org")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--local", str(ROOT), str(clone))
    made = release(clone, "99.0.0")
    assert "braid-99.0.0-py3-none-any.whl" in {path.name for path in made}
    assert "v99.0.0" in git(clone, "tag").splitlines()
