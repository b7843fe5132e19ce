import io

from regard.learn.progress import Progress


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
    assert shown == "step 50/100  loss 1.2500  12,346 tokens/s  0:00:00 left  valid_loss [1.5]\n"


def test_a_bar_on_a_terminal():
    shown = show(Terminal())
    assert "━" in shown
    assert "valid_loss [1.5]" in shown
    assert "12,346 tokens/s" in shown
    assert shown.index("\x1b[?25l") < shown.rindex("\x1b[?25h")  # the cursor is hidden, then back
