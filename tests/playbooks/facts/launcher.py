"""Who is left when a launcher or an inference server goes, and who takes notice."""

from __future__ import annotations

import dataclasses

from bs4_common.failures.facts import Facts, RunFacts, ServerProbe, Side
from tests.agent.facts import event
from tests.playbooks.facts.case import negative, positive
from tests.playbooks.facts.made import NEW, NOW, look, run


def without(*components: str, base: RunFacts | None = None) -> RunFacts:
    one = base or run()
    members = [
        dataclasses.replace(m, alive=False) if m.component in components else m for m in one.members
    ]
    return dataclasses.replace(one, members=members)


@positive("launcher-orphans")
def a_launcher_gone_without_a_word() -> Facts:
    return look(without("launcher"))


@negative("launcher-orphans")
def a_launcher_that_ends_its_children() -> Facts:
    return look(
        without(
            "launcher",
            base=run(events=[event("terminating", "launcher", "Terminating all processes...")]),
        )
    )


@negative("launcher-orphans")
def a_launcher_that_lives() -> Facts:
    return look(run())


@negative("launcher-orphans")
def everybody_is_gone() -> Facts:
    return look(without("launcher", "inference", "engine", "orchestrator", "trainer"))


@negative("launcher-orphans")
def a_stop_of_ours() -> Facts:
    return look(without("launcher", base=run(stop_requested=True)))


SHUTTING_DOWN = event("terminating", "inference", "Shutting down")
ENGINE_LOST = event(
    "inference-lost",
    "inference",
    "AsyncLLM output_handler failed: EngineCore encountered an issue.",
)


@positive("inference-exited-clean")
def shut_down_in_order() -> Facts:
    return look(without("inference", "engine", base=run(events=[SHUTTING_DOWN])))


@negative("inference-exited-clean")
def its_engine_was_killed() -> Facts:
    return look(without("inference", "engine", base=run(events=[ENGINE_LOST, SHUTTING_DOWN])))


@negative("inference-exited-clean")
def it_answered_with_500_before() -> Facts:
    refused = event(
        "server-error",
        "inference",
        '127.0.0.1:4 - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error',
        m=NOW - 1,
    )
    return look(without("inference", "engine", base=run(events=[refused, SHUTTING_DOWN])))


@positive("inference-exited-clean")
@negative("vllm-silent-death")
def shut_down_in_mid_generation() -> Facts:
    cut_off = event(
        "server-error",
        "inference",
        '127.0.0.1:4 - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error',
    )
    lost = event("error", "inference", "Error in chat completion stream generator.")
    return look(
        without("inference", "engine", base=run(events=[SHUTTING_DOWN, cut_off, ENGINE_LOST, lost]))
    )


@positive("inference-exited-clean")
@negative("vllm-silent-death")
def an_error_of_long_ago() -> Facts:
    old = event("error", "inference", "Error in chat completion stream generator.", m=NOW - 600)
    return look(without("inference", "engine", base=run(NEW, events=[old, SHUTTING_DOWN])))


@positive("vllm-silent-death")
@negative("inference-exited-clean")
def an_error_just_before() -> Facts:
    error = event("error", "inference", "Error in chat completion stream generator.", m=NOW - 2)
    return look(without("inference", "engine", base=run(NEW, events=[error, SHUTTING_DOWN])))


@positive("vllm-silent-death")
def gone_after_its_engine() -> Facts:
    return look(without("inference", "engine", base=run(NEW, events=[ENGINE_LOST, SHUTTING_DOWN])))


@positive("vllm-silent-death")
def up_and_answering_nothing() -> Facts:
    return look(
        run(
            server=ServerProbe(
                url="http://localhost:8000",
                ever_ok_m=NOW - 50,
                health="ok",
                health_m=NOW,
                answer="timeout",
                answer_m=NOW,
                failures=2,
            )
        )
    )


@negative("vllm-silent-death", "inference-exited-clean")
def the_whole_run_is_ending() -> Facts:
    return look(
        without(
            "inference",
            base=run(events=[event("terminating", "launcher", "Terminating all processes...")]),
        )
    )


@negative("vllm-silent-death")
def one_slow_answer() -> Facts:
    return look(
        run(
            server=ServerProbe(
                url="http://localhost:8000",
                ever_ok_m=NOW - 50,
                health="ok",
                health_m=NOW,
                answer="timeout",
                answer_m=NOW,
                failures=1,
            )
        )
    )


@negative("vllm-silent-death")
def still_starting() -> Facts:
    return look(without("inference", base=run(trainer_side=Side(), orchestrator_side=Side())))
