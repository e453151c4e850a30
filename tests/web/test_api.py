"""What comes back over HTTP is what the library says, in the JSON of the command line."""

import json
import math

import pytest
import torch
from fastapi.testclient import TestClient
from live import agree
from torch.distributions import kl_divergence

import unmask
from unmask import serialize as answers
from unmask.cli import main
from unmask.web import response_schemas as responses
from unmask.web.service import Service

TEXT = "The [MASK] [MASK] at the casino."
BRACED = "The {man} {is} at the casino."
ONE = "The [MASK] is at the casino."


def asked(client: TestClient, name: str, **body):
    response = client.post(f"/v1/{name}", json=body)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.fixture
def mlm(client: TestClient, service: Service) -> unmask.MaskedLM:
    asked(client, "fill", text=ONE)
    return service.conditionals.models.loaded["tiny"].mlm


def command_line(argv: list[str], capsys, monkeypatch) -> dict:
    monkeypatch.setattr("sys.argv", ["unmask", *argv])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    return json.loads(capsys.readouterr().out)


class TestAnswers:
    @pytest.mark.parametrize("method", sorted(unmask.CONSTRUCTIONS))
    def test_fill_is_the_librarys(self, client, mlm, method):
        got = asked(client, "fill", text=TEXT, method=method, top=7)
        assert agree(got, answers.fill_answer(unmask.fill(TEXT, mlm=mlm, method=method), mlm, 7))

    @pytest.mark.parametrize("text", [TEXT, ONE])
    def test_settings_reach_the_library(self, client, mlm, text):
        given = {"candidates": 20, "completion": "plain", "support": 50, "seed": 3}
        got = asked(client, "fill", text=text, method="gibbs", **given)
        assert agree(got, answers.fill_answer(unmask.fill(text, mlm=mlm, method="gibbs", **given), mlm, 10))

    @pytest.mark.parametrize("text", [TEXT, ONE])
    def test_named_tokens_are_told_apart_however_unlikely(self, client, mlm, text):
        few = {"candidates": 5, "support": 10}
        rare = [f.tokens[0] for f in unmask.fill(ONE, mlm=mlm).top(78)[-2:]]
        got = asked(client, "fill", text=text, include=rare, top=200, **few)
        joint = unmask.fill(text, mlm=mlm, include=rare, **few)
        assert agree(got, answers.fill_answer(joint, mlm, 200))
        shown = {token for f in got["fillings"] for token in f["tokens"]}
        without = asked(client, "fill", text=text, top=200, **few)
        assert set(rare) <= shown
        assert not set(rare) <= {token for f in without["fillings"] for token in f["tokens"]}

    def test_options_reach_the_construction(self, client, mlm):
        got = asked(client, "fill", text=TEXT, method="hcb", options={"pivot": "man", "order": "ba"})
        joint = unmask.fill(TEXT, mlm=mlm, method="hcb", pivot="man", order="ba")
        assert agree(got, answers.fill_answer(joint, mlm, 10))

    def test_score_is_the_librarys(self, client, mlm):
        got = asked(client, "score", text=BRACED, method="mrf-prob")
        assert agree(got, answers.score_answer(unmask.score(BRACED, mlm=mlm, method="mrf-prob"), mlm))

    def test_samples_are_the_librarys_for_a_seed(self, client, mlm):
        want = answers.sample_answer(unmask.fill(TEXT, mlm=mlm, seed=5), mlm, 20, 5)
        assert agree(asked(client, "sample", text=TEXT, number=20, seed=5), want)

    def test_another_sampling_seed_needs_no_forward_pass(self, client, mlm, service):
        before = asked(client, "sample", text=TEXT, candidates=30, number=20, sampling_seed=1)
        passes = service.conditionals.misses
        after = asked(client, "sample", text=TEXT, candidates=30, number=20, sampling_seed=2)
        assert service.conditionals.misses == passes
        assert before["samples"] != after["samples"]

    def test_compare_is_the_librarys(self, client, mlm):
        got = asked(client, "compare", text=TEXT, top=2)
        assert agree(got, answers.compare_answer(unmask.compare(TEXT, mlm=mlm), mlm, 2))

    @pytest.mark.parametrize("command", ["fill", "sample", "compare"])
    def test_it_is_the_json_of_the_command_line(self, client, settings, command, capsys, monkeypatch):
        source = settings().models["tiny"]
        want = command_line([command, TEXT, "--model", source, "--json"], capsys, monkeypatch)
        assert agree({**asked(client, command, text=TEXT), "model": source}, want)

    def test_the_model_that_is_named_answers(self, client, service):
        got = asked(client, "fill", text=TEXT, model="other")
        mlm = service.conditionals.models.loaded["other"].mlm
        assert agree(got, answers.fill_answer(unmask.fill(TEXT, mlm=mlm), mlm, 10))
        assert got["model"] == "other"


class TestConditional:
    @pytest.mark.parametrize("given_blank", [0, 1])
    @pytest.mark.parametrize("method", ["ag", "product", "l2r"])
    def test_it_is_the_joints(self, client, mlm, method, given_blank):
        got = asked(client, "conditional", text=TEXT, method=method, given="man", given_blank=given_blank)
        joint = unmask.fill(TEXT, mlm=mlm, method=method)
        want = joint.conditional(1 - given_blank, {given_blank: "man"})
        assert [t["id"] for t in got["tokens"]] == [f.ids[0] for f in want.top(10)]
        for token in got["tokens"]:
            assert token["probability"] == pytest.approx(want.log_prob(token["id"]).exp().item())
            alone = joint.marginal(1 - given_blank).log_prob(token["id"]).exp().item()
            assert token["marginal_probability"] == pytest.approx(alone)
        assert got["given"]["token"] == "man"
        assert got["entropy"] == pytest.approx(float(want.entropy()))
        assert got["information"] == pytest.approx(
            float(kl_divergence(want, joint.marginal(1 - given_blank))), abs=1e-9
        )

    def test_the_models_own_conditional_stands_beside_it(self, client, mlm):
        filled = asked(client, "fill", text="The man [MASK] at the casino.", top=78)
        own = {f["ids"][0]: f["probability"] for f in filled["fillings"]}
        for token in asked(client, "conditional", text=TEXT, given="man", top=78)["tokens"]:
            assert token["model_probability"] == pytest.approx(own[token["id"]], rel=1e-4)

    def test_l2r_keeps_it(self, client):
        for token in asked(client, "conditional", text=TEXT, method="l2r", given="man")["tokens"]:
            assert token["probability"] == pytest.approx(token["model_probability"], rel=1e-4)

    def test_a_token_may_be_given_by_its_id(self, client):
        by_name = asked(client, "conditional", text=TEXT, given="man")
        by_id = asked(client, "conditional", text=TEXT, given=by_name["given"]["id"])
        assert by_id == by_name


class TestMap:
    def test_cells_and_sides_are_the_joints(self, client, mlm):
        got = asked(client, "map", text=TEXT, methods=["ag", "product"], size=5)
        for method, part in got["methods"].items():
            joint = unmask.fill(TEXT, mlm=mlm, method=method)
            for i, row in enumerate(got["rows"]):
                marginal = joint.marginal(0).log_prob(row["id"]).exp().item()
                assert part["row_marginals"][i] == pytest.approx(marginal)
                for j, column in enumerate(got["columns"]):
                    want = math.exp(joint.log_prob([row["id"], column["id"]]))
                    assert part["probabilities"][i][j] == pytest.approx(want)
            assert part["mass_shown"] == pytest.approx(sum(map(sum, part["probabilities"])))

    def test_all_tokens_hold_all_of_the_mass(self, client):
        got = asked(client, "map", text=TEXT, methods=["gibbs"], support=60, size=64)
        part = got["methods"]["gibbs"]
        assert part["mass_shown"] == pytest.approx(1)
        sums = torch.tensor(part["probabilities"])
        assert torch.allclose(sums.sum(1), torch.tensor(part["row_marginals"]), atol=1e-6)
        assert torch.allclose(sums.sum(0), torch.tensor(part["column_marginals"]), atol=1e-6)

    def test_the_likeliest_tokens_are_shown_likeliest_first(self, client, mlm):
        got = asked(client, "map", text=TEXT, size=6)
        want = unmask.fill(TEXT, mlm=mlm).marginal(1).top(6)
        assert [t["id"] for t in got["columns"]] == [f.ids[0] for f in want]


def test_compatibility_agrees_with_compare(client):
    got = asked(client, "compatibility", text=TEXT, method="gibbs")
    compared = asked(client, "compare", text=TEXT)
    assert got["incompatibility"] == pytest.approx(compared["incompatibility"])
    assert got["average_kl"] == pytest.approx(compared["methods"]["gibbs"]["average_kl"])


class TestReuse:
    def test_an_identical_request_is_answered_from_the_cache(self, client, service):
        first = client.post("/v1/fill", json={"text": "A [MASK] [MASK]."})
        found = service.metrics.answers_found._value.get()
        assert client.post("/v1/fill", json={"text": "A [MASK] [MASK].", "top": 10}).content == first.content
        assert service.metrics.answers_found._value.get() == found + 1

    def test_further_requests_about_a_text_need_no_forward_pass(self, client, service):
        text = "The old [MASK] [MASK] at the bank."
        asked(client, "fill", text=text)
        passes = service.conditionals.misses
        for method in unmask.CONSTRUCTIONS:
            asked(client, "fill", text=text, method=method)
        asked(client, "map", text=text, methods=["ag", "hcb"])
        asked(client, "conditional", text=text, given="man")
        asked(client, "compatibility", text=text)
        assert service.conditionals.misses == passes

    def test_other_settings_ask_it_again(self, client, service):
        text = "The red [MASK] [MASK] at the bank."
        asked(client, "fill", text=text)
        passes = service.conditionals.misses
        asked(client, "fill", text=text, candidates=10)
        asked(client, "fill", text=text, support=20)
        assert service.conditionals.misses == passes + 2


class TestEvents:
    def events(self, response):
        for part in response.text.strip().split("\n\n"):
            kind, data = part.split("\n")
            yield kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))

    def ask(self, client, **body):
        response = client.post("/v1/fill", json=body, headers={"Accept": "text/event-stream"})
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        return list(self.events(response))

    def test_progress_comes_before_the_answer(self, client, mlm):
        text = "The big [MASK] [MASK] at the casino."
        told = self.ask(client, text=text)
        assert [kind for kind, _ in told][-1] == "answer"
        progress = [data for kind, data in told if kind == "progress"]
        assert {"stage": "forward passes", "done": 78, "total": 78} in progress
        assert agree(told[-1][1], answers.fill_answer(unmask.fill(text, mlm=mlm), mlm, 10))

    def test_a_known_answer_comes_at_once(self, client):
        self.ask(client, text="The big [MASK] [MASK] in the casino.")
        (only,) = self.ask(client, text="The big [MASK] [MASK] in the casino.")
        assert only[0] == "answer"

    def test_an_error_is_an_event(self, client):
        kind, told = self.ask(client, text="nothing is blank")[-1]
        assert (kind, told["status"]) == ("error", 400)
        assert "the text has no blank" in told["error"]


DESCRIBED = {
    "fill": (responses.FillResponse, {"text": TEXT}),
    "score": (responses.ScoreResponse, {"text": BRACED}),
    "sample": (responses.SampleResponse, {"text": TEXT}),
    "compare": (responses.CompareResponse, {"text": TEXT}),
    "conditional": (responses.ConditionalResponse, {"text": TEXT, "given": "man"}),
    "marginals": (responses.MarginalsResponse, {"text": TEXT, "method": "tree", "given": {"1": "man"}}),
    "map": (responses.MapResponse, {"text": TEXT}),
    "compatibility": (responses.CompatibilityResponse, {"text": TEXT}),
}


@pytest.mark.parametrize("name", DESCRIBED)
def test_every_field_of_an_answer_is_described(client, name):
    described, body = DESCRIBED[name]
    got = asked(client, name, **body)
    assert described.model_validate(got, strict=True, extra="forbid").model_dump(exclude_unset=True) == got


class TestState:
    def test_models_are_listed_without_their_directories(self, client, settings):
        got = client.get("/v1/models").json()
        assert [m["name"] for m in got["models"]] == ["tiny", "other"]
        assert got["default"] == "tiny"
        assert set(got["methods"]) == {*unmask.CONSTRUCTIONS, "grid", "chain", "tree"}
        assert (got["limits"]["blanks"], got["limits"]["texts"]) == (16, 64)
        assert settings().models["tiny"] not in client.get("/v1/models").text

    def test_health_says_ready_once_the_model_is_there(self, client, mlm):
        assert client.get("/healthz").json()["status"] == "ready"

    def test_metrics_count_requests_by_route_and_status(self, client):
        client.post("/v1/fill", json={"text": "no blank"})
        client.get("/v1/whatever-anybody-writes")
        page = client.get("/metrics").text
        assert 'unmask_requests_total{path="/v1/fill",status="400"}' in page
        assert 'unmask_requests_total{path="other",status="404"}' in page
        assert "whatever" not in page
        assert "unmask_busy_workers 0.0" in page
