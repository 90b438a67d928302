"""The rules that make a practice pod worth practising on."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import bs4_practice as demo
from tests.practice.running import SAMPLES

ROOT = Path(demo.__file__).parent
MINIATURE = sorted((ROOT / "miniature").rglob("*.py"))
PLAYBOOKS = Path(__file__).resolve().parents[3] / "playbooks"
#: Enough of them to notice a slip also where neither the catalogue nor the playbooks can be read.
KNOWN = {
    "step-desync",
    "resume-latest-partial",
    "stale-gpu-process",
    "vllm-silent-death",
    "async-barrier-wait",
    "packer-starved",
    "cuda-oom",
}


def failure_ids() -> set[str]:
    catalogue = SAMPLES.parents[1] / "reference" / "failures.tsv"
    listed = (
        {line.split("\t")[0] for line in catalogue.read_text().splitlines()[1:]}
        if catalogue.exists()
        else set()
    )
    return {
        name
        for name in KNOWN | listed | {path.stem for path in PLAYBOOKS.rglob("*.yaml")}
        if "-" in name
    }


def test_no_failure_id_occurs_in_the_miniature() -> None:
    ids = failure_ids()
    found = [
        (path.name, name)
        for path in MINIATURE
        for name in ids
        if name in (text := path.read_text()) or name.replace("-", "_") in text
    ]
    assert found == []


def imported(path: Path) -> set[str]:
    """Every absolute module that a file imports, relative ones resolved no further than that they
    stay inside.
    """
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add((node.module or "").split(".")[0])
    return names


def test_the_miniature_and_the_witness_import_no_product_code() -> None:
    allowed = set(sys.stdlib_module_names) | {"setproctitle"}
    strays = {path.name: imported(path) - allowed for path in MINIATURE}
    assert {name: found for name, found in strays.items() if found} == {}
    assert imported(ROOT / "witness.py") <= set(sys.stdlib_module_names)
    deep = {
        path: node.level
        for path in MINIATURE
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
    }
    assert all(
        level <= len(path.relative_to(ROOT / "miniature").parts) for path, level in deep.items()
    )


def run_by_path(tmp_path: Path, generation: str, config: str) -> subprocess.CompletedProcess[str]:
    """Run the miniature under another name, with nothing of this package on the path."""
    (tmp_path / "tiny").symlink_to(ROOT / "miniature")
    (tmp_path / "cfg.toml").write_text(config)
    code = (
        "import sys; sys.argv = ['rl', '@', 'cfg.toml']; from tiny.main import command; command()"
    )
    return subprocess.run(
        [sys.executable, "-S", "-c", code],
        cwd=tmp_path,
        env={
            "PYTHONPATH": f"{tmp_path}:{site_packages()}",
            "BS4_MINIATURE_GENERATION": generation,
            "PATH": "/usr/bin:/bin",
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("generation", ["2026-01", "current"])
def test_the_miniature_runs_by_path_alone(tmp_path: Path, generation: str) -> None:
    done = run_by_path(tmp_path, generation, "nonsense = 1\n")
    assert done.returncode == 1
    assert "Extra inputs are not permitted" in done.stderr


def site_packages() -> Path:
    import setproctitle

    return Path(setproctitle.__file__).parents[1]


@pytest.mark.parametrize(
    ("generation", "config", "complaint"),
    [
        (
            "current",
            "max_steps = 3\n[orchestrator]\nrollouts_per_example = 4\n",
            "--orchestrator.rollouts-per-example",
        ),
        ("current", "max_steps = 3\n", "only 'filesystem' (got 'zmq')"),
        ("2026-01", "[resume]\nstep = 3\n", "--resume"),
        ("2026-01", "max_steps = \n", "cfg.toml: "),
    ],
)
def test_a_config_of_the_other_generation_is_refused(
    tmp_path: Path, generation: str, config: str, complaint: str
) -> None:
    done = run_by_path(tmp_path, generation, config)
    assert done.returncode == 1
    assert complaint in done.stderr
    assert not (tmp_path / "outputs").exists()
