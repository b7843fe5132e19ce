"""The program `regard`. A signal waits until it can be answered; nothing large is imported before."""

import signal
import sys


def main() -> None:
    masks = hasattr(signal, "pthread_sigmask")  # not on Windows
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM)) if masks else ()
    from regard.base.processes import launched
    from regard.base.signals import signals_end

    with signals_end(process=True, quiet=launched()):  # torchrun tells what it was stopped by
        if masks:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        from regard.app.helper.client import asked

        code = asked(sys.argv[1:])  # by a process that has imported everything, where there is one
        if code is not None:
            sys.exit(code)
        from regard.app.cli.main import main

        main()


if __name__ == "__main__":
    main()
