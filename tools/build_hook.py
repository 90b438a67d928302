"""hatchling's build hook: puts the agent's bundle and the pages of documentation into a wheel, and
what makes a bundle offline into a source archive.

The pages are for `bs4-console docs`; their pictures, 3.5 MB, are left out. An editable install gets
nothing: a checkout builds its bundle when a pod is deployed to, and has its pages.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BundleHook(BuildHookInterface[Any]):
    """Adds the files that tools/build_bundle.py makes; hatchling finds this class by its base."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the bundles for the pods, or what a source archive needs to make them, in a
        temporary directory, and have the files included. A wheel also gets the pages of
        documentation. An editable install gets nothing. Ends the build if the files cannot be made.
        """
        if version == "editable":
            return
        self._made = tempfile.TemporaryDirectory(prefix="bs4-bundle-")
        made = Path(self._made.name)
        option, place = (
            ("--source", "")
            if self.target_name == "sdist"
            else ("--into", "bs4_console/_data/bundle/")
        )
        tool = Path(self.root) / "tools" / "build_bundle.py"
        done = subprocess.run([sys.executable, str(tool), option, str(made)], check=False)
        if done.returncode != 0:
            self.app.abort("The agent's bundle was not built; the sentence above says why.")
        for path in made.rglob("*"):
            if path.is_file():
                build_data["force_include"][str(path)] = (
                    f"{place}{path.relative_to(made).as_posix()}"
                )
        if self.target_name == "wheel":
            root = Path(self.root)
            for page in (root / "README.md", *sorted((root / "docs").glob("*.md"))):
                build_data["force_include"][str(page)] = f"bs4_console/_data/docs/{page.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary directory."""
        if version != "editable":
            self._made.cleanup()
