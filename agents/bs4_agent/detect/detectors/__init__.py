"""The named detectors. Each is a pure function `(facts, run, parameters) -> findings`; `run` is one of `facts.runs`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bs4_agent.detect.detectors.desync import step_desync
from bs4_agent.detect.detectors.gpu import stale_gpu_process
from bs4_agent.detect.detectors.inference import inference_silent
from bs4_agent.detect.detectors.resume import resume_latest_partial
from bs4_agent.detect.facts import Facts, Finding, RunFacts

Detector = Callable[[Facts, RunFacts, Mapping[str, Any]], Sequence[Finding]]

DETECTORS: dict[str, Detector] = {
    "step-desync": step_desync,
    "resume-latest-partial": resume_latest_partial,
    "stale-gpu-process": stale_gpu_process,
    "inference-silent": inference_silent,
}
