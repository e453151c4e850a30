"""Formulas as MathML, made at build time, so that a page needs no network and no script to show them.

Sphinx hands every formula to the renderer named by `html_math_renderer`. latex2mathml leaves a command that
it does not know in the output, backslash and all; that is a warning here, and so an error of the build.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util import logging

logger = logging.getLogger(__name__)


def to_mathml(latex: str, *, display: str) -> str:
    """Return a formula as a `<math>` element; `display` is `inline` or `block`."""
    mathml: str = convert(latex, display=display)
    if "\\" in mathml:
        raise ValueError(f"latex2mathml does not know a command of this formula: {latex}")
    return mathml


def visit_inline(translator: Any, node: nodes.math) -> None:
    """Write a formula in a line of text."""
    _append(translator, node, display="inline")


def visit_block(translator: Any, node: nodes.math_block) -> None:
    """Write a formula on a line of its own; one wider than the screen is scrolled."""
    translator.body.append('<div class="math" style="overflow-x: auto; margin: 1em 0">')
    _append(translator, node, display="block", after="</div>\n")


def _append(translator: Any, node: Any, *, display: str, after: str = "") -> None:
    try:
        translator.body.append(to_mathml(node.astext(), display=display) + after)
    except ValueError as error:
        logger.warning(str(error), location=node)
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, Any]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"version": "1", "parallel_read_safe": True}
