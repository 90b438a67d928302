"""Limits on what one pod may make this console store and hold. docs/ceilings.md has the table for
people.

A pod is treated as hostile until its data is checked. Data over a limit is refused, and the pod's
state says so. Nothing that is already held is deleted for it.
"""

from __future__ import annotations

MIB = 1024 * 1024

#: Bytes on this machine's disk for one pod, by kind of data. Sparse files count by their length. A
#: day of telemetry is 140 MB.
DISK_BYTES = 2048 * MIB
JOURNAL_BYTES = 256 * MIB
STEPS_BYTES = 256 * MIB
GAPS_BYTES = 1 * MIB
#: Bytes of one file of records. An agent begins a new file after 1 MiB.
RECORD_FILE_BYTES = 64 * MIB

#: Bytes of this machine's memory for what one pod's journal tells, for its training steps, and for
#: its telemetry, as it came and packed. With 8 MiB of logs on their way, one pod takes at most 60
#: MB.
JOURNAL_MEMORY = 12 * MIB
STEPS_MEMORY = 20 * MIB
TELEMETRY_MEMORY, PACKED_MEMORY = 4 * MIB, 4 * MIB

#: Bytes of a stream's name, and the numbers of streams and of pages of their list that are
#: accepted.
NAME_BYTES = 200
STREAMS = 10_000
PAGES = 1_000
#: Answers to one search of a log. Each takes the pod up to 0.25 s, in which it reads at least some
#: MB: a search of 100 GB with an expression takes some 20,000.
SEARCH_ANSWERS = 50_000

#: Requests to one pod that wait for their reply, and frames that wait to be sent to it. The screen
#: needs some 20 of each.
REPLIES = 64
FRAMES = 256
#: Reads of logs to one pod that are under way ahead of their consumers, each of up to 256 KiB. As
#: many pieces again may wait in memory: 8 MiB together.
READS_AHEAD = 16

#: Bytes of a crash report, as it is fetched and when it is unpacked. A real report has a few
#: hundred KB, and a few MB unpacked.
REPORT_BYTES = 64 * MIB
REPORT_UNPACKED_BYTES = 256 * MIB
#: Bytes that one read of an archive may request. tarfile reads the header of a member at once, and
#: the archive itself says how long that header is.
REPORT_READ_BYTES = 4 * MIB

#: Bytes that a command on a pod may print. The list of the files of a large checkout has some MB.
OUTPUT_BYTES = 64 * MIB

#: Bytes of the text of a config, and how many texts are kept of one pod. A config has a few KB.
CONFIG_BYTES = 256 * 1024
CONFIGS = 2_000
