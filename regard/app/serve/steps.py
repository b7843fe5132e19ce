"""Stepping through decoding: what a request for one step asks of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from regard.app.serve.asking import Body, as_whole, read_ticket
from regard.app.serve.limits import Limits, Refused
from regard.app.serve.looks import FORMS
from regard.app.serve.shelf import Served
from regard.tasks.core.run import Run
from regard.tasks.core.table import AnyTask

if TYPE_CHECKING:
    from regard.tasks.shared.stepping import NextStep

TOP = 10  # candidates by default
MOST = 100


STEP = ("inputs", "options", "prefix", "top", "site")
KEPT = ("form", "head")  # of a file


async def read_step(served: Served, task: AnyTask, body: Body, limits: Limits) -> Callable[[Run], NextStep]:
    if not task.writes:
        raise Refused(422, f"`{task.verb}` writes no tokens, so there are no steps to go through")
    prefix, top, site = body.get("prefix", []), as_whole(body.get("top", TOP)), body.get("site", served.alignment)
    prefix = list(map(as_whole, prefix)) if isinstance(prefix, list) else prefix
    if not isinstance(prefix, list) or len(prefix) > limits.tokens or not all(type(x) is int for x in prefix):
        raise Refused(422, f"prefix must be a list of at most {limits.tokens:,} tokens, by their numbers")
    if type(top) is not int or not 1 <= top <= MOST:
        raise Refused(422, f"top must be a whole number from 1 to {MOST}")
    if not isinstance(site, str) or (site and site not in {each["name"] for each in served.sites}):
        raise Refused(422, "site must be the name of one of the model's sites; /api/models lists them")
    ticket = await read_ticket(task, body, limits.of_model(served.positions))
    if len(ticket.inputs) != 1:
        raise Refused(422, f"a step is one of a single answer; send one of the {task.inputs.what}")

    def work(run: Run) -> NextStep:
        from regard.tasks.shared.stepping import next_step

        options = task.desk.settled(run, ticket.options)
        item = task.desk.reader(run, options)(ticket.inputs[0])
        begun = task.desk.beginning(run, item, prefix, options)
        return next_step(run, begun, top=top, site=site)  # type: ignore[arg-type] # `writes` says so

    return work


def read_kept(body: Body) -> tuple[str, int | None]:
    """The form in which a step is kept, "" for none, and the head that it shows, None for the mean of all."""
    form, head = body.get("form", ""), as_whole(body.get("head"))
    if form not in ("", *FORMS):
        raise Refused(422, f"form must be one of {', '.join(FORMS)}")
    if head is not None and (type(head) is not int or head < 0):
        raise Refused(422, "head must be a whole number from 0 on")
    return form, head
