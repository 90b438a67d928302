"""The console's screens, built on Textual."""

import os

# So long Textual waits after Esc for the rest of a key's sequence, in ms. Its own 100 are felt at
# every Esc; a terminal sends a sequence in one piece. It is read when Textual is imported, so this
# stands before that; who has set it keeps it.
os.environ.setdefault("ESCDELAY", "40")
