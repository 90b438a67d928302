"""The console's screens, built on Textual."""

import os

# Milliseconds that Textual waits after Esc for the rest of a key's sequence. Its default of 100 is
# noticeable at every Esc, and a terminal sends a sequence in one piece. Textual reads the variable
# when it is imported, so it is set here first. A value that the person has set is kept.
os.environ.setdefault("ESCDELAY", "40")
