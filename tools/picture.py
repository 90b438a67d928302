"""Pictures of every screen, and docs/commands.md: `python tools/picture.py` writes them all anew.

The screens are drawn by the real app over the frozen pods of tests/console/tui/fixtures.py, so a
picture changes only when the screen does. SVG always; PNG too where rsvg-convert (Debian:
librsvg2-bin) is there, best with fonts-firacode and fonts-symbola (braille).
"""

from __future__ import annotations

import argparse
import asyncio
import html
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "docs" / "pictures"


@dataclass(frozen=True, kw_only=True)
class Picture:
    """The description of one picture of the console's screen, which is saved as NAME.svg.

    `scene` is the name of a function in tests/console/tui/fixtures.py that returns the pods to
    show. `size` is (columns, rows) of the terminal. `keys` are pressed in turn; some have another
    meaning, such as `:text`, which is typed into the command line (see `drive` in
    tests/console/tui/driving.py). `theme` is the name of a theme, "" for the usual one. With
    `no_colour` the environment variable NO_COLOR is set.
    """

    name: str
    scene: str
    size: tuple[int, int] = (120, 36)
    keys: tuple[str, ...] = ()
    theme: str = ""
    no_colour: bool = False
    png: bool = False
    """True if the picture is saved as PNG too, for viewers without SVG. A PNG has a tenth of a
    megabyte or more, so this is set only for the pictures that the README shows.
    """


PICTURES = (
    Picture(name="fleet", scene="everything", size=(130, 28), png=True),
    Picture(name="fleet-80x24", scene="everything", size=(80, 24)),
    Picture(name="run", scene="healthy", size=(130, 42), keys=("enter",), png=True),
    Picture(name="run-stuck", scene="desync", size=(130, 42), keys=("enter",)),
    Picture(name="run-80x24", scene="desync", size=(80, 24), keys=("enter",)),
    Picture(
        name="time-cursor",
        scene="healthy",
        size=(130, 42),
        keys=("enter", ":at 180", "~log"),
        png=True,
    ),
    Picture(
        name="curves", scene="healthy", size=(120, 40), keys=("enter", "c", ":at 180", "~log", "E")
    ),
    Picture(name="gpus", scene="everything", size=(120, 40), keys=("U",)),
    Picture(name="journal", scene="acting", size=(120, 40), keys=("J",)),
    Picture(name="run-stale-gpus", scene="stale_gpus", size=(120, 34), keys=("enter",)),
    Picture(name="incident", scene="desync", size=(110, 34), keys=("i",)),
    Picture(name="plan", scene="planned", size=(110, 46), keys=("i",), png=True),
    Picture(name="confirm", scene="planned", size=(110, 46), keys=("i", "r")),
    Picture(name="action", scene="acting", size=(110, 36), keys=("i",)),
    Picture(name="recovered", scene="acting", size=(110, 36), keys=("i", "!recovered"), png=True),
    Picture(name="logs", scene="healthy", size=(130, 36), keys=("l",)),
    Picture(
        name="logs-filter",
        scene="desync",
        size=(110, 24),
        keys=("l", "/async barrier|Timeout", "space"),
    ),
    Picture(name="command-line", scene="everything", size=(110, 24), keys=(":run ",)),
    Picture(name="first-contact", scene="first_contact", size=(110, 24)),
    Picture(name="help", scene="healthy", size=(120, 44), keys=("question_mark",)),
    Picture(name="fleet-light", scene="everything", size=(130, 24), keys=(), theme="bs4-light"),
    Picture(
        name="fleet-no-colour",
        scene="everything",
        size=(130, 24),
        keys=(),
        theme="",
        no_colour=True,
    ),
)


def cells(svg: str) -> str:
    """Return the drawing `svg` with an x position of its own for each character, for librsvg only.
    librsvg knows neither textLength nor lists of x. Without this, the text would drift away from
    its cells, and a character from a fallback font (braille, blocks) would shift those after it.
    """
    return re.sub(
        r'<text class="([^"]*-r\d+)" x="([\d.]+)" y="([\d.]+)" '
        r'textLength="([\d.]+)"([^>]*)>([^<]*)</text>',
        _spaced,
        svg,
    )


def _spaced(found: re.Match[str]) -> str:
    from rich.cells import cell_len

    style, x, y, length, rest, text = found.groups()
    plain = html.unescape(text)
    width, at = float(length) / max(1, cell_len(plain)), float(x)
    spans = []
    for character in plain:
        if not character.isspace():
            spans.append(f'<tspan x="{at:.1f}">{html.escape(character)}</tspan>')
        at += width * cell_len(character)
    return f'<text class="{style}" y="{y}"{rest}>{"".join(spans)}</text>'


async def take(picture: Picture) -> str:
    """Draw the scene of `picture` in the real app, press its keys, and return the screen as SVG
    text.
    """
    from tests.console.tui import fixtures
    from tests.console.tui.driving import drive

    from bs4_console.tui.app import ConsoleApp

    made = getattr(fixtures, picture.scene)()
    sessions = made if isinstance(made, list) else [made]
    os.environ.pop("NO_COLOR", None)
    if picture.no_colour:
        os.environ["NO_COLOR"] = "1"
    app = ConsoleApp(fixtures.fleet(*sessions), clock=fixtures.CLOCK)
    os.environ.pop("NO_COLOR", None)
    async with app.run_test(size=picture.size) as pilot:
        if picture.theme:
            app.theme = picture.theme
        await drive(pilot, sessions, picture.keys)
        return app.export_screenshot(title="bs4-console")


def write(picture: Picture, directory: Path, *, png: bool = False) -> list[Path]:
    """Draw `picture` and write it into `directory` as SVG. Write it as PNG too if `png` or the
    picture asks for it and rsvg-convert is installed. Return the paths of the files written.
    """
    drawn = asyncio.run(take(picture)).replace("<svg ", '<svg xml:space="preserve" ', 1)
    # The fonts of this machine: a picture in a README must not fetch anything.
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)
    svg = directory / f"{picture.name}.svg"
    svg.write_text(drawn, encoding="utf-8")
    if not (png or picture.png) or shutil.which("rsvg-convert") is None:
        return [svg]
    pixels = svg.with_suffix(".png")
    subprocess.run(
        ["rsvg-convert", "--output", str(pixels)], input=cells(drawn).encode(), check=True
    )
    return [svg, pixels]


def main(argv: Sequence[str] | None = None) -> int:
    """Draw the screens that the command line names and save them as pictures. If it names none,
    draw all screens and write docs/commands.md too. Return 0.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="pictures to take; all when none is named")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--png", action="store_true", help="all of them as PNG too, to look at")
    arguments = parser.parse_args(argv)
    # Whatever terminal this runs on, the pictures have all colours.
    os.environ["TZ"], os.environ["COLORTERM"] = "UTC", "truecolor"
    time.tzset()
    sys.path[:0] = [str(ROOT), str(ROOT / "console"), str(ROOT / "agents")]
    arguments.out.mkdir(parents=True, exist_ok=True)
    for picture in PICTURES:
        if not arguments.names or picture.name in arguments.names:
            print(*(path.name for path in write(picture, arguments.out, png=arguments.png)))
    if not arguments.names:
        from bs4_console.tui.commands import COMMANDS, page

        (ROOT / "docs" / "commands.md").write_text(page.markdown(COMMANDS), encoding="utf-8")
        print("commands.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
