"""A trained encoder that is asked for vectors: of texts, of tokens in their text, and which others are near."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypedDict, Unpack, get_args, overload

import numpy as np
import torch
from torch import Tensor

from regard.data.text.tokenizer import Tokenizer
from regard.errors import BadInput
from regard.learn.progress import say
from regard.models import name_of, protocols
from regard.models.protocols import Model, need
from regard.tasks.core.inputs import check_there, check_top
from regard.tasks.core.options import checks_keywords
from regard.tasks.core.results import NotWhole, Tick, Unread, no_tick
from regard.tasks.embed.answers import TokenVectors, Vector
from regard.tasks.embed.card import Pool
from regard.tasks.embed.neighbours import Neighbour, find_token, nearest_tokens
from regard.tasks.shared.reader_answers import LookAt, Texts
from regard.tasks.shared.text_reader import Encoded, Many, T, TextReader, is_single


class TokenOptions(TypedDict, total=False):
    """The options of `embed_tokens`, as `embed` has them."""

    layer: int | None
    normalise: bool


class Embedder(TextReader):
    """A trained encoder, as `regard.load(run)` gives it: vectors of texts and of their tokens."""

    model: protocols.LayeredEncoder
    pools: tuple[str, ...] = ("mean",)

    def __init__(self, model: Model, tokenizer: Tokenizer, max_length: int = 0):
        """max_length: how many tokens of a text are read, 0: as many as the model takes."""
        super().__init__(need(model, protocols.LayeredEncoder), tokenizer, max_length)

    # ---- texts

    @checks_keywords
    def embed(
        self, text: Texts | Many, *, pool: Pool = "mean", layer: int | None = None, normalise: bool = False
    ) -> np.ndarray:
        """The vector (D,) of a text or of a pair of texts (a tuple), or those (N, D) of a list: the mean of the
        tokens' states, or the state of [CLS]. `layer`: of this layer, 0 = the token embeddings; None: what the
        model gives, the last layer of a BERT, the mix of all layers of an ELMo."""
        if is_single(text):
            check_there(text, "embed")
        read = [self.read(text)] if is_single(text) else self._read_all(text, self.read)
        vectors, unread = [], Unread("texts")
        for answer in self.vectors(read, pool=pool, layer=layer, normalise=normalise):
            vectors.append(answer.vector)
            unread.add(NotWhole.of(answer))
        for line in unread.lines():  # an array cannot tell
            say(line)
        if is_single(text):
            return vectors[0]
        return np.stack(vectors) if vectors else np.zeros((0, self.width), np.float32)

    def vectors(
        self,
        texts: Iterable[Encoded[T]],
        *,
        pool: str = "mean",
        layer: int | None = None,
        normalise: bool = False,
        tick: Tick = no_tick,
    ) -> Iterator[Vector]:
        """The vector of each text, in the order of the texts. `tick` is called once for each as it is answered."""
        self.check_pool(pool)
        self.check_layer(layer)

        def take(batch: Any) -> list[np.ndarray]:
            states = self._states(batch, layer)
            pooled = states[:, 0]
            if pool == "mean":
                shares = self.model.state_mask(batch)[..., None].to(states.dtype)
                pooled = (states * shares).sum(1) / shares.sum(1).clamp(min=1)
            return list(_to_numpy(pooled, normalise))

        def of_text(encoded: Encoded[T], vector: np.ndarray) -> Vector:
            return Vector(encoded.text, vector, **encoded.unread, _look=self._look_of(encoded))

        yield from self._answers(texts, take, of_text, tick)

    # ---- tokens

    @overload
    def embed_tokens(self, text: Texts, **options: Unpack[TokenOptions]) -> TokenVectors: ...
    @overload
    def embed_tokens(self, text: Many, **options: Unpack[TokenOptions]) -> list[TokenVectors]: ...
    @checks_keywords
    def embed_tokens(
        self, text: Texts | Many, **options: Unpack[TokenOptions]
    ) -> TokenVectors | list[TokenVectors]:
        """A vector for each token of a text, or of each of a list; `layer` as in `embed`."""
        if is_single(text):
            check_there(text, "embed")
            return next(self.token_vectors([self.read(text)], **options))
        return list(self.token_vectors(self._read_all(text, self.read), **options))

    def token_vectors(
        self,
        texts: Iterable[Encoded[T]],
        *,
        layer: int | None = None,
        normalise: bool = False,
        tick: Tick = no_tick,
    ) -> Iterator[TokenVectors]:
        """Vectors of tokens in the order of the texts; see `vectors`."""
        self.check_layer(layer)

        def take(batch: Any) -> list[np.ndarray]:
            rows = _to_numpy(self._states(batch, layer), normalise)
            counts = self.model.state_mask(batch).sum(1).tolist()
            return [row[:count] for row, count in zip(rows, counts, strict=True)]

        def of_tokens(encoded: Encoded[T], vectors: np.ndarray) -> TokenVectors:
            tokens = tuple(islice(self._tokens(encoded), len(vectors)))
            return TokenVectors(encoded.text, tokens, vectors, **encoded.unread, _look=self._look_of(encoded))

        yield from self._answers(texts, take, of_tokens, tick)

    @checks_keywords
    def neighbours(
        self, text: str, word: str, corpus: Iterable[str], *, top: int = 10, layer: int | None = None
    ) -> list[Neighbour]:
        """The tokens of a corpus nearest to a word in its text, by the cosine of their vectors; the text itself is
        left out where the corpus has it. `word` is one token of the text, the first of that name; `layer` as in
        `embed`."""
        check_top(top)
        if isinstance(corpus, str):
            raise BadInput("corpus must be a list of texts, got a single one; put it in a list")
        unread = Unread("texts")

        def vectors(texts: Iterable[Encoded[str]]) -> Iterator[TokenVectors]:
            for answer in self.token_vectors(texts, layer=layer, normalise=True):
                unread.add(NotWhole.of(answer))
                yield answer

        vector = find_token(next(vectors([self.read(text)])), word)
        others = self._read_all((other for other in corpus if other != text), self.read)
        nearest = nearest_tokens(vector, vectors(others), top)
        for line in unread.lines():  # a neighbour cannot tell
            say(line)
        return nearest

    # ---- what a kind of model decides

    @property
    def width(self) -> int:
        """The size of a vector."""
        return self.model.state_dim

    def check_pool(self, pool: str) -> None:
        """BadInput where this model cannot pool so."""
        if not isinstance(pool, str) or pool not in get_args(Pool):
            raise BadInput(f"pool must be one of {', '.join(get_args(Pool))}, got {pool!r:.40}")
        if pool not in self.pools:
            raise BadInput(f"this {name_of(self.model)} has no [CLS], so pool must be mean, got {pool!r}")

    def check_layer(self, layer: int | None) -> None:
        """BadInput where there is no such layer."""
        most = self.model.config.layers
        if layer is not None and (type(layer) is not int or not 0 <= layer <= most):
            raise BadInput(f"layer must lie in 0 to {most}, 0 for the token embeddings; got {layer!r:.40}")

    def _states(self, batch: Any, layer: int | None) -> Tensor:
        """(B, T, D)"""
        if layer is None:
            return self.model.text_states(batch)
        return self.model.states_of_layers(batch)[:, layer]

    def _tokens(self, encoded: Encoded[Any]) -> Iterable[str]:
        """What each token of the text is called: its part of the text. There may be more than were read."""
        text = encoded.text if isinstance(encoded.text, str) else encoded.text[0]
        return self.encoding.pieces(text, self.tokenizer)

    def _look_of(self, encoded: Encoded[Any]) -> LookAt | None:
        return None


def _to_numpy(vectors: Tensor, normalise: bool) -> np.ndarray:
    if normalise:
        vectors = torch.nn.functional.normalize(vectors, dim=-1)
    array: np.ndarray = vectors.float().cpu().numpy()
    return array
