"""How Sphinx builds the documentation: `sphinx-build -W -b html docs docs/_build/html`, offline."""

import sys
from pathlib import Path

import unmask

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "unmask"
author = "The unmask developers"
copyright = f"2026, {author}"
version = release = unmask.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "command_reference",
    "mathml",
]
html_math_renderer = "mathml"
myst_enable_extensions = ["amsmath", "deflist", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_type_aliases = {
    name: name for name in ("Candidates", "Completion", "Index", "SupportChoice", "Token", "Tokens")
}
default_role = "code"  # docstrings write `code` with single backticks
python_maximum_signature_line_length = 88
napoleon_google_docstring = True
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = f"unmask {release}"
html_copy_source = False
