import json

import torch

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
    log.cut(Standing())  # nothing there yet
    whole = [{"step": 1}, {"step": 2}, {"step": 2, "valid_loss": 0.5}, {"step": 2, "averaged": 3}, {"step": 3}]
    text = "".join(json.dumps(row) + "\n" for row in whole)
    log.path.write_text(text + '{"step": 2, "los')
    log.cut(Standing(step=2))
    assert rows_of(log.path) == whole[:3]  # the average will be made, and logged, again
    log.path.write_text(text + '{"step": 1}')  # good JSON, but the line is not finished
    log.cut(Standing(step=2, ended=True))
    assert rows_of(log.path) == whole[:4]
    log.path.write_bytes(b'{"step": 1}\n\xff\x00\n[]\n{"other": 1}\n{"step": 2}\n')
    log.cut(Standing(step=2))
    assert rows_of(log.path) == [{"step": 1}, {"step": 2}]
    log.cut(Standing())
    assert rows_of(log.path) == []
