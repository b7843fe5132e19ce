"""The runs that are served, which of them are in memory, and which are broken."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from regard.app.serve.counters import Counters
from regard.app.serve.limits import Limits, Refused
from regard.app.serve.worker import Closed, Ticket, Worker, reason
from regard.decode.graphs import graph_memory
from regard.decode.settings import Decoding
from regard.errors import BadInput
from regard.learn.settings import Training
from regard.runs.engine_names import FLOAT32, TORCH
from regard.runs.examples import Examples, read_examples
from regard.runs.shipped import shipped
from regard.tasks.core.run import Run
from regard.tasks.core.table import AnyTask, load, outline, tasks_for

MIB = 1 << 20
FEW = 200  # tokens that a language model writes if neither recipe nor request sets a number


@dataclass
class Served:
    """One run that is served."""

    name: str
    run: str
    broken: str = ""  # why it cannot be asked
    tasks: list[AnyTask] = field(default_factory=list)
    about: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)  # of the model, and the seed it was trained from
    sites: list[dict[str, Any]] = field(default_factory=list)
    positions: int = 0  # the most tokens it takes, where that is known
    alignment: str = ""  # the site that is shown unless another is asked for
    examples: Examples = field(default_factory=Examples)
    worker: Worker | None = None

    def describe(self) -> None:
        """Fill in everything that can be read without the weights."""
        try:
            opened = outline(self.run)
            self.tasks = tasks_for(opened)
            self.about, self.alignment = opened.about(), opened.model.alignment
            self.about.pop("folder", None)  # a path of this machine
            self.settings = settings(opened)
            self.positions = int(getattr(opened.model.config, "max_positions", 0))
            self.sites = sites(opened, any(task.shows_gates for task in self.tasks))
            self.examples = read_examples(opened.folder.contents) if opened.folder else Examples()
        except Exception as error:
            self.broken = f"the run {self.name} is broken: {reason(error)}"

    def to_dict(self, limits: Limits, *, images: int | None = None) -> dict[str, Any]:
        """`images`: how many of the examples are given, at most, where they are images; with fewer than all it is
        `partial`."""
        data: dict[str, Any] = {"name": self.name, "status": self.status}
        if self.broken:
            return data | {"error": self.broken}
        tasks = [self.task_data(task, limits) for task in self.tasks]
        if images is not None:
            for one in tasks:
                examples = one["inputs"]["examples"]
                if one["inputs"]["schema"].get("format") == "byte" and len(examples) > images:
                    data["partial"] = True
                    del examples[images:]
                    one["example_options"] = one["example_options"] if images else {}
        return data | {
            "about": self.about,
            "settings": self.settings,
            "tasks": tasks,
            "sites": self.sites,
            "alignment": self.alignment,
        }

    def task_data(self, task: AnyTask, limits: Limits) -> dict[str, Any]:
        """A task's inputs and options, with examples of both. The examples of a folder are for the task it was
        trained for."""
        own = self.examples if task is self.tasks[0] else Examples()
        return {
            "task": task.verb,
            "summary": task.summary,
            "about": own.about,
            "languages": list(own.languages),
            "inputs": {
                "what": task.inputs.what,
                "schema": dict(task.inputs.received.schema),
                "examples": list(own.inputs or task.inputs.tried),
                "drawn": task.inputs.may_be_drawn,
            },
            "options": [
                {
                    "name": option.name,
                    "help": option.help,
                    "schema": option_schema(option, limits),
                    "asked": option.asked,
                }
                for option in task.options
                if option.served
            ],
            "example_options": own.options,
            "in_words": task.in_words,
            "continues": task.continues,
            "streams": task.writes,
            "steps": task.writes,
        }

    @property
    def status(self) -> str:
        if self.broken:
            return "broken"
        return "loaded" if self.worker is not None and self.worker.bytes else "ready"


def settings(opened: Run) -> dict[str, Any]:
    """The model's settings, and the seed of its training, by which models of one kind differ."""
    own = dataclasses.asdict(opened.model.config)
    found = {name: value for name, value in own.items() if isinstance(value, str | int | float | bool)}
    recipe = opened.folder.recipe if opened.folder else None
    return found if recipe is None else {**found, "seed": recipe.get("train", {}).get("seed", Training.seed)}


def option_schema(option: Any, limits: Limits) -> dict[str, Any]:
    """The JSON schema of an option, with the limits of this server."""
    if option.received is not None:
        return dict(option.received.schema)
    kinds = {int: "integer", float: "number", str: "string", bool: "boolean"}
    schema: dict[str, Any] = {"type": kinds[option.kind]}
    if option.choices:
        schema["enum"] = list(option.choices)
    if option.min is not None:
        schema["minimum"] = option.min
    own, here = option.max, getattr(limits, option.limit) if option.limit else None
    if bounds := [bound for bound in (own, here) if bound is not None]:
        schema["maximum"] = min(bounds)
    if option.kind is str and not option.choices:
        schema["maxLength"] = limits.characters
    schema = {"type": "array", "items": schema, "maxItems": limits.inputs} if option.many else schema
    return schema | ({"default": option.default} if option.default is not None else {})


def sites(opened: Run, with_gates: bool) -> list[dict[str, Any]]:
    """The attention sites of the model, and its gates if its answers show them, with the number of heads of
    each."""
    from regard.attention.trace import sites_of
    from regard.show.site_names import site_name

    modules, looks = dict(opened.model.named_modules()), set(sites_of(opened.model, "weights"))
    return [
        {
            "name": name,
            "said": site_name(name),
            "kind": "attention" if name in looks else "gates",
            "heads": int(getattr(modules[name], "heads", 1)) if name in looks else 0,
        }
        for name in sites_of(opened.model)
        if with_gates or name in looks
    ]


class Shelf:
    """All runs by name. A model is loaded when it is first asked, in its own thread; the least recently used are
    unloaded to stay within the memory budget."""

    def __init__(
        self,
        runs: Sequence[str],
        *,
        limits: Limits,
        counters: Counters,
        memory: int = 4096 * MIB,
        device: str = "auto",
        engine: str = TORCH,
        dtype: str = FLOAT32,
    ) -> None:
        self.limits, self.counters, self.memory, self.device = limits, counters, memory, device
        self.computed = {"engine": engine, "dtype": dtype}
        self.served: dict[str, Served] = {}
        for run in runs or shipped():
            name = name_for(run, self.served)
            self.served[name] = Served(name, run)
        self.described = threading.Event()
        self.lock = threading.Lock()

    def describe(self) -> None:
        """Look into every folder; a broken folder does not stop the others."""
        with self.lock:
            if not self.described.is_set():
                for served in self.served.values():
                    served.describe()
                self.described.set()

    async def models(self) -> dict[str, Served]:
        if not self.described.is_set():
            await asyncio.to_thread(self.describe)
        return self.served

    async def find(self, name: str) -> Served:
        """404 for an unknown name, 409 for a broken run."""
        models = await self.models()
        if name not in models:
            raise Refused(404, f"there is no model {name[:80]!r}; there are {', '.join(models)}")
        if models[name].broken:
            raise Refused(409, models[name].broken)
        return models[name]

    async def task(self, name: str, verb: str) -> tuple[Served, AnyTask]:
        """The model, and the task of this verb that it can be asked for."""
        served = await self.find(name)
        for task in served.tasks:
            if task.verb == verb:
                return served, task
        verbs = ", ".join(task.verb for task in served.tasks)
        raise Refused(404, f"{name} cannot be asked to {verb[:40]!r}; it can {verbs}")

    def worker(self, served: Served) -> Worker:
        """The thread of a model, started if it is not running."""
        if served.worker is not None and isinstance(served.worker.failed, Refused):
            error, served.worker = served.worker.failed, None
            served.broken = str(error)
            raise error
        if served.worker is None or served.worker.closed:
            self.make_room(size_of(Path(str(served.run)) if Path(served.run).is_dir() else None))
            served.worker = Worker(served.name, lambda: self.load(served), self.limits, self.counters)
        return served.worker

    def load(self, served: Served) -> Run:
        """Called in the worker's thread."""
        opened = load(served.run, self.device, **self.computed)
        size = sum(each.numel() * each.element_size() for each in opened.model.parameters())
        if size > self.memory:
            raise BadInput(
                f"{served.name} needs {size // MIB:,} MiB, and the memory budget of this server is "
                f"{self.memory // MIB:,} MiB; start it with a larger --memory"
            )
        self.make_room(size, keep=served)
        if isinstance(decode := getattr(opened, "decode", None), Decoding):
            opened.decode = within_limits(decode, self.limits)  # type: ignore[attr-defined] # it has `decode`
        return opened

    def make_room(self, size: int, keep: Served | None = None) -> None:
        """Unload idle models, the least recently used first, until `size` bytes fit."""
        with self.lock:
            loaded = [
                served
                for served in self.served.values()
                if served.worker and not served.worker.closed and served is not keep
            ]
            loaded.sort(key=lambda served: served.worker.used if served.worker else 0.0)
            total = sum(served.worker.bytes for served in loaded if served.worker)
            for served in loaded:
                assert served.worker is not None
                if total + size <= self.memory:
                    break
                if served.worker.idle and served.worker.bytes:
                    total -= served.worker.bytes
                    served.worker.close()
                    served.worker = None
        self.count()

    def count(self) -> None:
        sizes = [served.worker.bytes for served in self.served.values() if served.worker and served.worker.bytes]
        self.counters.models_loaded.set(len(sizes))
        self.counters.models_bytes.set(sum(sizes))
        for name, served in self.served.items():
            model = served.worker.model if served.worker is not None else None
            count, size = (0, 0) if model is None else graph_memory(model)
            self.counters.graphs.labels(model=name).set(count)
            self.counters.graphs_bytes.labels(model=name).set(size)

    def ask(self, served: Served, ticket: Ticket) -> Ticket:
        try:
            return self.worker(served).ask(ticket)
        except Closed:
            return self.worker(served).ask(ticket)

    async def call(self, served: Served, work: Any) -> Any:
        try:
            return await self.worker(served).call(work)
        except Closed:
            return await self.worker(served).call(work)

    def close(self) -> None:
        """End every thread, once it has finished what it has."""
        workers = [served.worker for served in self.served.values() if served.worker]
        for worker in workers:
            worker.close()
        for worker in workers:
            worker.thread.join(timeout=10)


def within_limits(decode: Decoding, limits: Limits) -> Decoding:
    """A recipe's decoding settings, within the limits, which also hold for requests without options."""
    most = decode.max_length or limits.tokens * (limits.tokens < FEW)
    most = min(most, limits.tokens)
    beam, n_best = min(decode.beam, limits.beams), min(decode.n_best, limits.beams)
    least = min(decode.min_length, max(0, most - 1)) if most else decode.min_length
    return replace(decode, max_length=most, min_length=least, beam=beam, n_best=n_best)


def name_for(run: str, taken: dict[str, Served]) -> str:
    """The last part of a run's path or name; numbered if several runs have the same."""
    name = base = Path(run).name or Path(run).resolve().name or "run"
    number = 2
    while name in taken:
        name, number = f"{base}-{number}", number + 1
    return name


def size_of(folder: Path | None) -> int:
    """About how many bytes the weights in a folder take; 0 if they are not in a folder."""
    return sum(path.stat().st_size for path in folder.glob("*.safetensors")) if folder else 0
