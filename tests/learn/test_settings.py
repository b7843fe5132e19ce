import math

import pytest

from regard.learn.settings import Training


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"label_smoothing": 2}, r"label_smoothing must lie in \[0, 1\), got 2"),
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"steps": 1.5}, "steps must be a whole number, got 1.5"),
        ({"eval_every": True}, "eval_every must be a whole number, got True"),
        (
            {"schedule": "linear"},
            "schedule must be one of 'constant', 'cosine', 'inverse_root', 'plateau', got 'linear'",
        ),
        ({"schedule": "plateau", "best_by": "last"}, "plateau waits for a better validation: it needs a metric"),
        ({"learning_rate": 0}, "learning_rate must be above 0, got 0"),
        ({"learning_rate": math.nan}, "learning_rate must be a number, got nan"),
        ({"learning_rate": "fast"}, "learning_rate must be a number, got 'fast'"),
        ({"betas": (0.9,)}, "betas must be a list of 2 numbers"),
        ({"betas": [0.9, 1.0]}, r"betas must lie in \[0, 1\)"),
        ({"precision": "fp16"}, "precision must be one of 'auto', 'float32', 'tf32', 'bfloat16', 'float16', got"),
        ({"compile": 1}, "compile must be true, false or 'auto', got 1"),
        ({"max_grad_norm": -1}, "max_grad_norm must be at least 0, got -1"),
    ],
)
def test_settings_check_themselves(wrong, text):
    with pytest.raises(ValueError, match=text):
        Training(**{"steps": 10, **wrong})


def test_betas_may_come_as_a_list():
    assert Training(steps=1, betas=[0.9, 0.98]).betas == (0.9, 0.98)


@pytest.mark.parametrize(("name", "value"), [("precision", "float16"), ("accumulate_steps", 2)])
def test_what_cannot_be_captured_is_said_at_once(name, value):
    with pytest.raises(ValueError, match=f"a step with {name} = {value} cannot be captured; set capture = false"):
        Training(steps=1, capture=True, **{name: value})
