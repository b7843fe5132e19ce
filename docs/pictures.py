"""The pictures of the docs, drawn by regard from the runs it ships: python docs/pictures.py [FOLDER]"""

import sys
from pathlib import Path

import regard
from regard.data.shapes import shapes


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    translated = regard.load("de-en").translate("Ich habe meinen Schlüssel im Auto vergessen.")
    translated.attention.save(folder / "translate.svg")
    translated.heads("decoder.*.cross").save(folder / "heads.svg")
    written = regard.load("shakespeare").generate("ROMEO:\nWhat", max_tokens=24)
    written.attention.save(folder / "generate.svg")
    found = regard.load("shapes").recognise(shapes("test", 6).pixels[5])
    found.overlay().save(folder / "recognise.svg")
    regard.load("shapes-senet").class_gates().save(folder / "gates.svg")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "pictures")
