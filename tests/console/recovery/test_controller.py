"""A run is brought on to another machine once, within what was allowed, and whoever is killed on
the way leaves nothing behind.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bs4_console.checkpoints.sync import StoreFailed
from bs4_console.errors import RefusedError
from bs4_console.recovery.recovery_types import Limits, Outcome, Saved
from bs4_console.recovery.state import Records, State, Where
from tests.console.recovery.recovering import (
    FIRST,
    LAYOUT,
    Killed,
    Machine,
    World,
    WorldHands,
    WorldStore,
    controller,
)

HOUR = 3600.0


async def looks(
    world: World, place: Path, count: int = 12, every: float = 60.0, **more
) -> list[Outcome]:  # type: ignore[no-untyped-def]
    """A watch: one controller, look after look, until it has nothing more to do with a recovery."""
    one, found = controller(world, place, **more), []
    for _ in range(count):
        found.append(await one.poll())
        if found[-1].word in ("recovered", "stopped", "plan", "finished"):
            break
        world.now += every
    return found


def state(world: World) -> State:
    touch, world.touch = world.touch, lambda what: None
    found = Records(store=WorldStore(world), layout=LAYOUT, directory=Path()).load()
    world.touch = touch
    assert found is not None
    return found


async def test_a_run_whose_pod_was_taken_back_goes_on_elsewhere(tmp_path):
    world = World()
    world.lose()
    found = await looks(world, tmp_path)
    assert found[-1].word == "recovered"
    assert found[-1].lost == "alpha", "its keys are named for rotation"
    assert "from step 35" in found[-1].sentence
    assert len(world.creates) == 1
    assert state(world).where.instance == "101"
    assert state(world).attempt.outcome == "good"
    assert (await controller(world, tmp_path).poll()).verdict.word == "fine"  # type: ignore[union-attr]


ORDERS = (
    {"kind": "sync", "to": "b2://practice-bucket/saved", "limit_mib": 20},
    {"kind": "keep", "last": 3, "at_least": 2},
)


async def test_what_was_ordered_on_the_lost_pod_is_ordered_again_on_the_next(tmp_path):
    """By a controller that never met the pod: what one of them has learned is with the run's
    checkpoints.
    """
    world = World()
    world.machines["7"].orders = ORDERS
    assert (await controller(world, tmp_path / "one").poll()).word == "watching"
    assert state(world).orders == ORDERS
    written = len(world.versions[LAYOUT.recovery])
    await controller(world, tmp_path / "one").poll()
    assert len(world.versions[LAYOUT.recovery]) == written, "learned once"
    world.machines["7"].orders = ORDERS[:1]
    await controller(world, tmp_path / "one").poll()
    world.lose()
    found = await looks(world, tmp_path / "two")
    assert found[-1].word == "recovered"
    assert world.machines["101"].orders == ORDERS[:1]


@pytest.mark.parametrize(
    ("way", "word", "paid"), [("refuses", "recovered", 1), ("unsaved", "stopped", 0)]
)
async def test_an_order_that_the_next_pod_refuses(tmp_path, way, word, paid):
    """It is said, and costs the recovery nothing; but a run that would not be saved is not left to
    train.
    """
    world = World(way=way)
    world.lose()
    outcome = (await looks(world, tmp_path))[-1]
    assert (outcome.word, len(world.paid())) == (word, paid)
    assert (
        "refused there: no such playbook." if paid else "The sync was refused."
    ) in outcome.sentence


async def test_dry_run_learns_nothing(tmp_path):
    world = World()
    world.machines["7"].orders = ORDERS
    await controller(world, tmp_path, dry=True).poll()
    assert world.versions == {}


@pytest.mark.parametrize("takes", [0, 3])
async def test_what_takes_longer_is_looked_after_again(tmp_path, takes):
    world = World(takes=takes)
    world.lose()
    found = await looks(world, tmp_path, 30)
    assert found[-1].word == "recovered"
    assert len(world.creates) == 1


async def test_an_hour_without_network_costs_nothing_and_rents_nothing(tmp_path):
    world = World(network=False)
    one = controller(world, tmp_path)
    begun = world.now
    while world.now < begun + HOUR:
        outcome = await one.poll()
        assert outcome.word == "watching"
        assert outcome.verdict is not None
        assert outcome.verdict.word == "network-only"
        world.now += 60
    world.network = True
    assert (await one.poll()).exit_code == 0
    assert (world.creates, world.ended, world.versions) == ([], [], {})


@pytest.mark.parametrize("heart", [True, False])
async def test_a_link_that_is_cut_rents_nothing(tmp_path, heart):
    world = World(heart=heart)
    world.links["7"] = False
    for outcome in await looks(world, tmp_path, 60):
        assert outcome.verdict is not None
        assert outcome.verdict.word == (
            "network-only" if heart and outcome.verdict.word != "unknown" else "unknown"
        )
    assert world.creates == []


async def test_the_same_pod_taken_for_lost_by_the_provider_alone(tmp_path):
    world = World()
    world.machines["7"].state = "stopped"
    assert (await looks(world, tmp_path, 5))[-1].word == "watching"
    assert world.creates == []


async def test_asking_shows_a_plan_and_does_nothing(tmp_path):
    world = World()
    world.lose()
    await controller(World(), tmp_path).poll()  # step 40 was seen
    outcome = await controller(world, tmp_path, mode="ask").poll()
    assert (outcome.word, outcome.exit_code) == ("plan", 4)
    plan = outcome.plan
    assert plan is not None
    assert outcome.lost == plan["lost"][0]
    assert (plan["step"], plan["steps_lost"], plan["offer"]["price"]) == (35, 5, 2.5)
    assert world.creates == []
    assert world.versions == {}
    with pytest.raises(RefusedError, match="the plan is"):
        await controller(world, tmp_path, mode="ask", confirm="0" * 16).poll()
    again = await controller(world, tmp_path, mode="ask", confirm=plan["hash"][:16]).poll()
    assert len(world.creates) == 1, again


async def test_a_plan_stays_the_same_while_offers_change_and_not_when_the_step_does(tmp_path):
    world = World()
    world.lose()
    first = (await controller(world, tmp_path, mode="ask").poll()).plan
    world.price = 3.0
    second = (await controller(world, tmp_path, mode="ask").poll()).plan
    world.saved = Saved(40, 1)
    third = (await controller(world, tmp_path, mode="ask").poll()).plan
    assert first is not None
    assert second is not None
    assert third is not None
    assert first["hash"] == second["hash"] != third["hash"]


async def test_dry_run_touches_nothing(tmp_path):
    world = World()
    world.lose()
    outcome = await controller(world, tmp_path, dry=True).poll()
    assert (outcome.word, outcome.exit_code) == ("plan", 0)
    assert (world.versions, world.creates) == ({}, [])


async def test_nothing_in_the_store_is_no_reason_to_start_afresh(tmp_path):
    """Defect 1.7: without a checkpoint the old one began again under the same run id."""
    world = World(saved=None)
    world.lose()
    outcome = (await looks(world, tmp_path))[-1]
    assert (outcome.word, outcome.exit_code) == ("stopped", 1)
    assert world.creates == []


async def test_a_price_is_of_the_whole_machine(tmp_path):
    """Defect 1.9: 2.50 a GPU, times two, was below the market, and the search found nothing for
    ever without saying so.
    """
    world = World(price=5.73)
    world.lose()
    outcome = (await looks(world, tmp_path))[-1]
    assert "at or under $5.00 an hour (the whole machine)" in outcome.sentence
    assert outcome.exit_code == 1
    assert world.creates == []


async def test_a_hung_machine_is_not_a_recovery_under_way_for_ever(tmp_path):
    """Defect 1.9: a running instance counted as "recovery in progress", without any limit of
    time.
    """
    world = World(trains=False)
    world.lose()
    found = await looks(world, tmp_path, 200)
    assert found[-1].word == "stopped"
    assert "No new step within 60 minutes" in found[-1].sentence
    assert world.paid() == []


async def test_a_machine_that_cannot_be_asked_and_saves_is_good(tmp_path):
    """A lost connection never causes an action: what trains and is in the store is not given up for
    its silence.
    """
    world = World(trains=False)
    world.lose()
    await looks(world, tmp_path, 3)
    assert state(world).phase == "proving"
    world.links["101"] = False
    assert (await controller(world, tmp_path).poll()).word == "recovering"
    world.saved = Saved(40, 1)
    assert (await controller(world, tmp_path).poll()).word == "recovered"
    assert [m.instance for m in world.paid()] == ["101"]


async def test_a_run_that_ends_again_before_a_step_is_not_waited_for(tmp_path):
    world = World(trains=False, dies="the launcher ended with exit code 1.")
    world.lose()
    begun = world.now
    outcome = (await looks(world, tmp_path))[-1]
    assert outcome.word == "stopped"
    assert "ended before a new step: the launcher ended" in outcome.sentence
    assert world.now - begun < 600
    assert world.paid() == []


async def test_two_recoveries_without_a_new_step_end_the_loop(tmp_path):
    world = World(way="bare")
    world.lose()
    for _ in range(5):
        outcome = (await looks(world, tmp_path))[-1]
        assert outcome.word == "stopped"
    assert len(world.creates) == 2
    assert world.paid() == []
    world.way = "ok"
    assert (await looks(world, tmp_path))[-1].word == "stopped", "only a person begins again"
    plan = (await controller(world, tmp_path, mode="ask", dry=True, confirm="x").poll()).plan
    assert plan is not None
    assert (await looks(world, tmp_path, confirm=plan["hash"]))[-1].word == "recovered"


async def test_budgets(tmp_path):
    world = World()
    world.lose()
    cheap = Limits(5.0, per_day=20.0, per_run=500.0)
    assert (await looks(world, tmp_path, limits=cheap))[-1].word == "recovered"
    world.now += 9 * HOUR
    world.lose("101", "gone")
    outcome = (await looks(world, tmp_path, limits=cheap))[-1]
    assert (outcome.word, outcome.exit_code) == ("stopped", 1)
    assert "budget of $20.00 a day" in outcome.sentence
    assert len(world.creates) == 1
    world.now += 25 * HOUR
    whole = Limits(5.0, per_day=500.0, per_run=40.0)
    assert "$40.00 for the run" in (await looks(world, tmp_path, limits=whole))[-1].sentence


async def test_a_pod_that_comes_back_right_before_the_rent(tmp_path):
    world = World()
    world.lose()

    def back(what: str) -> None:
        if what == f"written {LAYOUT.recovery}":
            world.machines["7"].state, world.links["7"] = "running", True

    world.touch = back
    outcome = await controller(world, tmp_path).poll()
    assert (outcome.word, world.creates) == ("watching", [])
    assert state(world).attempts == ()


async def test_a_lost_answer_is_one_machine(tmp_path):
    world = World(way="lost")
    world.lose()
    found = await looks(world, tmp_path)
    assert next(o.word for o in found) == "waiting"
    assert found[-1].word == "recovered"
    assert len(world.creates) == 1


async def test_a_refused_create_leaves_nothing(tmp_path):
    world = World(way="refused")
    world.lose()
    assert (await looks(world, tmp_path))[-1].word == "stopped"
    assert state(world).attempts == ()
    assert state(world).phase == "watching"


async def test_two_controllers_and_one_machine(tmp_path):
    world = World(takes=2)
    world.lose()
    one, two = controller(world, tmp_path / "one"), controller(world, tmp_path / "two")
    words = []
    for _ in range(20):
        words.append((await one.poll()).word)
        words.append((await two.poll()).word)
        world.now += 30
    assert len(world.creates) == 1
    assert "held" in words
    assert "recovered" in words


async def test_the_other_one_goes_on_when_the_first_is_dead(tmp_path):
    world = World()
    world.lose()
    last = ""

    def die(what: str) -> None:
        nonlocal last
        last = what
        if what == "created":
            raise Killed

    world.touch = die
    with pytest.raises(Killed):
        await controller(world, tmp_path / "one").poll()
    world.touch = lambda what: None
    found = await looks(world, tmp_path / "two", 40)
    assert found[0].word == "held"
    assert found[-1].word == "recovered"
    assert len(world.creates) == 1
    assert last == "created"


@settings(
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    kills=st.lists(st.integers(1, 40), max_size=6),
    same=st.booleans(),
    way=st.sampled_from(["ok", "lost"]),
    takes=st.integers(0, 2),
)
async def test_killed_anywhere_and_begun_again(tmp_path_factory, kills, same, way, takes):
    """At every touch of store, provider or pod; on the same machine or on another."""
    place, world = tmp_path_factory.mktemp("k"), World(way=way, takes=takes)
    world.machines["7"].orders = ORDERS
    await controller(world, place / "before").poll()
    world.now += 2 * HOUR
    world.lose()
    hands, left = WorldHands(world), list(kills)

    def touch(what: str) -> None:
        if left:
            left[0] -= 1
            if left[0] <= 0:
                left.pop(0)
                raise Killed

    world.touch = touch
    for number in range(60):
        one = controller(world, place / ("same" if same else f"m{number}"), hands)
        try:
            for _ in range(20):
                outcome = await one.poll()
                if outcome.word in ("recovered", "watching"):
                    break
                world.now += 60
        except Killed:
            world.now += 60
            continue
        if outcome.word in ("recovered", "watching"):
            break
    assert state(world).attempt.outcome == "good"
    (machine,) = world.paid()
    assert machine.orders == ORDERS
    # On another machine each kill costs a lease; who is late by them is given up, ended and
    # followed by another, as without a kill.
    *given_up, _ = state(world).attempts
    assert len(world.creates) == 1 + len(given_up)
    assert all(
        one.outcome.startswith("No new step within") and one.ended_t is not None for one in given_up
    )


async def test_the_old_machine_that_comes_back_before_the_launch(tmp_path):
    """Vast resumes an interrupted instance by itself; two would write into one W&B run."""
    world = World(takes=1)
    world.lose()
    one = controller(world, tmp_path)
    for _ in range(2):
        outcome = await one.poll()
        world.now += 60
    assert outcome.word == "recovering"
    world.machines["7"].state, world.links["7"] = "running", True
    for _ in range(3):
        outcome = await one.poll()
        world.now += 60
    assert world.paid() == []
    assert state(world).where.instance == "7"
    assert (await one.poll()).verdict.word == "fine"  # type: ignore[union-attr]
    assert "7" not in world.ended


async def test_an_earlier_machine_of_ours_ends_once_the_store_holds_what_it_held(tmp_path):
    world = World()
    world.lose()
    await looks(world, tmp_path)
    world.machines["101"].step = 50
    one = controller(world, tmp_path)
    world.machines["101"].launched = 0
    await one.poll()
    world.lose("101", "stopped")
    await looks(world, tmp_path)
    await controller(world, tmp_path).poll()
    assert world.ended == []
    assert [w.instance for w in state(world).left] == ["101"]
    world.saved = Saved(50, 1)
    world.machines["102"].launched = 0
    await controller(world, tmp_path).poll()
    assert world.ended == ["101"]
    assert "7" in world.machines, "the first was not rented here"


async def test_finished_ends_the_machine_when_its_last_set_is_saved(tmp_path):
    """Defect 1.9: finished meant ended, whatever was saved; and by the beginning of a label."""
    world = World()
    world.lose()
    await looks(world, tmp_path)
    world.finished = True
    outcome = await controller(world, tmp_path).poll()
    assert (outcome.word, outcome.exit_code) == ("finishing", 1)
    assert world.ended == []
    world.saved = Saved(40, 1)
    outcome = await controller(world, tmp_path).poll()
    assert (outcome.word, outcome.exit_code) == ("finished", 0)
    assert world.ended == ["101"]
    assert (await controller(world, tmp_path).poll()).word == "finished"


async def test_a_finished_run_on_a_pod_that_was_not_rented_here(tmp_path):
    world = World(finished=True, saved=Saved(40, 1))
    outcome = await controller(world, tmp_path).poll()
    assert (outcome.word, world.ended) == ("finished", [])


async def test_a_finished_run_whose_pod_is_lost_afterwards_is_not_begun_again(tmp_path):
    world = World(finished=True)
    await controller(world, tmp_path).poll()
    world.lose()
    outcome = (await looks(world, tmp_path))[-1]
    assert (outcome.word, outcome.exit_code, world.creates) == ("finished", 0, [])


async def done_elsewhere(place: Path) -> World:
    """A run that was brought on to another machine and has ended there, with its last set in the
    store.
    """
    world = World()
    world.lose()
    await looks(world, place)
    world.finished, world.saved = True, Saved(40, 1)
    return world


async def test_that_a_run_has_ended_well_is_known_to_a_controller_that_never_met_its_pod(tmp_path):
    world = World(finished=True)
    await controller(world, tmp_path / "one").poll()
    world.lose()
    outcome = (await looks(world, tmp_path / "two"))[-1]
    assert (outcome.word, world.creates) == ("finished", [])


async def test_a_run_that_was_started_again_after_its_end_is_recovered_like_any(tmp_path):
    world = World(finished=True)
    await controller(world, tmp_path).poll()
    world.finished = False
    await controller(world, tmp_path).poll()
    world.lose()
    assert (await looks(world, tmp_path))[-1].word == "recovered"


async def test_what_was_to_end_and_was_started_again_meanwhile_is_left_to_train(tmp_path):
    """The provider did not answer when the machine was to end; a person has begun the next thing on
    it since.
    """
    world = await done_elsewhere(tmp_path)

    def die(what: str) -> None:
        if what == "terminate":
            raise Killed

    world.touch = die
    with pytest.raises(Killed):
        await controller(world, tmp_path).poll()
    assert state(world).phase == "finishing"
    world.touch, world.finished = lambda what: None, False
    for _ in range(3):
        assert (await controller(world, tmp_path).poll()).word == "watching"
    assert (world.ended, len(world.paid())) == ([], 1)


async def test_nothing_is_asked_for_after_a_long_sleep(tmp_path):
    """The lid of a laptop, closed between the last look at the lease and the request: others may
    act by now.
    """
    world = World()
    world.lose()

    def sleep(what: str) -> None:
        if what == "create":
            world.now += 120

    world.touch = sleep
    assert (await controller(world, tmp_path).poll()).word in ("stopped", "held")
    assert world.creates == []


async def test_nothing_is_ended_after_a_long_sleep(tmp_path):
    world = World(trains=False, dies="the launcher ended with exit code 1.")
    world.lose()

    def sleep(what: str) -> None:
        if what == "terminate":
            world.now += 120

    world.touch = sleep
    outcome = (await looks(world, tmp_path))[-1]
    assert outcome.word == "stopped"
    assert "not seen to be gone yet" in outcome.sentence
    assert (world.ended, [w.instance for w in state(world).left]) == ([], ["101"])


async def test_a_run_that_is_started_again_while_its_machine_is_about_to_end(tmp_path):
    world = await done_elsewhere(tmp_path)

    def again(what: str) -> None:
        if what == f"written {LAYOUT.lease}" and state(world).done:
            world.finished = False

    world.touch = again
    assert (await controller(world, tmp_path).poll()).word == "finishing"
    assert (await controller(world, tmp_path).poll()).word == "watching"
    assert world.ended == []


@pytest.mark.parametrize(("told", "ended"), [(False, []), (True, ["101"])])
async def test_a_machine_that_was_to_end_and_cannot_be_asked(tmp_path, told, ended):
    """Somebody may have started the next thing on it before the link was cut: only one that was
    told to end is told so again.
    """
    world = await done_elsewhere(tmp_path)
    records = Records(store=WorldStore(world), layout=LAYOUT, directory=tmp_path / "other")
    there = records.load()
    assert there is not None
    assert records.save(replace(there, phase="finishing", told=told))
    world.links["101"] = False
    outcome = await controller(world, tmp_path).poll()
    assert outcome.word == ("finished" if told else "finishing")
    assert world.ended == ended
    world.machines.pop("101", None)
    for _ in range(3):
        world.now += 60
        outcome = await controller(world, tmp_path).poll()
    assert outcome.word == "finished", "it is gone by itself"


@pytest.mark.parametrize("what", ["set-up", "restore", "launch", "order"])
async def test_what_another_has_written_during_a_long_sleep_is_not_written_over(tmp_path, what):
    """Else the machine that the other one rented would be forgotten, and paid."""
    world = World()
    world.lose()
    theirs = b""

    def sleep(touched: str) -> None:
        nonlocal theirs
        if touched == what:
            world.now += 20 * 60
            ours = state(world)
            theirs = replace(
                ours, phase="watching", where=replace(ours.where, pod="theirs", instance="200")
            ).encode()
            WorldStore(world).write(LAYOUT.recovery, theirs)
            world.touch = lambda touched: None

    world.touch = sleep
    outcome = await controller(world, tmp_path).poll()
    assert (outcome.word, outcome.exit_code) == ("held", 4)
    assert state(world).encode() == theirs


@pytest.mark.parametrize("number", range(6))
async def test_a_write_that_ends_long_after_another_took_over_counts_for_nobody(tmp_path, number):
    """The machine slept inside the request itself: what it writes then comes last, and follows what
    is not there any more.
    """
    world = World()
    world.lose()
    written = 0

    def sleep(touched: str) -> None:
        nonlocal written
        if touched == f"write {LAYOUT.recovery}":
            if written == number:
                world.touch = lambda touched: None
                world.now += 20 * 60
                other = Records(
                    store=WorldStore(world), layout=LAYOUT, directory=tmp_path / "other"
                )
                there = other.load() or State(run="demo", where=FIRST, named="alpha")
                assert other.save(replace(there, phase="stopped", why="Theirs."))
            written += 1

    world.touch = sleep
    outcome = await controller(world, tmp_path).poll()
    assert (outcome.word, outcome.exit_code) == ("held", 4)
    assert (await controller(world, tmp_path).poll()).sentence == "demo is left alone: Theirs."
    assert len(world.creates) == (number > 0)


async def test_a_document_that_cannot_be_read_stops_everything(tmp_path):
    world = World()
    WorldStore(world).write(LAYOUT.recovery, b"{half a docu")
    world.lose()
    with pytest.raises(StoreFailed, match="cannot be read"):
        await controller(world, tmp_path).poll()
    assert world.creates == []


async def test_a_write_whose_answer_was_lost_is_there_twice_and_counts(tmp_path):
    world = World()
    store = WorldStore(world)
    one = Records(store=store, layout=LAYOUT, directory=tmp_path)
    write = store.write
    store.write = lambda name, data: (write(name, data), write(name, data))[1]  # type: ignore[method-assign]
    assert one.save(State(run="demo", where=FIRST))
    assert one.save(State(run="demo", where=FIRST, phase="stopped"))
    assert one.unchanged()
    assert state(world).phase == "stopped"


async def test_an_earlier_machine_that_the_run_is_on_again_is_not_ended(tmp_path):
    """Another controller has given the newer one up between our reading and our lease."""
    world = World()
    world.lose()
    await looks(world, tmp_path)
    world.lose("101")
    await looks(world, tmp_path)
    assert [w.instance for w in state(world).left] == ["101"]
    world.saved = Saved(50, 1)

    def other(what: str) -> None:
        if what == f"written {LAYOUT.lease}":
            world.touch = lambda what: None
            ours = state(world)
            WorldStore(world).write(
                LAYOUT.recovery, replace(ours, where=ours.left[0], left=()).encode()
            )

    world.touch = other
    assert (await controller(world, tmp_path).poll()).word == "held"
    assert world.ended == []


async def test_another_pod_in_the_file_is_believed_when_a_person_says_so(tmp_path):
    """An older recover.toml on another machine looks the same; taken for true it would rent for a
    pod that was given up on purpose.
    """
    world = World()
    world.machines["8"], world.links["8"] = Machine("", "8", step=45), True
    beta = Where(pod="beta", provider="vast", instance="8")
    await controller(world, tmp_path).poll()
    world.lose()
    await looks(world, tmp_path)
    for _ in range(2):
        outcome = await controller(world, tmp_path, first=beta).poll()
        assert (outcome.word, outcome.exit_code) == ("stopped", 1)
        assert "demo is on beta (vast 8) by the files here" in outcome.sentence
        assert "--moved" in outcome.sentence
    world.machines["101"].step = 44
    await controller(world, tmp_path).poll()
    assert (await controller(world, tmp_path, first=beta, moved=True).poll()).word == "watching"
    assert (state(world).where, [w.instance for w in state(world).left]) == (beta, ["101"])
    assert "it was beta in recover.toml" in (await controller(world, tmp_path).poll()).sentence
    world.saved = Saved(45, 1)
    assert (await controller(world, tmp_path, first=beta).poll()).word == "watching"
    assert world.ended == ["101"], "rented here, and the store holds more than was seen on it"


async def test_another_pod_in_the_file_is_seen_beside_a_state_that_does_not_say_which_was_there(
    tmp_path,
):
    """As an earlier console wrote it."""
    world = World()
    earlier = {
        name: value
        for name, value in json.loads(State(run="demo", where=FIRST).encode()).items()
        if name not in ("named", "done")
    }
    WorldStore(world).write(LAYOUT.recovery, json.dumps(earlier).encode())
    assert (await controller(world, tmp_path).poll()).word == "watching"
    assert (
        "demo is on beta"
        in (
            await controller(
                world, tmp_path, first=Where(pod="beta", provider="vast", instance="8")
            ).poll()
        ).sentence
    )


async def test_the_machine_before_ends_although_the_run_was_moved_by_hand_and_has_ended(tmp_path):
    world = World()
    world.machines["8"], world.links["8"] = Machine("", "8", step=45), True
    world.lose()
    await looks(world, tmp_path)
    world.finished, world.saved = True, Saved(45, 1)
    outcome = await controller(
        world, tmp_path, first=Where(pod="beta", provider="vast", instance="8"), moved=True
    ).poll()
    assert (outcome.word, world.ended, sorted(world.machines)) == ("finished", ["101"], ["7", "8"])


async def test_a_pod_that_was_rented_anew_by_hand_under_its_old_name(tmp_path):
    world = World()
    world.machines["7"].orders = ORDERS
    await controller(world, tmp_path).poll()
    world.machines["9"], world.links["9"] = Machine("", "9", step=40), True
    world.lose()
    new = Where(pod="alpha", provider="vast", instance="9", price=2.0)
    outcome = await controller(world, tmp_path, first=new).poll()
    assert (outcome.word, outcome.exit_code) == ("stopped", 1)
    assert (
        "on alpha (vast 9) by the files here, and its controllers look after alpha (vast 7)"
        in outcome.sentence
    )
    assert (await controller(world, tmp_path, first=new, moved=True).poll()).word == "watching"
    for outcome in await looks(world, tmp_path, 5, first=new):
        assert (outcome.word, outcome.exit_code) == ("watching", 0)
    assert (await controller(world, tmp_path).poll()).word == "stopped", (
        "another machine's files still have the old one"
    )
    assert world.creates == []


async def test_a_budget_that_is_spent_while_the_machine_trains_is_told(tmp_path):
    world = World()
    world.lose()
    cheap = Limits(5.0, per_day=20.0, per_run=500.0)
    await looks(world, tmp_path, limits=cheap)
    assert (await controller(world, tmp_path, limits=cheap).poll()).exit_code == 0
    world.now += 9 * HOUR
    outcome = await controller(world, tmp_path, limits=cheap).poll()
    assert (outcome.word, outcome.exit_code) == ("watching", 1)
    assert "budget of $20.00 a day is spent" in outcome.sentence
    assert len(world.paid()) == 1, "what trains is not ended for its price"


async def test_everything_done_is_in_the_journal_and_its_chain_holds(tmp_path):
    world = World()
    world.lose()
    await looks(world, tmp_path)
    records = controller(world, tmp_path).records
    phases = [r["phase"] for r in records.journal.records() if r["event"] == "state"]
    assert phases == ["renting", "setting-up", "restoring", "launching", "proving", "watching"]
    assert records.journal.verify() == []
