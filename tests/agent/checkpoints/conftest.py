from tests.agent.runs.conftest import no_process_left, other_disk

__all__ = ["no_process_left", "other_disk"]
