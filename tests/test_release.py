"""What is published: versions agree, the archive of sources is complete, and links work away from the repository."""

from __future__ import annotations

import re
import subprocess
import tomllib
from fnmatch import fnmatch

import pytest

import pipelines
from tests.running import HOME, posix

PROJECT = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))


def read(name: str) -> str:
    return (HOME / name).read_text(encoding="utf-8")


def test_the_version_is_the_same_everywhere() -> None:
    assert f"\nversion: {pipelines.__version__}\n" in read("CITATION.cff")
    top = re.search(r"(?m)^## (.*)$", read("CHANGELOG.md"))
    assert top is not None
    assert top[1] in (pipelines.__version__, "Unreleased")


def test_the_workflow_tests_the_python_versions_that_the_readme_names() -> None:
    tested = re.search(r"tested: ([\d., ]+)", read("README.md"))
    matrix = re.search(r"python: \[(.*)\]", read(".github/workflows/ci.yml"))
    assert tested is not None
    assert matrix is not None
    versions = re.findall(r"3\.\d+", tested[1])
    assert re.findall(r"3\.\d+", matrix[1]) == versions
    prefix = "Programming Language :: Python :: "
    assert [word for word in PROJECT["project"]["classifiers"] if re.match(prefix + r"3\.", word)] == [
        prefix + version for version in versions
    ]
    assert PROJECT["project"]["requires-python"] == f">={versions[0]}"


def test_every_action_of_a_workflow_is_pinned_to_a_commit() -> None:
    for workflow in (HOME / ".github" / "workflows").glob("*.yml"):
        uses = re.findall(r"uses: *(.*)", workflow.read_text(encoding="utf-8"))
        assert uses
        assert [action for action in uses if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} +# v[\d.]+", action)] == []


def test_the_readme_on_pypi_has_no_link_that_works_only_in_the_repository() -> None:
    text, address = read("README.md"), PROJECT["project"]["urls"]["Repository"]
    for one in PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        assert address.removeprefix("https://github.com/") in one["replacement"]
        text = re.sub(one["pattern"], one["replacement"].replace("$HFPR_VERSION", pipelines.__version__), text)
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > 10
    assert [link for link in links if not link.startswith("https://")] == []
    assert not re.search(r"!\[[^\]]*\]\((?!https://raw\.githubusercontent\.com/)", text)  # images


@posix
def test_the_archive_of_sources_has_every_file_of_the_repository() -> None:
    listing = subprocess.run(["git", "ls-files"], cwd=HOME, capture_output=True, text=True, check=False)
    if listing.returncode or not listing.stdout:
        pytest.skip("is not a checkout")
    patterns = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    always = {".gitignore", "pyproject.toml"}
    missing = [
        name
        for name in listing.stdout.splitlines()
        if name not in always and not any(fnmatch(f"/{name}", end) for one in patterns for end in (one, f"{one}/*"))
    ]
    assert missing == []
