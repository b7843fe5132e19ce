"""How good captions are, whether a captioner looks at what it names, and whether another captioner is better."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from regard.base.divided import each
from regard.data.images.captions import CaptionSet
from regard.data.images.images import resize, with_channels
from regard.metrics.bootstrap import Comparison, bootstrap_means
from regard.metrics.captions import caption_bleu, caption_grade, caption_words, cider, rouge_l
from regard.metrics.exact_match import exact_match
from regard.metrics.pointing import chance, near_object
from regard.show import Entry, Sheet
from regard.tasks.caption.prepare import TestCaptions
from regard.tasks.caption.run import Captioner
from regard.tasks.core.card import Options
from regard.tasks.core.options import change_decoding
from regard.tasks.core.results import Evaluation, Tick, no_tick
from regard.tasks.shared.image_run import BATCH
from regard.tasks.shared.measuring import total_loss

EDGE = 200  # pixels of an image on a sheet


@dataclass(frozen=True)
class Captioned:
    """What two captioners are compared by, and a sheet is drawn from."""

    answers: list[str]
    test: CaptionSet
    cider: list[float]  # of each caption
    rouge_l: list[float]


def evaluate(
    run: Captioner,
    data: TestCaptions,
    *,
    only: Sequence[str] = (),
    options: Options | None = None,
    tick: Tick = no_tick,
) -> Evaluation:
    """The metrics of captions, pointing where the objects are known, and the loss of all references. Loss and
    perplexity are per token, so that they compare runs with one tokenizer only."""
    test = data.subset
    references = list(test.captions)
    size = run.model.config.size
    decoding = change_decoding(run.decode, {"beam": (options or {}).get("beam")})

    def caption(rows: range, tick: Tick) -> Iterator[str]:
        opened = (run.open(test.images.read(row, size)) for row in rows)
        return (answer.text for answer in run.answers(opened, decoding, tick=tick))

    answers = list(each(parts_of(test), caption, tick=tick, at_once=1, own_pace=True))
    nats, tokens = total_loss(run.model, data.ids.order(0), data.ids.batch)
    loss = nats / tokens
    mean_cider, each_cider = cider(answers, references)
    spoken, wanted = (
        [_spoken(text) for text in answers],
        [[_spoken(text) for text in texts] for texts in references],
    )
    metrics = {"cider": mean_cider, "exact_match": exact_match(spoken, wanted)}
    metrics |= {f"bleu{order}": score for order, score in enumerate(caption_bleu(answers, references), 1)}
    metrics |= {"perplexity": math.exp(min(700.0, loss)), "loss": loss}
    if only:
        return Evaluation({name: metrics[name] for name in only})
    metrics["rouge_l"], each_rouge = rouge_l(answers, references)
    pointed, by_chance = pointing(run, test)
    return Evaluation(
        metrics | pointed,
        {"images": len(answers), "captions": len(data.ids)},
        dict(by_chance),
        by_chance,
        compared=Captioned(answers, test, each_cider, each_rouge),
    )


def parts_of(test: CaptionSet) -> list[range]:
    """The rows of images that are looked at together."""
    return [range(first, min(first + BATCH, len(test))) for first in range(0, len(test), BATCH)]


def _spoken(caption: str) -> str:
    """Without case and punctuation, as the other metrics read it."""
    return " ".join(caption_words(caption))


def pointing(run: Captioner, test: CaptionSet) -> tuple[dict[str, float], dict[str, float]]:
    """How many of the named objects are where their word looked most, in percent, and how many would be by chance;
    from one pass over the first references. Nothing where the objects are not known or there is no attention."""
    if test.objects is None or not run.model.alignment:
        return {}, {}
    objects = test.objects

    def point(part: range, tick: Tick) -> Iterator[list[float]]:
        texts = [run.tokenizer.encode_words(test.captions[row][0]) for row in part]
        images = run.read([test.images.read(row) for row in part])
        weights, _ = run.looks(images, [ids for ids, _ in texts])
        for row, seen, (_, words) in zip(part, weights, texts, strict=True):
            for named in objects[row]:
                look, mask = seen[words.index(named.word)], run.seen(named.mask[..., None])[..., 0]
                hits = [float(near_object(look, mask, cells)) for cells in (0, 1)]
                yield [*hits, *(chance(mask, run.model.grid(images), cells) for cells in (0, 1))]

    rows = list(each(parts_of(test), point))
    on, near, on_chance, near_chance = (100 * np.mean(rows, 0)).tolist()
    return (
        {"pointing": on, "pointing_near": near},
        {"pointing_by_chance": on_chance, "pointing_near_by_chance": near_chance},
    )


def compare(first: Evaluation, second: Evaluation) -> list[Comparison]:
    """Paired bootstrap by the metrics that are means over captions."""
    before, after = _captioned(first), _captioned(second)
    if list(before.test.captions) != list(after.test.captions):
        raise ValueError("the runs were evaluated on different captions; name the captions for all: --data FILE")
    return [
        bootstrap_means(before.cider, after.cider, metric="cider"),
        bootstrap_means(before.rouge_l, after.rouge_l, metric="rouge_l"),
    ]


def plot(evaluations: Mapping[str, Evaluation]) -> Sheet:
    """Captions ranked by their CIDEr; of several runs by the first's, with the others' below."""
    runs = [_captioned(evaluation) for evaluation in evaluations.values()]
    first, names = runs[0], [f"{name}: " if len(runs) > 1 else "" for name in evaluations]
    entries = []
    for row, (references, score) in enumerate(zip(first.test.captions, first.cider, strict=True)):
        said = "\n".join(f"{name}{run.answers[row]}" for name, run in zip(names, runs, strict=True))
        image, graded = small(first.test.images.read(row)), grade(first.answers[row], references, score)
        entries.append(Entry(image, said, references, score, graded))
    return Sheet(entries)


def grade(answer: str, references: Sequence[str], score: float) -> str:
    """By CIDEr; for an image with one reference only that caption is right."""
    word = caption_grade(score)
    wrong = len(references) == 1 and _spoken(answer) != _spoken(references[0])
    return "minor errors" if wrong and word == "right" else word


def small(image: np.ndarray) -> np.ndarray:
    """(H, W, 3), at most EDGE pixels high and wide: all images of a test set are held in memory."""
    shrunk = min(1.0, EDGE / max(image.shape[:2]))
    height, width = (max(1, round(side * shrunk)) for side in image.shape[:2])
    return resize(with_channels(image, 3), height, width)


def _captioned(evaluation: Evaluation) -> Captioned:
    assert isinstance(evaluation.compared, Captioned)
    return evaluation.compared
