"""`make fuzz-proof`: each old defect still has its place in the code, and one of them is found."""

from __future__ import annotations

import pytest
from tools.fuzz_proof import DEFECTS, Change, Defect, PlaceMoved

from tools import fuzz_proof


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    root = tmp_path_factory.mktemp("tree")
    fuzz_proof.copied(root)
    return root


@pytest.mark.parametrize("defect", DEFECTS, ids=[defect.name for defect in DEFECTS])
def test_each_defect_has_its_place(defect, tree):
    before = {change.file: (tree / change.file).read_text() for change in defect.changes}
    try:
        fuzz_proof.put_back(defect, tree)
        for file, text in before.items():
            assert (tree / file).read_text() != text
    finally:
        for file, text in before.items():
            (tree / file).write_text(text)


def test_a_place_that_has_moved_is_said(tree):
    moved = Defect("x", "frames", (Change("agents/bs4_common/wire.py", "no such text", ""),))
    with pytest.raises(PlaceMoved, match="does not hold 'no such text' exactly once"):
        fuzz_proof.put_back(moved, tree)


def test_the_copy_is_what_is_imported(tree, tmp_path):
    fuzz_proof.check_place(tree)
    with pytest.raises(PlaceMoved, match="which is not in the copy"):
        fuzz_proof.check_place(tmp_path)


def test_each_finding_of_the_attack_is_put_back():
    assert {defect.name.partition("-")[0] for defect in DEFECTS} == set("124568")


@pytest.mark.long
@pytest.mark.beside
def test_a_defect_is_found():
    nested = next(defect for defect in DEFECTS if defect.name == "5-nested-log-line")
    assert fuzz_proof.found_after(nested, 60.0) is not None
