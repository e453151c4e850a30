"""A person at the page: the main path, numbers against the library, the keyboard, an error, an overload."""

import json
import math
import re
import subprocess
import time

import pytest

pytest.importorskip("selenium", reason="selenium is not installed: pip install 'unmask[dev]'")

from browser import DRAWN, SETTLED, by_id, prefer, rows, settle, shown, state, until, word
from live import listening, slowed, soon
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

import unmask
from unmask.serialize import compatibility_answer, map_answer
from unmask.web import Limits, create_app
from unmask.web.deadline import Deadline

SENTENCE = "The man is at the casino."
TEXT = "The [MASK] [MASK] at the casino."


@pytest.fixture(scope="module")
def mlm(server):
    app, _ = server
    return app.state.service.conditionals.models.loaded["tiny"].mlm


HERE = "#s=The+man+is+at+the+casino.&b=1,2&m=ag&v=product&k=auto"


def test_the_main_path_from_a_sentence_to_its_numbers(at, mlm):
    session = at()
    assert by_id(session, "words").text == "The man is playing in the park."
    field = by_id(session, "text")
    field.clear()
    field.send_keys(SENTENCE, Keys.ENTER)
    until(session, lambda: "Press a word" in by_id(session, "status").text)
    assert not by_id(session, "answer").is_displayed()
    settle(session, lambda: word(session, "man").click())
    settle(session, lambda: word(session, "is").click())

    joint, product = (unmask.fill(TEXT, mlm=mlm, method=m) for m in ("ag", "product"))
    assert rows(session, "fillings-a") == [(shown(math.exp(f.log_prob)), f.text) for f in joint.top(10)]
    assert rows(session, "fillings-b") == [(shown(math.exp(f.log_prob)), f.text) for f in product.top(10)]
    assert by_id(session, "entropy").text == f"{joint.entropy():.2f} nats"
    assert by_id(session, "information").text == f"{joint.mutual_information():.2f} nats"
    compared = compatibility_answer(joint, mlm)
    assert by_id(session, "compatibility").text == f"{compared['incompatibility']:.3f}"
    assert joint.top(1)[0].text in by_id(session, "status").text


def test_the_heat_map_holds_the_joint(at, mlm):
    session = at(HERE)
    until(session, lambda: session.execute_script(DRAWN))
    want = map_answer({m: unmask.fill(TEXT, mlm=mlm, method=m) for m in ("ag", "product")}, mlm, 12)
    ag, product = (want["methods"][m] for m in ("ag", "product"))
    kept = [  # words without weight in either construction are left out
        [i for i in range(12) if i < 4 or max(ag[side][i], product[side][i]) >= 0.004]
        for side in ("row_marginals", "column_marginals")
    ]
    z, first, second, at_right, above = session.execute_script(
        "const {data, layout} = document.getElementById('map-a');"
        "return [data[0].z, layout.yaxis.ticktext, layout.xaxis.ticktext, data[2].x, data[1].y]"
    )
    assert first == [want["rows"][i]["text"] for i in kept[0]]
    assert second == [want["columns"][j]["text"] for j in kept[1]]
    assert at_right == pytest.approx([ag["row_marginals"][i] for i in kept[0]])
    assert above == pytest.approx([ag["column_marginals"][j] for j in kept[1]])
    cells = [[ag["probabilities"][i][j] for j in kept[1]] for i in kept[0]]
    assert [[c**2 for c in row] for row in z] == [pytest.approx(row) for row in cells]
    gaps = session.execute_script("return document.getElementById('map-d').data[0].z")
    for row, i in zip(gaps, kept[0], strict=True):
        expected = [ag["probabilities"][i][j] - product["probabilities"][i][j] for j in kept[1]]
        assert [math.copysign(g * g, g) for g in row] == pytest.approx(expected, abs=1e-9)
    assert session.find_elements(By.CSS_SELECTOR, "#map-a .heatmaplayer image")


def test_fixing_a_word_moves_the_other_blank(at, mlm):
    session = at(HERE)
    before = by_id(session, "conditional").text
    chips = session.find_elements(By.CSS_SELECTOR, "#chips-1 .chip")
    chips[2].click()
    until(session, lambda: by_id(session, "conditional").text != before)
    blank, given = state(session)["g"].split(":")
    want = unmask.fill(TEXT, mlm=mlm).conditional(0, {1: int(given)})
    surface = mlm.vocabulary.surface
    assert blank == "1"
    assert rows(session, "conditional", ".t") == [
        (shown(math.exp(f.log_prob)), surface(f.ids[0])) for f in want.top(8)
    ]
    assert f"to {want.entropy():.2f} nats" in by_id(session, "conditional").text
    pressed = session.find_elements(By.CSS_SELECTOR, ".chip[aria-pressed='true']")
    assert [p.get_attribute("data-id") for p in pressed] == [given]


def test_a_click_on_the_map_fixes_a_word(at):
    session = at(HERE)
    until(session, lambda: session.execute_script(DRAWN))
    chips = session.find_elements(By.CSS_SELECTOR, "#chips-0 .chip")
    session.execute_script(
        "document.getElementById('map-a').emit('plotly_click', {points: [{curveNumber: 0, x: 0, y: 1}]})"
    )
    until(session, lambda: chips[1].get_attribute("aria-pressed") == "true")


def test_another_construction_needs_no_forward_pass(at, server, mlm):
    session = at(HERE)
    passes = server[0].state.service.conditionals.misses
    settle(session, lambda: Select(by_id(session, "method")).select_by_value("gibbs"))
    want = unmask.fill(TEXT, mlm=mlm, method="gibbs").top(1)[0]
    assert rows(session, "fillings-a")[0] == (shown(math.exp(want.log_prob)), want.text)
    assert by_id(session, "fillings-a-title").text == "gibbs"
    assert server[0].state.service.conditionals.misses == passes


def test_samples_are_sentences_with_both_blanks_filled(at):
    session = at(HERE)
    by_id(session, "draw").click()
    until(session, lambda: len(session.find_elements(By.CSS_SELECTOR, "#samples li")) == 10)
    for line in session.find_elements(By.CSS_SELECTOR, "#samples li"):
        assert re.fullmatch(r"The ?\S+ ?\S+ at the casino\.", line.text)
        assert len(line.find_elements(By.TAG_NAME, "mark")) >= 1


def test_a_link_restores_the_state(at):
    session = at(HERE)
    settle(session, lambda: Select(by_id(session, "method")).select_by_value("hcb"))
    settle(session, lambda: word(session, "casino").click())
    settle(session, lambda: word(session, "is").click())
    link, answers = by_id(session, "link").text, rows(session, "fillings-a")
    assert link == session.current_url
    session.get("about:blank")
    session.get(link)
    until(session, lambda: session.execute_script(SETTLED))
    assert Select(by_id(session, "method")).first_selected_option.text == "hcb"
    pressed = session.find_elements(By.CSS_SELECTOR, "#words [aria-pressed='true']")
    assert [p.text for p in pressed] == ["man", "casino"]
    assert rows(session, "fillings-a") == answers


def test_a_link_that_does_not_fit_this_model_is_mended(at):
    session = at(f"{HERE.replace('auto', 'many')}&g=0:99999999")
    until(session, lambda: session.execute_script(SETTLED))
    assert not by_id(session, "trouble").is_displayed()
    assert state(session)["k"] == by_id(session, "candidates").get_attribute("value") == "auto"
    blank, token = state(session)["g"].split(":")
    assert (blank, int(token) < 99999999) == ("0", True)
    assert "in the first blank" in by_id(session, "conditional").text


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        ([[0.4, 0.05], [0.012, 0.009]], [["40", "5.0"], ["1.2", ""]]),
        ([[0.004, 0.0001], [0.0019, 0.0003]], [["0.40", ""], ["0.19", ""]]),
    ],
)
def test_the_likeliest_cells_have_their_number_however_open_the_question(at, cells, numbers):
    session = at(HERE)
    until(session, lambda: session.execute_script(DRAWN))
    found = session.execute_async_script(
        "const [cells, done] = arguments;"
        "const tokens = [{id: 1, text: 'a'}, {id: 2, text: 'b'}];"
        "const part = {probabilities: cells, row_marginals: [0.5, 0.5], column_marginals: [0.5, 0.5]};"
        "const map = {rows: tokens, columns: tokens, methods: {ag: part}, blanks: [0, 1], names: ['x', 'y']};"
        "const options = {top: Math.max(...cells.flat()), given: {}, onPick() {}};"
        "const element = document.getElementById('map-a');"
        "import('/static/charts.js').then(({drawJoint}) => drawJoint(element, map, 'ag', options))"
        ".then(() => done(element.data[0].text), (error) => done(String(error)));",
        cells,
    )
    assert found == numbers


def test_the_calls_that_are_shown_do_the_same(at, mlm, settings):
    session = at(HERE)
    curl = by_id(session, "curl").text
    answered = subprocess.run(["bash", "-c", curl], capture_output=True, check=True, text=True)
    top = json.loads(answered.stdout)["fillings"][0]
    assert (shown(top["probability"]), top["text"]) == rows(session, "fillings-a")[0]
    python = by_id(session, "python").text
    python = python.replace('unmask.load("tiny")', f"unmask.load({settings().models['tiny']!r})")
    printed: list[str] = []
    exec(python, {"print": printed.append})
    assert printed[0].endswith(top["text"])
    assert len(printed) == 10


def test_the_keyboard_is_enough(at):
    session = at(HERE)
    session.execute_script("document.querySelector('#words button').focus()")

    def focused():
        return session.switch_to.active_element

    focused().send_keys(Keys.TAB)
    assert focused().text == "man"
    assert focused().get_attribute("aria-label") == "man, blanked"
    settle(session, lambda: focused().send_keys(Keys.SPACE))
    assert focused().text == "man"  # the focus stays where the person is
    assert focused().get_attribute("aria-pressed") == "false"
    assert len(session.find_elements(By.CSS_SELECTOR, "#words [aria-pressed='true']")) == 1
    assert not by_id(session, "maps").is_displayed()
    settle(session, lambda: focused().send_keys(Keys.ENTER))
    assert by_id(session, "maps").is_displayed()
    order = []
    for _ in range(60):
        focused().send_keys(Keys.TAB)
        order.append(focused().get_attribute("id") or focused().get_attribute("class") or focused().tag_name)
    for reached in ("text", "examples", "method", "beside", "candidates", "chip", "draw", "summary"):
        assert reached in order
    outline = session.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"


def test_a_screen_reader_is_told(at):
    session = at(HERE)
    assert by_id(session, "status").get_attribute("aria-live") == "polite"
    assert "Heat map of ag. Likeliest pairs:" in by_id(session, "map-a").get_attribute("aria-label")
    nameless = session.execute_script(
        "return [...document.querySelectorAll('button, select, input')].filter(e => e.checkVisibility() &&"
        "!e.textContent.trim() && !e.labels?.length && !e.ariaLabel).length"
    )
    assert nameless == 0
    by_id(session, "numbers-table").find_element(By.TAG_NAME, "summary").click()
    headers = session.find_elements(By.CSS_SELECTOR, "#table table:first-child tbody th[scope='row']")
    assert len(headers) >= 5


def test_an_error_is_told_and_can_be_mended(at):
    session = at("#s=" + "a+" * 80 + "casino.&b=80", settled=False)
    until(session, lambda: by_id(session, "trouble").is_displayed())
    assert "the model's window holds 64" in by_id(session, "error").text
    assert by_id(session, "trouble").get_attribute("role") == "alert"
    field = by_id(session, "text")
    field.clear()
    field.send_keys(TEXT, Keys.ENTER)
    until(session, lambda: session.execute_script(SETTLED))
    assert not by_id(session, "trouble").is_displayed()


def test_markup_in_a_sentence_stays_text(at):
    session = at("#s=%3Cimg+src=x+onerror=document.title='owned'%3E+man+is.&b=8")
    assert session.title == "unmask explorer"
    assert "<img src=x" in by_id(session, "fillings-a").text.replace(" ", "").replace("<imgsrc", "<img src")
    assert not session.find_elements(By.CSS_SELECTOR, "main img")


def test_nothing_breaks_the_content_policy_but_one_hint_of_plotlys(at):
    session = at(HERE)
    until(session, lambda: session.execute_script(DRAWN))
    errors = [e["message"] for e in session.get_log("browser") if e["level"] == "SEVERE"]
    # plotly tries how an image may be scaled by a style attribute; refused, it does without
    assert not [e for e in errors if not ("plotly.min.js" in e and "inline style" in e)]


def test_it_fits_a_phone_and_follows_the_dark(at):
    session = at(HERE)
    light = session.execute_script("return getComputedStyle(document.documentElement).backgroundColor")
    try:
        prefer(session, "dark")
        metrics = {"width": 375, "height": 800, "deviceScaleFactor": 1, "mobile": True}
        session.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        at(HERE)
        dark = session.execute_script("return getComputedStyle(document.documentElement).backgroundColor")
        assert dark != light
        assert session.execute_script("return document.documentElement.scrollWidth") <= 375
        boxes = [session.find_element(By.ID, name).rect for name in ("map-a", "map-b")]
        assert boxes[0]["y"] + boxes[0]["height"] <= boxes[1]["y"]
    finally:
        session.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        prefer(session, "light")


def test_a_token_is_asked_for_and_kept_for_the_session(session, settings):
    app = create_app(settings(token="open sesame"))
    with listening(app) as address:
        session.get(f"{address}/{HERE}")
        until(session, lambda: by_id(session, "token-form").is_displayed())
        by_id(session, "token").send_keys("open sesame", Keys.ENTER)
        until(session, lambda: session.execute_script(SETTLED))
        assert "$UNMASK_TOKEN" in by_id(session, "curl").text
        assert "sesame" not in session.current_url + by_id(session, "curl").text


def test_an_overload_is_told_and_the_page_tries_again(session, settings):
    app = create_app(settings(limits=Limits(workers=1, queue=4)))
    service = app.state.service
    slowed(service.conditionals.models.take("tiny", Deadline(60)).mlm, 0.001)
    with listening(app) as address:
        soon(lambda: service.ready, 30)
        held = Deadline(60)
        taken = [service.pool.submit(_hold, held) for _ in range(5)]  # the worker, and all of the queue
        soon(lambda: service.pool.busy == 1, 5)
        session.get(f"{address}/{HERE}")
        until(session, lambda: "busy" in by_id(session, "error").text)
        until(session, lambda: "Trying again in" in by_id(session, "status").text)
        held.cancel()
        until(session, lambda: session.execute_script(SETTLED))
        assert not by_id(session, "trouble").is_displayed()
        assert all(work.done() for work in taken)


def _hold(deadline):
    while True:
        deadline.check()
        time.sleep(0.02)
