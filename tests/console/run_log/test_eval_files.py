"""Results of evaluations, read from files that vf-eval of verifiers 0.4.0 and 0.1.9 wrote, summed
up and compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bs4_console.cli.main import main
from bs4_console.errors import UsageError
from bs4_console.run_log import eval_files
from bs4_console.run_log.eval_files import Evaluation, Rollout

#: Six examples with two rollouts each, of which one example failed; and four with two each.
FILES = Path(__file__).with_name("evaluations")
NEW, OLD = FILES / "verifiers-0.4", FILES / "verifiers-0.1.9"


def altered(path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Write the results of verifiers 0.4 to a file, each line changed."""
    lines = [json.loads(line) for line in (NEW / "traces.jsonl").read_text().splitlines()]
    for line in lines:
        change(line)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def scores(line: dict[str, Any], score: float) -> None:
    for trace in line["traces"]:
        if trace["rewards"]:
            trace["rewards"]["correct"]["score"] = score


def made(*rewards: float, archetype: str = "a") -> Evaluation:
    """Return an evaluation with one rollout of each example."""
    rollouts = [Rollout("e", archetype, str(n), reward) for n, reward in enumerate(rewards)]
    return Evaluation(Path("made"), rollouts, is_torn=False)


def test_files_of_both_versions_of_verifiers() -> None:
    found = {s.archetype: s for s in eval_files.summaries(eval_files.read(NEW))}
    assert list(found) == ["", "links", "tables"]
    whole = found[""]
    assert (whole.environment, whole.examples, whole.rollouts, whole.errors) == (
        "tiny-env",
        5,
        12,
        2,
    )
    # Three examples have 1 and half of 1, two have nothing.
    assert whole.mean == pytest.approx(0.9)
    assert (found["links"].examples, found["links"].errors) == (2, 2)
    assert found["links"].mean == pytest.approx(0.75)

    found = {s.archetype: s for s in eval_files.summaries(eval_files.read(OLD))}
    assert [(s.environment, s.examples, s.rollouts, s.errors) for s in found.values()] == [
        ("tiny-old", 4, 8, 0),
        ("tiny-old", 2, 4, 0),
        ("tiny-old", 2, 4, 0),
    ]
    own = json.loads((OLD / "metadata.json").read_text())["avg_reward"]
    assert found[""].mean == own == 0.5
    # Wilson's interval of 2 in 4.
    assert (found[""].low, found[""].high) == (
        pytest.approx(0.15004, abs=1e-4),
        pytest.approx(0.84996, abs=1e-4),
    )


def test_where_prime_rl_puts_the_episodes_of_a_step(tmp_path: Path) -> None:
    step = tmp_path / "rollouts" / "step_100"

    def named(line: dict[str, Any]) -> None:
        line["env"]["name"] = "held-out"
        line["run"] = {"type": "train", "id": "1", "work": {"type": "eval", "step": 100}}

    altered(step / "eval" / "all" / "traces.jsonl", named)
    for place in (step, step / "eval"):
        assert {rollout.environment for rollout in eval_files.read(place).rollouts} == {"held-out"}


def test_intervals() -> None:
    (whole, _) = eval_files.summaries(made(0.0, 0.2, 0.4, 0.6, 0.8))
    # 0.4 and 2.776 times 0.3162 by the root of 5.
    assert (whole.mean, whole.low, whole.high) == (
        pytest.approx(0.4),
        pytest.approx(0.00742, abs=1e-4),
        pytest.approx(0.79258, abs=1e-4),
    )
    (whole, _) = eval_files.summaries(made(*[0.1, 0.3] * 15))
    # 2.0452 is the quantile for 29 degrees of freedom.
    assert whole.high == pytest.approx(0.2 + 2.0452 * 0.101710 / 30**0.5, abs=1e-4)
    for unknown in (made(0.5), made(0.5, 0.5), made()):
        assert all(s.low is None for s in eval_files.summaries(unknown))
    (whole, _) = eval_files.summaries(made(1.0, 1.0, 1.0, 1.0))
    assert (whole.low, whole.high) == (pytest.approx(0.51, abs=0.001), 1.0)


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [
        ((0, 0, 0, 0, 0, 0), (1, 1, 1, 1, 1, 0.5), "better"),
        ((1, 1, 1, 1, 1, 0.5), (0, 0, 0, 0, 0, 0), "worse"),
        ((0, 1, 0, 1), (1, 0, 0, 1), "not shown"),
        ((0, 0), (1, 1), "unknown"),
        # Nothing varies: the sign test decides.
        ((1,) * 50, (0,) * 50, "worse"),
        ((1,) * 6, (0,) * 6, "worse"),
        ((0.5,) * 6, (0.75,) * 6, "better"),
        ((1,) * 5, (0,) * 5, "unknown"),
        ((1,), (0,), "unknown"),
        ((1, 0) * 3, (1, 0) * 3, "not shown"),
        # 0.8 - 0.7 and 0.4 - 0.3 differ in the last digit alone.
        ((0.7, 0.3), (0.8, 0.4), "unknown"),
        ((0.8, 0.4) * 3, (0.7, 0.3) * 3, "worse"),
    ],
)
def test_a_change_is_told_where_the_examples_show_it(
    before: tuple[float, ...], after: tuple[float, ...], word: str
) -> None:
    changes = eval_files.changes(made(*after), made(*before))
    assert {(c.archetype, c.word) for c in changes} == {("", word), ("a", word)}


def test_only_common_examples_are_compared() -> None:
    (whole,) = eval_files.changes(made(1, 0, 1, 1), made(0, 1, archetype="other"))
    assert (whole.archetype, whole.examples, whole.mean) == ("", 2, 0.0)
    other = Evaluation(Path("other"), [Rollout("x", "a", "0", 1.0)], is_torn=False)
    with pytest.raises(UsageError, match="no example in common"):
        eval_files.changes(made(1, 0), other)


def test_what_the_new_evaluation_lacks_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = Evaluation(
        Path("old"),
        [*made(1, 1).rollouts, *made(1, 1, archetype="b").rollouts, Rollout("x", "c", "0", 1.0)],
        is_torn=False,
    )
    new = Evaluation(
        Path("new"), [*made(1, 1).rollouts, Rollout("x", "c", "0", None)], is_torn=False
    )
    found = eval_files.missing(new, old)
    assert [(m.environment, m.archetype, m.examples) for m in found] == [
        ("e", "b", 2),
        ("x", "", 1),
    ]
    assert eval_files.missing(old, new) == []

    def moved(line: dict[str, Any]) -> None:
        if line["task"]["data"].get("archetype") != "links":
            line["env"]["name"] = "other"

    some = altered(tmp_path / "traces.jsonl", moved)
    against = ["runs", "evals", str(some), "--against", str(NEW)]
    assert main(against) == 0
    assert "tiny-env (tables) is not compared: none of the 3 examples" in capsys.readouterr().err
    assert main([*against, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["missing"] == [{"environment": "tiny-env", "archetype": "tables", "examples": 3}]


def test_a_line_that_is_still_written_is_left_out(tmp_path: Path) -> None:
    text = (NEW / "traces.jsonl").read_text()
    file = tmp_path / "traces.jsonl"
    file.write_text(text[:-200])
    found = eval_files.read(file)
    assert (len(found.rollouts), found.is_torn) == (11, True)
    file.write_text(text[:-200] + "\n")
    with pytest.raises(UsageError, match=r"Line 12 of .*traces\.jsonl"):
        eval_files.read(file)


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        "{}",
        "7",
        '{"reward": 1}',
        '{"reward": "high", "example_id": 1}',
        '{"traces": [], "env": {}, "task": {"data": {}}}',
        '{"traces": [{"ok": true, "rewards": {"a": {"score": "x", "weight": 1}}}], "ok": true, '
        '"env": {"id": "e"}, "task": {"type": "T", "data": {"idx": 0}}}',
        "[" * 100_000,
    ],
)
def test_what_is_no_result(tmp_path: Path, line: str) -> None:
    file = tmp_path / "results.jsonl"
    file.write_text(line + "\n")
    with pytest.raises(UsageError, match=r"Line 1 of .*results\.jsonl"):
        eval_files.read(file)


def test_a_row_without_a_reward_is_left_out_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "results.jsonl"
    rows = []
    for n, reward in enumerate(("1.0", "NaN", "null", "1e308", "-1e308", "1e999", "0.0")):
        rows.append(f'{{"example_id": {n}, "reward": {reward}}}\n')
    rows.append('{"example_id": 7, "reward": null, "error": "it broke"}\n')
    file.write_text("".join(rows))
    (whole,) = eval_files.summaries(eval_files.read(file))
    assert (whole.examples, whole.rollouts, whole.errors, whole.mean) == (2, 3, 1, 0.5)
    assert main(["runs", "evals", str(file)]) == 0
    assert "5 of the rollouts in" in capsys.readouterr().err
    assert main(["runs", "evals", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["unscored"] == 5


def test_large_rewards_have_an_interval() -> None:
    (whole, _) = eval_files.summaries(made(1e99, -1e99, 1e99))
    assert whole.high is not None
    (change, _) = eval_files.changes(made(1e100, -1e100, 1e100), made(-1e100, 1e100, 0))
    assert change.word == "not shown"


@pytest.mark.parametrize(
    ("rewards", "worth"),
    [
        ({}, None),
        ({"a": None}, None),
        ({"a": {"score": 1, "weight": 2}, "b": None}, 2.0),
        ({"a": {"score": 1, "weight": 1}, "b": {"score": float("nan"), "weight": 1}}, None),
        ({"a": {"score": 1e60, "weight": 1e60}}, None),
    ],
)
def test_what_a_trace_is_worth(rewards: dict[str, Any], worth: float | None) -> None:
    assert eval_files.weighted(rewards) == worth


def test_an_agent_without_a_reward_is_not_worth_0(tmp_path: Path) -> None:
    def with_a_user(line: dict[str, Any]) -> None:
        for trace in list(line["traces"]):
            line["traces"].append({**trace, "rewards": {}})

    def without(line: dict[str, Any]) -> None:
        for trace in line["traces"]:
            trace["rewards"] = {}

    both = eval_files.read(altered(tmp_path / "both" / "traces.jsonl", with_a_user))
    assert eval_files.summaries(both) == eval_files.summaries(eval_files.read(NEW))
    assert both.unscored == 10
    none = eval_files.read(altered(tmp_path / "none" / "traces.jsonl", without))
    assert none.unscored == 10
    assert eval_files.summaries(none)[0].errors == len(none.rollouts) == 2


def test_a_directory_without_results(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no results"):
        eval_files.read(tmp_path)
    with pytest.raises(UsageError, match="cannot be read"):
        eval_files.read(tmp_path / "traces.jsonl")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "evals", str(OLD)]) == 0
    row = "tiny-old     links      2         4         0       0.500   0.095 to 0.905\n"
    assert row in capsys.readouterr().out

    worse = altered(tmp_path / "traces.jsonl", lambda line: scores(line, -3.0))
    assert main(["runs", "evals", str(worse), "--against", str(NEW), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert [(c["archetype"], c["examples"], c["word"]) for c in told["changes"]] == [
        ("", 5, "worse"),
        ("links", 2, "not shown"),
        ("tables", 3, "worse"),
    ]
    assert main(["runs", "evals", str(NEW), "--against", str(worse)]) == 0
    assert "better" in capsys.readouterr().out

    for name, reward in (("good", 1.0), ("collapsed", 0.0)):
        rows = [{"example_id": n, "reward": reward} for n in range(50)]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(lines)
    good, collapsed = (str(tmp_path / f"{name}.jsonl") for name in ("good", "collapsed"))
    assert main(["runs", "evals", collapsed, "--against", good]) == 1
    assert "-1.000  -     worse" in capsys.readouterr().out

    shares = tmp_path / "results_100.json"
    shares.write_text(json.dumps({"pass_rate": 0.5, "by_archetype": {"tables": 0.25}}))
    assert main(["runs", "evals", str(shares)]) == 0
    assert "tables     0.250" in capsys.readouterr().out
