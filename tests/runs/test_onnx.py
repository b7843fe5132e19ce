"""`--format onnx`: onnxruntime gives the answers of the model, whatever the batch and the lengths."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
import torch._dynamo
from small_models import LABELS, build
from torch.onnx._internal.exporter._registration import ONNXRegistry

from regard.errors import RunError
from regard.runs import onnx_file
from regard.runs.onnx_file import CLOSE, GRAPHS, Graph, check_graph

SMALL: dict[str, tuple[str, dict[str, Any]]] = {
    "states": ("bert", {"head": "none"}),
    "masked and next": ("bert", {"head": "pretrain"}),
    "spans": ("bert", {"head": "span", "segments": 2}),
    "texts": ("bert", {"head": "classify", "labels": LABELS, "bigrams": 7, "segments": 1}),
    "pooled": ("pooling", {"cell": "lstm", "bigrams": 7}),
    "documents": ("han", {"bigrams": 7, "cell": "rnn"}),
    "documents, gated": ("han", {"bigrams": 7}),
    "patches": ("vit", {}),
    "states of patches": ("vit", {"labels": ()}),
    "channels": ("senet", {}),
}
OUTPUTS = {
    "states": ["last_hidden_state", "pooler_output"],
    "masked and next": ["prediction_logits", "seq_relationship_logits"],
    "spans": ["start_logits", "end_logits"],
    "states of patches": ["last_hidden_state"],
}
# Each has a short form: another head of a BERT, another cell, or images without classes.
THOROUGH = ("masked and next", "spans", "texts", "pooled", "documents, gated", "states of patches")


@pytest.fixture(scope="module", autouse=True)
def written_quickly() -> Iterator[None]:
    """torch lists all operations of ONNX anew for each graph, which takes as long as to write a small one. And with
    dynamic sizes, to look up what an operation gave takes it longer than to find it out again."""
    with pytest.MonkeyPatch.context() as patch, torch._dynamo.config.patch(fake_tensor_cache_enabled=False):
        patch.setattr(ONNXRegistry, "from_torchlib", staticmethod(cache(ONNXRegistry.from_torchlib)))
        yield


def graph_of(name: str, **changes: Any) -> Graph:
    model = build(name, **({} if name == "senet" else {"layers": 1}), **changes)
    return GRAPHS[type(model)](model).eval()


def write(graph: Graph, path: Path) -> None:
    with onnx_file.quiet(), torch.no_grad():
        onnx_file._write(graph, path)


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.thorough] * (case in THOROUGH)) for case in SMALL]
)
@torch.no_grad()
def test_a_graph_answers_as_the_model(case: str, tmp_path: Path) -> None:
    name, changes = SMALL[case]
    graph, path = graph_of(name, **changes), tmp_path / "model.onnx"
    write(graph, path)
    session = onnxruntime.InferenceSession(path)
    assert [each.name for each in session.get_outputs()] == OUTPUTS.get(case, ["logits"])
    for each in session.get_inputs():
        assert tuple(each.shape[: len(graph.axes[each.name])]) == graph.axes[each.name]
    for rows, length in ((1, 1), (1, 4), (2, 2), (9, 12)):
        given = graph.example(rows, length)
        answers = graph(**given)
        wanted = [answers] if isinstance(answers, torch.Tensor) else answers
        found = session.run(None, {name: tensor.numpy() for name, tensor in given.items()})
        for ours, theirs in zip(wanted, map(torch.tensor, found), strict=True):
            mask = given.get("attention_mask")
            if mask is not None and ours.shape[:2] == mask.shape:  # of padding nothing is said
                ours, theirs = ours[mask != 0], theirs[mask != 0]
            torch.testing.assert_close(theirs, ours, atol=CLOSE, rtol=CLOSE)
    check_graph(graph, path)
    last = [parameter for parameter in graph.parameters() if parameter.dim() == 1][-1]
    last.add_(0.01)
    with pytest.raises(RunError, match="is not that of the model; nothing was written"):
        check_graph(graph, path)
