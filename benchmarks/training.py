"""Training steps beside the same network in plain torch: a loop as a tutorial has it, with torch's own layers and
weights of its own; forward, backward, clipping and AdamW, on a GPU in bfloat16 by autocast. Tokens are random, and
all rows have the same length. regard's step is that of `regard train`: eager, captured, compiled and both; the
plain one eager and compiled.

bahdanau-train     256 x 20 target tokens, 8,000 words, 512 units per direction and in the decoder
translator-train   the small translator (256 wide, 3 + 3 layers, 8,000 words), 256 and 1,024 rows of 16
bert-base-train    BERT-base with two classes, 256 rows of 128 tokens, and of 24 to 128
vit-train          ViT-B/16, 256 images of 224 x 224
systems-train      luong, seq2seq and rnnlm at these sizes. Other systems have rows of their own: lstmn-train, ntm,
                   snail, documents, captions, senet, elmo, vit-cifar10
additive-train     additive scores with both projections, forward and backward"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.frame import Call, Case, bench, note, parameters, row
from benchmarks.shared import adamw, auto_takes, our_ways, plain_step
from regard.attention.kernels.additive import exponentials, sum_of_tanh
from regard.data.batches.batch import PairBatch
from regard.data.images.image_batches import ImageBatch
from regard.data.text.text_encoding import LabelledBatch
from regard.data.text.windows import TextBatch
from regard.models import MODELS
from regard.models.bert import Bert, BertConfig
from regard.models.transformer import Transformer
from regard.models.vit import ViT, ViTConfig

RATE, CLIP, DROPOUT = 1e-4, 1.0, 0.1
Makes = Callable[[], nn.Module]


def words() -> int:
    return bench.pick(300, 8000)


def pairs(rows: int, length: int) -> PairBatch:
    ids = torch.randint(4, words(), (2, rows, length + 1), device=bench.device)
    mask = torch.ones(rows, length + 1, dtype=torch.bool, device=bench.device)
    return PairBatch(ids[0, :, 1:].contiguous(), mask[:, 1:], ids[1], mask)


def plain(make: Makes, loss_of: Callable[[Any], Tensor], compiled: bool) -> Call:
    torch.manual_seed(0)
    model = make().to(bench.device).train()
    call = torch.compile(loss_of) if compiled else loss_of
    return plain_step([lambda: call(model)], adamw(model, RATE), clip=CLIP, half=bench.gpu)


def beside(
    name: str, count: int, make: Callable[[], Any], batch: Any, theirs: Makes, loss_of: Callable[[Any], Tensor],
    *, flops: float = 0.0,
) -> Case:  # fmt: skip
    """regard's ways, and the plain form's."""
    note(f"{name}: auto is {auto_takes(make())}")
    contenders = our_ways(make, [batch], RATE, max_grad_norm=CLIP)
    contenders["plain torch"] = partial(plain, theirs, loss_of, False)
    if bench.gpu:
        contenders["plain torch, compiled"] = partial(plain, theirs, loss_of, True)
    return Case(name, count, contenders, flops=flops, dtype=bench.dtype)


def built(name: str, **settings: Any) -> Any:
    torch.manual_seed(0)
    return MODELS[name](MODELS[name].Config(words(), **settings))


def cross_entropy(logits: Tensor, right: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1).float(), right.flatten())


# ---- recurrent


class PlainTranslator(nn.Module):
    """Bahdanau's, with a GRU cell a step; or without attention, a GRU over all steps (`seq2seq`); or Luong's, which
    feeds the attentional state to the next step."""

    def __init__(self, kind: str, embed: int, dim: int):
        super().__init__()
        self.kind = kind
        both = kind == "bahdanau"
        memory = 2 * dim if both else dim
        self.source, self.target = nn.Embedding(words(), embed), nn.Embedding(words(), embed)
        layer: Any = nn.GRU if both else nn.LSTM
        self.encoder = layer(embed, dim, batch_first=True, bidirectional=both)
        if kind == "seq2seq":
            self.decoder = nn.LSTM(embed, dim, batch_first=True)
        else:
            cell: Any = nn.GRUCell if both else nn.LSTMCell
            self.cell = cell(embed + (memory if both else dim), dim)
            self.of_query, self.of_keys = nn.Linear(dim, dim, bias=False), nn.Linear(memory, dim, bias=False)
            self.v = nn.Parameter(torch.randn(dim) * dim**-0.5)
            self.first, self.combine = nn.Linear(dim, dim), nn.Linear(memory + dim + (embed if both else 0), dim)
        self.out, self.dropout, self.dim = nn.Linear(dim, words()), nn.Dropout(DROPOUT), dim

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        states, last = self.encoder(self.dropout(self.source(source)))
        embedded = self.dropout(self.target(target))
        if self.kind == "seq2seq":
            return self.out(self.dropout(self.decoder(embedded, last)[0]))
        step = self.bahdanau if self.kind == "bahdanau" else self.luong
        return self.out(self.dropout(torch.stack(list(step(states, last, embedded)), 1)))

    def bahdanau(self, states: Tensor, last: Any, embedded: Tensor) -> Iterator[Tensor]:
        keys, state = self.of_keys(states), self.first(states[:, 0, self.dim :]).tanh()
        for now in embedded.unbind(1):
            scores = torch.tanh(self.of_query(state)[:, None] + keys) @ self.v
            read = (scores.softmax(-1)[:, None] @ states)[:, 0]
            state = self.cell(torch.cat([now, read], -1), state)
            yield self.combine(torch.cat([state, now, read], -1)).tanh()

    def luong(self, states: Tensor, last: Any, embedded: Tensor) -> Iterator[Tensor]:
        keys, state = self.of_keys(states), tuple(part[0] for part in last)
        fed = torch.zeros_like(state[0])
        for now in embedded.unbind(1):
            state = self.cell(torch.cat([now, fed], -1), state)
            scores = (keys @ state[0][..., None])[..., 0]
            read = (scores.softmax(-1)[:, None] @ states)[:, 0]
            fed = self.combine(torch.cat([read, state[0]], -1)).tanh()
            yield fed


class PlainLanguageModel(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.embed, self.out = nn.Embedding(words(), dim), nn.Linear(dim, words())
        self.rnn, self.dropout = nn.LSTM(dim, dim, 2, batch_first=True, dropout=DROPOUT), nn.Dropout(DROPOUT)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(self.dropout(self.rnn(self.dropout(self.embed(tokens)))[0]))


def translating(batch: PairBatch) -> Callable[[Any], Tensor]:
    def loss_of(model: Any) -> Tensor:
        return cross_entropy(model(batch.source, batch.target[:, :-1]), batch.target[:, 1:])

    return loss_of


@row("bahdanau-train", "A training step of Bahdanau's translator, 256 x 20 tokens", unit="tokens", memory=True)
def bahdanau_train() -> Iterator[Case]:
    (rows, length), dim = bench.pick((4, 5), (32, 20), (256, 20)), bench.pick(16, 512)
    batch, embed = pairs(rows, length), bench.pick(16, 256)
    make = partial(built, "bahdanau", embed=embed, encoder=dim, decoder=dim, readout=dim, dropout=DROPOUT)
    theirs = partial(PlainTranslator, "bahdanau", embed, dim)
    yield beside(f"{rows} x {length}", rows * length, make, batch, theirs, translating(batch))


@row("systems-train", "A training step of luong, seq2seq and rnnlm", unit="tokens", memory=True)
def systems_train() -> Iterator[Case]:
    (rows, length), dim = bench.pick((4, 5), (32, 20), (256, 20)), bench.pick(16, 512)
    batch, embed = pairs(rows, length), bench.pick(16, 256)
    for name in ("luong", "seq2seq"):
        make = partial(built, name, embed=embed, dim=dim, dropout=DROPOUT)
        theirs = partial(PlainTranslator, name, embed, dim)
        yield beside(f"{name}, {rows} x {length}", rows * length, make, batch, theirs, translating(batch))
    rows, length = bench.pick((4, 5), (8, 70), (64, 70))
    tokens = torch.randint(4, words(), (rows, length + 1), device=bench.device)
    text = TextBatch(tokens, torch.ones_like(tokens[:, 1:], dtype=torch.bool), None)

    def loss_of(model: Any) -> Tensor:
        return cross_entropy(model(tokens[:, :-1]), tokens[:, 1:])

    make = partial(built, "rnnlm", embed=dim, dim=dim, layers=2, dropout=DROPOUT)
    theirs: Makes = partial(PlainLanguageModel, dim)
    yield beside(f"rnnlm, {rows} x {length}", rows * length, make, text, theirs, loss_of)


# ---- blocks


class PlainTransformer(nn.Module):
    def __init__(self, dim: int, heads: int, ff: int, layers: int):
        super().__init__()
        self.embed, self.out = nn.Embedding(words(), dim), nn.Linear(dim, words())
        self.out.weight = self.embed.weight
        self.inner = nn.Transformer(dim, heads, layers, layers, ff, DROPOUT, batch_first=True)
        self.places = nn.Parameter(torch.randn(512, dim) * 0.02)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        x, y = (self.embed(tokens) + self.places[: tokens.shape[1]] for tokens in (source, target))
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], device=target.device)
        return self.out(self.inner(x, y, tgt_mask=mask, tgt_is_causal=True))


@row("translator-train", "A training step of the small translator on rows of 16", unit="tokens", memory=True)
def translator_train() -> Iterator[Case]:
    size: dict[str, Any] = Transformer.SIZES[bench.pick("mini", "small")]
    for rows in bench.pick((4,), (32,), (256, 1024)):
        batch = pairs(rows, 16)
        make = partial(built, "transformer", **size, dropout=DROPOUT)
        theirs = partial(PlainTransformer, size["dim"], size["heads"], size["ff"], size["layers"])
        case = beside(f"{rows} x 16", rows * 16, make, batch, theirs, translating(batch))
        case.flops = 6 * parameters(make()) * rows * 16
        case.dtype = bench.dtype
        yield case


class PlainEncoder(nn.Module):
    """Blocks of torch's; the first state is classified."""

    def __init__(self, dim: int, heads: int, layers: int, classes: int, *, pre: bool):
        super().__init__()
        block = nn.TransformerEncoderLayer(
            dim, heads, 4 * dim, DROPOUT, nn.functional.gelu, batch_first=True, norm_first=pre
        )
        self.blocks = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.classify = nn.Linear(dim, classes)

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        return self.classify(self.blocks(x, src_key_padding_mask=hidden)[:, 0])


class PlainBert(nn.Module):
    def __init__(self, config: BertConfig):
        super().__init__()
        self.words, self.parts = nn.Embedding(config.vocabulary, config.dim), nn.Embedding(2, config.dim)
        self.places, self.norm = nn.Parameter(torch.zeros(512, config.dim)), nn.LayerNorm(config.dim)
        self.dropout = nn.Dropout(DROPOUT)
        self.inner = PlainEncoder(config.dim, config.heads, config.layers, 2, pre=False)

    def forward(self, tokens: Tensor, parts: Tensor, mask: Tensor) -> Tensor:
        x = self.words(tokens) + self.parts(parts) + self.places[: tokens.shape[1]]
        return self.inner(self.dropout(self.norm(x)), ~mask)


@row("bert-base-train", "A training step of BERT-base with two classes", unit="sequences", memory=True)
def bert_base_train() -> Iterator[Case]:
    count, longest = bench.pick((4, 16), (4, 128), (256, 128))
    size: dict[str, Any] = bench.pick({"dim": 32, "layers": 2, "heads": 2}, {})
    config = BertConfig(bench.pick(200, 30522), head="classify", labels=("no", "yes"), **size)
    for name, least in ((f"{longest}", longest), (f"{longest // 5} to {longest}", longest // 5)):
        lengths = torch.randint(least, longest + 1, (count,))
        mask = torch.arange(longest) < lengths[:, None]
        tokens = torch.randint(5, config.vocabulary, mask.shape)
        parts, labels = torch.zeros_like(tokens), torch.randint(2, (count,))
        batch: Any = LabelledBatch(tokens, parts, mask, labels).to(bench.device)

        def loss_of(model: Any, batch: Any = batch) -> Tensor:
            return F.cross_entropy(model(batch.tokens, batch.segments, batch.mask).float(), batch.labels)

        flops = 6 * (parameters(Bert(config)) - config.vocabulary * config.dim) * int(mask.sum())
        yield beside(
            f"{count} x {name}",
            count,
            lambda: Bert(config),
            batch,
            partial(PlainBert, config),
            loss_of,
            flops=flops,
        )


class PlainViT(nn.Module):
    def __init__(self, config: ViTConfig, side: int):
        super().__init__()
        patch, classes = 16 if side > 32 else 8, len(config.labels)
        self.patches = nn.Conv2d(3, config.dim, patch, patch)
        self.first = nn.Parameter(torch.zeros(1, 1, config.dim))
        self.places = nn.Parameter(torch.zeros(1, (side // patch) ** 2 + 1, config.dim))
        self.inner = PlainEncoder(config.dim, config.heads, config.layers, classes, pre=True)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).mT
        return self.inner(torch.cat([self.first.expand(len(x), -1, -1), x], 1) + self.places)


@row("vit-train", "A training step of ViT-B/16 on images of 224 x 224", unit="images", memory=True)
def vit_train() -> Iterator[Case]:
    count, classes = bench.pick((2, 4), (4, 1000), (256, 1000))
    size: dict[str, Any] = bench.pick(
        {"dim": 32, "layers": 2, "heads": 2, "image_size": 32, "patch_size": 8}, {"dropout": DROPOUT}
    )
    config = ViTConfig(labels=tuple(f"class {number}" for number in range(classes)), **size)
    side = bench.pick(32, 224)
    images = torch.randn(count, 3, side, side, device=bench.device)
    labels = torch.randint(classes, (count,), device=bench.device)
    batch = ImageBatch(images, F.one_hot(labels, classes).float())

    def loss_of(model: Any) -> Tensor:
        return F.cross_entropy(model(images).float(), labels)

    flops = 6 * parameters(ViT(config)) * count * ((side // 16) ** 2 + 1)
    theirs = partial(PlainViT, config, side)
    yield beside(f"{count} images", count, lambda: ViT(config), batch, theirs, loss_of, flops=flops)


# ---- additive scores


def scores_of(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    return sum_of_tanh(exponentials(queries), exponentials(keys), v)


def usual_scores(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    return torch.tanh(queries[:, :, None] + keys[:, None]) @ v


def additive_call(form: Callable[..., Tensor], size: tuple[int, ...], captured: bool) -> Call:
    """Forward and backward, with the two projections."""
    rows, count, places, dim = size
    torch.manual_seed(0)
    shapes = ((rows, count, dim), (rows, places, dim), (dim, dim), (dim, dim), (dim,))
    made = [torch.randn(shape, device=bench.device) for shape in shapes]
    tensors = [(x if x.dim() == 3 else x * dim**-0.5).to(bench.dtype).requires_grad_() for x in made]
    grad = torch.randn(size[:3], device=bench.device).to(bench.dtype)

    def call() -> Any:
        q, k, of_q, of_k, v = tensors
        return torch.autograd.grad(form(q @ of_q, k @ of_k, v), tensors, grad)[0]

    if not captured:
        return call
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        found = call()

    def replay() -> Any:
        graph.replay()
        return found, tensors, grad  # kept, since the graph reads them where they are

    return replay


@row("additive-train", "Additive scores with projections, forward and backward", unit="scores", memory=True)
def additive_train() -> Iterator[Case]:
    sizes = bench.pick(
        [(2, 4, 8, 16)], [(8, 32, 64, 128)], [(16, 512, 512, 512), (64, 32, 64, 512), (256, 20, 20, 512)]
    )
    for size in sizes:
        contenders: dict[str, Callable[[], Call]] = {"regard": partial(additive_call, scores_of, size, False)}
        if bench.gpu:
            contenders["regard, captured"] = partial(additive_call, scores_of, size, True)
        contenders["usual"] = partial(additive_call, usual_scores, size, False)
        if bench.gpu:
            contenders["usual, compiled"] = partial(additive_call, torch.compile(usual_scores), size, False)
        yield Case(", ".join(map(str, size)), size[0] * size[1] * size[2], contenders)
