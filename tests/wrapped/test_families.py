"""Models that only transformers has: opened, asked, and their attention compared with what it says itself."""

from functools import cache

import numpy as np
import pytest
import torch
from wrapped_folders import FAMILIES, GENERATORS, TRANSLATORS, make_folder

import regard
from regard.attention import trace
from regard.errors import RunError
from regard.tasks.core.table import outline, tasks_for

transformers = pytest.importorskip("transformers")

TEXT = "the cat sat on the mat"
ENCODERS = ("roberta", "distilbert", "distilbert-classes", "roberta-states")
TASKS = dict.fromkeys(GENERATORS, "generate") | dict.fromkeys(TRANSLATORS, "translate")
TASKS |= {"roberta": "fill", "distilbert": "fill", "distilbert-classes": "classify", "roberta-states": "embed"}
TASKS |= {"deit": "recognise", "clip": "recognise"}
PIXELS = np.random.default_rng(0).integers(0, 255, (12, 12, 3), dtype=np.uint8)
STRIPES = PIXELS[:, ::-1].copy()


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = {}

    def folder(name):
        if name not in made:
            made[name] = make_folder(name, tmp_path_factory.mktemp(name))
        return made[name]

    return folder


@cache
def theirs(folder, name, **options):
    kind = "WhisperForCausalLM" if name == "whisper" else "CLIPVisionModel" if name == "clip" else FAMILIES[name][0]
    return getattr(transformers, kind).from_pretrained(folder, **options).eval()


@cache
def opened(folders, name):
    """Tests only ask it."""
    return regard.load(folders(name), device="cpu")


@pytest.mark.parametrize("name", FAMILIES)
def test_a_folder_is_for_its_task_and_says_so_without_weights(folders, name):
    drawn, run = outline(folders(name)), opened(folders, name)
    assert [task.verb for task in tasks_for(drawn)] == [task.verb for task in tasks_for(run)]
    assert run.task.verb == TASKS[name]
    assert next(drawn.model.parameters()).is_meta
    assert run.about()["paper"] == f"{run.about()['model']} of transformers"
    assert f": {run.about()['model']}, " in repr(run)
    assert {site.split(".")[-1] for site in (run.model.alignment,)} <= {"attend", "cross"}
    with pytest.raises(RunError, match="regard opens and does not write"):
        run.save(folders(name).parent / "copy")


@pytest.mark.parametrize("name", [*GENERATORS, *ENCODERS])
@torch.no_grad()
def test_attention_is_what_transformers_says(folders, name):
    run = opened(folders, name)
    ids = torch.tensor([run.read(TEXT) if name in GENERATORS else run.read(TEXT).row[0]])
    told = theirs(folders(name), name, attn_implementation="eager")(input_ids=ids, output_attentions=True)
    with trace(run.model) as seen:
        run.model.states(ids)
    assert seen.sites == [f"blocks.{layer}.attend" for layer in range(2)]
    for site, weights in zip(seen.sites, told.attentions, strict=True):
        torch.testing.assert_close(seen[site], weights, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", TRANSLATORS)
@torch.no_grad()
def test_attention_of_encoder_decoder_and_across(folders, name):
    run, model = opened(folders, name), theirs(folders(name), name, attn_implementation="eager")
    source, target = torch.tensor([run.read(TEXT).ids]), torch.tensor([[run.tokenizer.special.start, 5, 6, 7]])
    told = model(input_ids=source, decoder_input_ids=target, output_attentions=True)
    with trace(run.model) as seen:
        run.model.decode(target, *run.model.encode(source, source > -1))
    for layer in range(2):
        for site, weights in {
            f"encoder.{layer}.attend": told.encoder_attentions,
            f"decoder.{layer}.attend": told.decoder_attentions,
            f"decoder.{layer}.cross": told.cross_attentions,
        }.items():
            torch.testing.assert_close(seen[site], weights[layer], atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["deit", "clip"])
@torch.no_grad()
def test_attention_over_patches(folders, name):
    run, images = opened(folders, name), torch.randn(1, 3, 12, 12)
    told = theirs(folders(name), name, attn_implementation="eager")(pixel_values=images, output_attentions=True)
    with trace(run.model) as seen:
        run.model.tokens(images)
    for site, weights in zip(seen.sites, told.attentions, strict=True):
        torch.testing.assert_close(seen[site], weights, atol=1e-5, rtol=0)
    answer = run.recognise(PIXELS)
    assert bool(answer.label) is (name == "deit")
    assert run.maps(PIXELS, ["blocks.0.*"]).keys() == {f"blocks.0.attend, head {head}" for head in range(4)}
    assert run.maps(PIXELS)["rollout"].shape == (3, 3)


def until_end(run, tokens):
    """As many as were written, without the end token."""
    end = run.tokenizer.special.end
    return tuple(tokens[: tokens.index(end)] if end in tokens else tokens)


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("name", GENERATORS)
@torch.no_grad()
def test_a_text_goes_on_as_transformers_generates_it(folders, name, beam):
    """Alone, and among others of other lengths."""
    run, model = opened(folders, name), theirs(folders(name), name)
    texts = [TEXT, "a dog", "blue trees grow now"]
    options = {"max_tokens": 8, "temperature": 0.0, "beam": beam, "length_penalty": 0.0}
    never = [[token] for token in {run.tokenizer.special.pad, run.tokenizer.special.unknown}]
    for text, together in zip(texts, run.generate(texts, **options), strict=True):
        ids = torch.tensor([run.read(text)])
        wanted = model.generate(
            ids, max_new_tokens=8, do_sample=False, num_beams=beam, length_penalty=0.0, bad_words_ids=never
        )
        wanted = until_end(run, wanted[0, ids.shape[1] :].tolist())
        assert run.generate(text, **options).written == together.written == wanted


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("name", TRANSLATORS)
@torch.no_grad()
def test_a_source_becomes_what_transformers_makes_of_it(folders, name, beam):
    run, model = opened(folders, name), theirs(folders(name), name)
    texts = [TEXT, "a dog", "blue trees grow now"]
    special = run.tokenizer.special
    never = [[token] for token in {special.pad, special.start} - {special.end}]
    answers = run.translate(texts, beam=beam, max_length=8, length_penalty=0.0)
    for text, answer in zip(texts, answers, strict=True):
        ids = torch.tensor([run.read(text).ids])
        wanted = model.generate(ids, max_new_tokens=8, num_beams=beam, length_penalty=0.0, bad_words_ids=never)
        assert answer.written == until_end(run, wanted[0, 1:].tolist())


@pytest.mark.parametrize("name", ["roberta", "distilbert"])
@torch.no_grad()
def test_blanks_are_filled_as_by_transformers(folders, name):
    run, model = opened(folders, name), theirs(folders(name), name)
    read = transformers.PreTrainedTokenizerFast.from_pretrained(folders(name))
    text = "the <mask> sat on the mat"
    ids = read(text, return_tensors="pt")["input_ids"]
    assert run.read_blanks(text).row[0] == ids[0].tolist()
    shares = model(input_ids=ids).logits[0, ids[0].tolist().index(4)].softmax(-1)
    shares[:5] = -1  # special tokens are no fillings
    best = shares.topk(3)
    filled = run.fill(text, top=3)
    assert [token for token, _ in filled.blanks[0]] == run.tokenizer.tokens(best.indices.tolist())
    np.testing.assert_allclose([share for _, share in filled.blanks[0]], best.values, atol=1e-5)
    assert filled.text == f"the {filled.blanks[0][0][0].strip('▁')} sat on the mat"


@torch.no_grad()
def test_classes_of_texts_and_pairs_are_those_of_transformers(folders):
    run, model = opened(folders, "distilbert-classes"), theirs(folders("distilbert-classes"), "distilbert-classes")
    read = transformers.PreTrainedTokenizerFast.from_pretrained(folders("distilbert-classes"))
    for given in (TEXT, ("a dog ran", "over the hill")):
        both = given if isinstance(given, tuple) else (given,)
        ids = read(*both, return_tensors="pt")["input_ids"]
        shares = model(input_ids=ids).logits[0].softmax(-1).tolist()
        mine = run.classify(given).probabilities
        np.testing.assert_allclose([mine["no"], mine["yes"]], shares, atol=1e-5)
    assert len(run.classify([TEXT, "a dog"])) == 2


@torch.no_grad()
def test_vectors_are_means_of_the_last_states(folders):
    run, model = opened(folders, "roberta-states"), theirs(folders("roberta-states"), "roberta-states")
    ids = torch.tensor([run.read(TEXT).row[0]])
    np.testing.assert_allclose(run.embed(TEXT), model(input_ids=ids)[0][0].mean(0), atol=1e-5)
    both = run.embed([TEXT, "a dog"])
    np.testing.assert_allclose(both[0], run.embed(TEXT), atol=1e-5)
    np.testing.assert_allclose(both[1], run.embed("a dog"), atol=1e-5)
    assert np.isfinite(run.embed(TEXT, layer=0)).all()


def test_text_is_cut_to_what_the_model_takes(folders):
    """RoBERTa's positions begin behind its padding token: two fewer than config.json seems to say."""
    run = opened(folders, "roberta-states")
    assert run.max_length == 63
    answer = run.read("the cat " * 60)
    assert len(answer.row[0]) == 63
    assert answer.row[0][-1] == run.tokenizer.special.end
    assert answer.cut is not None
    run.embed("the cat " * 60)
