"""Training data in many files: how much memory it takes, and how fast it is tokenised. Files are made up, in a
temporary folder ($TMPDIR): about 9 bytes a token up to 1e7 tokens, and less than one above.

tokenise  8 files of JSONL, compressed with zstd, words by Zipf's law, by a BPE vocabulary of 8,000 that was learned
          from a sample. The first start tokenises, in as many processes as the table says (taskset); the second
          finds the tokens that are kept: it reads every file and all tokens once to compare their sha256. CPU
          seconds are those of all processes.
memory    each line in a process of its own: the peak of its resident memory (VmHWM) less what it has after the
          imports. `windows` are a language model's batches of 16 x 1,024 tokens, `pairs` a translator's batches of
          4,096 tokens: the whole order of an epoch is gone through and 200 batches are read. `in memory` is the way
          for a single file. `go on` is the time until a training that was stopped before the last batch of the
          epoch has it. Tokens are made up and written without text; seven of the eight shards are links to
          the first.
training  `regard.train` of a small GPT-2 for 20 steps, from a run that has the vocabulary, on eight small files in
          whose place the cache has those made-up tokens: the peak of the whole process."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from benchmarks.frame import Line, bench, row

FILES = 8
REAL = 10**7  # tokens up to which there is text
HELD = 10**8  # tokens up to which the way in memory is measured too
WORDS = 20_000
SPEC = {"length": 1024, "batch_tokens": 16384, "seed": 0, "end": 2}


def words() -> list[str]:
    generator = np.random.default_rng(0)
    letters = np.array(list("etaoinshrdlucmfwypvbgkjqxz"))
    return ["".join(generator.choice(letters, 2 + size % 9)) for size in range(WORDS)]


def write_text(folder: Path, tokens: int) -> None:
    """About so many tokens: 1.2 for each word."""
    import zstandard

    folder.mkdir(parents=True)
    vocabulary, generator = np.array(words()), np.random.default_rng(1)
    weights = 1 / np.arange(1, WORDS + 1)
    for number in range(FILES):
        left = int(tokens / FILES / 1.35)
        path = folder / f"{number}.jsonl.zst"
        with open(path, "wb") as file, zstandard.ZstdCompressor().stream_writer(file) as out:
            while left > 0:
                drawn = vocabulary[generator.choice(WORDS, 200_000, p=weights / weights.sum())]
                for row in np.array_split(drawn[:left], max(1, len(drawn[:left]) // 400)):
                    out.write(json.dumps({"text": " ".join(row)}).encode() + b"\n")
                left -= len(drawn)


def write_tokens(folder: Path, tokens: int, pairs: bool) -> None:
    """The folders that tokenising would have made, the first of which stands for all."""
    from regard.data.shards.token_files import ShardWriter

    generator, left = np.random.default_rng(1), tokens // FILES
    (folder / "0").mkdir(parents=True)
    with ShardWriter(folder / "0", {"source": "H", "target": "H"} if pairs else {"ids": "H"}) as writer:
        while left > 0:
            ids = generator.integers(4, 4000, min(left, 1 << 20)).tolist()
            left -= len(ids)
            if not pairs:
                writer.add("ids", ids)
                continue
            begin = 0
            for length in generator.integers(5, 45, len(ids) // 50 + 1).tolist():
                writer.row(source=ids[begin : begin + length], target=ids[begin : begin + length])
                writer.end_chunk()
                begin += 2 * length
        writer.finish(documents=1)
    for number in range(1, FILES):
        (folder / str(number)).symlink_to("0")


def peak() -> int:
    """KiB of resident memory at most, without what other processes had before a fork."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


def measure_memory(folder: Path, kind: str, tokens: int) -> Line:
    from regard.data.batches.batch import PairData, Rows
    from regard.data.shards.reading import RunningText, ShardRows
    from regard.data.shards.sharded_data import ShardedRows, ShardedText
    from regard.data.shards.token_files import open_shard
    from regard.data.text.windows import TextData

    before, begun = peak(), time.perf_counter()
    shards = [shard for number in range(FILES) if (shard := open_shard(folder / str(number)))]
    assert len(shards) == FILES

    def make(columns: dict[str, Rows], seed: int) -> PairData:
        return PairData(columns["source"], columns["target"], batch_tokens=4096, seed=seed)

    if kind == "windows":
        data = ShardedText(RunningText(shards), **SPEC)
    elif kind == "windows in memory":
        data = TextData(np.asarray(RunningText(shards)), **SPEC)
    else:
        rows = ShardRows(shards)
        data = (
            make(rows.load(range(rows.chunks)), 0)
            if kind == "pairs in memory"
            else ShardedRows(rows, make, batch_tokens=4096, seed=0)
        )
    opened, begun = time.perf_counter() - begun, time.perf_counter()
    reading, batches = 0.0, 0
    for place, item in enumerate(data.order(0)):
        if place < 200:
            start = time.perf_counter()
            data.batch(item)
            reading += time.perf_counter() - start
        batches += 1
    order = time.perf_counter() - begun - reading
    line = {"data": kind, "tokens": f"{tokens:.0e}", "MiB": (peak() - before) / 1024, "open, s": opened}
    line |= {"order, s": order, "batches": batches, "ms a batch": 1000 * reading / min(200, batches)}
    if isinstance(data, ShardedText | ShardedRows):
        data.loaded, begun, last = None, time.perf_counter(), batches - 1
        first, items = data.order_from(0, last, data.bookmark(item))
        data.batch(next(islice(items, last - first, None)))
        line["go on, s"] = time.perf_counter() - begun
    return line


def measure_tokenising(folder: Path, tokens: int, processes: int) -> Line:
    from regard.data.shards.cache import Kept, cores, kept_shards
    from regard.data.text.tokenizer import Tokenizer

    assert cores() == processes
    tokenizer = Tokenizer.load(folder.parent / "tokenizer.json")
    kept = Kept("text", {"documents": "file", "column": "text"}, [tokenizer])
    files = [[path] for path in sorted(folder.glob("*.zst"))]
    said: list[str] = []
    before, begun = cpu(), time.perf_counter()
    shards = kept_shards(files, kept, said.append)
    seconds, used = time.perf_counter() - begun, cpu() - before
    count, start = sum(shard.counts["ids"] for shard in shards), "second" if "before" in said[-1] else "first"
    return {
        "size": f"{tokens:.0e}", "tokens": count, "processes": processes, "start": start, "s": seconds,
        "CPU s": used, "tokens/s": count / seconds, "tokens/CPU s": count / used,
    }  # fmt: skip


def cpu() -> float:
    every = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(used.ru_utime + used.ru_stime for used in every)


def measure_training(folder: Path, tokens: int) -> Line:
    import regard
    from regard.data.shards.cache import Kept, _names, cache_folder
    from regard.data.text.tokenizer import Tokenizer
    from regard.tasks.core import training  # noqa: F401 - imported before the clock runs

    small = folder.parent / f"small-{tokens}"
    small.mkdir(exist_ok=True)
    for number in range(FILES):
        (small / f"{number}.txt").write_text(f"{tokens} {number}")
    tokenizer = Tokenizer.load(folder.parent / "begun/tokenizer.json")
    kept = Kept("text", {"documents": "file", "column": "text"}, [tokenizer])
    (cache_folder() / "tokens").mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(_names([[path] for path in sorted(small.iterdir())], kept)):
        place = cache_folder() / "tokens" / name
        if not place.exists():
            place.symlink_to((folder / str(number)).resolve())
    before = peak()
    recipe = {
        "data": {"train": f"{small}/*.txt", "valid": f"{folder.parent}/sample.txt", "batch_tokens": 1024},
        "model": {"name": "gpt2"},
        "train": {"steps": 20, "eval_every": 20, "device": "cpu"},
    }
    begun = time.perf_counter()
    regard.train(recipe, out=folder.parent / "run", start=folder.parent / "begun", overwrite=True)
    return {"training on": f"{tokens:.0e}", "MiB": (peak() - before) / 1024, "s": time.perf_counter() - begun}


def prepare(folder: Path) -> None:
    """A vocabulary, and a run that has it."""
    import regard

    generator, vocabulary = np.random.default_rng(2), np.array(words())
    weights = 1 / np.arange(1, WORDS + 1)
    drawn = generator.choice(WORDS, 20_000, p=weights / weights.sum())
    (folder / "sample.txt").write_text(" ".join(vocabulary[drawn]))
    recipe = {
        "data": {"train": str(folder / "sample.txt"), "length": 128, "batch_tokens": 1024},
        "tokens": {"size": 8000},
        "model": {"name": "gpt2", "dim": 32, "layers": 1, "heads": 2, "max_positions": 128},
        "train": {"steps": 1, "eval_every": 1, "device": "cpu"},
    }
    regard.train(recipe, out=folder / "begun", overwrite=True)
    (folder / "tokenizer.json").write_bytes((folder / "begun/tokenizer.json").read_bytes())


# ---- rows


def alone(*arguments: object, cores: str = "", cache: Path) -> Line:
    """A line that is measured in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.shards", *map(str, arguments)]
    limited = ["taskset", "-c", cores, *command] if cores else command
    environment = os.environ | {"REGARD_CACHE": str(cache)}
    ended = subprocess.run(limited, check=True, env=environment, stdout=subprocess.PIPE, text=True)
    return json.loads(ended.stdout.splitlines()[-1])


def sizes() -> tuple[int, ...]:
    return bench.pick((10**5,), (10**6, 10**7, 10**8, 10**9))


@row("shards-tokenise", "Files of text are tokenised, and found again", devices=("cpu",))
def shards_tokenise() -> Iterator[Line]:
    prepare(bench.folder)
    for size in sizes():
        if size > REAL:
            break
        write_text(bench.folder / f"text-{size}", size)
        for cores in ("0", "0,1"):
            processes = cores.count(",") + 1
            for _ in ("first", "second"):
                cache = bench.folder / f"cache-{size}-{processes}"
                yield alone("tokenise", bench.folder / f"text-{size}", size, processes, cores=cores, cache=cache)


@row("shards-memory", "The peak of memory when batches are drawn from many files", devices=("cpu",))
def shards_memory() -> Iterator[Line]:
    for kind in ("windows", "pairs"):
        for size in sizes():
            tokens = bench.folder / f"{kind}-{size}"
            write_tokens(tokens, size, kind == "pairs")
            for way in [kind, *([f"{kind} in memory"] if size <= HELD else [])]:
                yield alone("memory", tokens, way, size, cache=bench.folder)


@row("shards-training", "The peak of memory of a training on many files", devices=("cpu",))
def shards_training() -> Iterator[Line]:
    prepare(bench.folder)
    for size in sizes():
        write_tokens(bench.folder / f"windows-{size}", size, False)
        yield alone("training", bench.folder / f"windows-{size}", size, cache=bench.folder / "cache")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["tokenise", path, size, processes]:
            line = measure_tokenising(Path(path), int(size), int(processes))
        case ["training", path, size]:
            line = measure_training(Path(path), int(size))
        case ["memory", path, kind, size]:
            line = measure_memory(Path(path), kind, int(size))
    print(json.dumps(line))
