"""Judge whether a pod is lost, and how, as a pure function of signs in time.

A link that is down proves nothing about the pod. The words that lead to an action (`reclaimed`,
`ended`) rest on two signs that do not depend on each other: the provider says so in several polls,
and nothing answers at the pod's address. In addition nobody may have heard from the run meanwhile.
What the pod itself says outranks everything. Weights & Biases and the object store can only prove
life, never death. Life is read from a time that moves on between two polls of the same source, so
no two clocks are compared.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypedDict

from bs4_console import errors

if TYPE_CHECKING:
    from bs4_console.pods.observer import Observation

Word = Literal["fine", "network-only", "rebooted", "hung", "reclaimed", "ended", "unknown"]
#: Sources and their words. ssh: our own link (`up`, or the word of its error). port: a bare
#: connection to the same address (open: it greets; mute: it connects and says nothing; refused;
#: silent). network: whether this machine reaches anything else (up, down). provider, wandb: the
#: state of an external observation (running, stopped, gone, unknown). store: the object store has
#: files of the run (seen). boot: the pod's boot id (in `value`). run: what the pod says of its run
#: (moving, still, finished, failed, stopped).
Source = Literal["ssh", "port", "network", "provider", "wandb", "store", "boot", "run"]

#: Words of a link whose other end does not answer. With all other words a server has answered.
SILENT = frozenset(
    {
        errors.Unreachable.link_state,
        errors.ConnectionRefused.link_state,
        errors.ChannelLost.link_state,
    }
)
_FOREIGN = errors.HostKeyChanged.link_state
_GONE = ("stopped", "gone")
#: The verdicts that may lead to an action, by the controller only.
LOST: frozenset[Word] = frozenset({"reclaimed", "ended"})


@dataclass(frozen=True)
class Sign:
    """One observation of a pod: what one poll of one source (ssh, port, network, provider, wandb,
    store, boot or run) showed.

    `t` is the time of the poll in seconds; all signs that are judged together have times of the
    same clock. `word` is the result, one of a few fixed words for each source (ssh: `up` or why it
    failed; provider and wandb: running, stopped, gone or unknown). `seen_t` is the time that the
    source itself gives for what it reports (heartbeat, newest file, newest step); it is compared
    only with signs of the same source. `value` is the id of the machine's boot, or the state in the
    source's own words.
    """

    t: float
    source: Source
    word: str
    detail: str = ""
    seen_t: float | None = None
    value: str = ""


@dataclass(frozen=True)
class Rules:
    """How much evidence is needed to conclude what became of a pod.

    The answer of a source, such as the provider, counts when `samples` polls of it gave the same
    answer, with at least `apart_s` seconds between the first and the last of these polls. A sign
    (the result of one poll) older than `recent_s` seconds says nothing about the present state, and
    one older than `window_s` seconds is ignored.
    """

    samples: int = 2
    apart_s: float = 60.0
    recent_s: float = 300.0
    window_s: float = 3600.0


class SignRow(TypedDict):
    """One observation of a pod, on which a verdict rests, in JSON output. `source` is who was
    asked, such as "ssh" or "provider", `word` the answer in one of a few fixed words, and `detail`
    a phrase about it.
    """

    t: float
    """The time of the observation in seconds of a clock that all observations of one verdict share.
    """
    source: Source
    word: str
    detail: str


class VerdictRow(TypedDict):
    """The conclusion on what became of a pod, in JSON output. `verdict` is one word, such as
    "fine", "hung" or "reclaimed", and `sentence` explains it to a person. `next_step` says what the
    person can do, or is "".
    """

    verdict: Word
    sentence: str
    evidence: Sequence[SignRow]
    """The observations on which it rests, oldest first."""
    next_step: str


@dataclass(frozen=True)
class Verdict:
    """The conclusion on what became of one pod. `word` is fine, network-only (only the network is
    down), rebooted, hung, reclaimed (the provider took the machine back), ended or unknown.

    `sentence` explains the word to a person, and `next_step` says what the person can do ("" if
    nothing). `evidence` are the observations on which the conclusion rests, oldest first.
    """

    word: Word
    sentence: str
    evidence: tuple[Sign, ...] = ()
    next_step: str = ""

    @property
    def lost(self) -> bool:
        """Return True if the pod's machine is gone (`word` is "reclaimed" or "ended"). Only then
        may the recovery controller, which moves runs to new machines, act on the verdict.
        """
        return self.word in LOST

    def as_dict(self) -> VerdictRow:
        """Return the verdict as a dictionary for JSON output."""
        return {
            "verdict": self.word,
            "sentence": self.sentence,
            "evidence": [
                {"t": s.t, "source": s.source, "word": s.word, "detail": s.detail}
                for s in self.evidence
            ],
            "next_step": self.next_step,
        }


def of_sight(source: Literal["provider", "wandb", "store"], sight: Observation, t: float) -> Sign:
    """Return a sign, from which `judge` can judge a pod, made of `sight`, an observation by
    `source`: the provider, W&B or the object store. `t` is the time of the poll in seconds of the
    clock that all signs share. If the store has files of the run, the sign's word is `seen`,
    because files do not show whether a machine runs.
    """
    if source == "store" and sight.seen_t is not None:
        word = "seen"
    else:
        word = sight.state
    return Sign(t, source, word, sight.detail or sight.coverage, sight.seen_t, sight.raw_state)


def judge(pod: str, signs: Iterable[Sign], now: float, rules: Rules | None = None) -> Verdict:
    """Judge from `signs`, which are observations of the pod, what became of the pod named `pod`,
    and return the verdict. `now` is the present time in seconds of the clock that gave the times of
    the signs, which may come in any order. `rules` say how much evidence is needed (None: the
    defaults of Rules). Without enough evidence the word of the verdict is `unknown`.
    """
    rules = rules or Rules()
    known = _Signs(
        [s for s in sorted(signs, key=lambda s: s.t) if now - rules.window_s <= s.t <= now],
        now,
        rules,
    )
    link = known.now("ssh")
    if link is None:
        return Verdict(
            "unknown",
            f"Nobody has looked at {pod} for a while.",
            next_step=f"Look: `bs4-console check --pod {pod}`.",
        )
    if link.word == "up":
        return _answers(pod, link, known)
    if link.word not in SILENT and not (link.word == _FOREIGN and known.gone()):
        return Verdict(
            "unknown",
            f"{pod} answers, and cannot be asked ({link.word}): that says nothing about the run.",
            (link,),
            link.detail,
        )
    return _silent(pod, link, known)


def _answers(pod: str, link: Sign, known: _Signs) -> Verdict:
    """Return the verdict about a pod that answers. What it says of itself outranks all other
    sources.
    """
    run = known.now("run")
    boots = known.of("boot")
    other = [s for s in boots if s.value != boots[0].value]
    if other and not (run is not None and run.word == "moving" and run.t > other[0].t):
        return Verdict(
            "rebooted",
            f"{pod} was rebooted: its boot id is another one.",
            (boots[0], other[-1], link),
            "Its agent resumes the run as the run's mode says.",
        )
    if run is not None and run.word == "still":
        text = f"{pod} answers and its run stands still. {run.detail}".strip()
        return Verdict(
            "hung",
            text,
            (link, run),
            f"The pod's own playbooks mend it: `bs4-console check --pod {pod}`.",
        )
    against = []
    for s in (known.now("provider"), known.now("wandb")):
        if s is not None and s.word in _GONE:
            against.append(s)
    text = f"{pod} answers" + (f"; its run is {run.word}" if run is not None else "")
    text += "".join(
        f" ({s.source} says {s.value or s.word}; the pod itself knows better)" for s in against
    )
    return Verdict("fine", f"{text}.", tuple(s for s in (link, run, *against) if s is not None))


def _silent(pod: str, link: Sign, known: _Signs) -> Verdict:
    """Return the verdict about a pod at whose address nothing answers, or another machine."""
    since = known.silent_since()
    gone = known.gone()
    network = known.now("network")
    if network is not None and network.word == "down" and not gone:
        return Verdict(
            "network-only",
            f"This machine's own network is down: nothing is known of {pod}.",
            (link, network),
            "Mend the network here; the run is not concerned.",
        )
    life = known.life(since)
    if gone:
        first = gone[0].t
        looks = [s for s in known.of("ssh") if s.t >= first]
        alive = known.life(first)
        lasting = len(gone) >= known.rules.samples and gone[-1].t - first >= known.rules.apart_s
        if alive:
            return Verdict(
                "unknown",
                f"The provider says that {pod} does not run, and {alive[-1].source} has heard "
                "from it since: they contradict each other.",
                (*gone, link, *alive),
                "Look again in some minutes; nothing is done meanwhile.",
            )
        if answers := known.answers(first):
            return Verdict(
                "unknown",
                f"The provider says that {pod} does not run, and its address answered since "
                f"({answers[-1].source}: {answers[-1].word}).",
                (*gone, *answers, link),
                "They contradict each other: look again; nothing is done meanwhile.",
            )
        if lasting and len(looks) >= known.rules.samples:
            return _lost(pod, gone, looks)
        return Verdict(
            "unknown",
            f"The provider says that {pod} does not run ({gone[-1].value or gone[-1].word}); it "
            "is looked at again before that is believed.",
            (*gone, link),
            f"It takes {known.rules.samples} looks, {known.rules.apart_s:.0f} s apart.",
        )
    if life:
        return Verdict(
            "network-only",
            f"{pod} cannot be reached, and its run goes on: {life[-1].source} has heard from it "
            "since. Only the way there is broken.",
            (link, *life),
            "Nothing is lost and nothing is to be done; the link is tried again by itself.",
        )
    running, mute = known.now("provider"), known.trailing("port", ("mute",))
    if (
        running is not None
        and running.word == "running"
        and running.t >= since
        and len(mute) >= known.rules.samples
    ):
        return Verdict(
            "hung",
            f"{pod} runs at the provider and takes connections without a word: it hangs.",
            (running, *mute, link),
            "Look at its console at the provider; nothing is rented for it.",
        )
    return _undecided(pod, link, known)


def _lost(pod: str, gone: Sequence[Sign], looks: Sequence[Sign]) -> Verdict:
    says = gone[-1].value or gone[-1].word
    evidence = tuple(sorted([gone[0], gone[-1], looks[0], looks[-1]], key=lambda s: s.t))
    if gone[-1].word == "gone":
        return Verdict(
            "ended",
            f"{pod} no longer exists at the provider ({says}, {len(gone)} looks), and nothing "
            "answers at its address.",
            evidence,
            "Its run can go on elsewhere from the newest step in the object store.",
        )
    return Verdict(
        "reclaimed",
        f"The provider took {pod} back ({says}, {len(gone)} looks), and nothing answers at its "
        "address.",
        evidence,
        "Its run can go on elsewhere from the newest step in the object store.",
    )


def _undecided(pod: str, link: Sign, known: _Signs) -> Verdict:
    provider = known.now("provider")
    if provider is None or provider.word == "unknown":
        why = "the provider does not say"
        if provider is None:
            why = "the provider was not asked"
        text = f"{pod} cannot be reached ({link.word}), and {why} whether it runs."
    else:
        text = (
            f"{pod} {'runs' if provider.word == 'running' else provider.word} at the provider "
            "and nothing in it is heard: hung, or cut off."
        )
    evidence = tuple(
        s for s in (link, provider, known.now("wandb"), known.now("store")) if s is not None
    )
    return Verdict(
        "unknown",
        text,
        evidence,
        "Nothing is done for this alone; look at its console at the provider.",
    )


class _Signs:
    """The signs within the window, oldest first."""

    def __init__(self, signs: Sequence[Sign], now: float, rules: Rules) -> None:
        self._all, self._now, self.rules = signs, now, rules

    def of(self, source: Source) -> list[Sign]:
        """Return the signs of one source, oldest first."""
        return [s for s in self._all if s.source == source]

    def now(self, source: Source) -> Sign | None:
        """Return the newest sign of a source, or None if it is not recent."""
        found = self.of(source)
        if found and self._now - found[-1].t <= self.rules.recent_s:
            return found[-1]
        return None

    def trailing(
        self, source: Source, words: Sequence[str], passing: Sequence[str] = ()
    ) -> list[Sign]:
        """Return the newest signs of a source, oldest first, as far back as all of them have one of
        `words`. Signs with one of `passing` are skipped. The result is empty if the newest sign is
        not recent or is one of `passing`.
        """
        found: list[Sign] = []
        newest = self.now(source)
        if newest is None or newest.word in passing:
            return []
        for sign in reversed(self.of(source)):
            if sign.word in passing:
                continue
            if sign.word not in words:
                break
            found.append(sign)
        return found[::-1]

    def gone(self) -> list[Sign]:
        """Return the newest polls of the provider in which the machine did not run. A poll without
        an answer is skipped.
        """
        return self.trailing("provider", _GONE, ("unknown",))

    def silent_since(self) -> float:
        """Return the time at which the link was first found down in the present outage."""
        since = self._now
        for sign in reversed(self.of("ssh")):
            if sign.word == "up":
                break
            since = sign.t
        return since

    def answers(self, since: float) -> list[Sign]:
        """Return the signs at or after `since` in which something answered that may be the pod.

        A machine with another host key is not the pod. While the link finds such a machine, an open
        port is that machine's.
        """
        link = self.now("ssh")
        foreign = link is not None and link.word == _FOREIGN
        spoke = [s for s in self.of("ssh") if s.word not in SILENT and s.word != _FOREIGN]
        if not foreign:
            spoke += [s for s in self.of("port") if s.word in ("open", "mute")]
        return sorted((s for s in spoke if s.t >= since), key=lambda s: s.t)

    def life(self, since: float) -> list[Sign]:
        """Return two signs of one source, both at or after `since`, between which the time of the
        source's fact moved on. The result is empty if there are none.
        """
        sources: tuple[Source, ...] = ("wandb", "store")
        for source in sources:
            told = []
            for s in self.of(source):
                if s.t >= since and s.seen_t is not None:
                    told.append(s)
            for before, after in itertools.pairwise(told):
                if (after.seen_t or 0.0) > (before.seen_t or 0.0):
                    return [before, after]
        return []
