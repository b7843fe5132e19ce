"""Prompts from arguments, a file or stdin; continuations on stdout, as they come where a person waits for them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from regard.app.console import progress, read_lines, writer
from regard.tasks import Continuation, Decoding, LanguageModel, load_as


def write_on(
    run: str,
    prompts: list[str] | None,
    source: Path | None,
    output: Path | None,
    change: Callable[[Decoding], Decoding],
    picture: Callable[[Continuation, int | None], None],
    drawing: bool,
    as_json: bool,
) -> None:
    model = load_as(run, LanguageModel)
    lines, count = read_lines(prompts, source, model.read)
    if drawing:
        model.check_looks()
    decode = change(model.decode)
    alone = bool(prompts) and count == 1 and output is None and not as_json and decode.best == 1
    alone = alone and sys.stdout.isatty()
    with writer(output) as write, progress(count, "texts") as tick:
        for number, one in enumerate(model.continuations(lines, decode, each=typed(prompts) if alone else None), 1):
            if alone:
                print()
            else:
                write(as_line(one, as_json))
            tick()
            picture(one, number if count != 1 else None)


def typed(prompts: list[str] | None) -> Callable[[str], None]:
    """Prints the prompt, and then each piece of text as it comes."""
    print((prompts or [""])[0], end="", flush=True)
    return lambda text: print(text, end="", flush=True)


def as_line(one: Continuation, as_json: bool) -> str:
    """The whole text, or of several `score TAB text`."""
    if as_json:
        others = [{"text": text, "score": score} for text, score in one.others]
        row = {
            "prompt": one.prompt,
            "text": one.text,
            "score": one.score,
            "finished": one.finished,
            "others": others,
        }
        return json.dumps(row, ensure_ascii=False)
    if one.others:
        every = ((one.text, one.score), *one.others)
        return "\n".join(f"{score:.4f}\t{one.prompt}{text}" for text, score in every)
    return one.prompt + one.text
