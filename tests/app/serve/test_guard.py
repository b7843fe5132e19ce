"""Who may ask, from where, and how much at once."""

from __future__ import annotations

import base64
import hashlib
import logging
import re
import threading
from pathlib import Path
from queue import Queue

import pytest
from served_models import served
from starlette.testclient import TestClient

from regard.app.serve.limits import Limits
from regard.app.serve.shelf import Shelf

ASKED = {"inputs": ["3 May 1979"]}
WHERE = "/api/models/dates/translate"


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io:8000", "", "[::1", "a b"]
)
def test_a_name_that_was_rebound_is_refused(client: TestClient, host: str) -> None:
    response = client.get("/api/models", headers={"host": host})
    assert response.status_code in (400, 421)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:9", "[::1]:8000", "LOCALHOST:8000"])
def test_this_machine_may_ask_by_its_names(client: TestClient, host: str) -> None:
    assert client.get("/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_a_page_of_another_origin_may_not_ask(client: TestClient, headers: dict[str, str]) -> None:
    assert client.post(WHERE, json=ASKED, headers=headers).status_code == 403
    assert client.get("/api/models", headers=headers).status_code == 403


def test_the_own_page_may_ask(client: TestClient) -> None:
    headers = {"origin": "http://localhost:8000", "sec-fetch-site": "same-origin"}
    assert client.post(WHERE, json=ASKED, headers=headers).status_code == 200


def test_every_answer_has_a_strict_policy(client: TestClient) -> None:
    for response in (
        client.get("/"),
        client.get("/nothing"),
        client.post(WHERE, json=ASKED, headers={"host": "x"}),
    ):
        policy = response.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'")
        assert "unsafe" not in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in response.headers
        assert "server" not in response.headers
    page = client.get("/")
    scripts = re.findall(r"<script([^>]*)>(.*?)</script>", page.text, re.DOTALL)
    assert [attributes for attributes, _ in scripts] == [
        "",
        ' type="module"',
    ]  # what it asks for early, and the rest
    for _, script in scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in page.headers["content-security-policy"]
    assert "style=" not in re.sub(r"<script.*?</script>", "", page.text, flags=re.DOTALL)


def test_a_token_is_asked_for() -> None:
    with served("dates", token="s3cret") as client:
        assert client.get("/health").status_code == 200
        for given in (
            {},
            {"authorization": "Bearer wrong"},
            {"authorization": "s3cret"},
            {"authorization": "Bearer "},
        ):
            response = client.get("/api/models", headers=given)
            assert response.status_code == 401
            assert response.headers["www-authenticate"] == "Bearer"
        assert client.get("/api/models", headers={"authorization": "Bearer s3cret"}).status_code == 200


def test_too_many_at_once_are_told_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first has to wait for its model until the others have their answer."""
    go_on, load, found = threading.Event(), Shelf.load, Queue[int]()
    monkeypatch.setattr(Shelf, "load", lambda *one: go_on.wait(60) and load(*one))
    with served("dates", limits=Limits(requests=1)) as client:

        def ask() -> None:
            found.put(client.post(WHERE, json=ASKED).status_code)

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        assert [found.get(timeout=60), found.get(timeout=60)] == [429, 429]
        go_on.set()
        assert found.get(timeout=60) == 200
        for thread in threads:
            thread.join()
        assert client.get("/health").status_code == 200


def test_the_log_holds_no_text(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    logger, lines = logging.getLogger("regard.serve"), list[str]()
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with served("reviews") as client:
            secret = "xyzzy " * 2000  # longer than the model reads: the command would say so, with its beginning
            assert client.post("/api/models/reviews/classify", json={"inputs": [secret]}).status_code == 200
            client.post("/api/models/reviews/classify", json={"inputs": ["plugh"], "xyzzy": 1})
    finally:
        logger.removeHandler(handler)
    assert lines
    assert lines[0].startswith("POST /api/models/{model}/{task} 200 ")
    assert "xyzzy" not in "".join(lines) + "".join(capfd.readouterr())


def test_a_failure_of_ours_says_nothing_of_itself(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("a user's text")

    monkeypatch.setattr("regard.app.serve.application.read_ticket", fail)
    response = client.post(WHERE, json=ASKED)
    assert response.status_code == 500
    assert response.json()["error"]["message"] == "the server failed to answer this request"


def test_a_broken_run_is_listed_and_the_others_answer(tmp_path: Path) -> None:
    for name, content in (("a", "{"), ("b", '{"model_type": "gpt2"}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(content)
    with served("dates", str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "none")) as client:
        found = {one["name"]: one for one in client.get("/api/models").json()["models"]}
        assert {name: one["status"] for name, one in found.items()} == {
            "dates": "ready",
            "a": "broken",
            "b": "broken",
            "none": "broken",
        }
        assert "config.json" in found["a"]["error"]
        response = client.post("/api/models/a/translate", json=ASKED)
        assert response.status_code == 409
        assert client.post(WHERE, json=ASKED).status_code == 200
        assert client.get("/openapi.json").status_code == 200


def test_weights_that_do_not_load_make_a_run_broken(tmp_path: Path) -> None:
    import shutil

    from regard.runs.shipped import SHIPPED

    shutil.copytree(SHIPPED / "dates", tmp_path / "dates")
    with served(str(tmp_path / "dates")) as client:
        assert client.get("/api/models/dates").json()["status"] == "ready"
        (tmp_path / "dates" / "model.safetensors").write_bytes(b"\0" * 100)
        assert client.post(WHERE, json=ASKED).status_code == 409
        assert client.post(WHERE, json=ASKED).status_code == 409
        assert client.get("/api/models/dates").json()["status"] == "broken"


def test_models_leave_the_memory_within_a_budget() -> None:
    with served("dates", "reviews", "shapes", memory=2 << 20) as client:
        shelf = client.shelf
        assert client.post(WHERE, json=ASKED).status_code == 200
        reviews = {"inputs": ["A film."]}
        assert client.post("/api/models/reviews/classify", json=reviews).status_code == 200
        assert [name for name, one in shelf.served.items() if one.worker] == ["dates", "reviews"]
        assert "regard_models_loaded 2" in client.get("/metrics").text
        file = client.post("/api/models/shapes/recognise", json={"inputs": ["AAAA"]})
        assert file.status_code == 422, "refused before it is loaded"
        assert shelf.served["shapes"].worker is None
    with served("dates", "de-en", memory=2 << 20) as client:
        response = client.post("/api/models/de-en/translate", json={"inputs": ["Hallo"]})
        assert response.status_code == 409
        assert "memory budget of this server is 2 MiB" in response.text
        assert client.post(WHERE, json=ASKED).status_code == 200


def test_the_one_that_was_asked_longest_ago_leaves(image: str) -> None:
    with served("dates", "shapes-senet", memory=1500 << 10) as client:
        assert client.post(WHERE, json=ASKED).status_code == 200
        shown = {"inputs": [image]}
        assert client.post("/api/models/shapes-senet/recognise", json=shown).status_code == 200
        assert client.shelf.served["dates"].worker is None
        assert client.post(WHERE, json=ASKED).status_code == 200, "and is loaded again"


def test_a_recipe_is_held_to_the_limits_too() -> None:
    """What is asked without options: the recipe of this run writes 500 tokens, and that one has a beam of 5."""
    with served("shakespeare", "de-en", limits=Limits(tokens=10, beams=2)) as client:
        response = client.post("/api/models/shakespeare/generate", json={"inputs": ["ROMEO:"]})
        assert len(response.json()["answers"][0]["text"]) <= 10
        assert client.post("/api/models/de-en/translate", json={"inputs": ["Guten Tag."]}).status_code == 200
        run = client.portal.call(client.shelf.call, client.shelf.served["de-en"], lambda run: run.decode)
        assert (run.beam, run.max_length) == (2, 10)


# ---- behind a proxy, and in other pages


def behind(**settings: object) -> TestClient:
    from regard.app.serve.application import build
    from regard.app.serve.counters import Counters

    shelf = Shelf(["dates"], limits=Limits(), counters=Counters(), device="cpu")
    return TestClient(build(shelf, **settings), base_url="http://localhost:8000")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "path", ["/regard/health", "/health", "/regard", "/regard/api/models", "/regard/page/main.js"]
)
def test_below_the_root_of_a_proxy(path: str) -> None:
    with behind(root="/regard") as client:
        assert client.get(path).status_code == 200
        assert client.get("/regardless/health").status_code == 404


def test_a_proxy_asks_under_its_own_name() -> None:
    with behind(hosts=("localhost", "course.example")) as client:
        for headers in ({"host": "course.example"}, {"origin": "https://course.example"}):
            assert client.get("/api/models", headers=headers).status_code == 200
        for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}):
            assert client.get("/api/models", headers=headers).status_code in (403, 421)


def test_frames_only_where_the_owner_says_so() -> None:
    with behind() as client:
        assert client.get("/").headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in client.get("/").headers["content-security-policy"]
    with behind(frames=("https://course.example",)) as client:
        headers = client.get("/").headers
        assert "x-frame-options" not in headers
        assert headers["content-security-policy"].endswith("frame-ancestors 'self' https://course.example")


def test_signing_in_within_the_frame_of_another_site_needs_https() -> None:
    """Browsers keep a cookie there only if it is for all sites, which they take over https alone."""
    with behind(
        frames=("https://course.example",), token="s3cret", hosts=("localhost", "course.example")
    ) as client:
        plain = client.get("/?token=s3cret", follow_redirects=False).headers["set-cookie"].lower()
        assert "samesite=strict" in plain
        client.base_url = "https://localhost:8000"
        cookie = client.get("/?token=s3cret", follow_redirects=False).headers["set-cookie"].lower()
        assert "samesite=none" in cookie
        assert "secure" in cookie
        assert cookie.endswith("; partitioned")
        assert client.get("/api/models").status_code == 200
        assert client.get("/api/models", headers={"origin": "https://evil.example"}).status_code == 403
        assert client.get("/api/models", headers={"sec-fetch-site": "cross-site"}).status_code == 403


def test_the_sign_in_leads_below_the_root() -> None:
    with behind(root="/regard", token="s3cret") as client:
        assert client.get("/openapi.json", headers={"authorization": "Bearer s3cret"}).json()["servers"] == [
            {"url": "/regard"}
        ]
        answer = client.get("/regard/?token=s3cret", follow_redirects=False)
        assert answer.headers["location"] == "/regard/"
        assert "set-cookie" in answer.headers


def test_answers_are_compressed(client: TestClient) -> None:
    for path in ("/", "/page/main.js", "/api/models"):
        answer = client.get(path, headers={"accept-encoding": "gzip"})
        assert answer.headers["content-encoding"] == "gzip", path
    plain = client.get("/page/main.js", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers


def test_what_a_proxy_and_a_frame_are_is_checked() -> None:
    from regard.app.serve.start import checked_origins, checked_root
    from regard.errors import BadInput

    assert checked_root("/user/x/proxy/8000/") == "/user/x/proxy/8000"
    for wrong in ("regard", "/a b", "/a//b", "https://x"):
        with pytest.raises(BadInput, match="--root-path"):
            checked_root(wrong)
    for wrong in ("course.example", "https://a.b/c", "*", "https://a.b; script-src *"):
        with pytest.raises(BadInput, match="--frame"):
            checked_origins([wrong])
