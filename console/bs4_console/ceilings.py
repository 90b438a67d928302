"""Limits on what one pod may make this console store and hold. docs/ceilings.md has the table for
people.

A pod is treated as hostile until its data is checked. Data over a limit is refused, and the pod's
state says so. Nothing that is already held is deleted for it.
"""

from __future__ import annotations

MIB = 1024 * 1024

#: Bytes on this machine's disk for one pod, by what it is. Sparse files count by their length. A
#: day of telemetry is 140 MB.
DISK_BYTES = 2048 * MIB
JOURNAL_BYTES = 256 * MIB
STEPS_BYTES = 256 * MIB
GAPS_BYTES = 1 * MIB
#: Bytes of one file of records. An agent begins a new one after 1 MiB.
RECORD_FILE_BYTES = 64 * MIB

#: Bytes of the name of a stream, and how many streams and pages of their list are believed.
NAME_BYTES = 200
STREAMS = 10_000
PAGES = 1_000

#: Bytes of a crash report as it is fetched, and unpacked. A real one has a few hundred KB and a few
#: MB.
REPORT_BYTES = 64 * MIB
REPORT_UNPACKED_BYTES = 256 * MIB
#: Bytes that one read of an archive may ask for: tarfile reads the header of a member, whose length
#: the archive says, at once.
REPORT_READ_BYTES = 4 * MIB
