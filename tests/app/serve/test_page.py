"""What the page needs of the server: its files, signing in, files to keep, and examples."""

from __future__ import annotations

import base64
import csv
import gzip
import hashlib
import io
import re
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from PIL import Image
from served_models import served
from starlette.testclient import TestClient

import regard
from regard.app.serve.bundle import in_order, whole
from regard.runs.shipped import shipped


def test_every_file_is_served_with_its_type_and_a_tag(client: TestClient) -> None:
    kinds = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    for package, folder in (("regard.app", "page"), ("regard.show", "views")):
        names = [one.name for one in files(package).joinpath(folder).iterdir() if one.is_file()]
        names = [name for name in names if not name.endswith(".html")]  # parts of the pages at /, /learn and /docs
        assert names
        for name in names:
            response = client.get(f"/{folder}/{name}")
            assert response.status_code == 200, name
            assert response.headers["content-type"].startswith(kinds[name.rpartition(".")[2]])
            assert response.headers["x-content-type-options"] == "nosniff"
            assert response.headers["cache-control"] == "no-cache"
            again = client.get(f"/{folder}/{name}", headers={"if-none-match": response.headers["etag"]})
            assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("name", ["../main.js", "%2e%2e%2fmain.js", "nothing.js", "..%5cmain.js", "__init__.py"])
def test_no_other_file_is_served(client: TestClient, name: str) -> None:
    assert client.get(f"/page/{name}").status_code == 404


@pytest.mark.parametrize("path", ["/", "/learn", "/docs"])
def test_a_page_is_one_answer_whose_script_and_style_the_policy_names(client: TestClient, path: str) -> None:
    response = client.get(path)
    policy = response.headers["content-security-policy"]
    assert "unsafe-inline" not in policy
    for tag in ("script", "style"):
        parts = re.findall(f"<{tag}[^>]*>(.*?)</{tag}>", response.text, re.DOTALL)
        assert len(parts) == 1 + (tag == "script" and path == "/")  # which asks for the models at once
        for inside in parts:
            digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
            assert f"'sha256-{digest}'" in policy
    assert not re.search(r'<(script|link)[^>]* (src|href)="(?!page/icon|api/models)', response.text)
    assert len(gzip.compress(response.content, 5)) < 56_000


def test_modules_come_after_those_that_they_need_and_circles_are_named() -> None:
    files = {
        "page/a.js": 'import {b, c} from "./b.js";\n/** A comment. */\nexport const a = b + c;\n',
        "page/b.js": 'import {\n  c,\n} from "../views/c.js";\nexport {};\n'.replace("export {};\n", "")
        + "export const b = `</script><!-- ${c}`;\nexport async function* d() {}\n",
        "views/c.js": "export class c {}\n",
    }
    made = in_order(["page/a.js"], files)
    names = re.findall(r"^\$\['([^']+)'\]", made, re.MULTILINE)
    assert names == ["views/c.js", "page/b.js", "page/a.js"]
    assert "return {b, d};" in made
    assert "comment" not in made
    page = whole('<link rel="stylesheet" href="x">\n<script type="module" src="page/a.js"></script>\n', files)
    assert page.text.count("</script") == 1
    files["views/c.js"] = 'import {a} from "../page/a.js";\n' + files["views/c.js"]
    with pytest.raises(ValueError, match=re.escape("page/a.js -> page/b.js -> views/c.js -> page/a.js")):
        in_order(["page/a.js"], files)


def test_a_link_on_another_page_may_lead_here(client: TestClient) -> None:
    followed = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert client.get("/", headers=followed).status_code == 200
    assert client.get("/api/models", headers=followed).status_code == 403
    assert client.get("/", headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}).status_code == 403


def test_signing_in() -> None:
    with served("dates", token="s3cret") as client:
        assert client.get("/").status_code == 200
        assert client.get("/page/main.js").status_code == 200
        assert client.get("/api/models").status_code == 401
        assert client.post("/sign-in", json={"token": "wrong"}).status_code == 401
        assert client.post("/sign-in", json={"token": 5}).status_code == 401
        assert client.get("/api/models").status_code == 401
        response = client.post("/sign-in", json={"token": "s3cret"})
        kept = response.headers["set-cookie"]
        assert "HttpOnly" in kept
        assert "samesite=strict" in kept.lower()
        assert "s3cret" not in kept
        assert client.get("/api/models").status_code == 200
        assert client.get("/api/models", headers={"origin": "http://evil.example"}).status_code == 403


def test_the_token_in_the_address_is_exchanged() -> None:
    with served("dates", token="s3cret") as client:
        wrong = client.get("/?token=wrong", follow_redirects=False)
        assert (wrong.status_code, wrong.headers["location"]) == (303, "/")
        assert "set-cookie" not in wrong.headers
        right = client.get("/?token=s3cret", follow_redirects=False)
        assert (right.status_code, right.headers["location"]) == (303, "/")
        assert client.get("/api/models").status_code == 200


def test_a_cookie_of_another_server_is_of_no_use() -> None:
    with served("dates", token="one") as first, served("dates", token="two") as second:
        first.post("/sign-in", json={"token": "one"})
        assert (
            second.get(
                "/api/models", headers={"cookie": "; ".join(map("=".join, first.cookies.items()))}
            ).status_code
            == 401
        )


def test_a_server_without_a_token_has_nothing_to_sign_in_to(client: TestClient) -> None:
    assert client.post("/sign-in", json={"token": "x"}).status_code == 404


# ---- files to keep


def attention(client: TestClient, model: str, task: str, one: str, options: Any = None, **query: Any) -> Any:
    body = {"inputs": [one], "options": options or {}}
    answer = client.post(f"/api/models/{model}/{task}", json=body).json()["answers"][0]
    return client.get(f"/api/models/{model}/answers/{answer['id']}/attention", params=query)


def table(response: Any) -> list[dict[str, str]]:
    """The rows of a CSV, behind the lines that say of what they are."""
    lines = response.text.splitlines(keepends=True)
    first = next(at for at, line in enumerate(lines) if line.startswith("table,"))
    said = [line.partition(":")[0] for line in lines[:first]]
    assert (said[0], *said[-2:]) == ("# model", "# input", "# answer")
    return list(csv.DictReader(io.StringIO("".join(lines[first:]))))


def short(options: dict[str, Any]) -> dict[str, Any]:
    """Those of an example, for a shorter text."""
    return {**options, "max_tokens": 40} if "max_tokens" in options else options


def test_pictures_and_numbers_as_files(client: TestClient) -> None:
    wanted = regard.load("dates", device="cpu").translate("3 May 1979").attention
    found = {
        form: attention(client, "dates", "translate", "3 May 1979", form=form)
        for form in ("png", "svg", "csv", "json")
    }
    for form, response in found.items():
        assert response.status_code == 200
        assert response.headers["content-disposition"] == f'attachment; filename="dates.{form}"'
    assert Image.open(io.BytesIO(found["png"].content)).size[0] > 100
    assert found["svg"].text.startswith("<svg")
    assert found["json"].json()["kind"] == "map"
    rows = table(found["csv"])
    assert len(rows) == wanted.weights.size
    last = rows[-1]
    assert (last["row_name"], last["column_name"]) == (wanted.rows[-1], wanted.columns[-1])
    assert float(last["value"]) == pytest.approx(wanted.weights[-1, -1], rel=1e-4)

    listed = np.array(found["json"].json()["weights"]).ravel()
    assert [float(row["value"]) for row in rows] == listed.tolist()


def test_numbers_name_the_classes_of_examples(client: TestClient) -> None:
    task = client.get("/api/models/omniglot").json()["tasks"][0]
    one, options = task["inputs"]["examples"][0], task["example_options"]
    rows = table(attention(client, "omniglot", "fewshot", one, options, form="csv"))
    assert {row["column_name"] for row in rows} == {*options["support"], "itself"}


@pytest.mark.parametrize(
    ("model", "asked", "told"),
    [
        ("copy", "01010101 11001100 11110000 10011001", "01010101 11001100 11110000 10011001"),
        ("bandits", "0", "environment 0: reward 6, best 7.055"),
        ("paragraphs", "Where does Nora live? / Nora lives in Oslo.", "follows 72.8 %"),
        ("sentences-bert", "He plays the [MASK] very well.", "He plays the piano very well."),
    ],
)
def test_a_file_names_the_answer_as_the_page_does(client: TestClient, model: str, asked: str, told: str) -> None:
    task = client.get(f"/api/models/{model}").json()["tasks"][0]
    [one, *_] = task["inputs"]["examples"]
    response = attention(client, model, task["task"], one, task["example_options"], form="csv")
    assert f"# input: {asked}\n# answer: {told}\n" in response.text


def test_numbers_of_many_heads(client: TestClient) -> None:
    response = attention(client, "de-en", "translate", "Wo ist er?", form="csv", site="*")
    assert response.headers["content-disposition"] == 'attachment; filename="de-en-all.csv"'
    rows = table(response)
    assert {row["head"] for row in rows} == {"0", "1", "2", "3"}
    assert rows[0]["table"] == "panels/encoder.0.attend"
    assert rows[0]["row_name"] == "Wo"


OTHERS = ("shapes", "scenes", "omniglot")  # of images


@pytest.mark.parametrize("model", [name for name in shipped() if not name.startswith(OTHERS)])
def test_every_text_model_gives_a_table(client: TestClient, model: str) -> None:
    task = next(one for one in client.get("/api/models").json()["models"] if one["name"] == model)["tasks"][0]
    one = task["inputs"]["examples"][0]
    response = attention(client, model, task["task"], one, short(task["example_options"]), form="csv")
    assert response.status_code == 200
    assert len(response.text.splitlines()) > 3


def test_vectors_are_kept_with_those_that_they_are_seen_beside(client: TestClient) -> None:
    def ask(text: str) -> Any:
        return client.post("/api/models/sentences-elmo/embed", json={"inputs": [text]}).json()["answers"][0]

    first, second = ask("The bank lent money."), ask("We sat on the bank.")
    where = f"/api/models/sentences-elmo/answers/{first['id']}/attention"
    rows = table(client.get(where, params={"form": "csv", "others": second["id"]}))
    vectors = [[row for row in rows if row["table"] == name] for name in ("vectors", "cosines")]
    assert [row["row_name"] for row in vectors[0]][:: len(first["vector"])] == [first["text"], second["text"]]
    assert [float(row["value"]) for row in vectors[0]] == pytest.approx(
        first["vector"] + second["vector"], abs=1e-4
    )
    one, other = np.array(first["vector"]), np.array(second["vector"])
    alike = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
    assert [float(row["value"]) for row in vectors[1]] == pytest.approx([1, alike, alike, 1], abs=1e-4)
    told = client.get(where, params={"form": "json", "others": second["id"]}).json()
    assert told["cosines"][0][1] == pytest.approx(alike, abs=1e-4)
    for form, begin in (("svg", b"<svg"), ("png", b"\x89PNG")):
        assert client.get(where, params={"form": form, "others": second["id"]}).content.startswith(begin)
    assert client.get(where, params={"others": "gone"}).status_code == 404


def test_programs_get_lists_and_views_get_packed_tables(client: TestClient) -> None:
    answer = client.post(
        "/api/models/shakespeare/generate", json={"inputs": ["ROMEO:"], "options": {"max_tokens": 12}}
    ).json()["answers"][0]
    where = f"/api/models/shakespeare/answers/{answer['id']}/attention"
    plain, packed = (client.get(where, params={"site": "*", "packed": one}).json() for one in ("false", "true"))
    site = "blocks.2.attend"
    assert packed["panels"][site]["shape"] == [6, *map(len, (plain["rows"], plain["columns"]))]
    assert len(plain["panels"][site]) == 6
    assert sum(plain["panels"][site][3][5]) == pytest.approx(1, abs=1e-3)
    assert plain["mask"][0][0] is True


# ---- examples


def test_every_shipped_run_answers_its_examples_and_shows_every_site_that_is_named(client: TestClient) -> None:
    for model in client.get("/api/models").json()["models"]:
        task = model["tasks"][0]
        assert task["about"]
        assert len(task["inputs"]["examples"]) >= 2
        body = {"inputs": task["inputs"]["examples"], "options": short(task["example_options"])}
        response = client.post(f"/api/models/{model['name']}/{task['task']}", json=body)
        assert response.status_code == 200, response.text
        where = f"/api/models/{model['name']}/answers/{response.json()['answers'][0]['id']}/attention"
        for site in model["sites"]:
            response = client.get(where, params={"site": site["name"], "packed": "true"})
            assert response.status_code == 200, (model["name"], site, response.text)


def test_steps_name_what_is_written(client: TestClient) -> None:
    body = {"inputs": ["3 May 1979"], "prefix": []}
    where = "/api/models/dates/translate/step"
    first = client.post(where, json=body).json()["candidates"][0]
    second = client.post(where, json={**body, "prefix": [first["token"]]}).json()
    assert second["written"] == [{"token": first["token"], "text": first["text"]}]


# ---- starting


def test_nothing_is_served_where_no_run_can_be_opened(call: Any) -> None:
    found = call("serve", "--port", "0", "nowhere")
    assert found.code == 2
    assert "there is no run 'nowhere'" in found.err
    assert "Go to" not in found.out
