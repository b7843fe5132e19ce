"""A hook of MkDocs: pages of the site that lie outside docs/, where readers of the sources look for them."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent


def on_files(files: Files, config: MkDocsConfig) -> Files:
    outside = {"changelog.md": ROOT / "CHANGELOG.md"}
    for path in sorted((ROOT / "results").iterdir()):
        if path.suffix in (".md", ".svg", ".jpg", ".png"):
            outside[f"results/{path.name}"] = path
    for name, path in outside.items():
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files
