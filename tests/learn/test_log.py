import json
import os

import pytest
import torch
from peak_memory import peak_memory

from regard.errors import DataError
from regard.learn.checkpoint import Standing
from regard.learn.log import Log


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_rows_keep_their_exact_numbers_and_stay_json(tmp_path):
    log = Log(tmp_path / "log.jsonl")
    loss = torch.tensor(0.1)
    log.add({"step": 1, "loss": loss, "tokens": torch.tensor(7)})
    log.add({"step": 2, "loss": torch.tensor(float("nan")), "tokens": 3})
    returned = log.flush(sync=True)
    assert returned[0] == {"step": 1, "loss": loss.item(), "tokens": 7}
    assert rows_of(log.path) == [
        {"step": 1, "loss": loss.item(), "tokens": 7},
        {"step": 2, "loss": None, "tokens": 3},
    ]
    assert "NaN" not in log.path.read_text()


def test_cut_leaves_the_rows_up_to_the_checkpoint_and_repairs_a_torn_line(tmp_path):
    log = Log(tmp_path / "log.jsonl")
    said = []
    log.cut(Standing(), said.append)  # nothing there yet
    whole = [
        {"step": 1, "loss": 1.0},
        {"step": 2, "loss": None},
        {"step": 2, "valid_loss": 0.5},
        {"step": 2, "averaged": 3},
        {"step": 3},
    ]
    text = "".join(json.dumps(row) + "\n" for row in whole)
    log.path.write_text(text + '{"step": 2, "los')
    log.cut(Standing(step=2), said.append)
    assert rows_of(log.path) == whole[:3]  # the average will be made, and logged, again
    log.path.write_text(text + '{"step": 1}')  # good JSON, but the line is not finished
    log.cut(Standing(step=2, ended=True), said.append)
    assert rows_of(log.path) == whole[:4]
    assert said == []
    log.path.write_bytes(b'{"step": 1, "loss": 1}\n\xff\x00\n[]\n{"other": 1}\n{"step": 2, "loss": "a"}\n')
    log.cut(Standing(step=2), said.append)
    assert rows_of(log.path) == [{"step": 1, "loss": 1}]
    assert "log.jsonl lacks 1 of the 2 steps up to the checkpoint (step 2)" in said[0]
    log.cut(Standing(), said.append)
    assert len(said) == 1
    assert rows_of(log.path) == []


def test_a_log_of_any_size_is_read_row_by_row(tmp_path):
    """Not all of it at once, and no row that is longer than any that was written."""
    log, said = Log(tmp_path / "log.jsonl"), []
    with log.path.open("wb") as file:
        file.write(b'{"step": 1, "loss": 1}\n' * 100_000)
        file.write(b'{"step": 1, "loss": ' + b"1" * (40 << 20) + b"}\n")
        file.write(b'{"step": 1, "loss": 2, "x": ' + b"[" * 500_000 + b"\n")
        file.write(b'{"step": 2, "loss": 3}\n{"step": 2, "lo')
    with peak_memory() as peak:
        log.cut(Standing(step=2), said.append)
    assert peak.mib < 20
    assert said == []
    assert rows_of(log.path) == [{"step": 1, "loss": 1}] * 100_000 + [{"step": 2, "loss": 3}]


def test_a_log_that_is_no_file_does_not_wait(tmp_path):
    os.mkfifo(tmp_path / "log.jsonl")
    with pytest.raises(DataError, match=r"log\.jsonl must be a regular file, and is a pipe"):
        Log(tmp_path / "log.jsonl").cut(Standing(), print)
