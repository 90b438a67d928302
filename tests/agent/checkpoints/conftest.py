from tests.agent.runs.conftest import other_disk

__all__ = ["other_disk"]
