from tests.agent.runs.conftest import no_process_left

__all__ = ["no_process_left"]
