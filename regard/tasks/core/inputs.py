"""What a task is asked with: texts or images, read from arguments, a file or stdin; and what happens to an input
that cannot be answered."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from regard.base.files import is_stream
from regard.errors import BadInput, DataError, NoTokenizer
from regard.tasks.core.input_files import InputColumns, read_inputs
from regard.tasks.shared.received import IMAGE, Received, received_image

STOPPED = "the work was stopped before this was answered"
NAMED = 10  # inputs that could not be answered: so many are named, the others counted
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class EmptyFolder:
    """A folder that was named where images are wanted, and has none."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def error(self) -> DataError:
        from regard.data.images.images import SUFFIXES

        return DataError(f"{self.path} holds no images ({', '.join(sorted(SUFFIXES))})")


# Its place, as "in.txt, line 3", and the input (a tuple: a pair of texts) or why it cannot be read.
Item = tuple[str, str | tuple[str, ...] | Path | EmptyFolder | BadInput]
ANY_COLUMNS = InputColumns()


@dataclass(frozen=True)
class Inputs:
    """The inputs of one command, and how many there are where that is known."""

    items: Callable[[], Iterable[Item]]
    count: int | None
    again: bool = False  # they can be read twice, and at little cost
    files: Sequence[Path] = ()  # inputs that are files, which nothing may overwrite


class InputKind(ABC):
    """A kind of input, with its help texts for the command line."""

    what: ClassVar[str]  # in the plural, for a progress bar
    metavar: ClassVar[str]
    help: ClassVar[str]
    from_file: ClassVar[str] = ""  # help of --input; "": there is no such option
    flag: ClassVar[str] = "--input"  # another name of that option
    usual: ClassVar[tuple[tuple[str, ...], ...]] = ()  # of columns in that file: see InputColumns; (): it has none
    fields: ClassVar[tuple[str, ...]] = ()  # the settings of a recipe's [data] that name these columns
    joins: ClassVar[bool] = False  # that option is no list but an input, like the arguments; it may be repeated
    example: ClassVar[str]  # what stands for it in the README of a run
    tried: ClassVar[
        tuple[str | int | list[str], ...]
    ] = ()  # what a page begins with, where the run has no example of its own
    may_be_drawn: ClassVar[bool] = False  # where nothing is given, an input is drawn at random
    received: ClassVar = Received({"type": "string"}, lambda sent, pixels: check_text(sent))  # how it is sent

    def check(self, arguments: Sequence[str], source: Path | None) -> None:
        """BadInput where the wrong things are given, before anything is loaded."""
        return None

    def unasked(self) -> list[Any]:
        """What a server is asked with where nothing is sent."""
        raise BadInput(f"inputs must be a list of at least one of the {self.what} to answer")

    @abstractmethod
    def find(self, arguments: Sequence[str], source: Path | None, columns: InputColumns = ANY_COLUMNS) -> Inputs:
        """From arguments, else from a file, whose columns `columns` chooses, else from stdin."""


FROM_FILE = (
    "One {what} a line; or TSV, CSV or JSONL as for --data, where the column is {usual}, or named with --columns, "
    "and a {what} may have line breaks; or a folder, each of whose .txt files is one {what}. Also .gz, .xz, .zst."
)


class Texts(InputKind):
    what = "texts"
    metavar = "TEXT"
    help = "Texts; without any, lines of stdin."
    from_file = FROM_FILE.format(what="text", usual="text or sentence")
    usual: ClassVar[tuple[tuple[str, ...], ...]] = (("text",), ("sentence",), ("review",), ("document",))
    fields: ClassVar[tuple[str, ...]] = ("column",)
    pairs: ClassVar[bool] = False  # what was read from columns comes as a tuple of one text or two
    example = '"..."'
    tried: ClassVar[tuple[str | int | list[str], ...]] = ("A query looks at a memory.",)

    def check(self, arguments: Sequence[str], source: Path | None) -> None:
        if arguments and source:
            raise BadInput("give texts or --input, not both")
        if not arguments and source is None and (sys.stdin is None or sys.stdin.isatty()):
            raise BadInput("give texts as arguments, a file with --input, or lines on stdin")

    def find(self, arguments: Sequence[str], source: Path | None, columns: InputColumns = ANY_COLUMNS) -> Inputs:
        if arguments:
            count = len(arguments)
            places = [f"text {number}" if count > 1 else "" for number in range(1, count + 1)]
            return Inputs(lambda: zip(places, arguments, strict=True), count, again=True)
        if source is None:
            return Inputs(read_stdin, None)

        def items() -> Iterator[Item]:
            for place, item in read_inputs(source, columns):
                yield place, item[0] if isinstance(item, tuple) and not self.pairs else item

        if is_stream(source):
            return Inputs(items, None)
        count = sum(1 for _ in items())  # a damaged archive is found here, before any work is done
        if not count:
            raise DataError(f"{source} is empty; it needs one text a line")
        return Inputs(items, count, again=True)


class PairsOfTexts(Texts):
    """Two arguments are one pair; in a line a tab separates the two."""

    what = "pairs"
    metavar = "FIRST SECOND"
    help = "The two texts of one pair; without any, lines of stdin with a tab between the two."
    from_file = FROM_FILE.format(what="pair", usual="first and second, text1 and text2 or the like")
    usual: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("first", "second"),
        ("text", "second"),
        ("text1", "text2"),
        ("sentence1", "sentence2"),
    )
    fields: ClassVar[tuple[str, ...]] = ("first", "second")
    pairs = True
    example = '"..." "..."'
    tried = (["Anna is a baker.", "She gets up at four every morning."],)
    received = Received(
        {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2},
        lambda sent, pixels: check_pair(sent),
    )

    def check(self, arguments: Sequence[str], source: Path | None) -> None:
        super().check(arguments, source)
        if arguments and len(arguments) != 2:
            raise BadInput(
                f"give the two texts of one pair, got {len(arguments)}; many pairs come from --input or stdin, one "
                "a line with a tab between the two"
            )

    def find(self, arguments: Sequence[str], source: Path | None, columns: InputColumns = ANY_COLUMNS) -> Inputs:
        if arguments:
            return Inputs(lambda: [("", tuple(arguments))], 1, again=True)
        return super().find(arguments, source, columns)


class Images(InputKind):
    what = "images"
    metavar = "IMAGE"
    help = "Image files, or folders whose images are all taken."
    from_file = (
        "A file with the name of one image file or folder a line, or a column of them in TSV, CSV or JSONL (image, "
        "file or path, or named with --columns)."
    )
    usual: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("image",),
        ("file",),
        ("file_name",),
        ("filename",),
        ("path",),
    )
    fields = ("image",)
    example = "FILE"
    received = Received(IMAGE, received_image)

    def check(self, arguments: Sequence[str], source: Path | None) -> None:
        if arguments and source:
            raise BadInput("give images or --input, not both")
        if not arguments and source is None:
            raise BadInput("give image files, folders of them, or a list of their names with --input")

    def find(self, arguments: Sequence[str], source: Path | None, columns: InputColumns = ANY_COLUMNS) -> Inputs:
        named: Sequence[tuple[str, str | BadInput]] = [("", name) for name in arguments]
        if source is not None:
            named = list(listed(source, "name of one image", columns))
        items = [item for place, name in named for item in image_items(place, name)]
        files = [item for _, item in items if isinstance(item, Path)]
        return Inputs(lambda: items, len(items), files=files)


class Queries(Images):
    """Images to which a command's other options give the meaning."""

    from_file = (
        "The images to classify: a file, or a folder whose images are all taken; repeatable. Also as arguments."
    )
    usual = ()
    flag = "--query"
    joins = True
    example = "--support EXAMPLES --query FILE"

    def check(self, arguments: Sequence[str], source: Path | None) -> None:
        if not arguments:
            raise BadInput("give images to classify with --query: a file, or a folder of them")


def listed(source: Path, what: str, columns: InputColumns = ANY_COLUMNS) -> Iterator[tuple[str, str | BadInput]]:
    """The names in a file, each with its place; blank lines are none. `what`: what a line has. In a file with
    columns a name may also be that of a file beside it."""
    found = False
    for place, item in read_inputs(source, columns):
        name = item[0] if isinstance(item, tuple) else item
        if isinstance(name, str) and not name.strip():
            continue
        if isinstance(item, tuple) and not Path(item[0]).exists() and (source.parent / item[0]).exists():
            name = str(source.parent / item[0])
        found = True
        yield place, name
    if not found:
        raise DataError(f"{source} is empty; it needs the {what} a line")


def image_items(place: str, name: str | BadInput) -> Iterator[Item]:
    """A file that is named, or all images in a folder that is named. A folder without any cannot be answered."""
    from regard.data.images.images import is_image

    if isinstance(name, BadInput):
        yield place, name
        return
    path = Path(name)
    if not path.is_dir():
        yield place, path
        return
    images = sorted(file for file in path.rglob("*") if is_image(file.relative_to(path)) and file.is_file())
    yield from (("", file) for file in images)
    if not images:
        yield place, EmptyFolder(path)


def read_stdin() -> Iterator[Item]:
    from regard.base.lines import try_lines

    with open(sys.stdin.fileno(), "rb", closefd=False) as file:
        for number, line in try_lines(file, "stdin"):
            yield f"stdin, line {number}", line


# ---- reading them


def check_text(text: object, what: str = "a text") -> str:
    """BadInput unless it is a str that UTF-8 can encode, which an argument in another encoding is not."""
    if not isinstance(text, str):
        raise BadInput(f"{what} must be a str, got {text!r:.40} ({type(text).__name__})")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadInput(
            f"character {error.start + 1} of {text[:40]!r} is not valid UTF-8, or half a surrogate pair; convert "
            "the text first"
        ) from None
    return text


def check_there(text: Any, verb: str, what: str = "the text") -> None:
    """BadInput where a text, or the first of a pair, has nothing in it."""
    first = text[0] if isinstance(text, tuple) and text else text
    if isinstance(first, str) and not first.strip():
        raise BadInput(f"{what} is empty; give something to {verb}")


def check_pair(pair: object) -> tuple[str, str]:
    """BadInput unless these are two texts, or a line with a tab between the two."""
    first, tab, rest = pair.partition("\t") if isinstance(pair, str) else ("", "", "")
    parts = (first, rest) if tab else pair
    if not isinstance(parts, tuple | list) or len(parts) != 2:
        raise BadInput(f"a pair must be two texts, in a line with a tab between them; got {pair!r:.60}")
    first, second = (check_text(part) for part in parts)
    for part in (first, second):
        if not part.strip():
            raise BadInput(f"neither text of a pair may be empty, got {first[:40]!r} and {second[:40]!r}")
    return first, second


def check_many(inputs: object, what: str) -> None:
    """BadInput unless this is a list, or another iterable, of texts or images."""
    if isinstance(inputs, bytes | dict) or not isinstance(inputs, Iterable) or getattr(inputs, "ndim", 1) == 0:
        raise BadInput(f"give one {what} or a list of them, got {inputs!r:.40} ({type(inputs).__name__})")


def check_top(top: object) -> None:
    """BadInput unless the number of answers asked for is a whole number of at least 1."""
    if isinstance(top, bool) or not isinstance(top, Integral) or top < 1:
        raise BadInput(f"top must be a whole number of at least 1, got {top!r:.80}")


def read_all(inputs: Iterable[T], read: Callable[[T], R], what: str, first: int = 0) -> Iterator[R]:
    """Each input as `read` gives it; the error of an input that cannot be read names its index:
    texts[3]. `first`: the index of the first of them."""
    for number, item in enumerate(inputs, first):
        try:
            value = read(item)
        except NoTokenizer:  # the fault of the run, and not of this input
            raise
        except BadInput as error:
            raise type(error)(f"{what}[{number}]: {error}") from None
        yield value


def in_parts(items: Iterable[R], size: int) -> Iterator[list[R]]:
    """Lists of `size` items. What came before an item that cannot be read is given before its error is raised."""
    part: list[R] = []
    try:
        for item in items:
            part.append(item)
            if len(part) == size:
                yield part
                part = []
    except BadInput:
        if part:
            yield part
        raise
    if part:
        yield part


# ---- inputs that cannot be answered


@dataclass(frozen=True)
class Failed:
    """Has the place of an answer in the output, so that answers keep the numbers of their inputs."""

    text: str | None  # of the input, or the name of the image; None where that could not be read
    error: str  # with the place of the input
    empty: str = ""  # what the command prints in place of the answer's lines

    def to_dict(self) -> dict[str, object]:
        return {"input": self.text, "error": self.error}

    def line(self) -> str:
        return self.empty

    def picture(self, sites: Sequence[str] = ()) -> None:
        return None


def _shown(item: str | tuple[str, ...] | Path | EmptyFolder | BadInput) -> str | None:
    if isinstance(item, BadInput):
        return None
    return "\t".join(item) if isinstance(item, tuple) else str(item)


@dataclass
class Reading:
    """Inputs on their way to a task. An input that cannot be read waits for its turn among the answers; with
    `strict` its error is raised."""

    items: Iterable[Item]
    read: Callable[[Any], Any]
    strict: bool = False
    empty: Callable[[str | None], str] = lambda text: ""
    # of each input its text, and why it cannot be answered; None: this is the place of an answer
    _turns: deque[tuple[str | None, Failed | None]] = field(default_factory=deque)

    def good(self) -> Iterator[Any]:
        """The inputs that can be answered, as `read` gives them."""
        for where, item in self.items:
            text = _shown(item)
            try:
                if isinstance(item, BadInput):
                    raise item
                if isinstance(item, EmptyFolder):
                    raise item.error()
                value = self.read(item)
            except NoTokenizer:
                raise
            except BadInput as error:
                if where and not isinstance(item, BadInput):
                    error = type(error)(f"{where}: {error}")
                if self.strict:
                    raise error from None
                self._turns.append((text, Failed(text, str(error), self.empty(text))))
                continue
            self._turns.append((text, None))
            yield value

    def in_turn(self, answers: Iterable[T], tick: Callable[[], None]) -> Iterator[T | Failed]:
        """The answers, one for each good input and in their order, with the failures between them."""
        yield from self.so_far(answers, tick)
        for _, failed in self._turns:
            assert failed is not None, "a task gives an answer to every input"
            tick()
            yield failed

    def so_far(self, answers: Iterable[T | None], tick: Callable[[], None]) -> Iterator[T | Failed]:
        """As `in_turn`, where not every input has an answer yet: there are none for the last ones, and None for
        others."""
        for answer in answers:
            text, failed = self._turns.popleft()
            while failed is not None:
                tick()
                yield failed
                text, failed = self._turns.popleft()
            yield Failed(text, STOPPED, self.empty(text)) if answer is None else answer


@dataclass
class Tally:
    """Counts inputs, and those that could not be answered, to say so at the end."""

    count: int = 0
    failed: int = 0
    named: list[str] = field(default_factory=list)  # the errors of the first that failed
    last: str = ""

    def add(self, error: str | None) -> None:
        """One more input; `error`: why it could not be answered."""
        self.count += 1
        if error is not None:
            self.failed, self.last = self.failed + 1, error
            if self.failed <= NAMED:
                self.named.append(error)

    def report(self, what: str) -> str:
        """Which inputs were not answered and why; a long list is shortened."""
        were = "was" if self.failed == 1 else "were"
        lines = [f"{self.failed:,} of {self.count:,} {what} {were} not answered:", *self.named]
        if self.failed > NAMED + 1:
            lines.append(f"... and {self.failed - NAMED - 1:,} more; the last:")
        if self.failed > NAMED:
            lines.append(self.last)
        return "\n  ".join(lines)
