"""The program `regard`. Signals are heard before anything large is imported."""

from regard.base.processes import launched
from regard.base.signals import signals_end


def main() -> None:
    with signals_end(process=True, quiet=launched()):  # torchrun tells what it was stopped by
        from regard.app.cli.main import main

        main()


if __name__ == "__main__":
    main()
