"""The OpenAPI description keeps its word: whatever is sent, the answer is one that it names."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from unmask.web import Limits, create_app

# Not among them: that whatever fits the schema is accepted. A text may fit and have no blank, or a token
# that the model does not know, and no schema can say so.
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
    negative_data_rejection,
    unsupported_method,
]

QUESTIONS = ("fill", "score", "sample", "compare", "conditional", "marginals", "map", "compatibility")
OPERATIONS = [
    *(("POST", f"/v1/{name}") for name in QUESTIONS),
    *(("GET", path) for path in ("/v1/models", "/healthz", "/metrics")),
]


@pytest.fixture(scope="module")
def described(settings):
    limits = Limits(candidates=100, support=100, samples=50, top=20, blanks=4, texts=4, queue=50, seconds=8)
    app = create_app(settings(limits=limits, models={"tiny": settings().models["tiny"]}))
    return schemathesis.openapi.from_asgi("/openapi.json", app)


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_every_answer_is_one_that_the_description_names(described, method, path, mode):
    operation = described[path][method]
    if mode is GenerationMode.NEGATIVE and method == "GET":
        return  # nothing in it could be wrong

    @settings(
        max_examples=25, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate]
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case):
        if mode is GenerationMode.POSITIVE and method == "POST" and len(case.body["text"]) % 3:
            more = " {man} {is}" if path == "/v1/score" else " [MASK] at [MASK]"
            text = case.body["text"]
            case.body["text"] = [one + more for one in text] if isinstance(text, list) else text + more
        response = case.call()
        # a body beyond the limit is refused unread: that is a rejection, too
        refused = [negative_data_rejection] if response.status_code == 413 else []
        case.validate_response(response, checks=[check for check in CHECKS if check not in refused])

    ask()


def test_every_question_has_an_example_that_is_answered(client):
    paths = client.get("/openapi.json").json()["paths"]
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    asked = 0
    for path, methods in paths.items():
        if "post" not in methods:
            continue
        name = methods["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"].split("/")[-1]
        for example in schemas[name]["examples"]:
            if isinstance(example.get("candidates"), int):
                example["candidates"] = min(example["candidates"], 78)  # the tiny model has no more
            answer = client.post(path, json=example)
            assert answer.status_code == 200, answer.text
        asked += 1
    assert asked == len(QUESTIONS)


def test_no_path_is_left_out_here(client):
    assert set(client.get("/openapi.json").json()["paths"]) == {path for _, path in OPERATIONS}
