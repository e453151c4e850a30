"""The documentation builds without a warning, and leaves nothing of the public interface out."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import unmask
from unmask.cli import app

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("sphinx", reason="Sphinx is not installed: pip install 'unmask[docs]'")
    pytest.importorskip("myst_parser", reason="myst-parser is not installed: pip install 'unmask[docs]'")
    pytest.importorskip("furo", reason="furo is not installed: pip install 'unmask[docs]'")
    pytest.importorskip("latex2mathml", reason="latex2mathml is not installed: pip install 'unmask[docs]'")
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    built = subprocess.run(
        [*command, "-d", str(target / "doctrees"), str(ROOT / "docs"), str(target / "html")],
        capture_output=True,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return target / "html"


def test_every_public_name_is_on_the_reference_page(site):
    page = (site / "reference" / "python.html").read_text(encoding="utf-8")
    missing = [n for n in unmask.__all__ if n != "__version__" and f'id="unmask.{n}"' not in page]
    assert not missing


def test_every_command_is_on_the_command_line_page(site):
    page = (site / "reference" / "cli.html").read_text(encoding="utf-8")
    for command in typer.main.get_command(app).commands:
        assert f"unmask {command} [OPTIONS]" in page


def test_formulas_are_mathml_and_no_page_needs_a_network(site):
    pages = [page.read_text(encoding="utf-8") for page in site.rglob("*.html")]
    assert '<math xmlns="http://www.w3.org/1998/Math/MathML"' in (
        site / "background" / "constructions" / "ag.html"
    ).read_text(encoding="utf-8")
    for page in pages:
        assert not re.search(r'<(?:script|link|img)\b[^>]*(?:src|href)="https?://', page)


def test_every_construction_has_a_page(site):
    text = "".join(
        p.read_text(encoding="utf-8") for p in (site / "background" / "constructions").glob("*.html")
    )
    for method in unmask.CONSTRUCTIONS:
        assert f'<code class="docutils literal notranslate"><span class="pre">{method}</span></code>' in text
