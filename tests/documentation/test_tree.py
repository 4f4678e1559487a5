"""The tree, in which a stranger finds the room they need at the first guess: nouns, unique names, short modules."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = (
    "adaptation",
    "braid_client",
    "bridge",
    "dags",
    "engine",
    "manager",
    "merge",
    "planning",
    "provisioning",
    "ring",
    "workloads",
    "benchmarks",
)
MODULES = sorted(
    path
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*.py")
    # A migration keeps the name under which databases know it.
    if "migrations" not in path.parts
)
NOUNS = {"covering", "finding", "grouping", "packing", "planning", "provisioning", "ring", "sitting"}
"""Nouns that end like a gerund; a covering is the sub-graph of a reconfiguration, a sitting a turn at a store."""
LONGEST = 600
MOST_METHODS = 15
MOST_MODULES = 20
ANY_NUMBER_OF_METHODS = {"Client", "AsyncClient"}
"""REST has so many requests."""
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in MODULES}


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_modules_and_folders_are_nouns() -> None:
    """A name says what a module holds, not what somebody does."""
    names = {part.removesuffix(".py") for path in MODULES for part in path.relative_to(ROOT).parts}
    words = {word for name in names for word in name.split("_")[-1:]}
    assert [] == sorted(word for word in words if word.endswith("ing") and word not in NOUNS)


def test_no_two_public_classes_have_one_name() -> None:
    """A search for a class finds one."""
    assert {} == _repeated((node.name, path) for path, node in _statements() if isinstance(node, ast.ClassDef))


def test_no_public_constant_is_defined_twice() -> None:
    """What means the same is imported; what does not has a name of its own."""
    assert {} == _repeated((name, path) for path, node in _statements() for name in _constants(node))


@pytest.mark.parametrize("path", MODULES, ids=shown)
def test_a_module_is_short(path: Path) -> None:
    """It has one reason to exist."""
    assert path.read_text(encoding="utf-8").count("\n") <= LONGEST


def test_a_class_has_few_methods() -> None:
    """What does more is more than one thing."""
    methods = {
        node.name: sum(isinstance(each, ast.FunctionDef) and not each.name.startswith("_") for each in node.body)
        for _, node in _statements()
        if isinstance(node, ast.ClassDef)
    }
    crowded = {name for name, count in methods.items() if count > MOST_METHODS}
    assert set() == crowded - ANY_NUMBER_OF_METHODS


def test_each_folder_says_what_is_in_it() -> None:
    """It begins with a sentence, and has few modules."""
    counts: defaultdict[Path, int] = defaultdict(int)
    for path in MODULES:
        counts[path.parent] += path.name != "__init__.py"
    assert {} == {shown(folder): count for folder, count in counts.items() if count > MOST_MODULES}
    silent = [shown(folder) for folder in counts if not ast.get_docstring(TREES[folder / "__init__.py"])]
    assert [] == silent


def _statements() -> Iterator[tuple[Path, ast.stmt]]:
    return ((path, node) for path, tree in TREES.items() for node in tree.body)


def _constants(node: ast.stmt) -> Iterator[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else ()
    for target in targets:
        if isinstance(target, ast.Name) and re.fullmatch(r"[A-Z][A-Z0-9_]+", target.id):
            yield target.id


def _repeated(found: Iterator[tuple[str, Path]]) -> dict[str, list[str]]:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for name, path in found:
        if not name.startswith("_"):
            places[name].append(shown(path))
    return {name: where for name, where in places.items() if len(where) > 1}
