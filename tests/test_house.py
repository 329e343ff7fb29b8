"""The house: which room may use which, no import in a circle, names that occur once, and its size.

Arrows are read off the source, imports inside functions included: a lazy import hides a dependency
from the interpreter, not from the reader.
"""

import ast
import importlib
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import rpd_datasets
import rpd_metric

ROOT = Path(__file__).resolve().parents[1]

# Each room with the rooms that it may import. A file directly in a package is a room of its own.
ROOMS = {
    "rpd_metric.errors": set(),
    "rpd_metric.reasons": set(),
    "rpd_metric.plugins": {"rpd_metric.errors"},
    "rpd_metric.distance": {"rpd_metric.errors", "rpd_metric.plugins"},
    "rpd_metric.statistics": {"rpd_metric.errors"},
    "rpd_metric.grading": {"rpd_metric.errors"},
    "rpd_metric.prompts": {"rpd_metric.errors"},
}
BELOW_MODELS = {f"rpd_metric.{name}" for name in ("errors", "reasons", "plugins", "prompts")}
ROOMS["rpd_metric.models"] = set(BELOW_MODELS)
ROOMS["rpd_metric.steps"] = BELOW_MODELS | {"rpd_metric.models", "rpd_metric.distance"}
ROOMS["rpd_metric.measure"] = set(ROOMS)
ROOMS["rpd_metric.metrics"] = set(ROOMS)
ROOMS["rpd_metric.registration"] = {"rpd_metric.errors"}
ROOMS["rpd_metric"] = set(ROOMS)
METRIC = set(ROOMS)

BASE = {
    f"rpd_datasets.{name}"
    for name in (
        *("problem", "selection", "filters", "tokens", "sft", "config", "account"),
        *("language", "messages", "preferences", "trainer_formats"),
        *("presets", "sample", "sets", "instructions", "commands", "options", "destination"),
    )
}
for name in BASE:
    ROOMS[name] = METRIC | BASE
# From the ground floor up: a room may use those above it in this list, and what lies under all.
FLOORS = [
    {"rpd_datasets.inputs", "rpd_datasets.judging"},
    {"rpd_datasets.report", "rpd_datasets.publish"},
    {"rpd_datasets.curation"},
    {"rpd_datasets.training", "rpd_datasets.evaluation"},
    {"rpd_datasets.comparison"},
    {"rpd_datasets.cli", "rpd_datasets.rewards"},
]
below = METRIC | BASE
for floor in FLOORS:
    for name in floor:
        ROOMS[name] = below
    below = below | floor
ROOMS["rpd_datasets"] = below
ROOMS["recipes"] = below | {"rpd_datasets"}


def modules() -> Iterator[tuple[str, Path]]:
    for package in ("rpd_metric", "rpd_datasets", "recipes"):
        for file in sorted((ROOT / package).rglob("*.py")):
            parts = file.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), file


FILES = dict(modules())


def imports(file: Path) -> Iterator[str]:
    """Every module of the project that a file imports, lazily or for types only."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in FILES else node.module for name in inner]
        else:
            continue
        yield from (
            name for name in names if name.partition(".")[0] in ("rpd_metric", "rpd_datasets")
        )


def room_of(module: str) -> str:
    package, _, rest = module.partition(".")
    if package == "recipes":
        return package
    return f"{package}.{rest.partition('.')[0]}" if rest else package


@pytest.mark.parametrize("module", FILES)
def test_a_room_imports_only_what_the_arrows_allow(module):
    room = room_of(module)
    assert room in ROOMS, (
        f"{room} is no room of the house: say in tests/test_house.py where it lies"
    )
    used = {room_of(name) for name in imports(FILES[module])}
    assert used - {room} <= ROOMS[room], (
        f"{module} may not use {sorted(used - {room} - ROOMS[room])}"
    )


def test_only_the_metric_of_evaluate_imports_it():
    importing = [
        name
        for name, file in FILES.items()
        if re.search(r"^\s*(?:import|from) evaluate\b", file.read_text(encoding="utf-8"), re.M)
    ]
    assert importing == ["rpd_metric.metrics.rpd.rpd"]


# Names that say what was done to a value, or nothing, and not what it holds.
EMPTY_NAMES = {
    *("asked", "found", "got", "kept", "one", "said", "told", "wanted"),
    *("came", "here", "how", "its", "old", "those", "when", "which", "who"),
}


@pytest.mark.parametrize("part", ["rpd_metric", "rpd_datasets", "recipes", "benchmarks"])
def test_a_name_is_a_noun_of_the_field(part):
    empty = []
    for file in (ROOT / part).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                    pass
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    pass
                case _:
                    continue
            if name.strip("_") in EMPTY_NAMES:
                empty.append(f"{file.relative_to(ROOT)}:{node.lineno} {name}")
    assert not empty


def test_a_class_name_means_one_thing():
    names = Counter(
        node.name
        for file in FILES.values()
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_every_file_name_is_used_once():
    """A reader finds a module by its noun. A command's file is called like the command."""
    modules = (name for name in FILES if not name.startswith(("recipes", "rpd_datasets.cli")))
    names = Counter(FILES[name].stem for name in modules)
    assert [name for name, count in names.items() if count > 1] == ["__init__"]


def test_every_room_is_on_the_page_about_the_house():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    described = {
        name for names in re.findall(r"^\*\*(.+?)\.\*\*", page, re.M) for name in names.split(", ")
    }
    assert described == {room.rpartition(".")[2] for room in ROOMS if "." in room}


# Lines of Python, JavaScript, CSS and HTML, at most. A feature pays for its lines: whoever adds
# some takes some away elsewhere. The aim is 26,500 for both packages and 18,000 for the tests: the
# figures fall with every change that makes the house smaller.
BUDGET = {"rpd_metric": 10_667, "rpd_datasets": 18_900, "tests": 20_128, "benchmarks": 4_943}


@pytest.mark.parametrize("part", BUDGET)
def test_the_house_stays_within_its_lines(part):
    files = [
        file
        for suffix in ("py", "js", "css", "html")
        for file in (ROOT / part).rglob(f"*.{suffix}")
        if "temml" not in file.parts
    ]
    assert sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files) <= BUDGET[part]


def test_no_module_is_imported_in_a_circle():
    graph = {
        name: {found for found in imports(file) if found in FILES} for name, file in FILES.items()
    }
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join((*path[path.index(name) :], name))
        if name not in done:
            for other in sorted(graph[name]):
                visit(other, (*path, name))
            done.add(name)

    for name in graph:
        visit(name, ())


@cache
def loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(run.stdout.split())


@pytest.mark.parametrize("package", ["rpd_metric", "rpd_datasets"])
def test_importing_a_package_stays_light(package):
    heavy = {"torch", "transformers", "evaluate", "openai", "sklearn", "ray", "inspect_ai"}
    assert not heavy & loaded_by(f"import {package}")


@pytest.mark.parametrize("room", ["distance", "statistics", "grading"])
def test_the_core_needs_no_client(room):
    names = [name for name in FILES if name.startswith(f"rpd_metric.{room}")]
    loaded = loaded_by("import " + ", ".join(names))
    assert not {"httpx2", "huggingface_hub", "openai", "torch", "evaluate"} & loaded


@pytest.mark.parametrize("package", [rpd_metric, rpd_datasets])
def test_the_public_namespace_is_what_all_says(package):
    """Derived from the package: what it offers is listed, and what is listed is there."""
    public = {
        name
        for name, value in vars(package).items()
        if not name.startswith("_") and not isinstance(value, type(sys))
    }
    assert public == set(package.__all__)
    for name in public:
        value = getattr(package, name)
        assert value.__doc__, f"{name} has no docstring"
        home = importlib.import_module(value.__module__)
        assert home.__name__.partition(".")[0] in ("rpd_metric", "rpd_datasets")
