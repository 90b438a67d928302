"""A step is merged beside its target, looked at, and put in its place by one rename; what is torn,
in the way or too large is refused.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bs4_agent.checkpoints.merging import merge as merging
from bs4_agent.checkpoints.merging import worker
from bs4_agent.checkpoints.merging.check import lacking
from bs4_agent.checkpoints.merging.merge import MergeRequest, Merging
from bs4_common.errors import BadRequest, PlanChanged, Refused
from bs4_common.ids import ulid
from bs4_common.streams.segments import segments
from bs4_common.trainers import verl_merger
from bs4_practice.miniature.install import site_packages
from bs4_practice.miniature.verl import tensors
from tests.agent.checkpoints.merging.merge_pod import MergePod


@pytest.fixture
def pod(no_process_left: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[MergePod]:
    monkeypatch.setenv("BS4_MINIATURE_STEP_SECONDS", "0.01")
    with tempfile.TemporaryDirectory(prefix="bs4-") as short:
        made = MergePod(Path(short).resolve())
        yield made
        made.close()


def find(
    pod: MergePod,
    *,
    memory: tuple[int, int] = (0, 1 << 40),
    step: int | None = None,
    target: str = "",
) -> merging.Prepared:
    return Merging(pod.home, pod.runs, None, lambda: memory).find(
        MergeRequest("demo", step, target)
    )  # type: ignore[arg-type]


def test_the_newest_whole_step_becomes_a_directory_that_loads(pod: MergePod) -> None:
    pod.save(5, skill=0.25)
    pod.save(10, skill=0.75)
    plan = pod.plan()["plan"]
    actor, target = (
        pod.checkpoints / "global_step_10" / "actor",
        pod.out / "merged" / "global_step_10",
    )
    python = str(pod.project / ".venv/bin/python3")
    made = str(target.parent / ".global_step_10.merging" / "model")
    words = ["merge", "--backend", "fsdp", "--local_dir", str(actor), "--target_dir", made]
    assert plan["commands"] == [[python, "-m", "verl.model_merger", *words]]
    assert (plan["danger"], plan["typed_name"]) == ("none", False)
    before = {path: path.read_bytes() for path in pod.checkpoints.rglob("*") if path.is_file()}
    end = pod.merge()
    assert end["event"] == "done", end
    assert end["result"] == {"step": 10, "target": str(target)}
    assert lacking(target) == ""
    assert tensors.load(target) == tensors.of(0.75)
    assert json.loads((target / "config.json").read_text())["model_type"] == "qwen2"
    assert not list(target.parent.glob(".*")), "nothing is left beside it"
    assert {
        path: path.read_bytes() for path in pod.checkpoints.rglob("*") if path.is_file()
    } == before
    log = next(pod.home.setup.glob("*/launcher.log")).read_text()
    assert "Saving model to" in log
    assert "verified" in log


def test_a_torn_step_is_refused_and_the_newest_whole_one_is_taken(pod: MergePod) -> None:
    pod.save(5)
    file = pod.save(10) / "model_world_size_2_rank_1.pt"
    os.truncate(file, file.stat().st_size // 2)
    assert "torn" in pod.plan(step=10)["refused"]
    assert pod.plan()["plan"]["resume"] == 5
    assert "no step 7" in pod.plan(step=7)["refused"]
    # Above the tracker's number a step is torn too, whatever lies there.
    pod.save(15)
    (pod.checkpoints / "latest_checkpointed_iteration.txt").write_text("5")
    assert "torn" in pod.plan(step=15)["refused"]


def test_what_is_there_is_left_as_it_is(pod: MergePod) -> None:
    pod.save(5)
    (pod.project / "taken").mkdir()
    assert "is there already" in pod.plan(target="taken")["refused"]
    assert (
        "among the checkpoints"
        in pod.plan(target="outputs/demo/checkpoints/global_step_5/merged")["refused"]
    )
    plan = pod.plan(target="mine")
    (pod.project / "mine").mkdir()
    (pod.project / "mine" / "note").write_text("a person's")
    with pytest.raises(Refused, match="is there already"):
        pod.begin(plan)
    assert (pod.project / "mine" / "note").read_text() == "a person's"


def test_a_target_that_appears_meanwhile_is_not_replaced(pod: MergePod) -> None:
    """rename(2) would replace an empty directory."""
    pod.save(5)
    prepared = find(pod, target="mine")
    (prepared.staging / worker.MODEL).mkdir(parents=True)
    prepared.target.mkdir()
    with pytest.raises(PlanChanged, match="is there by now"):
        Merging(pod.home, pod.runs, None, lambda: (0, 1)).place(prepared, "key")  # type: ignore[arg-type]
    assert (prepared.staging / worker.MODEL).is_dir()


def test_what_a_stranger_put_where_a_merge_writes_is_left_as_it_is(pod: MergePod) -> None:
    """A merge that fails removes its own half: never a directory that it did not make."""
    pod.save(5)
    plan = pod.plan(target="mine")
    theirs = find(pod, target="mine").staging / "model" / "note"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("a person's")
    end = pod.merge(plan)
    assert end["event"] == "failed", end
    assert "no merge of ours has put there" in end["detail"]
    assert theirs.read_text() == "a person's"


def test_a_merger_that_fails_leaves_nothing_and_its_words_are_told(pod: MergePod) -> None:
    actor = pod.save(5)
    plan = pod.plan()
    bad = actor / "model_world_size_2_rank_1.pt"
    stamp = bad.stat()
    bad.write_bytes(bytes(stamp.st_size))  # whole by its size, and no archive inside
    os.utime(bad, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    end = pod.merge(plan)
    assert (end["event"], end["result"]["error"]) == ("failed", "step-failed"), end
    assert "ended with exit code 1" in end["detail"]
    assert not list((pod.out / "merged").iterdir())
    assert (
        "BadZipFile" in (log := next(pod.home.setup.glob("*/launcher.log")).read_text())
        or "PytorchStreamReader" in log
    )


def test_a_step_that_changes_after_its_plan_is_not_merged(pod: MergePod) -> None:
    actor = pod.save(5)
    plan = pod.plan()
    os.utime(actor / "model_world_size_2_rank_0.pt")
    with pytest.raises(PlanChanged, match="look at the new plan"):
        pod.begin(plan)


def test_the_step_of_the_plan_is_merged_also_when_a_newer_one_was_saved_meanwhile(
    pod: MergePod,
) -> None:
    pod.save(5, skill=0.25)
    plan = pod.plan()
    pod.save(10, skill=0.75)
    end = pod.merge(plan)
    assert (end["event"], end["result"]["step"]) == ("done", 5), end
    assert tensors.load(Path(end["result"]["target"])) == tensors.of(0.25)


def test_too_little_memory_or_disk_is_refused_before_anything_is_written(
    pod: MergePod, monkeypatch: pytest.MonkeyPatch
) -> None:
    actor = pod.save(5)
    size = sum(path.stat().st_size for path in actor.glob("model_*"))
    with pytest.raises(Refused, match="memory"):
        find(pod, memory=(100, 100 + size - 1))
    assert "left" in find(pod, memory=(0, size)).notes[0]
    assert not find(pod).notes
    monkeypatch.setattr(merging.fetch, "free_bytes", lambda path: size)
    with pytest.raises(Refused, match="free"):
        find(pod)
    assert not (pod.out / "merged").exists()


def test_after_a_restart_the_merge_is_finished_once(pod: MergePod) -> None:
    pod.save(5)
    key = pod.begin(pod.plan())
    pod.ended(key)
    pod.actions.executor.join(30.0)
    pod.stream.close()
    # As an agent that died before it had written down the end: the steps find themselves done.
    ((_, segment),) = segments(pod.stream.directory)
    lines = segment.read_bytes().splitlines(keepends=True)
    words = (b'"accepted"', key.encode())
    (accepted,) = (n for n, line in enumerate(lines) if all(word in line for word in words))
    segment.write_bytes(b"".join(lines[: accepted + 1]))
    pod.load()
    assert not pod.actions.executor.ledger.actions[key].ended
    pod.actions.resume()
    pod.actions.executor.join(30.0)
    skipped = [r for r in pod.told("action") if r["action"] == key and r["event"] == "step-skipped"]
    assert [r["step"] for r in skipped] == [0, 1]
    assert len(list(pod.home.setup.iterdir())) == 1, "the merger ran once"


def adapt(actor: Path, alpha: int) -> Path:
    """A LoRA adapter beside the shards, as verl saves it."""
    adapter = actor / "lora_adapter"
    adapter.mkdir()
    header = b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}'
    (adapter / "adapter_model.safetensors").write_bytes(
        len(header).to_bytes(8, "little") + header + bytes(4)
    )
    (adapter / "adapter_config.json").write_text(json.dumps({"r": 8, "lora_alpha": alpha}))
    return adapter


def test_an_adapter_whose_alpha_is_zero_is_refused(pod: MergePod) -> None:
    adapter = adapt(pod.save(5), alpha=0)
    assert "lora_alpha 0" in pod.plan()["refused"]
    (adapter / "adapter_config.json").write_text('{"r": 8, "lora_alpha": 16}')
    first, second = pod.plan()["plan"]["commands"]
    assert first[-1].endswith("/base")
    assert second[2].endswith("merge_adapter.py")
    assert [second[i + 1] for i, word in enumerate(second) if word in ("--base", "--adapter")] == [
        first[-1],
        str(adapter),
    ]


LIBRARIES = {
    "transformers": """
from pathlib import Path
from miniature.verl import tensors
class AutoModelForCausalLM:
    @classmethod
    def from_pretrained(cls, directory, torch_dtype):
        model = cls()
        model.values = tensors.load(Path(directory))
        model.config = (Path(directory) / "config.json").read_text()
        return model
    def save_pretrained(self, directory):
        Path(directory).mkdir()
        (Path(directory) / "config.json").write_text(self.config)
        tensors.save(Path(directory), self.values)
class AutoTokenizer:
    @classmethod
    def from_pretrained(cls, directory):
        return cls()
    def save_pretrained(self, directory):
        (Path(directory) / "tokenizer.json").write_text("{}")
""",
    "peft": """
import json
from pathlib import Path
class PeftModel:
    @classmethod
    def from_pretrained(cls, model, adapter):
        found = cls()
        found.model = model
        found.alpha = json.loads((Path(adapter) / "adapter_config.json").read_text())["lora_alpha"]
        return found
    def merge_and_unload(self):
        self.model.values = [value + self.alpha for value in self.model.values]
        return self.model
""",
}


def test_an_adapter_is_merged_into_the_base_that_the_merger_makes(pod: MergePod) -> None:
    for name, text in LIBRARIES.items():
        (site_packages(pod.project) / f"{name}.py").write_text(text)
    adapt(pod.save(5, skill=0.5), alpha=16)
    end = pod.merge()
    assert end["event"] == "done", end
    target = Path(end["result"]["target"])
    assert tensors.load(target) == [value + 16 for value in tensors.of(0.5)]
    assert (target / "tokenizer.json").exists()
    assert not list(target.parent.glob(".*")), "the base that was only needed on the way is gone"


def with_base(pod: MergePod, named: str = "models/base") -> tuple[Path, Path]:
    """An adapter of its own and a base on the pod, and the libraries that merge them."""
    for name, text in LIBRARIES.items():
        (site_packages(pod.project) / f"{name}.py").write_text(text)
    base = pod.project / "models" / "base"
    base.mkdir(parents=True)
    tensors.save(base, tensors.of(0.25))
    (base / "config.json").write_text('{"model_type": "qwen2"}')
    (pod.project / "best").mkdir()
    adapter = adapt(pod.project / "best", alpha=16)
    config = {"r": 8, "lora_alpha": 16, "base_model_name_or_path": named}
    (adapter / "adapter_config.json").write_text(json.dumps(config))
    return adapter, base


@pytest.mark.parametrize("given", ["models/base", ""])
def test_an_adapter_of_another_place_is_merged_into_a_base_that_is_only_read(
    pod: MergePod, given: str
) -> None:
    adapter, base = with_base(pod)
    before = {path: path.read_bytes() for path in [*base.iterdir(), *adapter.iterdir()]}
    record = pod.plan(adapter="best/lora_adapter", base=given)
    plan = record["plan"]
    assert (plan["source"], plan["resume"]) == (str(adapter), None)
    assert plan["asked"]["base"] == str(base)
    assert plan["notes"] == []
    end = pod.merge(record)
    assert end["event"] == "done", end
    target = Path(end["result"]["target"])
    assert target == pod.out / "merged" / "lora_adapter"
    assert tensors.load(target) == [value + 16 for value in tensors.of(0.25)]
    assert {path: path.read_bytes() for path in [*base.iterdir(), *adapter.iterdir()]} == before


def test_an_adapter_is_not_merged_over_or_into_its_base(pod: MergePod) -> None:
    adapter, base = with_base(pod)
    asked = {"adapter": "best/lora_adapter", "base": str(base)}
    assert "is there already" in pod.plan(**asked, target=str(base))["refused"]
    assert "is only read" in pod.plan(**asked, target=str(base / "new"))["refused"]
    assert "is only read" in pod.plan(**asked, target=str(adapter / "new"))["refused"]
    first = base / "model-00001-of-00002.safetensors"
    os.truncate(first, first.stat().st_size - 1)
    assert "is not whole" in pod.plan(**asked)["refused"]


def test_an_adapter_without_a_base_on_the_pod_is_refused(pod: MergePod) -> None:
    adapter, _ = with_base(pod, named="Qwen/Qwen2.5-0.5B")
    assert "Qwen/Qwen2.5-0.5B" in pod.plan(adapter=str(adapter))["refused"]
    note = pod.plan(adapter=str(adapter), base="models/base")["plan"]["notes"][0]
    assert "names Qwen/Qwen2.5-0.5B" in note
    assert "is no adapter" in pod.plan(adapter="models/base")["refused"]
    with pytest.raises(BadRequest, match="give one of the two"):
        pod.plan(adapter=str(adapter), step=5)


def test_an_adapter_or_base_that_changes_after_the_plan_is_not_merged(pod: MergePod) -> None:
    adapter, base = with_base(pod)
    plan = pod.plan(adapter=str(adapter))
    os.utime(base / "config.json")
    with pytest.raises(PlanChanged, match="look at the new plan"):
        pod.begin(plan)


def test_the_step_in_which_an_adapter_lies_is_held(pod: MergePod) -> None:
    with_base(pod)
    adapter = adapt(pod.save(5), alpha=16)
    assert pod.plan(adapter=str(adapter), base="models/base")["plan"]["resume"] == 5


FORMS = [
    (
        "parser.add_subparsers()",
        ["merge", "--backend", "fsdp", "--local_dir", "A", "--target_dir", "T"],
    ),
    (
        "add_argument('--target_dir')",
        [
            "--backend",
            "fsdp",
            "--local_dir",
            "A",
            "--target_dir",
            "T",
            "--hf_model_path",
            "A/huggingface",
        ],
    ),
    ("add_argument('--local_dir')", ["--local_dir", "A"]),
]


@pytest.mark.parametrize(("text", "words"), FORMS, ids=["0.4", "0.3", "0.2"])
def test_older_releases_are_asked_by_their_script(
    pod: MergePod, text: str, words: list[str]
) -> None:
    script = pod.project / "scripts" / "model_merger.py"
    script.parent.mkdir()
    script.write_text(text)
    found = verl_merger.find(pod.spec)
    assert found is not None
    assert found.argv(Path("A"), Path("T")) == [
        str(pod.project / ".venv/bin/python3"),
        str(script),
        *words,
    ]


def test_a_release_that_writes_into_what_it_reads_is_given_a_stand_in(pod: MergePod) -> None:
    actor = pod.save(5, skill=0.5)
    script = pod.project / "scripts" / "model_merger.py"
    script.parent.mkdir()
    script.write_text(
        "import sys; from pathlib import Path; from miniature.verl import merger\n"
        "assert sys.argv[1] == '--local_dir'\n"
        "here = sys.argv[2]; merger.main(['merge', '--backend', 'fsdp', '--local_dir', here, "
        "'--target' + '_dir', here + '/new'])\n"
        "[path.replace(Path(here, 'huggingface', path.name)) for path in Path(here, "
        "'new').iterdir()]\n"
    )
    before = sorted(str(path) for path in actor.rglob("*"))
    end = pod.merge()
    assert end["event"] == "done", end
    assert tensors.load(Path(end["result"]["target"])) == tensors.of(0.5)
    assert sorted(str(path) for path in actor.rglob("*")) == before


def test_a_directory_counts_only_when_it_is_whole(tmp_path: Path) -> None:
    tensors.save(tmp_path, tensors.of(0.5))
    assert "config.json" in lacking(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "qwen2"}')
    assert lacking(tmp_path) == ""
    index = tmp_path / "model.safetensors.index.json"
    listed = json.loads(index.read_text())
    listed["weight_map"]["lost.weight"] = "model-00001-of-00002.safetensors"
    index.write_text(json.dumps(listed))
    assert "lost.weight" in lacking(tmp_path)
    index.unlink()
    assert "no model.safetensors.index.json" in lacking(tmp_path)
    tensors.save(tmp_path, tensors.of(0.5))
    file = tmp_path / "model-00002-of-00002.safetensors"
    os.truncate(file, file.stat().st_size - 1)
    assert "bytes" in lacking(tmp_path)
    file.unlink()
    assert "not there" in lacking(tmp_path)


def scripted(pod: MergePod, text: str) -> None:
    """A merger of one's own, asked as 0.4 asks: argv is merge --backend fsdp --local_dir A
    --target_dir T.
    """
    script = pod.project / "scripts" / "model_merger.py"
    script.parent.mkdir()
    head = (
        "# add_subparsers\nimport fcntl, os, sys\nfrom pathlib import Path\nsource, target = "
        "Path(sys.argv[5]), Path(sys.argv[7])\n"
    )
    script.write_text(f"{head}{text}\n")


def test_what_ended_well_and_is_not_whole_is_not_put_in_its_place(pod: MergePod) -> None:
    pod.save(5)
    scripted(
        pod, "target.mkdir(); (target / 'config.json').write_text('{\"model_type\": \"qwen2\"}')"
    )
    end = pod.merge()
    assert (end["event"], "is not whole (no weights)" in end["detail"]) == ("failed", True), end
    assert not list((pod.out / "merged").iterdir())


def test_the_step_is_held_while_it_is_merged(pod: MergePod) -> None:
    """The disk guard takes a step alone before it moves it."""
    pod.save(5)
    lock = pod.home.holds("demo") / "step_5"
    take = (
        f"fd = os.open({str(lock)!r}, os.O_RDWR)\ntry:\n    fcntl.flock(fd, fcntl.LOCK_EX | "
        "fcntl.LOCK_NB)"
    )
    scripted(pod, f"{take}\nexcept BlockingIOError:\n    sys.exit(42)")
    assert "exit code 42" in pod.merge()["detail"]


def test_a_merge_that_is_stopped_takes_what_it_wrote_with_it(pod: MergePod) -> None:
    pod.save(5)
    scripted(
        pod,
        "target.mkdir(); (target / 'config.json').write_text('{}'); Path('begun').touch(); "
        "os.read(os.pipe()[0], 1)",
    )
    key = pod.begin(pod.plan())
    deadline = time.monotonic() + 60
    while not (pod.project / "begun").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    pod.actions.submit({"key": ulid(), "kind": "setup-stop"}, "alice")
    end = pod.ended(key)
    assert (end["event"], "was stopped" in end["detail"]) == ("failed", True), end
    assert not list((pod.out / "merged").iterdir())


def test_a_step_that_is_taken_away_under_the_merger_is_no_success(pod: MergePod) -> None:
    pod.save(5)
    write = "from miniature.verl import merger, tensors\nmerger.main(sys.argv[1:])"
    scripted(pod, f"{write}\n(source / 'model_world_size_2_rank_0.pt').unlink()")
    end = pod.merge()
    assert (end["event"], "make a new plan" in end["detail"]) == ("plan-changed", True), end
    assert not list((pod.out / "merged").iterdir())
