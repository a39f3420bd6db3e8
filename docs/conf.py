"""Settings of Sphinx: `sphinx-build -W -b html docs build/docs` writes the site, and fails on a warning."""

import sys
from importlib.metadata import version as installed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from generate import write

write()  # docs/reference/*.md, from the code

project = "Excitor"
copyright = "the authors of Excitor"
version = release = installed("excitor")
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = f"Excitor {version}"
html_static_path: list[str] = []
exclude_patterns = ["Thumbs.db"]
nitpicky = True
