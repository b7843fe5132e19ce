"""The page in one answer: its modules as one script and its styles as one, put together from the readable files
when the server starts. Over a slow network each further request would cost a round."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from posixpath import normpath

Texts = Mapping[str, str]  # files by their names: page/main.js, views/map.js

IMPORT = re.compile(r'^import \{([^}]*)\} from "([^"]+)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export ((?:async )?(?:function\*?|class|const)) (\w+)", re.MULTILINE)
COMMENT = re.compile(r"^\s*(?:/\*\*?.*?\*/|//[^\n]*)\n", re.MULTILINE | re.DOTALL)  # of lines of their own
INDENT = re.compile(r"^[ \t]+", re.MULTILINE)
VIEW = "import(`../views/${kind}.js`)"  # what loads a view when it is needed
STYLES = re.compile(r'(<link rel="stylesheet"[^>]*>\n)+')
SCRIPT = re.compile(r'<script type="module" src="([^"]+)"></script>\n')
EARLY = re.compile(r'<script src="([^"]+)"></script>\n')  # runs while the page is still on its way
FRAME = "page/frame.html"  # what all pages share; a page begins with the words that are its own
FIELDS = re.compile(r"<!-- in frame\.html\n(.*?)-->\n", re.DOTALL)
FIRST = ("map",)  # the views that a page has from the start
LATER = {
    "page/views.js": (),  # all others with which an answer is shown
    "page/more_views.js": ("cell", "difference", "image_difference", "sheet"),  # what is opened or compared then
}
USUAL, *_ = LATER
# Modules by name. A view that is not there yet comes in a file with others. What did not come is asked for by
# another address, as browsers do not try the same again.
BEGIN = f"""const $ = globalThis.$regard = {{}};
const $files = {json.dumps({kind: file for file, kinds in LATER.items() for kind in kinds})};
const $view = async (kind, tries) => {{
if (!$[`views/${{kind}}.js`]) await import(`./${{$files[kind] ?? {USUAL!r}}}${{tries ? `?${{tries}}` : ""}}`);
return $[`views/${{kind}}.js`];
}};
"""


@dataclass(frozen=True)
class Whole:
    """A page with its script and style inside, and the hashes by which its policy allows them."""

    text: str
    hashes: tuple[str, ...]


def framed(page: str, files: Texts) -> str:
    """A page in the frame of all pages."""
    fields = FIELDS.match(page)
    assert fields is not None
    own = dict(line.split(": ", 1) for line in fields[1].splitlines())
    tab = f'href="{own.pop("tab")}"'
    text = files[FRAME].replace(tab, f'{tab} aria-current="page"')
    for name, value in {"head": "", **own, "body": page[fields.end() :].rstrip()}.items():
        text = text.replace(f"{{{{{name}}}}}", value)
    return text.replace("\n\n", "\n")  # a page without a head of its own


def whole(page: str, files: Texts, *, every_view: bool = False) -> Whole:
    """`page`: its HTML, which names the first module and the styles. `every_view`: there is no server to ask for
    others."""
    entry = SCRIPT.search(page)
    assert entry is not None
    style = "\n".join(files[name] for name in sorted(files, key=by_use) if name.endswith(".css"))
    script = BEGIN + in_order([*(views(files) if every_view else views(files, FIRST)), entry[1]], files)
    script = re.sub("<(/?script|!--)", r"<\\\1", script)  # in its texts: HTML would read them
    made = STYLES.sub(lambda _: f"<style>\n{style}</style>\n", page, count=1)
    made = SCRIPT.sub(lambda _: f'<script type="module">\n{script}</script>\n', made)
    early = [plain(files[name]) for name in EARLY.findall(made)]
    made = EARLY.sub(lambda found: f"<script>\n{plain(files[found[1]])}</script>\n", made)
    return Whole(made, tuple(hash_of(f"\n{inside}") for inside in (script, style, *early)))


def later_views(files: Texts, kinds: Iterable[str] = ()) -> str:
    """Views that a page begins without, with what they need, as a module that adds them to those that it has:
    these, else all that no other file has."""
    others = {f"views/{kind}.js" for kind in itertools.chain(*LATER.values())}
    there = [*modules(views(files, FIRST), files)]
    wanted = views(files, kinds) if kinds else [name for name in first_of(files) if name not in others]
    return "const $ = globalThis.$regard;\n" + in_order(wanted, files, there)


def first_of(files: Texts) -> list[str]:
    """The views that no other is made of."""
    parts = {other for name in views(files) for other in imported(name, files[name])}
    return [name for name in views(files) if name not in parts]


def views(files: Texts, kinds: Iterable[str] = ()) -> list[str]:
    wanted = {f"views/{kind}.js" for kind in kinds}
    return [
        name for name in files if name.startswith("views/") and name.endswith(".js") and name in (wanted or files)
    ]


def in_order(entries: Iterable[str], files: Texts, there: Iterable[str] = ()) -> str:
    """These modules and all that they import, each in a scope of its own, after those that it needs."""
    left_out = set(there)
    return "".join(scoped(name, files[name]) for name in modules(entries, files) if name not in left_out)


def modules(entries: Iterable[str], files: Texts) -> dict[str, None]:
    """Those that are imported come first."""
    found: dict[str, None] = {}

    def add(name: str, above: tuple[str, ...]) -> None:
        if name in above:
            raise ValueError(f"{' -> '.join((*above, name))}: modules import each other in a circle")
        if name not in found:
            for other in imported(name, files[name]):
                add(other, (*above, name))
            found[name] = None

    for entry in entries:
        add(entry, ())
    return found


def imported(name: str, text: str) -> Iterator[str]:
    for _, path in IMPORT.findall(text):
        yield normpath(str(PurePosixPath(name).parent / path))


def scoped(name: str, text: str) -> str:
    """A module as a function that is called at once: it takes what it imports, and gives what it exports."""
    taken = [
        f"const {{{' '.join(names.split())}}} = $[{normpath(str(PurePosixPath(name).parent / path))!r}];\n"
        for names, path in IMPORT.findall(text)
    ]
    given = ", ".join(made for _, made in EXPORT.findall(text))
    inner = plain(EXPORT.sub(r"\1 \2", IMPORT.sub("", text))).replace(VIEW, "$view(kind, tries)")
    return f"$[{name!r}] ??= (() => {{\n{''.join(taken)}{inner}return {{{given}}};\n}})();\n"


def plain(text: str) -> str:
    """A script without its comments and indents."""
    return INDENT.sub("", COMMENT.sub("", text))


def by_use(name: str) -> tuple[bool, bool, str]:
    """What all views share first, the page's own last."""
    return name.startswith("page/"), not name.endswith("/parts.css"), name


def hash_of(text: str) -> str:
    """As a Content-Security-Policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
