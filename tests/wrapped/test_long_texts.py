"""Long texts: of all heads only what is wanted is computed, and never all weights at once."""

import numpy as np
import pytest
import torch
from peak_memory import peak_memory
from wrapped_folders import make_folder

import regard
from regard.app.serve.limits import Limits
from regard.attention import trace
from regard.attention.record import pooled
from regard.errors import BadInput
from regard.show.heads import pool
from regard.tasks.shared.looking import Part, Pooled, Tile, wanted_part
from regard.tasks.shared.received import TooLarge
from regard.wrapped.kept_calls import KeptCalls

pytest.importorskip("transformers")

TOKENS, HEADS = 1600, 20
WHOLE = TOKENS * TOKENS * HEADS * 4 / 2**20  # MiB of the weights of one layer: 195


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A causal model with one vector for each text, so that a long one is looked at by all its tokens."""
    settings = {"num_attention_heads": HEADS, "num_key_value_heads": 5, "hidden_size": 40, "head_dim": 2}
    folder = make_folder("llama", tmp_path_factory.mktemp("long"), max_position_embeddings=TOKENS, **settings)
    run = regard.load(folder, device="cpu")
    run.look([1] * 600, [5] * 600)  # what is taken once
    return run


@pytest.fixture(scope="module")
def ids(run):
    return torch.randint(5, 60, (1, TOKENS), generator=torch.Generator().manual_seed(0)).tolist()[0]


def test_an_overview_of_every_head_is_small_and_exact(run, ids):
    sites = ["blocks.0.attend", "blocks.1.attend"]
    with wanted_part(Part(side=32, most=2_000_000)), peak_memory() as peak:
        picture = run.look(ids[:1], ids[1:], sites)
    assert isinstance(picture, Pooled)
    assert peak.mib < WHOLE / 2  # and both layers together would be twice as much as one
    data = picture.overview(32)
    assert data["side"] == 32
    assert len(data["rows"]) == len(data["columns"]) == TOKENS - 1
    head = exact(run, ids, sites[1], 17)
    np.testing.assert_allclose(picture.panels[sites[1]][17], pool(head, 32), atol=1e-5)


def test_one_head_and_some_rows_are_a_tile_of_the_whole(run, ids):
    with wanted_part(Part(head=17, rows=range(600, 640), most=2_000_000)), peak_memory() as peak:
        picture = run.look(ids[:1], ids[1:], ["blocks.1.attend"])
    assert isinstance(picture, Tile)
    assert peak.mib < WHOLE / 2
    assert picture.panels["blocks.1.attend"].shape == (1, 40, TOKENS - 1)
    whole = exact(run, ids, "blocks.1.attend", 17)
    np.testing.assert_allclose(picture.panels["blocks.1.attend"][0], whole[600:640], atol=1e-5)
    assert picture.map("blocks.1.attend", 17).title == "blocks.1.attend, head 17"


def exact(run, ids, site, head):
    """One head of all rows: 23 MB."""
    with torch.inference_mode(), trace(run.model, site, heads=[head]) as seen:
        run.model.states(torch.tensor([ids[:-1]]))
    return seen[site][0, 0].numpy()


def test_more_is_refused_before_it_is_computed(run, ids):
    for part, message in [
        (Part(most=2_000_000), "name one site and head, fewer rows, or ask for an overview"),
        (Part(head=3, most=2_000_000), "this would be 2,556,801 weights"),
    ]:
        with wanted_part(part), pytest.raises(TooLarge, match=message), peak_memory() as peak:
            run.look(ids[:1], ids[1:], ["blocks.1.attend"])
        assert peak.mib < 20
    for part in (Part(head=HEADS, rows=range(2)), Part(head=1, rows=range(4000, 5000))):
        with wanted_part(part), pytest.raises(BadInput, match=r"heads 0 to 19|rows must lie in 0 to 1598"):
            run.look(ids[:1], ids[1:], ["blocks.1.attend"])


def test_a_short_text_is_whole_whatever_is_wanted(run):
    with wanted_part(Part(head=1, rows=range(2), side=4)):
        assert type(run.look([1], [5, 6, 7])).__name__ == "Heads"


def test_pooling_takes_the_largest_of_neighbours():
    table = torch.arange(35.0).view(5, 7)
    np.testing.assert_array_equal(pooled(pooled(table, 3, -1), 3, -2), pool(table.numpy(), 3))
    mask = table > 30
    np.testing.assert_array_equal(pooled(pooled(mask, 3, -1), 3, -2), pool(mask.numpy(), 3))
    assert pooled(table, 9, -1) is table


@pytest.fixture
def passes(run):
    """How often the model has read a text."""
    counted = []
    hook = run.model.inner.register_forward_hook(lambda *_: counted.append(1))
    inner = run.model.inner.base_model.register_forward_hook(lambda *_: counted.append(1))
    run.model.kept_calls = KeptCalls()
    yield counted
    hook.remove()
    inner.remove()


def test_one_pass_is_enough_for_an_overview_and_every_tile(run, ids, passes):
    with wanted_part(Part(side=32, most=2_000_000)):
        run.look(ids[:1], ids[1:], ["blocks.1.attend"])
    assert len(passes) == 1
    with wanted_part(Part(head=5, rows=range(900, 910), most=2_000_000)):
        tiles = {
            site: run.look(ids[:1], ids[1:], [site]).panels[site] for site in ("blocks.0.attend", "blocks.1.attend")
        }
    assert len(passes) == 1
    for site, tile in tiles.items():
        np.testing.assert_allclose(tile[0], exact(run, ids, site, 5)[900:910], atol=1e-5)
    passes.clear()
    with wanted_part(Part(head=5, rows=range(2), most=2_000_000)):
        run.look(ids[:1], ids[2:], ["blocks.1.attend"])  # another text
    assert len(passes) == 1


def test_what_is_kept_is_bounded_and_the_site_that_is_looked_at_comes_first(run, ids, passes):
    one = KeptCalls()
    run.model.kept_calls = one
    part = Part(head=5, rows=range(2), most=2_000_000)
    with wanted_part(part):
        run.look(ids[:1], ids[1:], ["blocks.1.attend"])
    _, second = one.calls
    run.model.kept_calls = small = KeptCalls(most=one.bytes - 1)
    passes.clear()
    with wanted_part(part):
        for _ in range(3):
            run.look(ids[:1], ids[1:], ["blocks.1.attend"])
    assert len(passes) == 1
    assert list(small.calls) == [second]
    assert small.bytes <= small.most
    run.model.kept_calls = none = KeptCalls(most=0)
    with wanted_part(part):
        run.look(ids[:1], ids[1:], ["blocks.0.attend", "blocks.1.attend"])
    assert none.calls == {}


def test_long_texts_are_asked_of_models_that_take_them(run, ids):
    from served_models import served

    folder, text = str(run.folder.path), " ".join(["where"] * 3400)
    with served(folder) as client:
        address = f"/api/models/{client.get('/api/models').json()['models'][0]['name']}"
        asked = {"inputs": [text[:20_001]], "options": {"max_tokens": 1}}
        done = client.post(f"{address}/generate", json=asked)
        assert (done.status_code, "may have 20,000 characters" in done.text) == (413, True)  # it takes 1,600 tokens
    assert Limits().of_model(1600).characters == 20_000
    assert Limits().of_model(4096).characters == 32_768
    assert Limits().of_model(1 << 30).characters == 65_536


def test_a_weight_of_a_long_text_is_not_opened(run, ids):
    from served_models import served

    text = " ".join(["where", "cat"] * 400)
    with served(str(run.folder.path)) as client:
        address = f"/api/models/{client.get('/api/models').json()['models'][0]['name']}"
        asked = {"inputs": [text], "options": {"max_tokens": 2}}
        answer = client.post(f"{address}/generate", json=asked).json()["answers"][0]["id"]
        where = {"site": "blocks.0.attend", "table": "panels/blocks.0.attend", "head": 1, "row": 0, "column": 3}
        with peak_memory() as peak:
            done = client.get(f"{address}/answers/{answer}/cell", params=where)
        assert done.status_code == 413
        assert "a weight is opened in texts of some hundred tokens" in done.text
        assert peak.mib < 40
        unasked = client.get(f"{address}/answers/{answer}/cell", params={**where, "first": "true"})
        assert (unasked.status_code, unasked.json()) == (200, None)
