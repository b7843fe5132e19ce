import io
from itertools import count, pairwise

from regard.learn.progress import FEW, Progress, counted, silent


class Terminal(io.StringIO):
    def isatty(self):
        return True


def show(file):
    progress = Progress(file)
    progress.begin(0, 100)
    progress.advance(50, 1.25, 12345.6)
    progress.say(f"{progress.line()}  valid_loss [1.5]")
    progress.end()
    return file.getvalue()


def test_only_plain_lines_without_a_terminal():
    shown = show(io.StringIO())
    assert shown == "step 50/100  smoothed loss 1.2500  12,346 tokens/s  0:00:00 left  valid_loss [1.5]\n"


def test_a_bar_on_a_terminal():
    shown = show(Terminal())
    assert "━" in shown
    assert "valid_loss [1.5]" in shown
    assert "12,346 tokens/s" in shown
    assert shown.index("\x1b[?25l") < shown.rindex("\x1b[?25h")  # the cursor is hidden, then back


def test_a_thread_of_a_server_shows_no_training(capsys):
    token = silent.set(True)
    try:
        Progress().say("a loss")
    finally:
        silent.reset(token)
    assert capsys.readouterr().err == ""
    Progress().say("a loss")
    assert capsys.readouterr().err == "a loss\n"


class Clock:
    """Stands still until it is told how many seconds have passed."""

    now = 1000.0

    def __call__(self):
        return self.now

    def tick(self, seconds):
        self.now += seconds


def test_a_log_file_gets_a_line_at_least_every_half_minute():
    file, clock, times = io.StringIO(), Clock(), []
    progress = Progress(file, clock=clock)
    progress.begin(0, 1000)
    for step in range(1, 121):  # a step a second
        clock.tick(1)
        progress.advance(step, 2.5, 100.0)
        if step == 40:
            progress.say("a validation")
        if file.getvalue():
            times.append(step)
            file.seek(0)
            file.truncate()
    assert all(10 <= later - earlier <= 30 for earlier, later in pairwise([0, *times]))
    assert 120 - times[-1] <= 30
    clock.tick(10)
    progress.validating()
    assert file.getvalue() == ""
    clock.tick(20)
    progress.validating()
    assert file.getvalue().startswith("step 120/1000  smoothed loss 2.5000  100 tokens/s")
    assert file.getvalue().endswith("  validating\n")


def test_before_the_first_step_there_is_no_loss_to_show():
    progress = Progress(io.StringIO())
    progress.begin(40, 100)
    assert progress.line() == "step 40/100"


def test_a_terminal_gets_a_bar_and_no_such_lines():
    file, clock = Terminal(), Clock()
    progress = Progress(file, clock=clock)
    progress.begin(0, 10)
    clock.tick(100)
    progress.advance(5, 2.5, 100.0)
    progress.validating()
    progress.end()
    assert "validating" not in file.getvalue()
    assert "\nstep 5/10" not in file.getvalue()
    assert "smoothed loss 2.5000" in file.getvalue()


def test_what_is_read_is_counted_in_a_log_file_too(capsys):
    seconds = count(step=10)
    items = list(counted(range(5 * FEW), "lines", clock=lambda: next(seconds)))
    assert len(items) == 5 * FEW
    assert capsys.readouterr().err == "30,000 lines\n"
