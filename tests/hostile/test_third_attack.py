"""The third attack, of 29 November 2026: configs that no parser takes, addresses that are none, and
what one run's odd file does to the other runs of its pod.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from bs4_agent.observe import collect
from bs4_agent.observe.collect import Collector
from bs4_agent.observe.prober import Prober, Watched
from bs4_agent.pod import Pod
from bs4_agent.probes import vllm
from bs4_common.checkpoints import content
from bs4_common.checkpoints.content import wanting
from bs4_common.credentials.known import KnownValues
from bs4_common.credentials.redaction import Redactor, redacted
from bs4_common.errors import Refused
from bs4_common.failures.facts import ServerProbe
from bs4_common.files import read_passing
from bs4_common.trainers import registry, settings
from bs4_common.trainers.base import LaunchSpec
from bs4_common.trainers.settings import BadConfig, load_toml, settings_of
from bs4_console.errors import LinkError, UsageError
from bs4_console.providers.runpod import RunPod
from bs4_console.providers.vast import Vast
from bs4_console.run_log import eval_files, evals, rollout_lines
from bs4_console.secret import Secret
from bs4_console.transport.ssh import SshPipe
from tests.agent.detect.test_collect import Runs

AGENTS = Path(__file__).resolve().parents[2] / "agents"
#: Each is a config that a trainer would refuse. A run goes on when its config is edited.
ODD = {
    "deep": "a = " + "[" * 5000,
    "deep tables": ".".join(["a"] * 5000) + " = 1\n",
    "digits": "max_steps = " + "9" * 5000,
    "digits of base 16": "max_steps = 0x" + "f" * 5000,
    "a bracket behind a quoted quote": "a = '\"'\nb = " + "[" * 3000,
    "large": "a = 1\n" * 100_000,
    "a path with a NUL": 'toml_files = ["a\\u0000b"]\n',
    "not UTF-8": "a = '\udcff'\n",
}


def spec_of(directory: Path, trainer: str, text: str) -> LaunchSpec:
    config = directory / "rl.toml"
    config.write_bytes(text.encode("utf-8", "surrogateescape"))
    return LaunchSpec(
        run="demo",
        trainer=trainer,
        config=config,
        cwd=directory,
        output_dir=directory / "outputs",
    )


@pytest.mark.parametrize("trainer", ["prime-rl-2026-01", "prime-rl", "verl"])
@pytest.mark.parametrize("odd", ODD)
def test_a_config_that_no_parser_takes_blinds_no_look_at_its_run(
    trainer: str, odd: str, tmp_path: Path
) -> None:
    spec, its = spec_of(tmp_path, trainer, ODD[odd]), registry.get(trainer)
    assert its.layout(spec).output_dir == spec.output_dir
    its.parts(spec)
    its.log_sources(spec)
    its.metrics_path(spec)
    its.resume_requested(spec)
    assert its.max_steps(spec) is None


@pytest.mark.parametrize("odd", [name for name in ODD if name not in ("a path with a NUL",)])
def test_such_a_config_is_refused_at_a_launch(odd: str, tmp_path: Path) -> None:
    with pytest.raises(BadConfig):
        settings_of(spec_of(tmp_path, "prime-rl-2026-01", ODD[odd]))


@pytest.mark.parametrize(
    "text",
    [
        "# a number in [0, 1)\n" * 100,
        f"bad_words = [{', '.join(['%s'] * 70)}]\n" % (("'{'",) * 70),
        "# " + "-." * 70 + "\n",
        "prompt = '''" + "w . [ " * 70 + "'''\n",
    ],
    ids=["comments", "literal strings", "dots in a comment", "text of many lines"],
)
def test_what_stands_in_texts_and_comments_of_a_config_is_no_structure(
    text: str, tmp_path: Path
) -> None:
    whole = text + '[model]\nname = "m"\n'
    assert settings_of(spec_of(tmp_path, "prime-rl", whole)).get("model.name") == "m"


@pytest.mark.parametrize("text", ['x = """' + '\\"' * 100_000, '"' * 250_000, "#" * 250_000])
def test_a_config_of_quotes_is_looked_through_once(text: str, tmp_path: Path) -> None:
    began = time.thread_time()
    with contextlib.suppress(BadConfig):
        settings_of(spec_of(tmp_path, "prime-rl", text))
    # Quadratic, it took minutes.
    assert time.thread_time() - began < 10.0


def test_brackets_and_dots_in_the_texts_of_a_config_are_none_of_its_tables(tmp_path: Path) -> None:
    text = f'[model]\nname = "m"\n[train]\nprompt = "{"[" * 500} {"wait... " * 500}"\n'
    assert settings_of(spec_of(tmp_path, "prime-rl-2026-01", text)).get("model.name") == "m"


@pytest.mark.parametrize("watching", [True, False])
def test_a_config_that_includes_itself_many_times_is_read_few_times(
    watching: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_of(
        tmp_path, "prime-rl-2026-01", 'toml_files = ["rl.toml"' + ', "rl.toml"' * 19 + "]"
    )
    reads: list[Path] = []

    def counted(path: Path) -> settings.Settings:
        reads.append(path)
        assert len(reads) < 1000, "it is read without an end"
        return load_toml(path)

    monkeypatch.setattr(settings, "load_toml", counted)
    if watching:
        assert settings_of(spec, watching=True).data == {}
    else:
        with pytest.raises(BadConfig):
            settings_of(spec)
    assert reads


def test_a_config_that_is_no_toml_is_parsed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_of(tmp_path, "prime-rl-2026-01", "a = [1,\n")
    parsed: list[str] = []
    monkeypatch.setattr(settings, "check_nesting", parsed.append)
    for _ in range(3):
        with pytest.raises(BadConfig):
            load_toml(spec.config)
    assert len(parsed) == 1
    spec.config.write_text("a = 1\n# mended\n")
    assert load_toml(spec.config).data == {"a": 1}


def test_a_config_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "rl.toml"
    os.mkfifo(pipe)
    said: list[str] = []

    def read() -> None:
        try:
            load_toml(pipe)
        except BadConfig as error:
            said.append(error.message)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(30.0)
    assert said


@pytest.mark.parametrize(
    "text",
    [
        "[inference.server]\nport = 99999\n",
        '[inference.server]\nhost = "[::1"\n',
        "[orchestrator.client]\nbase_url = []\n",
        '[orchestrator.client]\nbase_url = ["http://[::1"]\n',
        '[orchestrator.client]\nbase_url = ["http://127.0.0.1:99999"]\n',
    ],
)
def test_an_address_that_is_none_is_no_server(text: str, tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "prime-rl-2026-01", text)
    its = registry.get(spec.trainer)
    assert (its.inference_url(spec), its.serves(spec)) == ("", frozenset())


@pytest.mark.parametrize("port", ["inf", "nan", "1e400", "99999999999999999999", '"abc"'])
def test_a_number_that_no_console_takes_is_no_setting(port: str, tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "prime-rl-2026-01", f"max_steps = {port}\n")
    with pytest.raises(BadConfig):
        registry.get(spec.trainer).max_steps(spec)


class Once:
    """Lets a loop make one round."""

    def __init__(self) -> None:
        self._rounds = 0

    def wait(self, seconds: float) -> bool:
        self._rounds += 1
        return self._rounds > 1


def test_a_server_that_may_not_be_probed_hides_no_other_server() -> None:
    """A config of prime-rl that lets the rollouts be made on another machine is a healthy one."""
    urls = {
        "elsewhere": "http://192.0.2.1:8000",
        "odd": "http://[::1",
        "here": "http://127.0.0.1:1",
    }
    prober = Prober(lambda: [Watched(run, 1, url, 0.0, None) for run, url in urls.items()])
    once: Any = Once()
    prober.run(once)
    assert [prober.probe(run, 1).health for run in urls] == ["unknown", "unknown", "refused"]


class Rounds:
    """Lets a prober make rounds, and says before each what it is to watch."""

    def __init__(self, *rounds: Watched) -> None:
        self._rounds = list(rounds)
        self.now: list[Watched] = []

    def wait(self, seconds: float) -> bool:
        self.now = self._rounds[:1]
        del self._rounds[:1]
        return not self.now

    def watched(self) -> list[Watched]:
        return self.now


@pytest.mark.parametrize(
    ("quiet_s", "kept"),
    [(100.0, ("refused", 2)), (0.0, ("unknown", 0))],
    ids=["it stands still", "it makes steps"],
)
def test_a_server_whose_address_is_gone_for_a_while_keeps_what_is_known_of_it(
    quiet_s: float, kept: tuple[str, int]
) -> None:
    """A dead server must not be forgotten. Of a run that makes steps, it is not dead."""
    rounds = Rounds(Watched("demo", 1, "", quiet_s, None))
    prober = Prober(rounds.watched)
    known = ServerProbe(
        url="http://127.0.0.1:1", ever_ok_m=7.0, health="refused", health_m=9.0, failures=2
    )
    prober._last["demo", 1] = known
    no_end: Any = rounds
    prober.run(no_end)
    probe = prober.probe("demo", 1)
    assert (probe.url, probe.ever_ok_m) == (known.url, 7.0)
    assert (probe.health, probe.failures) == kept


@pytest.mark.parametrize("odd", [BadConfig("it is no TOML"), ""])
def test_a_config_that_gives_no_address_for_a_while_ends_no_watch_of_its_server(odd: Any) -> None:
    given = ["http://127.0.0.1:1", odd]

    def inference_url(spec: Any) -> str:
        if isinstance(url := given.pop(0), BadConfig):
            raise url
        return str(url)

    run = SimpleNamespace(name="demo", spec=SimpleNamespace(component="rl"))
    attempt = SimpleNamespace(number=1, state="running", started_m=0.0)
    side = SimpleNamespace(last_step_m=None)
    recent = SimpleNamespace(side=lambda name: side, median_step_s=lambda: None)
    pod: Any = SimpleNamespace(
        _started=lambda: [(run, attempt)],
        runs=SimpleNamespace(trainer=lambda run: SimpleNamespace(inference_url=inference_url)),
        follower=SimpleNamespace(recent=lambda name, number: recent),
    )
    assert [[w.url for w in Pod._watched(pod)] for _ in range(2)] == [["http://127.0.0.1:1"], [""]]


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999", "http://[::1", "http://localhost:abc"])
def test_an_address_that_is_none_is_refused_by_a_probe(url: str) -> None:
    with pytest.raises(Refused):
        vllm.health(url, 1.0)


def test_a_length_of_thousands_of_digits_is_a_bad_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(
                    b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n"
                )

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        probe = vllm.health(f"http://127.0.0.1:{server.getsockname()[1]}", 60.0)
        thread.join()
    assert probe.error == "bad-answer"


def test_a_run_that_cannot_be_looked_at_hides_no_other_run() -> None:
    faults: list[str] = []

    def facts_of(run: Any) -> str:
        if run.name == "odd":
            raise RecursionError("an odd file")
        return f"facts of {run.name}"

    pod: Any = SimpleNamespace(
        table=SimpleNamespace(snapshot=lambda seconds: None),
        collector=SimpleNamespace(disks=lambda: ((), None), oom_kills=lambda: (None, None)),
        blind=list,
        stores=lambda: None,
        fault=faults.append,
        _faults={},
        _gpu_facts=lambda snapshot: SimpleNamespace(state="ok", pids="local"),
        _run_facts=facts_of,
        _started=lambda: [(SimpleNamespace(name=name), None) for name in ("a", "odd", "b")],
    )
    for _ in range(3):
        facts: Any = Pod.collect_facts(pod)
        assert facts.runs == ["facts of a", "facts of b"]
        assert facts.coverage == ["odd cannot be looked at: RecursionError: an odd file"]
        assert facts.unseen == {"odd"}, "it has not ended"
    assert faults == facts.coverage, "it is journalled once while it stays so"


def test_a_run_that_cannot_be_scanned_ends_no_scan_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rl.toml").write_text("max_steps = 20\n")
    (tmp_path / "shm").mkdir()
    runs: Any = Runs(tmp_path)
    scan: Callable[..., Any] = collect.environment_probes.flat_settings
    odd = SimpleNamespace(name="odd", spec=runs.spec, attempt=runs.all()[0].attempt)

    def all_() -> list[Any]:
        return [odd, Runs.all(runs)[0]]

    def scanned(*given: Any) -> Any:
        monkeypatch.setattr(collect.environment_probes, "flat_settings", scan)
        raise RecursionError

    runs.all = all_
    monkeypatch.setattr(collect.environment_probes, "flat_settings", scanned)
    collector = Collector(runs)
    collector.round()
    assert collector.of("demo", 1)[0] == {"max_steps": 20}
    assert collector.of("odd", 1) == (None, None, None)


def test_a_file_of_a_library_that_nests_deep_counts_as_damaged(tmp_path: Path) -> None:
    summary = tmp_path / "wandb-summary.json"
    summary.write_text('{"_step": 7, "table": ' + "[" * 30_000 + "]" * 30_000 + "}")
    assert read_passing(summary) is None


def test_an_index_of_weights_that_is_too_large_is_no_failing_disk(tmp_path: Path) -> None:
    index = tmp_path / "model.safetensors.index.json"
    with index.open("wb") as file:
        file.truncate(65 << 20)
    assert content._indexed(index) == [f"a readable {index.name}"]


def test_a_header_of_weights_with_an_endless_tensor_has_no_readable_header(tmp_path: Path) -> None:
    header = b'{"a": {"data_offsets": [0, 1e999]}}'
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"x")
    assert "header" in wanting("weights", tmp_path)


async def test_a_command_that_prints_without_end_is_given_up() -> None:
    piece, read = b"x" * (1 << 20), 0

    async def endless(count: int) -> bytes:
        nonlocal read
        read += 1
        assert read < 100, "it is read without an end"
        return piece

    async def nothing(*_: Any) -> bytes:
        return b""

    process: Any = SimpleNamespace(
        stdin=SimpleNamespace(write=lambda data: None, drain=nothing, write_eof=lambda: None),
        stdout=SimpleNamespace(read=endless),
        stderr=SimpleNamespace(read=nothing),
    )
    connection: Any = SimpleNamespace(is_closed=lambda: False)
    with pytest.raises(LinkError, match="64 MiB"):
        await SshPipe(process, connection, "pod alpha").finish()


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize(
    "secret",
    [
        f"HF_TOKEN=hf_{'AbCdEfGhIjKlMnOpQrStUvWxYz12345678'}",
        "postgres://me:word,with,commas@host/",
        f"Authorization: Bearer {'a1' * 900}",
        "the-passphrase,as_given",
    ],
)
def test_a_secret_at_the_border_of_two_pieces_of_a_long_line_is_not_shown(
    secret: str, early: bool
) -> None:
    """Rollouts are written as lines of megabytes, and a read has 256 KiB."""
    known = KnownValues("a passphrase")
    known.add("the-passphrase,as_given")
    before, behind = "word, " * 20_000, " and " * 20_000
    line = f"{before}{secret}{behind}\n"
    whole = Redactor(known.replace)
    expected = whole.feed(line) + whole.end()
    assert secret not in expected
    for at in range(1, len(secret), max(1, len(secret) // 12)):
        pieces = Redactor(known.replace)
        cut = len(before) + at
        shown = pieces.feed(line[:cut], early=early) + pieces.feed(line[cut:], early=early)
        assert shown + pieces.end() == expected


@pytest.mark.parametrize(
    ("shown", "rest"),
    [
        ("see https:", "//user:hunter22@host "),
        ("my API ", "key: abcdef123456hunter22 "),
    ],
)
def test_a_secret_of_a_long_line_whose_announcement_was_shown_early_is_not_shown(
    shown: str, rest: str
) -> None:
    line = "x " * 32_700 + shown
    pieces = Redactor()
    out = ""
    for part in [line[at : at + 1000] for at in range(0, len(line), 1000)] + [rest, "q " * 200]:
        out += pieces.feed(part, early=True)
    out += pieces.end()
    assert "hunter22" not in out
    assert out == Redactor().feed(f"{line}{rest}{'q ' * 200}\n")[:-1]


BEGIN, END = "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"


def test_a_long_line_that_names_the_begin_of_a_private_key_is_shown_whole() -> None:
    text = f'{"x " * 31_000}"{BEGIN}" {"y " * 5_500}"{END}" tail'
    found = redacted(text)
    assert found == redacted(f"{text}\n")[:-1]
    assert found.endswith("y " * 5_500 + f'"{END}" tail')


@pytest.mark.parametrize("end", [END, ""])
@pytest.mark.parametrize("after", [0, 700, 4_000, 9_000])
def test_a_private_key_in_a_long_line_is_not_shown(after: int, end: str) -> None:
    """Keys of 12 KiB are longer than the parts that are looked at beside a border. One may also
    end with the text.
    """
    key = f"{BEGIN}\\n" + f"{'cAnAry' * 10}MIIE\\n" * 200 + end
    line = f'{"word, " * 11_000}{{"key": "{key}", {"and " * (after // 4)}'
    if not end:
        line = line[: line.rindex("cAnAry") + 6]
    expected = redacted(f"{line}\n")[:-1]
    assert "cAnAry" not in expected
    for size in (997, 8_191, len(line)):
        for early in (False, True):
            pieces = Redactor()
            out = ""
            for at in range(0, len(line), size):
                out += pieces.feed(line[at : at + size], early=early)
            assert out + pieces.end() == expected


def test_a_long_line_is_shown_while_it_is_read() -> None:
    pieces = Redactor()
    shown = sum(len(pieces.feed("x" * (256 << 10))) for _ in range(8))
    assert shown > 7 * (256 << 10), "no more than the last part is held"
    assert shown + len(pieces.end()) == 8 * (256 << 10)


@pytest.mark.parametrize("provider", [Vast, RunPod])
async def test_the_log_of_a_machine_that_has_no_end_is_read_up_to_a_limit(
    provider: type[Vast] | type[RunPod],
) -> None:
    """The host keys of a new machine are read from its log, which the machine itself writes."""
    pieces = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal pieces
        while True:
            pieces += 1
            assert pieces < 100, "it is read without an end"
            yield b"x" * (1 << 20)

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "PUT":
            return httpx.Response(200, json={"result_url": "http://127.0.0.1:1/log"})
        return httpx.Response(200, content=endless())

    machine: Any = SimpleNamespace(id="7")
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        account = provider(client, (Secret("a key of a provider"),), "http://127.0.0.1:1")
        assert await account.host_keys(machine) == ()
    assert pieces


@pytest.mark.parametrize(
    "text",
    [
        '{"example_id": 1, "reward": 1' + "0" * 400 + "}",
        '{"pass_rate": 1' + "0" * 400 + "}",
        '{"pass_rate": ' + "[" * 30_000 + "]" * 30_000 + "}",
    ],
)
def test_results_of_an_evaluation_that_are_none_are_said_to_be_none(
    text: str, tmp_path: Path
) -> None:
    results = tmp_path / "results.jsonl"
    results.write_text(text + "\n")
    for read in (eval_files.read, evals.read):
        with pytest.raises(UsageError):
            read(results)
    with pytest.raises(ValueError, match="no rollout"):
        rollout_lines.read(text)


@pytest.mark.parametrize(
    "piece", [b"\n", b" ", b"key", b"key ", b"key.", b" \n", b"key = 1" + b" " * 99]
)
def test_a_config_of_blank_lines_holds_up_no_crash_report(piece: bytes) -> None:
    """A regular expression holds the interpreter's lock, so it would hold up the whole agent: for
    an hour by 300 KB of blank lines.
    """
    code = (
        "from bs4_agent.recorder.report import without_secrets; "
        f"print(len(without_secrets({piece!r} * {300_000 // len(piece)} + b'. = 1')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(AGENTS)},
        timeout=240,
        check=True,
        stdout=subprocess.PIPE,
    )
    assert int(done.stdout) > 0
