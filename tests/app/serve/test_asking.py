"""Every task over HTTP, by its record, with the shipped models."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import regard
from regard.runs.shipped import shipped


def ask(client: TestClient, model: str, task: str, inputs: list[Any], **more: Any) -> Any:
    return client.post(f"/api/models/{model}/{task}", json={"inputs": inputs, **more})


def test_every_shipped_model_is_listed(client: TestClient) -> None:
    found = {one["name"]: one for one in client.get("/api/models").json()["models"]}
    assert sorted(found) == shipped()
    dates = found["dates"]
    assert dates["status"] in ("ready", "loaded")
    [task] = dates["tasks"]
    assert task["task"] == "translate"
    assert task["inputs"]["schema"] == {"type": "string"}
    assert {"name", "help", "schema"} <= set(task["options"][0])
    assert not {"alignments", "dictionary"} & {option["name"] for option in task["options"]}, "these name files"
    said = "looking at the input"
    assert {"name": "attend", "said": said, "kind": "attention", "heads": 1} in dates["sites"]
    said = "second layer of the decoder, looking at the source"
    assert {"name": "decoder.1.cross", "said": said, "kind": "attention", "heads": 4} in found["de-en"]["sites"]
    assert "folder" not in dates["about"], "a path of this machine"
    assert client.get("/api/models/dates").json()["name"] == "dates"


def test_images_among_examples_can_be_left_out_of_the_list(client: TestClient) -> None:
    light = {one["name"]: one for one in client.get("/api/models?images=false").json()["models"]}
    whole = {one["name"]: one for one in client.get("/api/models").json()["models"]}
    assert "data:image" not in str(light)
    assert light["dates"] == whole["dates"]
    assert not light["omniglot"]["tasks"][0]["example_options"]
    assert whole["omniglot"]["tasks"][0]["example_options"]["support"]
    assert client.get("/api/models/omniglot").json() == whole["omniglot"]
    assert [name for name, one in light.items() if one.get("partial")] == [
        name for name, one in whole.items() if "data:image" in str(one)
    ]
    query = {"images": "omniglot", "examples": 2}
    first = {one["name"]: one for one in client.get("/api/models", params=query).json()["models"]}
    own = first.pop("omniglot")["tasks"][0]
    assert own["inputs"]["examples"] == whole["omniglot"]["tasks"][0]["inputs"]["examples"][:2]
    assert own["example_options"] == whole["omniglot"]["tasks"][0]["example_options"]
    assert first == {name: one for name, one in light.items() if name != "omniglot"}
    assert client.get("/api/models", params={**query, "examples": "-1"}).status_code == 422


def test_an_answer_is_that_of_the_library(client: TestClient) -> None:
    response = ask(client, "dates", "translate", ["3 May 1979", "le 1er août 1914"])
    assert response.status_code == 200
    answers = response.json()["answers"]
    run = regard.load("dates", device="cpu")
    for answer, wanted in zip(answers, run.translate(["3 May 1979", "le 1er août 1914"]), strict=True):
        assert answer.pop("id")
        assert answer.pop("score") == pytest.approx(wanted.score, abs=1e-4)
        own = {"source": wanted.source, "text": wanted.text, "others": [], "written": list(wanted.written)}
        assert answer == {"input": wanted.source, **own}


def test_options_are_those_of_the_command(client: TestClient) -> None:
    body = {"beam": 4, "n_best": 2, "max_length": 30}
    [answer] = ask(client, "de-en", "translate", ["Guten Tag."], options=body).json()["answers"]
    wanted = regard.load("de-en", device="cpu").translate("Guten Tag.", beam=4, n_best=2, max_length=30)
    assert answer["text"] == wanted.text
    assert [one["text"] for one in answer["others"]] == [text for text, _ in wanted.others]


def test_a_language_model_samples_by_its_seed(client: TestClient) -> None:
    options = {"max_tokens": 12, "temperature": 0.9, "seed": 5}
    [answer] = ask(client, "shakespeare", "generate", ["ROMEO:"], options=options).json()["answers"]
    run = regard.load("shakespeare", device="cpu")
    assert answer["text"] == run.generate("ROMEO:", max_tokens=12, temperature=0.9, seed=5).text


def test_texts_and_images_of_all_kinds(client: TestClient, image: str) -> None:
    [answer] = ask(client, "reviews", "classify", ["A wonderful film."]).json()["answers"]
    assert answer["label"] in ("negative", "positive")
    for model in ("shapes", "shapes-senet"):
        [answer] = ask(client, model, "recognise", [image], options={"top": 2}).json()["answers"]
        assert len(answer["probabilities"]) == 2
    [answer] = ask(client, "scenes", "caption", [f"data:image/png;base64,{image}"]).json()["answers"]
    assert answer["text"]


def test_images_may_be_files_of_a_form(client: TestClient, image: str) -> None:
    files = [("inputs", ("a.png", base64.b64decode(image), "image/png"))] * 2
    response = client.post("/api/models/shapes/recognise", files=files, data={"options": json.dumps({"top": 1})})
    one, two = response.json()["answers"]
    assert one["probabilities"] == two["probabilities"]
    [sent] = ask(client, "shapes", "recognise", [image], options={"top": 1}).json()["answers"]
    assert sent["probabilities"] == pytest.approx(one["probabilities"])


def test_no_path_reaches_the_file_system(client: TestClient, tmp_path: Path) -> None:
    file = tmp_path / "secret.png"
    file.write_bytes(b"secret")
    for sent in (str(file), "/etc/passwd", "../../x"):
        response = ask(client, "shapes", "recognise", [sent])
        assert response.status_code == 422
        assert "base64" in response.text or "decoded" in response.text
    response = ask(client, "dates", "translate", ["x"], options={"dictionary": str(file)})
    assert response.status_code == 422
    assert "no option 'dictionary'" in response.text
    for name in ("..%2f..%2fetc", "..", "%2fetc%2fpasswd", str(file).replace("/", "%2f")):
        assert client.get(f"/api/models/{name}").status_code in (404, 405)


@pytest.mark.parametrize(
    ("model", "task", "body", "status", "words"),
    [
        ("dates", "translate", {"inputs": "3 May"}, 422, "inputs must be a list"),
        ("dates", "translate", {"inputs": []}, 422, "at least one"),
        ("dates", "translate", {"inputs": [3]}, 422, "inputs[0]: a text must be a str"),
        ("dates", "translate", {"inputs": ["\ud800"]}, 422, "surrogate"),
        ("dates", "translate", {"inputs": ["a"] * 65}, 413, "64 inputs"),
        ("dates", "translate", {"inputs": ["a" * 20_001]}, 413, "20,000 characters"),
        ("dates", "translate", {"inputs": ["5 " * 500]}, 422, "this model takes 64"),
        ("dates", "translate", {"inputs": ["a"], "options": {"beam": 17}}, 422, "beam may be 16 at most"),
        ("dates", "translate", {"inputs": ["a"], "options": {"max_length": 5000}}, 422, "may be 1,024 at most"),
        ("dates", "translate", {"inputs": ["a"], "options": {"beem": 2}}, 422, "did you mean 'beam'"),
        ("dates", "translate", {"inputs": ["a"], "options": {"beam": "2"}}, 422, "must be a whole number"),
        ("dates", "translate", {"inputs": ["a"], "options": {"replace_unknown": 1}}, 422, "true or false"),
        ("dates", "translate", {"inputs": ["a"], "options": {"beam": 2, "temperature": 1}}, 422, "give one of"),
        ("dates", "translate", {"inputs": ["a"], "options": []}, 200, ""),
        ("dates", "translate", {"inputs": ["a"], "options": [1]}, 422, "options must be an object"),
        ("dates", "translate", {"inputs": ["a"], "strem": True}, 422, "did you mean 'stream'"),
        ("dates", "translate", {"inputs": ["a"], "stream": "yes"}, 422, "stream must be true or false"),
        ("dates", "generate", {"inputs": ["a"]}, 404, "it can translate"),
        ("nothing", "translate", {"inputs": ["a"]}, 404, "there is no model"),
        ("shakespeare", "generate", {"inputs": ["a"], "options": {"stop": ["a", 3]}}, 422, "stop must be a str"),
        ("shakespeare", "generate", {"inputs": ["a"], "options": {"seed": -1}}, 422, "seed"),
        ("shapes", "recognise", {"inputs": ["AAAA"]}, 422, "none of these formats"),
    ],
)
def test_what_is_asked_wrongly_is_said(
    client: TestClient, model: str, task: str, body: dict[str, Any], status: int, words: str
) -> None:
    response = client.post(f"/api/models/{model}/{task}", content=json.dumps(body).encode(), headers=JSON)
    assert response.status_code == status, response.text
    if words:
        assert words in response.json()["error"]["message"]
        assert response.json()["error"]["code"] == status


JSON = {"content-type": "application/json"}


def test_a_body_must_be_json_of_a_bearable_size(client: TestClient) -> None:
    where = "/api/models/dates/translate"
    assert client.post(where, content=b"{", headers=JSON).status_code == 422
    assert client.post(where, content=b"[1]", headers=JSON).status_code == 422
    assert client.post(where, content=b"[" * 100_000, headers=JSON).status_code == 422
    assert client.post(where, content=b'{"inputs": [NaN]}', headers=JSON).status_code == 422
    assert client.post(where, content=b'{"inputs": ["a"]}').status_code == 415
    large = b" " * ((8 << 20) + 1)
    response = client.post(where, content=large, headers=JSON)
    assert response.status_code == 413
    assert "8,388,608 bytes" in response.json()["error"]["message"]
    pieces = iter([large[: 1 << 20]] * 9)  # without a length
    assert client.post(where, content=pieces, headers=JSON).status_code == 413


def test_an_image_of_too_many_pixels_is_not_decoded(client: TestClient) -> None:
    import io

    from PIL import Image

    file = io.BytesIO()
    Image.new("1", (6000, 5000)).save(file, "png")
    response = ask(client, "shapes", "recognise", [base64.b64encode(file.getvalue()).decode()])
    assert response.status_code == 413
    assert "25,000,000 pixels" in response.text


def test_other_addresses_and_methods(client: TestClient) -> None:
    assert client.get("/nothing").status_code == 404
    assert client.get("/api/models/dates/translate").status_code == 405
    assert client.get("/nothing").json()["error"]["code"] == 404


def test_health_and_metrics(client: TestClient) -> None:
    ask(client, "dates", "translate", ["3 May 1979"])
    assert client.get("/health").json() == {"status": "ok"}
    response = client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'regard_requests_total{route="/api/models/{model}/{task}",status="200"}' in response.text
    assert "# TYPE regard_request_seconds histogram" in response.text
    assert 'regard_tokens_total{model="dates"}' in response.text
    assert "3 May" not in response.text


@pytest.mark.parametrize(
    ("model", "task"), [("dates", "translate"), ("reviews", "classify"), ("sentences-bert", "fill")]
)
def test_an_empty_text_is_refused(client: TestClient, model: str, task: str) -> None:
    response = client.post(f"/api/models/{model}/{task}", json={"inputs": ["one", " \n"]})
    assert response.status_code == 422
    assert f"inputs[1] is empty; give something to {task}" in response.json()["error"]["message"]


def test_a_text_to_go_on_from_may_be_empty(client: TestClient) -> None:
    body = {"inputs": [""], "options": {"max_tokens": 2}}
    assert client.post("/api/models/shakespeare/generate", json=body).status_code == 200
