"""The page is small, complete by itself, and asks nobody else for anything."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from unmask.web import page

FILES = sorted(page.STATIC.iterdir())


def test_it_is_under_80_kb_without_the_chart_script():
    assert sum(path.stat().st_size for path in FILES) < 80_000


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_every_file_is_served_as_what_it_is(client, path):
    response = client.get(f"/static/{path.name}")
    assert response.status_code == 200
    assert response.content == path.read_bytes()
    assert response.headers["content-type"] == page.KINDS[path.suffix]
    again = client.get(f"/static/{path.name}", headers={"If-None-Match": response.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_no_file_names_another_site(path):
    text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    assert not re.findall(r"(?:https?:)?//[a-z0-9-]+\.[a-z]{2,}", text)


def test_the_chart_script_is_plotlys_own(client):
    response = client.get("/static/plotly.min.js", headers={"Accept-Encoding": "gzip"})
    assert response.headers["content-encoding"] == "gzip"
    assert response.content == page.charts().read_bytes()
    assert b"plotly.js" in response.content[:200]


@pytest.mark.parametrize("name", ["../app.py", "..%2Fapp.py", "%2e%2e/page.py", "nothing.js", "style.css/.."])
def test_no_other_file_is_reached(client, name):
    assert client.get(f"/static/{name}").status_code == 404


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.inline: list[str] = []
        self.named: set[str] = set()
        self.used: list[str] = []
        self._label = 0
        self.unlabelled: list[str] = []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids += [given["id"]] if "id" in given else []
        self.inline += [f"{tag} {name}" for name in given if name == "style" or name.startswith("on")]
        self.inline += [tag] if tag == "style" or (tag == "script" and "src" not in given) else []
        for attribute in ("aria-labelledby", "aria-describedby", "data-copy"):
            self.used += given.get(attribute, "").split()
        self._label += tag == "label"
        if tag in ("input", "select") and not self._label:
            self.unlabelled.append(given.get("id", tag))

    def handle_endtag(self, tag):
        self._label -= tag == "label"


def test_its_markup_keeps_to_the_content_policy_and_labels_every_field():
    parsed = _Page()
    parsed.feed((page.STATIC / "index.html").read_text(encoding="utf-8"))
    assert len(parsed.ids) == len(set(parsed.ids))
    assert not parsed.inline
    assert not parsed.unlabelled
    assert set(parsed.used) <= set(parsed.ids)


def test_the_scripts_name_only_elements_that_are_there():
    markup = (page.STATIC / "index.html").read_text(encoding="utf-8")
    for path in page.STATIC.glob("*.js"):
        for name in re.findall(r'\$\("([a-z-]+)"\)', path.read_text(encoding="utf-8")):
            assert f'id="{name}"' in markup, (Path(path).name, name)
