"""The fixtures of the runs' tests: a launch starts a run."""

from tests.agent.runs.conftest import no_process_left as no_process_left
from tests.agent.runs.conftest import pod as pod
