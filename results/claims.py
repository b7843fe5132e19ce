"""Write the table of claims in results/README.md from their rows: python results/claims.py"""

from __future__ import annotations

from pathlib import Path

from regard.base.files import write_file
from regard.claims.claim import Claim, claims

PAGE = Path(__file__).parent / "README.md"
BEGIN, END = "<!-- claims: written by python results/claims.py -->\n", "<!-- end of claims -->"


def table() -> str:
    lines = ["| what | result | published | table | id |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(cells(name, claim))} |" for name, claim in claims().items()]
    return "\n".join(lines) + "\n"


def cells(name: str, claim: Claim) -> list[str]:
    kind = "share" if claim.learned_below else "mean"
    each = ", ".join(map(claim.plain, claim.values)) or f"{kind} of {len(claim.seeds)} seeds"
    seeds = f" ({each})" if len(claim.seeds) > 1 else ""
    page = f"[{claim.page.removesuffix('.md').replace('_', ' ')}]({claim.page})"
    return [claim.what, f"{claim.number(claim.value)}{seeds}", claim.published, page, f"`{name}`"]


def with_table(page: str) -> str:
    """The page with the table of today."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table()}{END}{after}"


if __name__ == "__main__":
    write_file(PAGE, with_table(PAGE.read_text(encoding="utf-8")).encode())
