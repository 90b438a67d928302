"""Find what a topic names among the entries of the documentation, the best hit first."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bs4_console.documentation import exit_codes, xids
from bs4_console.documentation.entry import KINDS, Entry, words
from bs4_console.suggest import nearest

#: How many hits are returned: the best one and nine more.
MOST = 10
#: How alike a name must be to be searched instead of one that does not exist, and to be offered.
_SURE, _OFFERED = 0.8, 0.6
_OFFERS = 3
#: A word of a name or title counts as much as this many in the text.
_TITLE = 5
#: The part of the best hit's score below which a hit is left out.
_WORTH = 0.25
#: The length in words at which a text's repetitions count half.
_LENGTH = 200
#: How much less a name counts that only a config of sft or eval has: most configs are of a whole
#: training, and their names are longer.
_PART = 0.3
#: How much more an entry counts if it is a command whose name is among the words of the topic.
_COMMAND = 3.0
#: Words of a question that say nothing about its topic.
_FILLERS = frozenset(
    words("how do does can i my me a an the to of for in on is are it what why when")
)
#: Words shorter than this are not corrected: too many others are alike.
_LONG = 4


@dataclass(frozen=True)
class Hit:
    """One entry that a search in the documentation has found, `entry`. `score` says how well its
    words fit the topic; more is better. `is_named` is True if the topic is a name of the entry, or
    the last part of one, and False if the topic's words are only in its text.
    """

    entry: Entry
    score: float
    is_named: bool


@dataclass(frozen=True)
class Found:
    """The result of a search in the documentation: `hits`, the best first. `corrected` is the name
    that was searched for in place of the topic, if the topic itself occurs nowhere, or "".
    `unknown` are the words of the topic that occur nowhere and were left out. `nearest` are names
    that are similar to the topic; only a search without a hit has some.
    """

    hits: tuple[Hit, ...]
    corrected: str = ""
    unknown: tuple[str, ...] = ()
    nearest: tuple[str, ...] = ()


def search(topic: str, index: Index) -> Found:
    """Search the entries of `index` for `topic`, and return what was found, at most ten hits, the
    best first.
    """
    asked = words(topic)
    if asked[:2] == ("bs4", "console") and len(asked) > 2:
        asked = asked[2:]
    asked = tuple(word for word in asked if word not in _FILLERS) or asked
    named = index.named(asked)
    numbered = []
    for entry in (exit_codes.entry(topic), _xid(topic, index.entries)):
        if entry is not None:
            numbered.append(Hit(entry, 0.0, True))
    if numbered:
        others = index.ranked(asked, named)[: MOST - len(numbered)]
        return Found((*numbered, *others))
    if named or all(word in index.counts for word in asked):
        return Found(index.ranked(asked, named))
    for name in index.like(topic, _SURE, _OFFERS):
        if len(words(name)) == len(asked):
            asked = words(name)
            return Found(index.ranked(asked, index.named(asked)), corrected=name)
    return _by_words(topic, asked, index)


def _xid(topic: str, known: Iterable[Entry]) -> Entry | None:
    """Return the entry of the Xid that the topic names, or None if it names none."""
    number = xids.asked(topic)
    if number is None:
        return None
    return xids.entry(number[0], known, number[1])


def _by_words(topic: str, asked: Sequence[str], index: Index) -> Found:
    """Find a topic of which some words occur nowhere: with the most similar words in their place,
    or without them.
    """
    kept, unknown = [], []
    for word in asked:
        near = [word]
        if word not in index.counts:
            near = []
            if len(word) >= _LONG:
                near = nearest(word, list(index.counts), 1, _SURE)
        if near:
            kept += near
        else:
            unknown.append(word)
    if not kept:
        return Found((), nearest=tuple(index.like(topic, _OFFERED, _OFFERS)))
    corrected = ""
    if kept != [word for word in asked if word not in unknown]:
        corrected = " ".join(index.spelled(word) for word in kept)
    return Found(index.ranked(kept, {}), corrected, tuple(unknown))


class Index:
    """The words of all entries of the documentation, counted once so that searches are fast.
    `entries` are the entries, and `counts` says in how many of them each word occurs.
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = entries
        self.counts: Counter[str] = Counter()
        self._words: list[tuple[Counter[str], int]] = []
        self._names: list[list[tuple[str, ...]]] = []
        for entry in entries:
            names = [words(name) for name in entry.names]
            text = words(entry.text)
            weighed: Counter[str] = Counter(text)
            for word in {*words(entry.title), *names[0], *names[-1]}:
                weighed[word] += _TITLE
            self.counts.update(weighed.keys())
            self._words.append((weighed, len(text)))
            self._names.append(names)

    def named(self, asked: Sequence[str]) -> dict[int, float]:
        """Return {number: score} for the entries of which `asked`, the words of a topic, is a name
        or the end of a name. The number is the entry's index in `entries`, and a greater score is a
        better one. Other entries are left out.
        """
        found = {}
        for number, names in enumerate(self._names):
            rank = max(_rank(tuple(asked), name) for name in names)
            if rank and not _is_of_whole(self.entries[number]):
                rank *= _PART
            if rank:
                found[number] = rank
        return found

    def ranked(self, asked: Sequence[str], named: dict[int, float]) -> tuple[Hit, ...]:
        """Return the hits for `asked`, the words of a topic, the best first. `named` is
        {number: score} of the entries that have the topic as a name; the number is the entry's
        index in `entries`, and a greater score is a better one.
        """
        hits = []
        for number, score in self._scores(asked):
            hits.append((number, score))
        best = max((score for _, score in hits), default=0.0)
        worth = []
        for number, score in hits:
            if number in named or score >= best * _WORTH:
                worth.append(number)
        scores = dict(hits)

        def order(number: int) -> tuple[float, int, float, int]:
            entry = self.entries[number]
            return (
                -named.get(number, 0.0),
                KINDS.index(entry.kind) if number in named else 0,
                -scores[number],
                len(entry.names[0]),
            )

        chosen = []
        for number in sorted(worth, key=order)[:MOST]:
            chosen.append(Hit(self.entries[number], scores[number], number in named))
        return tuple(chosen)

    def _scores(self, asked: Sequence[str]) -> Iterator[tuple[int, float]]:
        """Yield the number and the score of each entry that has a word of `asked`. A rare word
        counts more, a repeated one a little more, and one in a long text a little less.
        """
        total = len(self.entries)
        # A single letter beside words, as in "a crash", is no topic but also the key of a command.
        wanted = [word for word in dict.fromkeys(asked) if len(word) > 1] or list(asked)
        for number, (weighed, length) in enumerate(self._words):
            score = 0.0
            for word in wanted:
                count = weighed[word]
                if count:
                    rare = math.log(1 + total / self.counts[word])
                    score += rare * count / (count + 1 + length / _LENGTH)
            if self.entries[number].kind == "command" and set(self._names[number][0]) <= {*wanted}:
                score *= _COMMAND
            if score:
                yield number, score

    def spelled(self, word: str) -> str:
        """Return a spelling of `word` that occurs in the documentation. `word` is a word of the
        index, which has no plural ending; the spelling may have it.
        """
        pattern = re.compile(rf"(?<![^\W_]){word}s?(?![^\W_])", re.IGNORECASE)
        for entry in self.entries:
            match = pattern.search(f"{entry.names[0]} {entry.title} {entry.text}")
            if match is not None:
                return match[0].lower()
        return word

    def like(self, topic: str, alike: float, most: int) -> list[str]:
        """Return names of entries that are similar to `topic`, at most `most` of them. The last
        part of a parameter's dotted name counts as a name too. `alike` is how similar they must be,
        from 0 to 1. The list is empty if there are none.
        """
        known: dict[str, None] = {}
        for entry in self.entries:
            for name in entry.names:
                known[name] = None
            if entry.kind == "parameter":
                known[entry.names[0].rpartition(".")[2]] = None
        return nearest(topic, list(known), most, alike)


def _is_of_whole(entry: Entry) -> bool:
    """Return False for a parameter that the config of a whole training does not have."""
    if not entry.settings:
        return True
    return any(setting.component == "rl" for setting in entry.settings)


def _rank(asked: tuple[str, ...], name: tuple[str, ...]) -> float:
    """Return how well a name is `asked`: 2 if it is the same, between 0 and 1 if it ends with it
    (more if less stands before it), and 0 if it is another name.
    """
    if not asked or name[-len(asked) :] != asked:
        return 0.0
    if len(name) == len(asked):
        return 2.0
    return len(asked) / len(name)
