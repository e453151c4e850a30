"""A person at the page with several blanks: fillings, marginals, the graph, maps of any two, two models."""

import json
import math
import subprocess

import pytest

pytest.importorskip("selenium", reason="selenium is not installed: pip install 'unmask[dev]'")

from browser import DRAWN, by_id, prefer, redrawn, rows, settle, shown, state, until, word
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

import unmask
from unmask.serialize import map_answer

SENTENCE = "The man is at the big casino."
TEXT = "The [MASK] [MASK] at the [MASK] [MASK]."
FOUR = "#s=The+man+is+at+the+big+casino.&b=1,2,5,6&n=tree&w=product&k=auto"
LONG = "#s=The+man+is+at+the+big+casino+and+the+dog+is+old.&b=0,1,2,3,4,5,6,7"


@pytest.fixture(scope="module")
def mlm(server):
    return server[0].state.service.conditionals.models.loaded["tiny"].mlm


@pytest.fixture(scope="module")
def tree(mlm):
    return unmask.fill(TEXT, mlm=mlm, method="tree")


def cards(session):
    return session.find_elements(By.CSS_SELECTOR, "#blanks .card")


def words_of(card, part=".t"):
    return [found.text for found in card.find_elements(By.CSS_SELECTOR, f".token {part}")]


def top(mlm, distribution, count=6):
    return [mlm.vocabulary.surface(f.ids[0]) for f in distribution.top(count)]


def test_words_are_blanked_one_after_the_other(at, mlm, tree):
    session = at("#s=The+man+is+at+the+big+casino.&b=1")
    for text, blanks in (("is", 2), ("big", 3), ("casino", 4)):
        settle(session, lambda text=text: word(session, text).click())
        pressed = session.find_elements(By.CSS_SELECTOR, "#words [aria-pressed='true']")
        assert len(pressed) == blanks
        assert by_id(session, "blanks-section").is_displayed() == (blanks > 2)
        assert by_id(session, "graph-box").is_displayed() == (blanks > 2)
        assert by_id(session, "given").is_displayed() == (blanks == 2)
    assert rows(session, "fillings-a") == [(shown(math.exp(f.log_prob)), f.text) for f in tree.top(10)]
    product = unmask.fill(TEXT, mlm=mlm, method="product")
    assert rows(session, "fillings-b") == [(shown(math.exp(f.log_prob)), f.text) for f in product.top(10)]
    first = session.find_element(By.CSS_SELECTOR, "#fillings-a li")
    assert len({mark.get_attribute("class") for mark in first.find_elements(By.TAG_NAME, "mark")}) == 4
    assert by_id(session, "entropy").text == f"{tree.entropy():.2f} nats"
    assert by_id(session, "information").text.endswith(" nats")
    settle(session, lambda: word(session, "big").click())
    settle(session, lambda: word(session, "casino").click())
    assert not by_id(session, "blanks-section").is_displayed()
    assert by_id(session, "fillings-a-title").text == "ag"  # two blanks have their own method


def test_every_blank_has_its_marginal(at, mlm, tree):
    session = at(FOUR)
    found = cards(session)
    assert len(found) == 4
    for blank, card in enumerate(found):
        marginal = tree.marginal(blank)
        assert words_of(card) == top(mlm, marginal)
        assert words_of(card, ".p") == [shown(math.exp(f.log_prob)) for f in marginal.top(6)]
        assert card.find_element(By.CLASS_NAME, "open").text == f"{marginal.entropy():.2f} nats"
    assert [card.find_element(By.TAG_NAME, "h3").text for card in found] == [
        "1 man", "2 is", "3 big", "4 casino",
    ]  # fmt: skip


def test_fixing_words_moves_the_others_and_pressing_again_frees_them(at, mlm, tree):
    session = at(FOUR)
    before = [words_of(card, ".p") for card in cards(session)]
    ids = [tree.marginal(0).top(2)[1].ids[0], tree.marginal(3).top(1)[0].ids[0]]
    for blank, token in ((0, ids[0]), (3, ids[1])):
        session.find_element(By.CSS_SELECTOR, f"[data-token='{blank}:{token}']").click()
        held = f"[data-token='{blank}:{token}'][aria-pressed='true']"
        until(session, lambda held=held: session.find_elements(By.CSS_SELECTOR, held))
    assert state(session)["g"] == f"0:{ids[0]},3:{ids[1]}"
    want = tree.conditional(1, {0: ids[0], 3: ids[1]})
    assert words_of(cards(session)[1]) == top(mlm, want)
    assert words_of(cards(session)[1], ".p") == [shown(math.exp(f.log_prob)) for f in want.top(6)]
    assert cards(session)[1].find_element(By.CLASS_NAME, "open").text.endswith(f"→ {want.entropy():.2f} nats")
    assert cards(session)[0].find_element(By.CLASS_NAME, "open").text == "fixed"
    for blank, token in ((0, ids[0]), (3, ids[1])):
        session.find_element(By.CSS_SELECTOR, f"[data-token='{blank}:{token}']").click()
        held = f"#blanks [data-token^='{blank}:'][aria-pressed='true']"
        until(session, lambda held=held: not session.find_elements(By.CSS_SELECTOR, held))
    assert [words_of(card, ".p") for card in cards(session)] == before
    assert "g" not in state(session)


def axis_titles(session):
    return session.execute_script(
        "const {layout} = document.getElementById('map-a');"
        "return [layout.yaxis.title.text, layout.xaxis.title.text]"
    )


def test_the_graph_shows_what_the_blanks_tell_each_other(at, tree):
    session = at(FOUR)
    until(session, lambda: session.execute_script(DRAWN))
    ties = session.find_elements(By.CSS_SELECTOR, "#graph .tie.joined")
    assert {tie.get_attribute("data-pair") for tie in ties} == {
        "-".join(map(str, sorted(edge))) for edge in tree.edges
    }
    for tie in ties:
        i, j = map(int, tie.get_attribute("data-pair").split("-"))
        assert f"{float(tree.information[i, j]):.2f} nats" in tie.get_attribute("aria-label")
    strongest = divmod(int(tree.information.triu().argmax()), 4)
    pressed = session.find_elements(By.CSS_SELECTOR, "#graph .tie[aria-pressed='true']")
    assert [p.get_attribute("data-pair") for p in pressed] == ["{}-{}".format(*strongest)]
    assert state(session)["p"] == "{}-{}".format(*strongest)
    by_id(session, "numbers-table").find_element(By.TAG_NAME, "summary").click()
    table = session.find_elements(By.CSS_SELECTOR, "#table table")[-1]
    cells = [cell.text for cell in table.find_elements(By.CSS_SELECTOR, "tbody tr:first-child td")]
    assert cells == ["", *(f"{float(x):.3f}" for x in tree.information[0, 1:])]


def choose(session, side, blank):
    """Choose a blank for the rows or the columns of the map, unless it is there already."""
    if state(session)["p"].split("-")[side] != str(blank):
        redrawn(session, lambda: Select(by_id(session, f"pair-{side}")).select_by_value(str(blank)))


def test_any_two_blanks_have_their_map(at, mlm, tree):
    session = at(FOUR)
    until(session, lambda: session.execute_script(DRAWN))
    choose(session, 0, 3)
    choose(session, 1, 0)
    assert state(session)["p"] == "3-0"
    assert axis_titles(session) == ["blank 4, casino", "blank 1, man"]
    product = unmask.fill(TEXT, mlm=mlm, method="product")
    want = map_answer({"tree": tree, "product": product}, mlm, 12, (3, 0))
    z, first, second = session.execute_script(
        "const {data, layout} = document.getElementById('map-a');"
        "return [data[0].z, layout.yaxis.ticktext, layout.xaxis.ticktext]"
    )
    at_row, at_column = ([t["text"] for t in want[side]] for side in ("rows", "columns"))
    for i, row in enumerate(first):
        for j, column in enumerate(second):
            cell = want["methods"]["tree"]["probabilities"][at_row.index(row)][at_column.index(column)]
            assert z[i][j] ** 2 == pytest.approx(cell, rel=1e-4)
    assert by_id(session, "map-d").is_displayed()
    choose(session, 1, 3)  # the blank of the rows: they change places
    assert state(session)["p"] == "0-3"
    unlike = session.find_element(By.CSS_SELECTOR, "#graph .tie:not([aria-pressed='true'])")
    name = unlike.get_attribute("data-pair")
    redrawn(session, lambda: session.execute_script("arguments[0].dispatchEvent(new Event('click'))", unlike))
    assert state(session)["p"] == name


def test_the_keyboard_is_enough_for_four_blanks(at):
    session = at(FOUR)
    until(session, lambda: session.execute_script(DRAWN))

    def focused():
        return session.switch_to.active_element

    session.execute_script("document.querySelector('#blanks .token').focus()")
    token = focused().get_attribute("data-token")
    focused().send_keys(Keys.SPACE)
    held = f"[data-token='{token}'][aria-pressed='true']"
    until(session, lambda: session.find_elements(By.CSS_SELECTOR, held))
    assert focused().get_attribute("data-token") == token  # the focus stays where the person is
    reached = set()
    for _ in range(40):
        focused().send_keys(Keys.TAB)
        reached.add(
            focused().get_attribute("data-pair") or focused().get_attribute("id") or focused().tag_name
        )
    assert {"pair-0", "pair-1", "summary", "draw"} <= reached
    others = sorted(
        name for name in reached if "-" in name and name[0].isdigit() and name != state(session)["p"]
    )
    assert others
    tie = session.find_element(By.CSS_SELECTOR, f"#graph [data-pair='{others[0]}']")
    session.execute_script("arguments[0].focus()", tie)
    redrawn(session, lambda: focused().send_keys(Keys.ENTER))
    assert state(session)["p"] == others[0]
    assert focused().get_attribute("data-pair") == others[0]
    session.execute_script("document.querySelector('[data-word=\"5\"]').focus()")
    settle(session, lambda: focused().send_keys(Keys.ENTER))
    assert len(cards(session)) == 3


def test_eight_blanks_are_the_most(at):
    session = at(LONG)
    assert len(cards(session)) == 8
    word(session, "old").click()
    until(session, lambda: "8 blanks at the most" in by_id(session, "status").text)
    assert len(session.find_elements(By.CSS_SELECTOR, "#words [aria-pressed='true']")) == 8
    settle(session, lambda: word(session, "big").click())
    assert len(cards(session)) == 7


@pytest.mark.parametrize("method", ["chain", "l2r", "product"])
def test_other_methods_fill_and_the_tree_has_the_graph(at, mlm, method):
    session = at(FOUR.replace("n=tree", f"n={method}").replace("w=product", "w=tree"))
    joint = unmask.fill(TEXT, mlm=mlm, method=method)
    assert rows(session, "fillings-a") == [(shown(math.exp(f.log_prob)), f.text) for f in joint.top(10)]
    assert (by_id(session, "entropy").text == "–") == (method != "product")
    assert len(session.find_elements(By.CSS_SELECTOR, "#graph .tie.joined")) == 3
    assert ("By tree" in by_id(session, "blanks-section").text) == (method != "product")
    by_id(session, "draw").click()
    until(session, lambda: len(session.find_elements(By.CSS_SELECTOR, "#samples li")) == 10)


@pytest.mark.parametrize("fragment", [FOUR, "#s=The+man+is+at+the+big+casino.&b=1,2", "#s=The+man+is.&b=1"])
def test_two_models_stand_side_by_side(at, server, fragment):
    session = at(fragment)
    settle(session, lambda: Select(by_id(session, "beside")).select_by_value("model:other"))
    titles = [by_id(session, f"fillings-{side}-title").text for side in "ab"]
    assert titles[0].endswith(", tiny")
    assert titles[1].endswith(", other")
    blanked = session.execute_script(
        "return JSON.parse(document.getElementById('curl').textContent.match(/'(\\{.*)'/)[1])"
    )
    other = server[0].state.service.conditionals.models.loaded["other"].mlm
    want = unmask.fill(blanked["text"], mlm=other, method=blanked["method"]).top(1)[0]
    assert rows(session, "fillings-b")[0][0] == shown(math.exp(want.log_prob))
    if "b=1,2" in fragment:
        until(session, lambda: session.execute_script(DRAWN))
        assert by_id(session, "map-b").is_displayed()
        assert not by_id(session, "map-d").is_displayed()  # the tokens of two models are not the same


def test_the_calls_that_are_shown_do_the_same(at, settings):
    session = at(FOUR.replace("k=auto", "k=32"))
    curl = by_id(session, "curl").text
    answered = subprocess.run(["bash", "-c", curl], capture_output=True, check=True, text=True)
    found = json.loads(answered.stdout)
    assert (found["method"], found["candidates"]) == ("tree", 32)
    assert (shown(found["fillings"][0]["probability"]), found["fillings"][0]["text"]) == rows(
        session, "fillings-a"
    )[0]
    python = by_id(session, "python").text
    python = python.replace('unmask.load("tiny")', f"unmask.load({settings().models['tiny']!r})")
    printed: list[str] = []
    exec(python, {"print": printed.append})
    assert [line.split("  ", 1)[1] for line in printed] == [text for _, text in rows(session, "fillings-a")]


def test_a_link_restores_the_blanks_the_words_and_the_pair(at, tree):
    token = tree.marginal(2).top(3)[2].ids[0]
    session = at(f"{FOUR}&p=3-1&g=2:{token}")
    until(session, lambda: session.execute_script(DRAWN))
    assert axis_titles(session) == ["blank 4, casino", "blank 2, is"]
    held = session.find_elements(By.CSS_SELECTOR, "#blanks [aria-pressed='true']")
    assert [h.get_attribute("data-token") for h in held] == [f"2:{token}"]
    mended = at(f"{FOUR.replace('n=tree', 'n=forest')}&p=3-9&g=2:99999999,7:1")
    assert not by_id(mended, "trouble").is_displayed()
    assert "g" not in state(mended)
    assert by_id(mended, "fillings-a-title").text == "tree"


def test_four_and_eight_blanks_fit_a_phone(at):
    session = at(FOUR)
    try:
        prefer(session, "dark")
        metrics = {"width": 375, "height": 800, "deviceScaleFactor": 1, "mobile": True}
        session.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        for fragment in (FOUR, LONG):
            at(fragment)
            until(session, lambda: session.execute_script(DRAWN))
            assert session.execute_script("return document.documentElement.scrollWidth") <= 375
            for element in (*cards(session), by_id(session, "graph")):
                assert element.rect["x"] + element.rect["width"] <= 375
            sizes = [t.rect["height"] for t in session.find_elements(By.CSS_SELECTOR, "#blanks .token")]
            assert min(sizes) >= 44  # a finger's width
        overlapping = session.execute_script(
            "const names = [...document.querySelectorAll('#graph .name')];"
            "const boxes = names.map((name) => name.getBoundingClientRect());"
            "return boxes.slice(1).filter((box, i) => box.left < boxes[i].right).length"
        )
        assert overlapping == 0
    finally:
        session.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        prefer(session, "light")
