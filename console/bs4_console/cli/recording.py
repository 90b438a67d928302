"""Show a recorded pod on the screen, or as `check` prints it. `demo --recorded` and `reports open`
use it.
"""

from __future__ import annotations

from bs4_console.cli.output import complain, emit, evidence_place
from bs4_console.pods.recorded import RecordedSession
from bs4_console.pods.state import evidence_of


async def show(session: RecordedSession, why: str, *, headless: bool, as_json: bool) -> int:
    """Show the recorded pod of `session`, and return the exit code: the screen's, or 0 if no screen
    is opened. `why` is a sentence that says why a recording is shown, and is printed first. With
    `headless`, the pod's verdict and its evidence are printed and no screen is opened; with
    `as_json` too, only the JSON object of the command `check` is printed.
    """
    if not headless:
        from bs4_console.fleet.watched import Fleet
        from bs4_console.tui.app import configured

        complain(why)
        app = configured(Fleet([session]), read_only=True, practice=True)
        await app.run_async()
        return app.return_code or 0
    from bs4_console.checks.verdict import WORDS, judge

    await session.synced()
    verdict = judge(session.state)
    if as_json:
        emit("check", status=WORDS[verdict.level], code=verdict.level, pods=[verdict])
        return 0
    print(why)
    print(verdict.line())
    for incident in session.state.ledger.open_incidents():
        for item in map(evidence_of, incident.evidence):
            print(f"    {evidence_place(item)}: {item['text'][:160]}")
    return 0
