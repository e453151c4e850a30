"""Whatever can't be answered gets its own status and one clear line, and never a traceback."""

import pytest
from fastapi.testclient import TestClient

from tiny import save_causal
from unmask.web import Limits, create_app

TEXT = "The [MASK] [MASK] at the casino."
THREE = "The [MASK] [MASK] at the [MASK]."


def refused(client: TestClient, status: int, path: str = "/v1/fill", **body) -> str:
    response = client.post(path, json=body)
    assert response.status_code == status, response.text
    assert set(response.json()) == {"error"}
    return response.json()["error"]


class TestUsageErrors:
    @pytest.mark.parametrize(
        ("path", "body", "line"),
        [
            ("fill", {"text": "Nothing here."}, "the text has no blank"),
            ("compare", {"text": THREE}, "the text has 3 blanks"),
            ("compatibility", {"text": THREE}, "the text has 3 blanks"),
            ("compatibility", {"text": TEXT, "method": "tree"}, "not tree"),
            ("map", {"text": THREE}, "use tree"),
            ("map", {"text": TEXT, "blanks": [0, 2]}, "there is no blank 2"),
            ("marginals", {"text": TEXT, "given": {"2": "man"}}, "there is no blank 2"),
            ("marginals", {"text": TEXT, "given": {"0": "zebra"}}, "'zebra' is"),
            ("conditional", {"text": THREE, "method": "tree", "given": "man"}, "as blank"),
            ("conditional", {"text": TEXT, "given": "man", "blank": 0}, "of other blanks"),
            ("conditional", {"text": TEXT, "given": "man", "given_blank": 7}, "of other blanks"),
            ("fill", {"text": THREE, "candidates": "all"}, "too many combinations"),
            ("fill", {"text": TEXT, "candidates": 0}, "needs a pair head"),
            ("fill", {"text": [TEXT, "Nothing here."]}, "text 1: the text has no blank"),
            ("score", {"text": ["The {man}.", "The man."]}, "text 1: "),
            ("fill", {"text": TEXT, "targets": ["\u2603"]}, "can't spell '\u2603'"),
            ("fill", {"text": [TEXT, THREE], "targets": [["man"], ["is"]]}, "one for each of 3"),
            ("fill", {"text": TEXT, "targets": ["man", "MAN"]}, "the same to this model"),
            ("fill", {"text": "a " * 90 + "[MASK]"}, "the model's window holds 64"),
            ("fill", {"text": TEXT, "method": "ag", "options": {"pivot": "man"}}, "ag has no option 'pivot'"),
            ("score", {"text": TEXT}, "nothing is marked to be scored"),
            ("score", {"text": "The {man"}, "a brace opens and does not close"),
            ("conditional", {"text": TEXT, "given": "zebra"}, "'zebra' is"),
            ("fill", {"text": TEXT, "include": ["man", "zebra"]}, "'zebra' is"),
            ("compare", {"text": TEXT, "include": [999999]}, "999999 is no token of this model"),
            ("conditional", {"text": TEXT, "given": 999999}, "999999 is no token of this model"),
            ("conditional", {"text": "The [MASK].", "given": "man"}, "request is about two blanks"),
            ("map", {"text": "The [MASK]."}, "request is about two blanks"),
            ("compare", {"text": "The [MASK]."}, "request is about two blanks"),
            ("fill", {"text": TEXT, "candidates": 90}, "expected from 1 to 78 candidates"),
        ],
    )
    def test_it_is_400_with_the_librarys_line(self, client, path, body, line):
        assert line in refused(client, 400, f"/v1/{path}", **body)

    def test_half_a_character_is_refused(self, client):
        body = b'{"text": "\\ud800 [MASK]"}'
        response = client.post("/v1/fill", content=body, headers={"Content-Type": "application/json"})
        assert response.status_code in (400, 422)
        assert "error" in response.json()


class TestFields:
    @pytest.mark.parametrize(
        ("body", "line"),
        [
            ({}, "text: field required"),
            ({"text": ""}, "text: expected one text, as a string"),
            ({"text": []}, "or a list of at least one, got []"),
            ({"text": [TEXT, ""]}, "or a list of at least one"),
            ({"text": [TEXT, 3]}, "or a list of at least one"),
            ({"text": [[TEXT]]}, "or a list of at least one"),
            ({"text": TEXT, "targets": []}, "targets: expected a list of different words"),
            ({"text": TEXT, "targets": [["man"], []]}, "targets: expected a list of different words"),
            ({"text": TEXT, "targets": ["man", "man"]}, "targets: expected a list of different words"),
            ({"text": TEXT, "targets": ["man", 7]}, "targets: expected a list of different words"),
            ({"text": TEXT, "tpo": 3}, "tpo: extra inputs are not permitted"),
            ({"text": TEXT, "top": 0}, "top: input should be greater than or equal to 1"),
            ({"text": TEXT, "top": "3"}, "top: input should be a valid integer"),
            ({"text": TEXT, "method": "bert"}, "method: expected 'product', 'mrf-logit'"),
            ({"text": TEXT, "truncate": 1}, "truncate: expected True or False, got 1"),
            (
                {"text": TEXT, "include": "man"},
                "include: expected a list of tokens",
            ),
            (
                {"text": TEXT, "include": [""]},
                "include: expected a list of tokens, as strings or ids, got ['']",
            ),
            (
                {"text": TEXT, "candidates": "abc"},
                "candidates: expected a whole number from 0 on, or 'auto' or 'all', got 'abc'",
            ),
            ({"text": TEXT, "seed": -1}, "seed: expected a whole number from 0 to 2^63 - 1, got -1"),
            (
                {"text": TEXT, "options": {"rounds": 10**9}},
                "options.rounds: expected a whole",
            ),
            (
                {"text": TEXT, "options": {"tolerance": 1e-300}},
                "options.tolerance: expected a number",
            ),
        ],
    )
    def test_a_field_of_the_wrong_kind_is_named(self, client, body, line):
        assert line in refused(client, 422, **body)

    @pytest.mark.parametrize(
        ("path", "body", "line"),
        [
            ("conditional", {"text": [TEXT], "given": "man"}, "text: expected one text"),
            ("conditional", {"text": TEXT, "given": "man", "given_blank": -1}, "given_blank:"),
            ("marginals", {"text": TEXT, "given": {"first": "man"}}, "given: expected tokens by the numbers"),
            ("marginals", {"text": TEXT, "given": ["man"]}, "given: expected tokens by the numbers"),
            ("map", {"text": TEXT, "blanks": [1, 1]}, "blanks: expected the numbers of two different"),
            ("map", {"text": TEXT, "blanks": [0]}, "blanks: expected the numbers of two different"),
            ("map", {"text": TEXT, "methods": ["forest"]}, "methods"),
            ("fill", {"text": THREE, "options": {"block": 3}}, "options.block"),
            ("fill", {"text": THREE, "options": {"beam": 65}}, "options.beam"),
        ],
    )
    def test_so_is_one_of_another_request(self, client, path, body, line):
        assert line in refused(client, 422, f"/v1/{path}", **body)

    def test_what_is_no_json_is_400(self, client):
        response = client.post("/v1/fill", content=b"{oh", headers={"Content-Type": "application/json"})
        assert response.status_code == 400
        assert "no JSON" in response.json()["error"]

    def test_a_form_is_not_taken_for_json(self, client):
        content = b'{"text": "The [MASK]."}'
        response = client.post("/v1/fill", content=content, headers={"Content-Type": "text/plain"})
        assert response.status_code == 422


class TestLimits:
    @pytest.mark.parametrize(
        ("path", "body", "line"),
        [
            ("fill", {"text": "a" * 2001}, "2,001 characters, this server takes 2,000"),
            (
                "fill",
                {"text": TEXT, "candidates": 101},
                "candidates: 101 were asked for, and this server gives 100",
            ),
            ("fill", {"text": TEXT, "support": 1001}, "support: 1,001"),
            (
                "fill",
                {"text": TEXT, "include": ["man"] * 65},
                "include: 65 tokens were given, and this server takes 64: give fewer",
            ),
            ("fill", {"text": TEXT, "top": 201}, "top: 201"),
            ("sample", {"text": TEXT, "number": 1001}, "number: 1,001"),
            ("map", {"text": TEXT, "size": 65}, "size: 65"),
            ("fill", {"text": "___ " * 17}, "17 blanks, and this server takes 16"),
            ("score", {"text": "{" + "man " * 17 + "}"}, "17 blanks, and this server takes 16"),
            ("fill", {"text": [TEXT, "___ " * 17]}, "text 1: the text has 17 blanks"),
            ("fill", {"text": [TEXT] * 65}, "65 texts were given, and this server takes 64"),
            ("sample", {"text": [TEXT] * 65}, "65 texts were given, and this server takes 64"),
            ("fill", {"text": [TEXT, "a" * 2001]}, "2,001 characters"),
            ("marginals", {"text": TEXT, "top": 201}, "top: 201"),
        ],
    )
    def test_each_has_a_line_of_its_own(self, client, path, body, line):
        assert line in refused(client, 422, f"/v1/{path}", **body)

    def test_all_candidates_are_held_to_the_limit_too(self, settings):
        with TestClient(create_app(settings(limits=Limits(candidates=40)))) as client:
            line = refused(client, 422, text=TEXT, candidates="all")
            assert "all candidates are 78 here, and this server asks about 40" in line
            assert client.post("/v1/fill", json={"text": TEXT, "candidates": "all", "support": 40}).is_success

    def test_tables_beyond_the_memory_budget_are_refused(self, settings):
        with TestClient(create_app(settings(memory="30KB"))) as client:
            assert "memory budget" in refused(client, 422, text=TEXT, support="all")


class TestModels:
    @pytest.mark.parametrize("name", ["gpt", "", "../tiny", "/etc/passwd", "english"])
    def test_only_the_configured_ones_are_found(self, client, name):
        status = 200 if name == "" else 404
        response = client.post("/v1/fill", json={"text": TEXT, "model": name})
        assert response.status_code == status

    def test_a_directory_that_exists_is_no_name(self, client, settings):
        line = refused(client, 404, text=TEXT, model=settings().models["tiny"])
        assert line == "there is no model of that name here: expected one of tiny, other"

    def test_one_that_cant_be_loaded_keeps_its_directory_to_itself(self, settings, tmp_path):
        models = {"tiny": settings().models["tiny"], "broken": str(tmp_path / "secret")}
        with TestClient(create_app(settings(models=models))) as client:
            line = refused(client, 422, text=TEXT, model="broken")
            assert "the model 'broken' can't be loaded" in line
            assert "secret" not in line

    def test_a_causal_model_has_no_joint(self, settings, tmp_path):
        models = {"tiny": settings().models["tiny"], "causal": str(save_causal(tmp_path))}
        with TestClient(create_app(settings(models=models))) as client:
            assert "can't be loaded" in refused(client, 422, text=TEXT, model="causal")


def test_an_unknown_path_and_method_are_told_in_json(client):
    assert client.get("/v2/fill").status_code == 404
    assert "error" in client.get("/v2/fill").json()
    assert client.get("/v1/fill").status_code == 405
    assert "error" in client.get("/v1/fill").json()


def test_an_error_that_nobody_foresaw_tells_nothing_of_the_inside(client, service, monkeypatch, caplog):
    monkeypatch.setattr(service.conditionals, "use", lambda *_: 1 / 0)
    line = refused(client, 500, text="A [MASK] of its own.")
    assert "log" in line
    assert "division" not in line
    assert "division by zero" in caplog.text


def test_a_field_of_a_strange_name_is_told_in_one_line_of_some_length(client):
    answer = client.post("/v1/fill", json={"text": "The [MASK]", "x\n\x1b" + "[" * 5000: 1})
    assert answer.status_code == 422
    assert len(answer.json()["error"]) < 2000
    assert answer.json()["error"].isprintable()
