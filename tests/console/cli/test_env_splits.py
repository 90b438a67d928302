"""The command `envs splits`: sizes of splits and shared rows, by a project's own libraries."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from bs4_console.cli import env_splits
from bs4_console.cli.main import main
from bs4_console.configs.document import Document
from bs4_console.configs.view import View
from bs4_console.errors import RemoteError
from bs4_console.setup import dataset_splits as splits

#: The part of two libraries that the program uses, with verifiers' fallback of before 0.4.
LIBRARIES = {
    "datasets": """
import json, os
class Rows(list):
    split = None
class _Info:
    def __init__(self, n): self.num_examples = n
class _Builder:
    def __init__(self, place):
        assert place == "owner/at-the-hub"
        self.info = self
        self.splits = {"train": _Info(12000), "eval": _Info(500)}
load_dataset_builder = _Builder
def load_from_disk(place):
    names = json.load(open(os.path.join(place, "dataset_dict.json")))["splits"]
    return {n: Rows(json.load(open(os.path.join(place, n)))) for n in names}
""",
    "verifiers": """
class Environment:
    def __init__(self, split="train", own=True):
        self.rows = [{"prompt": [{"role": "user", "content": f"{split} {n}"}], "example_id": n}
                     for n in range(260 if split == "bench" else 12)]
        self.eval_dataset = self.rows[:2] + [{"prompt": "new"}] if own else None
    def get_dataset(self):
        print("a line that an environment prints")
        return self.rows
    def get_eval_dataset(self):
        return self.eval_dataset or self.rows
def load_environment(name, **arguments):
    assert name == "soup-env"
    return Environment(**arguments)
""",
}


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory without a project, whose python3 is ours and finds the libraries."""
    for name, text in LIBRARIES.items():
        (tmp_path / "lib").mkdir(exist_ok=True)
        (tmp_path / "lib" / f"{name}.py").write_text(text)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "lib"))
    for name in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"BS4_{name}_DIR", str(tmp_path / name))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def rows(place: Path, questions: list[str]) -> None:
    """JSON lines whose rows differ beside their question."""
    lines = []
    for n, question in enumerate(questions):
        lines.append(json.dumps({"prompt": question, "extra_info": {"index": n, "of": place.name}}))
    place.write_text("\n".join(lines))


def told(capsys: pytest.CaptureFixture[str], *words: str, code: int) -> dict[str, Any]:
    assert main(["envs", "splits", *words, "--json"]) == code
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert answer["schema"] == "bs4.splits/1"
    return answer


def test_what_a_config_trains_and_evaluates_on_is_counted_and_shared_rows_are_named(
    work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows(work / "train.jsonl", [f"q{n}" for n in range(10)])
    rows(work / "test.jsonl", ["q8", "q9", "other"])
    (work / "verl.toml").write_text(
        '[data]\ntrain_files = "train.jsonl"\nval_files = ["test.jsonl"]\n'
    )
    answer = told(capsys, "--config", "verl.toml", code=1)
    assert [(s["use"], s["split"], s["rows"]) for s in answer["splits"]] == [
        ("train", "train", 10),
        ("eval", "test", 3),
    ]
    (wrong,) = answer["wrong"]
    assert wrong.startswith("2 of 3 rows of test of test.jsonl (eval) are in train of train.jsonl")
    rows(work / "test.jsonl", ["other"])
    assert told(capsys, "--config", "verl.toml", code=0)["wrong"] == []
    assert main(["envs", "splits", "--config", "verl.toml"]) == 0
    assert "have no row in common" in capsys.readouterr().out


def test_an_environment_of_before_tells_its_two_sets_and_that_one_falls_back(
    work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (work / "rl.toml").write_text(
        '[[orchestrator.env]]\nid = "owner/soup-env"\n[orchestrator.eval]\nnum_examples = 500\n'
        '[[orchestrator.eval.env]]\nid = "owner/soup-env"\nargs = { own = false }\n'
    )
    answer = told(capsys, "--config", "rl.toml", code=1)
    train, own = answer["splits"]
    assert (train["rows"], own["rows"], own["limit"]) == (12, 12, 500)
    assert "takes the one to train on" in own["note"]
    assert len(answer["wrong"]) == 2
    assert answer["wrong"][0].startswith("12 of 12 rows")
    assert "takes 500 examples" in answer["wrong"][1]


def test_the_benchmark_of_an_environment_by_its_arguments(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("--env", "soup-env", "--args", '{"split": "bench"}')
    answer = told(capsys, *words, code=1)
    assert [(s["split"], s["rows"]) for s in answer["splits"]] == [("train", 260), ("eval", 3)]


def test_a_directory_and_what_the_hub_says(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (work / "data").mkdir()
    (work / "data" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    (work / "data" / "train").write_text('[{"question": "a"}, {"question": "b"}]')
    (work / "data" / "test").write_text('[{"question": "c"}]')
    answer = told(capsys, "data", "owner/at-the-hub", code=0)
    found = {(s["place"], s["split"]): s["rows"] for s in answer["splits"]}
    assert found == {
        ("data", "train"): 2,
        ("data", "test"): 1,
        ("owner/at-the-hub", "train"): 12000,
        ("owner/at-the-hub", "eval"): 500,
    }
    assert [o["rows"] for o in answer["overlaps"]] == [0], "the hub's rows are not here"


def test_a_file_that_is_not_there_is_named(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["envs", "splits", "nowhere.jsonl"]) == 2
    assert "There is no file nowhere.jsonl." in capsys.readouterr().err


def test_what_cannot_be_read_is_unknown(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (work / "bad.jsonl").write_text("{")
    answer = told(capsys, "bad.jsonl", code=3)
    assert answer["splits"][0]["rows"] is None
    assert "JSONDecodeError" in answer["splits"][0]["error"]


def test_an_environment_that_does_not_end_is_ended_and_nothing_is_known(
    work: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    python = work.parent / "bin" / "python3"
    python.unlink()
    # As uv does: it starts another process, to which it passes on that it shall end.
    python.write_text(
        "#!/bin/sh\nsleep 600 & child=$!\n"
        "trap 'kill $child; wait $child; echo $? > ended; exit 1' TERM\n"
        ": > begun\nwait $child\n"
    )
    python.chmod(0o755)

    def half_an_hour_later(process: subprocess.Popen[bytes], *_: bytes, timeout: float) -> None:
        deadline = time.monotonic() + 60
        while not (work / "begun").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        raise subprocess.TimeoutExpired(process.args, timeout)

    monkeypatch.setattr(subprocess.Popen, "communicate", half_an_hour_later)
    monkeypatch.setattr(env_splits, "_ENDS_S", 60.0)
    assert main(["envs", "splits", "--env", "soup-env", "--json"]) == 3
    told = capsys.readouterr()
    assert "were not read within 30 minutes" in told.err
    assert "Traceback" not in told.err
    assert told.out == ""
    assert (work / "ended").read_text() == "143\n", "what it had started is ended too"


def test_arguments_are_never_on_the_command_line(
    work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["envs", "splits", "--env", "soup-env", "--args", '{"key": "canary"}']
    assert main([*words, "--dry-run", "--json"]) == 0
    out = capsys.readouterr().out
    assert json.loads(out)["argv"] == ["python3", "-"]
    assert "canary" not in out
    for wrong in (["--args", "["], ["data", "--unknown"], []):
        assert main(["envs", "splits", *wrong]) == 2


def test_the_current_generation_and_an_sft_name_their_sets() -> None:
    data = {
        "orchestrator": {
            "train": {"source": [{"env": {"taskset": {"id": "reverse", "split": "train"}}}]},
            "eval": {"num_examples": 64, "source": [{"env": {"taskset": {"id": "reverse"}}}]},
        },
        "data": {"name": "owner/sft", "splits": ["train", "more"]},
        "val": {"data": {"name": "owner/sft", "splits": ["test"]}},
    }
    document = Document(file=Path("rl.toml"), text="", data=data, lines={})
    found = splits.of_config(View(generation="", document=document, data=data))
    assert [(w.use, w.place, w.split, w.limit, dict(w.arguments)) for w in found] == [
        ("train", "owner/sft", "train", None, {}),
        ("train", "owner/sft", "more", None, {}),
        ("eval", "owner/sft", "test", None, {}),
        ("train", "reverse", "train", None, {"split": "train"}),
        ("eval", "reverse", "eval", 64, {}),
    ]


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "bs4-splits: [",
        'bs4-splits: {"sets": [], "overlaps": [{"one": 0, "other": 1, "rows": 1}]}',
        'bs4-splits: {"sets": [{"use": "", "place": "x"}], "overlaps": []}',
        'bs4-splits: {"sets": [{"use": "", "place": "x", "split": "", "rows": true, "limit": null, '
        '"note": "", "error": ""}], "overlaps": []}',
        'bs4-splits: {"sets": [{"use": "", "place": 3, "split": "", "rows": 1, "limit": null, '
        '"note": "", "error": ""}], "overlaps": []}',
    ],
)
def test_an_answer_that_the_program_does_not_give_is_an_error(answer: str) -> None:
    with pytest.raises(RemoteError, match="gave no answer"):
        splits.read(answer.encode(), "pod a")


def test_words_of_a_pod_are_only_printed() -> None:
    answer = (
        'bs4-splits: {"sets": [{"use": "", "place": "x\\u001b]0;owned\\u0007", "split": "a\\nb", '
        '"rows": 1, "limit": null, "note": "", "error": ""}], "overlaps": []}'
    )
    (one,) = splits.read(answer.encode(), "pod a").splits
    assert (one.place, one.split) == ("x", "a b")
