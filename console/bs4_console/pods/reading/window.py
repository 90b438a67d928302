"""How many reads of one stream to keep under way at a time, learned from how long they take."""

from __future__ import annotations

#: The number of reads under way at first.
FIRST = 4
#: The numbers of reads that may wait in line for the link. With fewer the window grows, with more
#: it shrinks. Everything else that the pod sends waits behind them: at 50 Mbit/s each takes 42 ms.
FEW, MANY = 2.0, 4.0


class ReadWindow:
    """Decides how many reads of a stream are kept under way at the same time (`size`): at least
    FIRST and at most `most`.

    If reads take longer than the shortest time that one ever took, some of them wait in line on the
    link. Their number is estimated as size x (1 - shortest / now). The size is doubled as long as
    fewer than two reads wait, and then kept so that two to four wait, as TCP Vegas does. It does
    not grow if the caller is slower than the link.
    """

    def __init__(self, most: int, alone: float = float("inf")) -> None:
        """Begin with FIRST reads. `alone` is how many seconds a read took when no other was under
        way.
        """
        self.size = min(FIRST, most)
        self._most = most
        self._doubles = True
        self._shortest, self._shortest_now = alone, float("inf")
        self._arrivals = 0
        self._waited = False

    def wait(self) -> None:
        """Note that the caller had to wait for the answer to a read. The next computation of `size`
        increases it only if this was noted after the last computation.
        """
        self._waited = True

    def arrive(self, seconds: float) -> None:
        """Note that a read was answered `seconds` after it was sent. Each time that `size` reads
        were answered, `size`, the number of reads to keep under way, is computed anew.
        """
        self._shortest = min(self._shortest, seconds)
        self._shortest_now = min(self._shortest_now, seconds)
        self._arrivals += 1
        if self._arrivals >= self.size:
            self._adjust()
            self._shortest_now = float("inf")
            self._arrivals = 0
            self._waited = False

    def _adjust(self) -> None:
        in_line = 0.0
        if self._shortest_now > 0:
            in_line = self.size * (1 - self._shortest / self._shortest_now)
        if in_line >= FEW:
            self._doubles = False
        if in_line > MANY:
            self.size -= 1
        elif in_line < FEW and self._waited:
            more = self.size if self._doubles else 1
            self.size = min(self._most, self.size + more)
