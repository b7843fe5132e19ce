"""The command that writes a page without a server: page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.app.cli.arguments import ServedOn, ServedRuns


def page(
    runs: ServedRuns = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the site goes.")] = Path("site"),
    text: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT", help="A text that is asked instead of the runs' own examples; may be repeated."
        ),
    ] = None,
    gallery: Annotated[
        bool, typer.Option("--gallery", help="The pages of the gallery too; some examples train for a minute.")
    ] = False,
    device: ServedOn = "auto",
) -> None:
    """Write the page of `regard serve` as a site without a server, to send to others or to put on any web host.

    Examples:

        regard page dates --out site

        regard page runs/mine --text "Wo ist der Bahnhof?" --text "Guten Tag."

        regard page --gallery

    It holds the answers of the runs to their examples, or to the texts that you give, with everything they looked
    at, and the steps of short answers. Open FOLDER/index.html from disk, or copy FOLDER to a web host. Only what is
    in it can be asked, and whoever opens it needs no Python. What an earlier site left in FOLDER and this one does
    not have is removed, by the list in FOLDER/files.json; other files stay. This needs the extra `serve`:
    pip install 'regard[serve]'."""
    from regard.app.console import tell
    from regard.app.serve.start import check_installed, check_runs
    from regard.gallery import GALLERY
    from regard.learn.progress import say

    check_installed()
    from regard.app.cli.gallery_command import write_pages
    from regard.app.serve.site import new_shelf, write_site
    from regard.app.serve.site_files import tidy

    shelf = new_shelf(runs or [], device)
    if runs:
        check_runs(shelf)
    written = write_site(shelf, out, text or [], gallery="gallery/index.html" if gallery else "", told=say)
    if gallery:
        written += write_pages(list(GALLERY), out / "gallery", index=True)
    tidy(out, written)
    size = sum(path.stat().st_size for path in written)
    tell(f"{len(written)} files, {size / 1e6:.1f} MB")
    print(out / "index.html")
