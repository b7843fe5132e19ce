"""Folders of models, damaged: each is opened and asked in a child that is watched: memory, time, opened files."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import torch

import regard
from campaigns.children import MIB, Ended, can_trace, in_child
from campaigns.damage import ASKED, damage
from campaigns.frame import Case, Fault, campaign
from regard import errors
from regard.app.serve.asking import read_asked
from regard.app.serve.limits import Limits
from regard.base.tensors import named_tensors
from regard.data.artifacts import Artifacts
from regard.foreign import ELMO_FORM
from regard.foreign.form import used, write_parts
from regard.foreign.timm import ARCHITECTURES
from regard.models.elmo.model import ELMo, ELMoConfig
from regard.models.senet import SENet, SENetConfig
from regard.runs.folder import Folder, begin, save_weights
from regard.runs.shipped import SHIPPED, shipped
from regard.tasks.core.table import load

TYPED = tuple(kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception))
MEMORY = 6 << 30  # bytes of a child, so that the machine is not harmed
SECONDS = 60
COST, ROOM = 40, 160  # MiB of memory that a MiB of the folder may take, and beyond it
TIME = 20  # seconds of a processor
UNTRACED = "; what Rust and C open was not seen, as strace is not installed"
EXPORTED = {f"{name} exported": name for name in ("shakespeare", "de-en", "sentences-bert", "shapes")}
OPTIONS = {"max_tokens": 8, "max_length": 8}


@campaign(
    "folders",
    "Run, transformers, Marian, timm and ELMo folders with one to three damages: bytes, values of JSON, TOML and "
    "tensors' headers, files gone, swapped, or become pipes and links to other places; opened and asked.",
    holds="a clear refusal or an answer; changed weights are told; no traceback, abort or hang, memory within "
    f"{COST} times the folder's bytes and {ROOM} MiB, {TIME} s of a processor; nothing opened outside the folder, "
    "by Python (an audit hook), Rust or C (strace).",
    reach=5000,
)
@contextmanager
def folders(place: Path) -> Iterator[Case]:
    places = {name: place / "bases" / name for name in [*shipped(), *EXPORTED, *MADE]}
    wanted: dict[str, dict[str, Any]] = {}
    linked = place / "linked.safetensors"  # links are followed, as those of the Hub's cache
    shutil.copy(SHIPPED / "dates" / "model.safetensors", linked)

    def case(draw: Random) -> str:
        name, other = draw.choice(sorted(places)), SHIPPED / draw.choice(shipped())
        base, folder = places[name], place / "case"
        if name not in wanted:
            make_base(name, base)
            wanted[name] = in_child(lambda: opened_and_asked(base, base), seconds=300).result
            assert wanted[name]["end"] == "answer", f"{name} cannot be asked: {wanted[name]}"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(base, folder)
        done = "; ".join(damage(folder, draw, other, linked) for _ in range(draw.choice((1, 1, 1, 2, 3))))
        ended = in_child(lambda: opened_and_asked(folder, base), seconds=SECONDS, memory=MEMORY, traced=can_trace())
        outside = [path for path in ended.opened if not path.startswith(allowed(folder, base, linked))]
        return judge(ended, wanted[name], f"{name}: {done}", size_of(folder), outside) + UNTRACED * (
            not can_trace()
        )

    yield case


def judge(ended: Ended, wanted: dict[str, Any], done: str, size: float, outside: Sequence[str] = ()) -> str:
    """How it ended, in a word; Fault for what must not happen. `outside`: what strace saw."""
    if outside:
        raise Fault(f"{done}: opened {sorted(outside)[:3]}")
    if ended.late:
        raise Fault(f"{done}: hang")
    if ended.code < 0:
        raise Fault(f"{done}: ended by signal {-ended.code}: {ended.said[-300:]}")
    if ended.result is None:
        raise Fault(f"{done}: ended with status {ended.code}: {ended.said[-600:]}")
    found = ended.result
    if found["end"] == "untyped" or ended.traceback:
        raise Fault(f"{done}: {found.get('why')} {ended.said[-300:]}")
    if found["outside"]:
        raise Fault(f"{done}: opened {found['outside']}")
    if ended.peak > ROOM + COST * size:
        raise Fault(f"{done}: took {ended.peak:.0f} MiB; the folder has {size:.1f}")
    if ended.seconds > TIME:
        raise Fault(f"{done}: took {ended.seconds:.0f} s of a processor")
    if found["end"] == "answer":
        if found["answer"] == wanted["answer"]:
            return "the same answer"
        return "another answer, with a warning" if found["warned"] else "another answer"
    return str(found["end"])


def size_of(folder: Path) -> float:
    return sum(path.lstat().st_size for path in folder.rglob("*")) / MIB


# ---- in the child


def opened_and_asked(folder: Path, base: Path) -> dict[str, Any]:
    """What happens when a run is opened and asked with the examples of its base."""
    outside: list[str] = []
    sys.addaudithook(watching(allowed(folder, base, folder.parent / "linked.safetensors"), outside))
    found: dict[str, Any] = {"outside": outside, "warned": False}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            found |= {"end": "answer", "answer": ask(folder, base)}
        except TYPED as error:
            found |= {"end": "refused" if len(str(error)) < 3000 else "untyped", "why": f"{error!s:.300}"}
        except BaseException as error:
            found |= {"end": "untyped", "why": f"{type(error).__name__}: {error!s:.300}"}
    found["warned"] = any("changed" in str(each.message) or "NaN" in str(each.message) for each in told)
    return found


def ask(folder: Path, base: Path) -> str:
    """A digest of its answers."""
    return hashlib.sha256(json.dumps(asker(folder, base)(), sort_keys=True, default=str).encode()).hexdigest()


def asker(folder: Path, base: Path) -> Callable[[], list[Any]]:
    """The run is opened; each call asks it with an example of its base."""
    asked = base / ASKED if (base / ASKED).exists() else base / "examples.json"
    examples = json.loads(asked.read_text())
    run = load(folder, "cpu")
    assert run.task is not None
    task, desk = run.task, run.task.desk
    allowed = {option.name for option in task.options if option.served}
    sent = {**{name: value for name, value in OPTIONS.items() if name in allowed}, **examples.get("options", {})}
    options, _, inputs = read_asked(task, {"inputs": examples["inputs"][:1], "options": sent}, Limits())
    options = desk.settled(run, options)
    read = desk.reader(run, options)
    return lambda: [answer.to_dict() for answer in desk.ask(run, [read(item) for item in inputs], options)]


def allowed(*paths: Path) -> tuple[str, ...]:
    """The beginnings of the paths of what may be opened: these, Python's own and ours, and libraries."""
    own = [sys.prefix, sys.base_prefix, *filter(None, sys.path[1:]), Path(regard.__file__).parent]
    every = [*paths, *own, *(Path(path).resolve() for path in [*paths, *own])]
    return (*map(str, every), "/proc/", "/dev/", "/sys/", "/usr/lib", "/lib", "/etc/ld.so.cache")


def watching(ours: tuple[str, ...], outside: list[str]) -> Callable[[str, Any], None]:
    """An audit hook: what Python opens that does not begin so, and everything that could run code."""
    runs = ("os.system", "os.exec", "subprocess.Popen", "pickle.find_class", "socket.connect", "ctypes.dlopen")

    def hook(event: str, arguments: Any) -> None:
        if len(outside) > 3:
            return
        if event == "open" and isinstance(arguments[0], str | bytes):
            path = arguments[0].decode() if isinstance(arguments[0], bytes) else arguments[0]
            real = str(Path(path).resolve()) if not path.startswith(ours) else path
            if not real.startswith(ours):
                outside.append(path)
        elif event in runs and arguments != (None,):  # no library, but the program itself
            outside.append(f"{event} {arguments!r:.100}")

    return hook


# ---- what is damaged


def make_base(name: str, folder: Path) -> None:
    """A shipped run; as a folder of another library; a ResNet of timm, an ELMo as it was published."""
    folder.parent.mkdir(exist_ok=True)
    if name in MADE:
        MADE[name](folder)
    elif name in EXPORTED:
        regard.load(EXPORTED[name], device="cpu").export(folder)
        shutil.copy(SHIPPED / EXPORTED[name] / "examples.json", folder / ASKED)
    else:
        shutil.copytree(SHIPPED / name, folder)
        shutil.copy(folder / "examples.json", folder / ASKED)


def timm(folder: Path) -> None:
    """A ResNet-18 with random weights."""
    torch.manual_seed(0)
    labels = ("cat", "dog")
    model = SENet(SENetConfig(labels=labels, channels=3, **ARCHITECTURES["resnet18"])).eval()
    begin(folder, model, Artifacts(labels=labels, pixels=Folder("shapes-senet").pixels()), "")
    save_weights(folder, model)
    shutil.copy(SHIPPED / "shapes-senet" / "examples.json", folder / ASKED)


SMALL_ELMO = ELMoConfig(
    vocabulary=4, character_dim=4, widths=(1, 3), filters=(4, 5), dim=6, cell=10, head="none", dropout=0.0
)
ELMO_OPTIONS: dict[str, Any] = {  # the same, as it is published
    "lstm": {
        "cell_clip": 3,
        "proj_clip": 3,
        "use_skip_connections": True,
        "n_layers": 2,
        "projection_dim": 6,
        "dim": 10,
    },
    "char_cnn": {
        "embedding": {"dim": 4},
        "filters": [[1, 4], [3, 5]],
        "n_highway": 1,
        "n_characters": 262,
        "max_characters_per_token": 50,
        "activation": "relu",
    },
}


def published_elmo(folder: Path) -> None:
    torch.manual_seed(0)
    write_elmo(folder, ELMo(SMALL_ELMO), "weights.hdf5")
    (folder / ASKED).write_text(json.dumps({"inputs": ["They sat on the bank ."]}))


def write_elmo(folder: Path, model: ELMo, weights: str, **more: object) -> None:
    """A small ELMo as bilm-tf would have saved it; `more` of its options, which say nothing of the model."""
    import h5py

    folder.mkdir()
    with h5py.File(folder / weights, "w") as file:
        for name, tensor in write_parts(used(ELMO_FORM.parts(model.config)), named_tensors(model)).items():
            file[name] = tensor.detach().numpy()
    (folder / "options.json").write_text(json.dumps({**ELMO_OPTIONS, **more}))


MADE: dict[str, Callable[[Path], None]] = {"timm": timm, "elmo published": published_elmo}
