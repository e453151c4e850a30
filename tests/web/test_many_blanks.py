"""Any number of blanks, and lists of texts: over HTTP as in the library."""

import pytest
import torch
from fastapi.testclient import TestClient
from live import agree

import unmask
from unmask import serialize as answers
from unmask.web import Limits, create_app
from unmask.web import response_schemas as responses

TEXT = "The [MASK] [MASK] at the [MASK]."
FOUR = "A [MASK] [MASK] is at the [MASK] [MASK]."
BRACED = "The {man} {is} at the {casino}."
PAIR = "The [MASK] [MASK] at the casino."
JOINED = ["tree", "product", "chain", "l2r"]


@pytest.fixture(scope="module")
def mlm(client, service):
    asked(client, "fill", text="The [MASK].")
    return service.conditionals.models.loaded["tiny"].mlm


def asked(client: TestClient, name: str, **body):
    response = client.post(f"/v1/{name}", json=body)
    assert response.status_code == 200, response.text
    return response.json()


class TestManyBlanks:
    @pytest.mark.parametrize("method", JOINED)
    def test_fill_is_the_librarys(self, client, mlm, method):
        got = asked(client, "fill", text=FOUR, method=method, top=4)
        assert agree(got, answers.fill_answer(unmask.fill(FOUR, mlm=mlm, method=method), mlm, 4))
        assert responses.FillResponse.model_validate(got, strict=True, extra="forbid")
        assert (got["entropy"] is None) == (method in ("chain", "l2r"))

    @pytest.mark.parametrize("method", JOINED)
    def test_score_is_the_librarys(self, client, mlm, method):
        got = asked(client, "score", text=BRACED, method=method)
        assert agree(got, answers.score_answer(unmask.score(BRACED, mlm=mlm, method=method), mlm))
        assert responses.ScoreResponse.model_validate(got, strict=True, extra="forbid")
        assert ("blocks" in got) == (method in ("chain", "l2r"))

    @pytest.mark.parametrize("method", JOINED)
    def test_samples_are_the_librarys_for_a_seed(self, client, mlm, method):
        got = asked(client, "sample", text=TEXT, method=method, number=6, sampling_seed=3)
        joint = unmask.fill(TEXT, mlm=mlm, method=method)
        assert agree(got["samples"], answers.sample_answer(joint, mlm, 6, 3)["samples"])

    @pytest.mark.parametrize("method", ["tree", "product"])
    def test_conditional_is_the_librarys(self, client, mlm, method):
        got = asked(client, "conditional", text=FOUR, method=method, given="man", given_blank=2, blank=0)
        want = unmask.fill(FOUR, mlm=mlm, method=method).conditional(0, {2: "man"})
        assert responses.ConditionalResponse.model_validate(got, strict=True, extra="forbid")
        assert [t["id"] for t in got["tokens"]] == [f.ids[0] for f in want.top(10)]
        assert got["entropy"] == pytest.approx(float(want.entropy()))
        assert {t["model_probability"] for t in got["tokens"]} == {None}

    def test_conditional_of_a_chain_says_what_it_would_cost(self, client):
        body = {"text": FOUR, "method": "l2r", "given": "man", "blank": 1}
        response = client.post("/v1/conditional", json=body)
        assert response.status_code == 400
        assert "fillings" in response.json()["error"]
        assert "tree" in response.json()["error"]

    def test_conditional_of_a_chain_of_few_fillings_is_the_librarys(self, client, mlm):
        few = {"text": TEXT, "method": "l2r", "support": 5}
        token = unmask.fill(**few, mlm=mlm).supports[0].ids[0].item()
        got = asked(client, "conditional", **few, given=token, blank=2)
        want = unmask.fill(**few, mlm=mlm).conditional(2, {0: token})
        assert [t["id"] for t in got["tokens"]] == [f.ids[0] for f in want.top(10)]

    def test_options_of_the_chain_reach_it(self, client):
        got = asked(
            client, "fill", text=TEXT, method="chain", options={"block": 1, "order": [2, 0, 1]}, top=2
        )
        assert got["options"] == {"block": 1, "order": [2, 0, 1]}

    def test_targets_restrict_every_blank(self, client, mlm):
        targets = [["man", "dog"], ["is", "was"], ["casino", "house"]]
        got = asked(client, "fill", text=TEXT, method="tree", targets=targets, top=8)
        want = unmask.fill(TEXT, mlm=mlm, method="tree", targets=targets)
        assert agree(got, answers.fill_answer(want, mlm, 8))
        assert sum(f["probability"] for f in got["fillings"]) == pytest.approx(1)

    def test_a_tree_is_kept_and_a_chain_is_not(self, client, service):
        text = "A small [MASK] [MASK] in the [MASK]."
        asked(client, "fill", text=text, method="tree")
        asked(client, "fill", text=text, method="chain")
        passes = service.conditionals.misses
        for name in ("sample", "marginals", "fill"):
            asked(client, name, text=text, method="tree", **({} if name == "sample" else {"top": 3}))
        assert service.conditionals.misses == passes
        held = service.conditionals.bytes  # a tree keeps what it computes
        asked(client, "sample", text=text, method="chain")
        assert service.conditionals.misses == passes + 1
        assert service.conditionals.bytes == held

    def test_what_a_tree_holds_counts_against_the_budget(self, settings):
        app = create_app(settings(limits=Limits(tables=10_000)))
        app.state.service.warm_up = lambda: None
        with TestClient(app) as small:
            asked(small, "fill", text=TEXT, method="tree")  # two tables of 17 × 78 cells, and more
        assert app.state.service.conditionals.bytes == 0


class TestMarginals:
    def test_they_are_the_joints(self, client, mlm):
        got = asked(client, "marginals", text=FOUR, method="tree", top=5)
        joint = unmask.fill(FOUR, mlm=mlm, method="tree")
        for blank, part in enumerate(got["blanks"]):
            want = joint.marginal(blank)
            assert [t["id"] for t in part["tokens"]] == [f.ids[0] for f in want.top(5)]
            assert part["entropy"] == part["marginal_entropy"] == pytest.approx(float(want.entropy()))
            assert part["given"] is None
            for token in part["tokens"]:
                assert token["probability"] == token["marginal_probability"]
                assert token["probability"] == pytest.approx(want.log_prob(token["id"]).exp().item())

    def test_known_tokens_move_the_others(self, client, mlm):
        got = asked(client, "marginals", text=FOUR, method="tree", given={"0": "man", "3": "dog"}, top=5)
        joint = unmask.fill(FOUR, mlm=mlm, method="tree")
        want = joint.conditional(1, {0: "man", 3: "dog"})
        assert [t["id"] for t in got["blanks"][1]["tokens"]] == [f.ids[0] for f in want.top(5)]
        assert got["blanks"][1]["entropy"] == pytest.approx(float(want.entropy()))
        known = got["blanks"][3]
        assert (known["given"]["token"], known["entropy"], len(known["tokens"])) == ("dog", 0, 5)
        assert [t["probability"] for t in known["tokens"]] == [1, 0, 0, 0, 0]
        before = joint.marginal(3).log_prob("dog").exp().item()
        assert known["tokens"][0]["marginal_probability"] == pytest.approx(before)

    def test_a_tree_tells_what_every_two_blanks_tell_each_other(self, client, mlm):
        got = asked(client, "marginals", text=FOUR, method="tree")
        information = torch.tensor(got["information"])
        assert information.shape == (4, 4)
        assert torch.equal(information, information.T)
        assert bool((information >= 0).all())
        assert bool((information.diagonal() == 0).all())
        joint = unmask.fill(FOUR, mlm=mlm, method="tree")
        assert got["edges"] == [list(edge) for edge in joint.edges]
        # exact conditionals: every token of the tiny model is asked about
        alone = joint.marginal(joint.root).log_probs
        parent, child = joint.edges[0]
        assert parent == joint.root
        forth = joint.edge(child).mutual_information(alone)
        assert float(information[parent, child]) == pytest.approx(float(forth), rel=0.5)

    def test_other_joints_have_marginals_and_no_graph(self, client, mlm):
        got = asked(client, "marginals", text=PAIR, method="ag", given={"1": "man"}, top=3)
        want = unmask.fill(PAIR, mlm=mlm).conditional(0, {1: "man"})
        assert [t["id"] for t in got["blanks"][0]["tokens"]] == [f.ids[0] for f in want.top(3)]
        assert got["edges"] is got["information"] is None


class TestMap:
    @pytest.mark.parametrize("blanks", [(0, 1), (3, 1)])
    def test_any_two_blanks_have_one(self, client, mlm, blanks):
        few = {"text": FOUR, "support": 6}
        got = asked(client, "map", **few, methods=["tree", "product"], blanks=blanks, size=6)
        for method in ("tree", "product"):
            joint = unmask.fill(**few, mlm=mlm, method=method)
            every = joint.enumerate_support()
            log_q = joint.log_prob(every)
            for i, row in enumerate(got["rows"]):
                for j, column in enumerate(got["columns"]):
                    here = (every[:, blanks[0]] == row["id"]) & (every[:, blanks[1]] == column["id"])
                    cell = got["methods"][method]["probabilities"][i][j]
                    assert cell == pytest.approx(log_q[here].exp().sum().item(), abs=1e-9)
            assert got["methods"][method]["mass_shown"] == pytest.approx(1)

    def test_a_number_of_candidates_is_the_trees_alone(self, client):
        got = asked(client, "map", text=TEXT, methods=["tree", "product"], candidates=4, size=3)
        alone = asked(client, "map", text=TEXT, methods=["product"], size=3, blanks=[0, 1])
        shown = {
            t["id"]: p
            for t, p in zip(alone["rows"], alone["methods"]["product"]["row_marginals"], strict=True)
        }
        for row, p in zip(got["rows"], got["methods"]["product"]["row_marginals"], strict=True):
            assert p == pytest.approx(shown.get(row["id"], p))

    def test_two_blanks_may_change_places(self, client):
        there = asked(client, "map", text=PAIR, size=5)
        back = asked(client, "map", text=PAIR, size=5, blanks=[1, 0])
        assert (back["rows"], back["columns"]) == (there["columns"], there["rows"])
        cells = torch.tensor(there["methods"]["ag"]["probabilities"]).T
        assert torch.allclose(torch.tensor(back["methods"]["ag"]["probabilities"]), cells)


class TestLists:
    @pytest.mark.parametrize("name", ["fill", "sample", "score", "compare"])
    def test_each_text_is_answered_as_by_itself(self, client, name):
        texts = {
            "score": [BRACED, "The {man} {is} here.", "The {dog} is."],
            "compare": [PAIR, "A [MASK] is [MASK]."],
        }.get(name, [PAIR, TEXT, "The [MASK] is.", "A [MASK] is [MASK].", PAIR])
        got = asked(client, name, text=texts, support=40)
        assert len(got) == len(texts)
        for text, answer in zip(texts, got, strict=True):
            assert agree(answer, asked(client, name, text=text, support=40))

    def test_a_list_of_one_is_answered_by_a_list(self, client):
        assert len(asked(client, "fill", text=[PAIR])) == 1

    def test_more_texts_than_are_worked_on_at_once(self, client):
        texts = [f"The {word} [MASK] [MASK]." for word in ("man", "dog", "cat", "house", "old")] * 4
        got = asked(client, "fill", text=texts, candidates=8, top=1)
        assert [a["fillings"][0]["text"] for a in got[:5]] == [a["fillings"][0]["text"] for a in got[15:]]
        assert len({a["fillings"][0]["text"] for a in got}) == 5

    def test_a_text_that_is_asked_twice_is_computed_once(self, client, service):
        before = service.conditionals.misses
        asked(client, "fill", text=["The very [MASK] [MASK]."] * 3)
        assert service.conditionals.misses == before + 1

    def test_targets_hold_for_each_text(self, client):
        got = asked(client, "fill", text=[PAIR, TEXT], targets=["man", "is"])
        assert [answer["support_sizes"] for answer in got] == [[2, 2], [2, 2, 2]]
