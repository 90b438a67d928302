"""Whether torch can use the GPUs, asked of the training environment's own interpreter."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bs4_agent.probes import cuda
from bs4_common.errors import StepFailed

TORCH = """
__version__ = "2.9.0+cu128"
class version: cuda = "12.8"
class cuda:
    is_available = staticmethod(lambda: {available})
    device_count = staticmethod(lambda: 1)
"""


@pytest.mark.parametrize(("available", "devices"), [(True, 1), (False, 0)])
def test_what_torch_says(tmp_path: Path, available: bool, devices: int) -> None:
    (tmp_path / "torch.py").write_text("print('a banner')\n" + TORCH.format(available=available))
    found = cuda.probe(sys.executable, 60.0, {"PYTHONPATH": str(tmp_path)})
    assert found == {
        "torch": "2.9.0+cu128",
        "cuda": "12.8",
        "available": available,
        "devices": devices,
        "error": None,
    }


def test_a_torch_that_cannot_be_imported_says_why(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(
        "raise ImportError('libcudart.so.12: cannot open shared object file')"
    )
    found = cuda.probe(sys.executable, 60.0, {"PYTHONPATH": str(tmp_path)})
    assert (found["available"], found["error"]) == (
        None,
        "ImportError: libcudart.so.12: cannot open shared object file",
    )


def test_an_interpreter_that_is_none_is_an_error_and_no_answer(tmp_path: Path) -> None:
    with pytest.raises(StepFailed, match="try it by hand"):
        cuda.probe(str(tmp_path / "python3"))
