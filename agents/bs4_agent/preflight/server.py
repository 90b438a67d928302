"""Who uses the inference server into which an evaluation would load its weights."""

from __future__ import annotations

from urllib.parse import urlsplit

from bs4_agent.pod import Pod
from bs4_agent.probes.own_addresses import leads_here
from bs4_common.errors import NotApplicable
from bs4_common.preflight import ServerPart
from bs4_common.runs.model import Run
from bs4_common.trainers import registry
from bs4_common.trainers.base import LaunchSpec

#: The programs that send requests to an inference server, and so need the weights that are in it.
_CLIENTS = ("rl", "orchestrator", "eval")


def probe(pod: Pod, spec: LaunchSpec) -> ServerPart:
    """Return which other living runs of this pod use the server that the evaluation `spec` names: a
    training or another evaluation whose config names its port, or one that listens there itself. A
    server that was started as a run of its own is used by nobody until another run names it.

    Raises NotApplicable if the address of this server, or that of a living run, leads nowhere.
    """
    url = registry.get(spec.trainer).inference_url(spec)
    if not _is_here(url, spec.run):
        return {"used_by": []}
    port = urlsplit(url).port or 80
    users = set()
    for holder in pod.port_openers({port}):
        if holder.run is not None and pod.runs.get(holder.run).spec.component != "inference":
            users.add(holder.run)
    for run in pod.runs.all():
        if run.name != spec.run and run.spec.component in _CLIENTS and _names(pod, run, port):
            users.add(run.name)
    return {"used_by": sorted(users)}


def _names(pod: Pod, run: Run, port: int) -> bool:
    """Return True if the run is alive and its config names the server on this port of the pod."""
    if not run.live and not pod.runs.membership.living(run.name):
        return False
    trainer = registry.get(run.spec.trainer)
    return port in trainer.serves(run.spec) and _is_here(trainer.inference_url(run.spec), run.name)


def _is_here(url: str, run: str) -> bool:
    """Return True if the server `url` of a run is on this pod. Raises NotApplicable if that is not
    known.
    """
    host = urlsplit(url).hostname
    if host is None:
        raise NotApplicable(f"the config of {run} names no inference server")
    try:
        return leads_here(host)
    except OSError as error:
        raise NotApplicable(f"the pod cannot look up {host} ({error})") from error
