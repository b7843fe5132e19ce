"""A hook of MkDocs: pages of the site that lie outside docs/, where readers of the sources look for them."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent


def on_files(files: Files, config: MkDocsConfig) -> Files:
    outside = {"changelog.md": ROOT / "CHANGELOG.md"}
    for path in sorted((ROOT / "results").iterdir()):
        if path.suffix in (".md", ".svg", ".jpg", ".png"):
            outside[f"results/{path.name}"] = path
    for name, path in outside.items():
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links between docs/ and results/ hold in the sources; in the site the pages of docs/ lie beside results/."""
    if page.file.src_uri.startswith("results/"):
        return markdown.replace("](../docs/", "](../")
    up = "../" * page.file.src_uri.count("/")
    return markdown.replace(f"](../{up}results/", f"]({up}results/")
