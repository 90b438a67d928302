"""The pictures of the snapshot tests side by side, to be looked at: `python tools/contact_sheet.py
[SCENE...] [--size 80x24]`.

Writes a PNG for each scene into `--out`; needs rsvg-convert (Debian: librsvg2-bin), best with
fonts-firacode and fonts-symbola (braille).
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SNAPSHOTS = ROOT / "tests" / "console" / "tui" / "__snapshots__" / "test_snapshots"
#: test_screen[fleet][80x24-dark].svg: scene, what of it.
_NAME = re.compile(r"test_\w+\[([^]]+)\]\[([^]]+)\]\.svg")
GAP = 16


def pictures(
    scenes: Sequence[str], sizes: Sequence[str], themes: Sequence[str]
) -> dict[str, list[Path]]:
    """Return {scene: paths of its pictures}. A scene is a screen that the snapshot tests draw,
    perhaps in several sizes and themes. Only pictures of the given scenes, sizes and themes are
    returned; an empty sequence means all. The pictures of a scene are sorted by the length of the
    file name, then by the file name.
    """
    found: dict[str, list[Path]] = {}
    for path in sorted(SNAPSHOTS.glob("*.svg"), key=lambda path: (len(path.name), path.name)):
        if (name := _NAME.fullmatch(path.name)) is None:
            continue
        scene, (size, _, theme) = name[1], name[2].partition("-")
        if (
            (not scenes or scene in scenes)
            and (not sizes or size in sizes)
            and (not themes or theme in themes)
        ):
            found.setdefault(scene, []).append(path)
    return found


def sheet(paths: Sequence[Path], columns: int, width: int) -> str:
    """Return one SVG that shows the SVG files `paths` with `columns` of them in a row. Each is
    scaled to a width of `width` pixels.
    """
    sys.path.insert(0, str(ROOT))
    from tools.picture import cells

    parts: list[str] = []
    y, tallest = GAP, 0.0
    for i, path in enumerate(paths):
        drawn = re.sub(
            r"@font-face \{.*?\}\s*", "", path.read_text(encoding="utf-8"), flags=re.DOTALL
        )
        _, _, w, h = map(float, re.findall(r'viewBox="([^"]+)"', drawn)[0].split())
        height = h * width / w
        column = i % columns
        if column == 0 and i:
            y, tallest = round(y + tallest + GAP), 0.0
        tallest = max(tallest, height)
        place = (
            f'x="{GAP + column * (width + GAP)}" y="{y}" width="{width}" height="{height:.0f}" '
            'xml:space="preserve"'
        )
        parts.append(cells(underlined(drawn)).replace("<svg ", f"<svg {place} ", 1))
    across, down = GAP + columns * (width + GAP), round(y + tallest + GAP)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{across}" '
        f'height="{down}">{"".join(parts)}</svg>'
    )


def underlined(svg: str) -> str:
    """Return `svg` with a thin rectangle added under each underlined text, because the converter
    librsvg does not draw the underline itself.
    """
    for role in set(re.findall(r"\.(\S+) \{[^}]*text-decoration: underline", svg)):
        text = rf'(?=<text class="{role}" x="([\d.]+)" y="([\d.]+)" textLength="([\d.]+)")'
        svg = re.sub(
            text,
            rf'<rect class="{role}" x="\1" y="\2" width="\3" height="1.5" '
            r'transform="translate(0 2)"/>',
            svg,
        )
    return svg


def main(argv: Sequence[str] | None = None) -> int:
    """Write a PNG with the pictures of each scene (a screen that the snapshot tests draw), or with
    --together one PNG with all of them, and print the paths. Return 0, or 1 if the program
    rsvg-convert is missing.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenes", nargs="*")
    parser.add_argument(
        "--size", action="append", default=[], help="80x24, 120x40 or 200x60; all when not given"
    )
    parser.add_argument(
        "--theme", action="append", default=[], help="dark, light or no-colour; all when not given"
    )
    parser.add_argument("--columns", type=int, default=3)
    parser.add_argument("--width", type=int, default=1000, help="pixels of one picture")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "sheets")
    parser.add_argument("--together", action="store_true", help="all scenes on one sheet")
    arguments = parser.parse_args(argv)
    if shutil.which("rsvg-convert") is None:
        sys.stderr.write("rsvg-convert is not there: apt-get install librsvg2-bin\n")
        return 1
    found = pictures(arguments.scenes, arguments.size, arguments.theme)
    if arguments.together:
        found = {"all": [path for paths in found.values() for path in paths]}
    arguments.out.mkdir(parents=True, exist_ok=True)
    for scene, paths in found.items():
        target = arguments.out / f"{scene}.png"
        drawn = sheet(paths, min(arguments.columns, len(paths)), arguments.width)
        subprocess.run(
            ["rsvg-convert", "--unlimited", "--output", str(target)],
            input=drawn.encode(),
            check=True,
        )
        print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
