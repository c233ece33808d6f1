"""How the documentation is built; warnings are errors (`make docs`)."""

from importlib.metadata import version as _version

project = "lastword"
copyright = "2026, the lastword authors"  # noqa: A001 -- Sphinx's name for it
version = release = _version("lastword")
extensions = ["myst_parser", "sphinx.ext.autodoc"]
autodoc_typehints = "none"
autodoc_member_order = "bysource"
exclude_patterns = ["_build", "changes"]
html_theme = "furo"
html_title = "lastword"
# Offline and self-contained: nothing is fetched while building or reading.
html_static_path: list[str] = []
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
