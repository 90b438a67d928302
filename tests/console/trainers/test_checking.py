"""Beliefs held against a small source of our own: what holds, has moved, is gone, is unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from bs4_console.trainers.checking import Verdict, check
from bs4_console.trainers.checkout import Checkout
from bs4_console.trainers.known import Checked
from tests.console.trainers import acme
from tests.console.trainers.mutation import changed

RUN = "src/acme/run.py"


def differing(root: Path) -> dict[str, Verdict]:
    """Return the verdicts on the beliefs that do not hold, by their ids."""
    verdicts = check(Checkout(root), acme.BELIEVED)
    assert [verdict.belief for verdict in verdicts] == list(acme.BELIEVED.beliefs)
    return {verdict.belief.id: verdict for verdict in verdicts if verdict.state != "holds"}


def test_everything_holds_and_says_where(tmp_path: Path) -> None:
    verdicts = check(Checkout(acme.write(tmp_path)), acme.BELIEVED)
    assert {verdict.state for verdict in verdicts} == {"holds"}
    where = {verdict.belief.id: verdict.where for verdict in verdicts}
    text = acme.FILES[RUN].splitlines()
    number = int(where["stopping"].removeprefix(f"{RUN}:"))
    assert "Stopping everything" in text[number - 1]
    assert where["script"] == "pyproject.toml"
    assert where["no-handler"] == RUN
    assert {verdict.weaker for verdict in verdicts} == {""}


@pytest.mark.parametrize("key", [belief.id for belief in acme.BELIEVED.beliefs])
def test_one_change_moves_exactly_one_belief(tmp_path: Path, key: str) -> None:
    root = acme.write(tmp_path)
    (verdict,) = [one for one in check(Checkout(root), acme.BELIEVED) if one.belief.id == key]
    path = root / verdict.belief.place.file
    path.write_text(changed(path.read_text(), verdict))
    found = differing(root)
    assert {name: one.state for name, one in found.items()} == {key: "moved"}
    assert found[key].weaker == acme.FEATURE
    assert found[key].note


def test_a_reworded_message_is_shown(tmp_path: Path) -> None:
    root = acme.write(tmp_path, run=("Everything is done here", "Everything is over here now"))
    (verdict,) = differing(root).values()
    assert (verdict.state, verdict.note) == ("moved", "says 'Everything is over here now' now")


def test_another_level_is_shown(tmp_path: Path) -> None:
    root = acme.write(tmp_path, run=('logger.success("Every', 'logger.info("Every'))
    (verdict,) = differing(root).values()
    assert (verdict.state, verdict.note) == ("moved", "is of kind INFO now")


def test_a_message_that_is_not_there_is_gone(tmp_path: Path) -> None:
    root = acme.write(tmp_path, run=('    logger.success("Everything is done here")\n', ""))
    (verdict,) = differing(root).values()
    assert (verdict.state, verdict.weaker) == ("gone", acme.FEATURE)


def test_a_message_that_begins_the_same_is_reworded_too(tmp_path: Path) -> None:
    longer = "Everything is done, and nothing remains for anybody to do on that machine today"
    root = acme.write(tmp_path, run=("Everything is done here", longer))
    assert differing(root)["done"].state == "moved"
    other = acme.write(tmp_path, run=('success("Everything is done here', f'info("{longer}'))
    assert differing(other)["done"].state == "gone"


def test_the_message_of_another_belief_is_no_new_wording(tmp_path: Path) -> None:
    # What is left has all of its words, and is what another belief is about.
    gone = '    logger.info(f"Saved round {config.round} to the disk")\n'
    root = acme.write(tmp_path, run=(gone, ""))
    assert {name: one.state for name, one in differing(root).items()} == {"saved": "gone"}


def test_the_message_of_another_belief_is_no_new_place(tmp_path: Path) -> None:
    # The other program, in a file of the same name, says the same and has a belief of its own.
    root = acme.write(tmp_path, run=('    logger.success("Everything is done here")\n', ""))
    (verdict,) = differing(root).values()
    assert (verdict.belief.id, verdict.state) == ("done", "gone")


def test_a_message_in_another_function_of_the_file_has_moved_and_nothing_is_weaker(
    tmp_path: Path,
) -> None:
    moved = "    process.kill()\n    logger.success('Everything is done here')\n"
    root = acme.write(tmp_path, run=('    logger.success("Everything is done here")\n', ""))
    path = root / RUN
    path.write_text(path.read_text().replace("    process.kill()\n", moved))
    (verdict,) = differing(root).values()
    assert (verdict.state, verdict.weaker, verdict.note) == ("moved", "", "it is here now")
    assert "Everything" in path.read_text().splitlines()[verdict.lines[0][0] - 1]


def test_a_message_in_a_file_of_another_name_may_be_that_of_another_program(
    tmp_path: Path,
) -> None:
    root = acme.write(tmp_path, run=('    logger.success("Everything is done here")\n', ""))
    (root / "src/acme/other.py").write_text("logger.success('Everything is done here')\n")
    (verdict,) = differing(root).values()
    assert (verdict.state, verdict.file) == ("moved", "src/acme/other.py")
    assert verdict.weaker == acme.FEATURE


def test_a_file_in_another_folder_has_moved_and_nothing_is_weaker(tmp_path: Path) -> None:
    root = acme.write(tmp_path)
    (root / "src/acme/store").mkdir()
    (root / "src/acme/paths.py").rename(root / "src/acme/store/paths.py")
    found = differing(root)
    assert {name: one.state for name, one in found.items()} == {
        "no-save": "moved",
        "folders": "moved",
        "fields": "moved",
        # A whole file has no name by which it could be found again.
        "header": "unknown",
    }
    assert {name for name, one in found.items() if one.weaker} == {"header"}


def test_what_cannot_be_located_is_unknown(tmp_path: Path) -> None:
    root = acme.write(tmp_path, run=("def launch(", "def start("), paths=("class Store", "class S"))
    found = differing(root)
    assert found["argv"].state == found["fields"].state == "unknown"
    assert found["argv"].note == f"{RUN} has no launch"
    # The messages are found in the function of the new name.
    assert (found["round"].state, found["round"].weaker) == ("moved", "")


def test_a_belief_that_nothing_is_called_is_unknown_without_its_place(tmp_path: Path) -> None:
    root = acme.write(tmp_path)
    (root / RUN).unlink()
    (root / "src/acme/other.py").write_text("pass\n")
    assert differing(root)["no-handler"].state == "unknown"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({}, 0),
        ({"run": ("is done here", "is over here")}, 1),
        ({"run": ('    logger.success("Everything is done here")\n', "")}, 2),
        ({"paths": ("class Store", "class S")}, 3),
    ],
)
def test_exit_codes(tmp_path: Path, change: dict[str, tuple[str, str]], code: int) -> None:
    root = acme.write(tmp_path, **change)
    result = Checked(acme.BELIEVED, check(Checkout(root), acme.BELIEVED))
    assert result.code == code
    assert sum(result.counts.values()) == len(acme.BELIEVED.beliefs)
    assert bool(result.weaker) == bool(code)


def test_what_has_only_another_place_weakens_nothing_and_exits_with_0(tmp_path: Path) -> None:
    root = acme.write(tmp_path, run=("def stop(", "def stop(process):\n    pass\n\n\ndef halt("))
    (root / "src/acme/ends.py").write_text(
        "def stop(process):\n"
        "    process.terminate()\n"
        "    process.wait(timeout=30)\n"
        "    process.kill()\n"
    )
    found = differing(root)
    order = found["order"]
    assert (order.state, order.where, order.weaker) == ("moved", "src/acme/ends.py:2", "")
    assert Checked(acme.BELIEVED, list(found.values())).code == 0
