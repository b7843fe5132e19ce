"""A hook of MkDocs: pages of the site that lie outside docs/, where readers of the sources look for them, and the
parts of pages that are made from the code (parts.py)."""

import re
from pathlib import Path

from manual import COMMANDS, manual_page, with_commands
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from parts import (
    every_system,
    gallery_page,
    notebook_page,
    with_equations,
    with_gallery,
    with_settings,
    with_system,
)

from regard.gallery import GALLERY
from regard.gallery.core.page import style

ROOT = Path(__file__).parent.parent


def on_files(files: Files, config: MkDocsConfig) -> Files:
    outside = {"changelog.md": ROOT / "CHANGELOG.md"}
    for path in sorted((ROOT / "results").iterdir()):
        if path.suffix in (".md", ".svg", ".jpg", ".png"):
            outside[f"results/{path.name}"] = path
    for name, path in outside.items():
        files.append(File.generated(config, name, abs_src_path=str(path)))
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        text, pictures = notebook_page(path, "pictures")
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=text))
        for name, svg in pictures.items():
            files.append(File.generated(config, f"notebooks/{name}", content=svg))
    for name in GALLERY:
        files.append(File.generated(config, f"gallery/{name}.md", content=gallery_page(name)))
    for name in COMMANDS:
        files.append(File.generated(config, f"commands/{name}.md", content=manual_page(name)))
    files.append(File.generated(config, "assets/gallery.css", content=style()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links hold in the sources. In the site the pages of docs/ lie beside results/, and a notebook is a page."""
    place = page.file.src_uri
    if place.startswith("results/"):
        return markdown.replace("](../docs/", "](../")
    up = "../" * place.count("/")
    markdown = with_gallery(markdown)
    markdown = with_settings(markdown.replace(f"](../{up}results/", f"]({up}results/"))
    if not place.startswith("notebooks/"):  # sources link to the notebook itself
        markdown = re.sub(r"(notebooks/\w+)\.ipynb\)", r"\1.md)", markdown)
    if place == "commands.md":
        markdown = with_commands(markdown)
    name = Path(place).stem
    return with_system(markdown, name) if place == f"systems/{name}.md" and name in every_system() else markdown


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    return with_equations(content)


def on_post_build(config: MkDocsConfig) -> None:
    """The search index as a script: a page opened from disk may not fetch it. The theme looks for this file."""
    folder = Path(config.site_dir) / "search"
    index = (folder / "search_index.json").read_text(encoding="utf-8")
    (folder / "search_index.js").write_text(f"var __index = {index}", encoding="utf-8")
