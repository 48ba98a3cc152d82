"""docker/ as texts: every file is valid by its own schema, and agrees with the catalog."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from labs.catalog import LABS
from labs.harness.limits import ROOT

DOCKER = ROOT / "docker"
TOOLS = Path(sys.executable).parent


def clean(tool: str, *arguments: str | Path) -> None:
    result = subprocess.run([TOOLS / tool, *map(str, arguments)], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_dockerfile_is_clean() -> None:
    """hadolint finds nothing."""
    clean("hadolint", DOCKER / "Dockerfile")


def test_the_entrypoint_is_clean() -> None:
    """shellcheck finds nothing."""
    clean("shellcheck", DOCKER / "require-shm.sh")


@pytest.mark.parametrize(
    ("schema", "file"),
    [
        ("compose-spec", "compose.yaml"),
        ("github-workflows", "ci/github-actions.yml"),
        ("gitlab-ci", "ci/gitlab-ci.yml"),
    ],
)
def test_files_to_copy_are_valid(schema: str, file: str) -> None:
    """By the schema of the tool that reads them."""
    clean("check-jsonschema", "--builtin-schema", f"vendor.{schema}", DOCKER / file)


@pytest.mark.parametrize("name", ["failure", "fixed", "class"])
def test_manifests_are_valid(name: str) -> None:
    """Strictly: no unknown field."""
    clean("kubernetes-validate", "--strict", DOCKER / "kubernetes" / f"{name}.yaml")


def test_the_checks_can_fail(tmp_path: Path) -> None:
    """A manifest and a compose file with a field misspelt are not valid."""
    manifest = (DOCKER / "kubernetes" / "fixed.yaml").read_text().replace("sizeLimit", "sizelimit")
    (tmp_path / "job.yaml").write_text(manifest)
    with pytest.raises(AssertionError):
        clean("kubernetes-validate", "--strict", tmp_path / "job.yaml")
    (tmp_path / "compose.yaml").write_text((DOCKER / "compose.yaml").read_text().replace("shm_size", "shmsize"))
    with pytest.raises(AssertionError):
        clean("check-jsonschema", "--builtin-schema", "vendor.compose-spec", tmp_path / "compose.yaml")


def test_the_runner_gives_two_gigabytes() -> None:
    """GitLab's runner counts in bytes."""
    runner = tomllib.loads((DOCKER / "ci" / "gitlab-runner.toml").read_text())
    assert runner["runners"][0]["docker"]["shm_size"] == 2 << 30


def test_the_class_runs_every_lab_once() -> None:
    """One index for each lab of the catalog that needs no memory limit: a pod cannot change its own."""
    labs = [lab.name for lab in LABS.values() if lab.limits.memory is None]
    job = yaml.safe_load((DOCKER / "kubernetes" / "class.yaml").read_text())
    script = job["spec"]["template"]["spec"]["containers"][0]["command"][2]
    assert job["spec"]["completions"] == len(labs)
    assert script.partition("\nshift")[0].replace("\\\n", "").split()[2:] == labs


def test_memory_limits_hold_program_and_shared_memory() -> None:
    """tmpfs pages count against the limit of the container."""
    pod = yaml.safe_load((DOCKER / "kubernetes" / "fixed.yaml").read_text())["spec"]["template"]["spec"]
    shm = next(volume["emptyDir"]["sizeLimit"] for volume in pod["volumes"] if volume["name"] == "shm")
    assert (shm, pod["containers"][0]["resources"]["limits"]["memory"]) == ("2Gi", "3Gi")


def test_the_devcontainer_is_json_and_builds_the_lab_image() -> None:
    """Its /dev/shm is docker's default: nothing here makes it larger."""
    text = (ROOT / ".devcontainer" / "devcontainer.json").read_text()
    assert (ROOT / ".devcontainer" / json.loads(text)["build"]["dockerfile"]).samefile(DOCKER / "Dockerfile")
    assert "shm" not in text.replace("df -h /dev/shm", "")


def test_versions_are_pinned() -> None:
    """The base by tag, the packages by pyproject.toml."""
    text = (DOCKER / "Dockerfile").read_text()
    assert "ARG BASE=python:3.11.14-slim-bookworm\n" in text
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    assert all(
        "==" in requirement for group in groups.values() for requirement in group if isinstance(requirement, str)
    )
