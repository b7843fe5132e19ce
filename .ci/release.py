"""Build the wheel and the sdist into dist/, and check that they are fit to be given away: `make release`.

They must be well described (twine), small, and install and answer in an empty folder, with each Python that is
there. Nothing is uploaded."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
PYTHONS = ("3.11", "3.12", "3.13")
MOST_BYTES = 25_000_000
ASKED = {  # what an installed copy is asked, and what it must answer
    ("-m", "regard", "translate", "dates", "3 May 1979"): "1979-05-03",
    ("-c", "import regard; print(regard.load('dates').translate('3 May 1979').text)"): "1979-05-03",
    ("-c", "import regard; print(regard.load('shapes').model.paper[:11])"): "Dosovitskiy",
}


def run(*words: str | Path, cwd: Path = ROOT) -> str:
    done = subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"failed: {' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def build() -> list[Path]:
    """The wheel is built from the unpacked sdist, so the sdist is complete if the wheel answers."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", DIST)
    files = sorted(DIST.iterdir())
    if [path.suffix for path in files] != [".whl", ".gz"]:
        sys.exit(f"dist should hold a wheel and an sdist, and holds {', '.join(path.name for path in files)}")
    return files


def check_files(files: list[Path]) -> None:
    run(sys.executable, "-m", "twine", "check", "--strict", *files)
    for path in files:
        size = path.stat().st_size
        if size >= MOST_BYTES:
            sys.exit(f"{path.name} has {size:,} bytes; it must have less than {MOST_BYTES:,}")
        print(f"{path.name}: {size / 1e6:.1f} MB, well described", flush=True)


def find_python(version: str) -> str | None:
    """A Python of this version, by its usual name or because it runs this; None: there is none."""
    for found in (sys.executable, shutil.which(f"python{version}")):
        if found and subprocess.run([found, "-c", SAME.format(version)], capture_output=True).returncode == 0:
            return found
    return None


SAME = "import ensurepip, sys, venv; sys.exit('{}' != '%d.%d' % sys.version_info[:2])"


def check_installed(file: Path, python: str, version: str) -> None:
    """Install into a new environment, and ask from an empty folder."""
    with tempfile.TemporaryDirectory() as place:
        home, empty = Path(place) / "environment", Path(place) / "empty"
        empty.mkdir()
        run(python, "-m", "venv", home)
        inside = home / "bin" / "python"
        run(inside, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", file)
        for words, wanted in ASKED.items():
            if (answer := run(inside, *words, cwd=empty)) != wanted:
                sys.exit(
                    f"{file.name}, Python {version}: {' '.join(words)} should answer {wanted!r}, got {answer!r}"
                )
    print(f"{file.name}: installs and answers with Python {version}", flush=True)


def main() -> None:
    wheel, sdist = files = build()
    check_files(files)
    done = []
    for version in PYTHONS:
        if python := find_python(version):
            check_installed(wheel, python, version)
            done.append((python, version))
        else:
            print(f"skipped Python {version}: there is no python{version} here", flush=True)
    if not done:
        sys.exit(f"none of Python {', '.join(PYTHONS)} is here, so that nothing was installed")
    check_installed(sdist, *done[0])


if __name__ == "__main__":
    main()
