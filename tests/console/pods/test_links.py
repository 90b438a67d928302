"""What the agent tells now and then is carried on, as long as it counts, and nothing is made up."""

from __future__ import annotations

from typing import Any

from bs4_console.pods.links import Links


def record(t: float, *devices: dict[str, Any]) -> dict[str, Any]:
    return {
        "t": t,
        "gpus": {"devices": [{"index": i, **device} for i, device in enumerate(devices)]},
    }


def test_a_reading_counts_until_it_is_old() -> None:
    links = Links()
    made = [record(0, {"pcie": {"width": 8}}, {}), record(59, {}, {}), record(61, {}, {})]
    for one in made:
        links.fill(one)
    of_first = [one["gpus"]["devices"][0].get("pcie") for one in made]
    assert of_first == [{"width": 8}, {"width": 8}, None]
    assert all("pcie" not in one["gpus"]["devices"][1] for one in made)


def test_unknown_is_carried_on_as_unknown() -> None:
    links = Links()
    links.fill(record(0, {"nvlink": {"active": 18}}))
    links.fill(record(60, {"nvlink": None}))
    later = record(61, {})
    links.fill(later)
    assert later["gpus"]["devices"][0]["nvlink"] is None


def test_a_record_without_gpus_is_no_fault() -> None:
    Links().fill({"t": 1.0})
    Links().fill({"t": 1.0, "gpus": {"state": "absent", "devices": []}})
