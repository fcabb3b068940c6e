"""One source of truth for dependencies: the lock and environment.yml follow pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).resolve().parent.parent
DECLARED = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]


def pins(name: str) -> dict[str, list[Requirement]]:
    found: dict[str, list[Requirement]] = {}
    for line in (PROJECT / name).read_text().splitlines():
        if line and not line.startswith("#"):
            requirement = Requirement(line)
            found.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return found


def test_every_dependency_is_locked_within_its_range():
    locked = pins("requirements.txt") | pins("requirements-torch.txt")
    extras = DECLARED["optional-dependencies"]
    for text in DECLARED["dependencies"] + [line for lines in extras.values() for line in lines]:
        wanted = Requirement(text)
        candidates = locked[canonicalize_name(wanted.name)]
        for candidate in candidates:
            (pin,) = candidate.specifier
            assert pin.operator == "=="
            assert wanted.specifier.contains(pin.version), f"{candidate} breaks {wanted}"


def test_the_lock_never_brings_a_cuda_build():
    names = set(pins("requirements.txt"))
    assert not {n for n in names if re.match(r"torch$|triton$|nvidia-|cuda-", n)}


def test_data_packages_are_pinned():
    for requirements in pins("requirements-data.txt").values():
        assert str(requirements[0].specifier).startswith("==")


def test_conda_environment_is_in_step():
    environment = yaml.safe_load((PROJECT / "environment.yml").read_text())
    conda = [d for d in environment["dependencies"] if isinstance(d, str)]
    (pip,) = [d["pip"] for d in environment["dependencies"] if isinstance(d, dict)]
    assert [re.split("[=<>]", name)[0] for name in conda] == ["python", "pip"]
    version = conda[0].partition("=")[2]
    assert Requirement(f"python{DECLARED['requires-python']}").specifier.contains(version)
    files = [line.removeprefix("-r ") for line in pip if line.startswith("-r ")]
    assert files == ["requirements-torch.txt", "requirements.txt"]
    (package,) = [line for line in pip if line.startswith("-e ")]
    extras = set(package.partition("[")[2].rstrip("]").split(","))
    assert extras == set(DECLARED["optional-dependencies"]) - {"gpu"}


def test_make_help_names_the_promised_commands():
    text = (PROJECT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z]+):", text, flags=re.M))
    assert {"run", "test", "setup", "book", "nb", "lint", "clean", "help"} <= targets
