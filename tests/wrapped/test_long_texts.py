"""Long texts: of all heads only what is wanted is computed, and never all weights at once."""

import numpy as np
import pytest
import torch
from peak_memory import peak_memory
from wrapped_folders import make_folder

import regard
from regard.attention import trace
from regard.attention.record import pooled
from regard.errors import BadInput
from regard.show.heads import pool
from regard.tasks.shared.looking import Part, Pooled, Tile, wanted_part
from regard.tasks.shared.received import TooLarge

pytest.importorskip("transformers")

TOKENS, HEADS = 1600, 32
WHOLE = TOKENS * TOKENS * HEADS * 4 / 2**20  # MiB of the weights of one layer: 312


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A causal model with one vector for each text, so that a long one is looked at by all its tokens."""
    settings = {"num_attention_heads": HEADS, "num_key_value_heads": 8, "hidden_size": 64, "head_dim": 2}
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
    for part in (Part(head=32, rows=range(2)), Part(head=1, rows=range(4000, 5000))):
        with wanted_part(part), pytest.raises(BadInput, match=r"heads 0 to 31|rows must lie in 0 to 1598"):
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
