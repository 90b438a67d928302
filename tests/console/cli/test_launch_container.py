"""`launch --container NAME`, from the command line to the record of the run."""

from __future__ import annotations

import argparse
import json

from bs4_agent.launch.validation import spec_of
from bs4_agent.runs.records import spec_as_dict, spec_from_dict
from bs4_console.cli import launch


def test_the_containers_name_reaches_the_record() -> None:
    parser = argparse.ArgumentParser()
    launch.configure(parser)
    words = [
        "verl.toml",
        "--pod",
        "p",
        "--run",
        "demo",
        "--trainer",
        "verl",
        "--cwd",
        "verl",
        "--component",
        "rl",
    ]
    for given, name in (([], ""), (["--container", "trainer"], "trainer")):
        body = json.loads(json.dumps(launch.asked_by(parser.parse_args([*words, *given])).body()))
        spec = spec_of({**body, "resume": None})
        assert spec.container == name
        kept = spec_as_dict(spec)
        assert spec_from_dict(kept) == spec
        del kept["container"]
        assert spec_from_dict(kept).container == "", "a record of an older agent"
