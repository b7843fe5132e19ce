"""The command that serves: serve."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.app.cli.arguments import Dtype, Engine, ServedOn, ServedRuns
from regard.app.console import tell
from regard.runs.engine_names import FLOAT32, TORCH


def serve(
    runs: ServedRuns = None,
    host: Annotated[
        str, typer.Option(help="The address to listen at; another than this machine's own asks for a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8000,
    token: Annotated[
        str,
        typer.Option(
            envvar="REGARD_TOKEN", help="What requests must bring; one is made and printed where it is needed."
        ),
    ] = "",
    device: ServedOn = "auto",
    engine: Engine = TORCH,
    dtype: Dtype = FLOAT32,
    memory: Annotated[int, typer.Option(min=1, metavar="MIB", help="The most memory for weights.")] = 4096,
    max_requests: Annotated[int, typer.Option(min=1, metavar="N", help="Requests answered at once.")] = 128,
    max_body: Annotated[int, typer.Option(min=1, metavar="KIB", help="The largest request.")] = 8192,
    max_tokens: Annotated[int, typer.Option(min=1, metavar="N", help="The most tokens to ask for.")] = 1024,
    max_beams: Annotated[int, typer.Option(min=1, metavar="N", help="The widest beam to ask for.")] = 16,
    max_work: Annotated[
        int, typer.Option(min=1, metavar="N", help="The most tokens of a request: inputs x beam x length.")
    ] = 65536,
    max_pixels: Annotated[int, typer.Option(min=1, metavar="N", help="The largest image.")] = 25_000_000,
    max_batch: Annotated[int, typer.Option(min=1, metavar="N", help="Inputs that a model computes at once.")] = 64,
    root_path: Annotated[
        str, typer.Option(metavar="ROOT", help="The path under which a proxy shows it, as /regard.")
    ] = "",
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A name under which a proxy asks it; may be repeated."),
    ] = None,
    frame: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            help="A site that may show the page in a frame; may be repeated.",
        ),
    ] = None,
    background: Annotated[
        bool,
        typer.Option(
            "--background",
            help="Start a helper instead: commands that ask runs (translate, generate, ...) start at once with it.",
        ),
    ] = False,
    status: Annotated[bool, typer.Option("--status", help="Say whether a helper is running.")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="Stop the helper.")] = False,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    log: Annotated[bool, typer.Option("--log", help="Write a line for each request to stderr.")] = False,
) -> None:
    """Serve runs over HTTP: a page to ask them and see where they look, and a JSON API for every task.

    Examples:

        regard serve --open

        regard serve runs/mine dates --port 8080

        regard serve --host 0.0.0.0 --token "$TOKEN"

        regard serve --background

    Models are loaded when they are first asked. The API is described at /openapi.json; /v1/completions and
    /v1/embeddings are understood by clients of OpenAI. SIGTERM and Ctrl-C finish what is being answered. This
    needs the extra `serve`: pip install 'regard[serve]'.

    With --background nothing is served over HTTP: a helper of yours waits at a socket that only you can reach, and
    carries out the commands that ask runs, with the same answers, as it has imported what they need. It ends with
    --stop, or when nobody has asked for a day. REGARD_HELPER=0 does not ask it."""
    if background or status or stop:
        from regard.app.helper import control

        if stop:
            tell(f"helpers stopped: {control.stop()}")
        else:
            tell(control.sentence(control.start() if background else control.told("state")))
        return
    from regard.app.serve.limits import Limits
    from regard.app.serve.start import start

    limits = Limits(
        requests=max_requests,
        body=max_body << 10,
        tokens=max_tokens,
        beams=max_beams,
        work=max_work,
        pixels=max_pixels,
        rows=max_batch,
    )
    start(
        runs or [],
        host=host,
        port=port,
        token=token,
        device=device,
        engine=engine,
        dtype=dtype,
        memory=memory << 20,
        limits=limits,
        log=log,
        open_page=open_page,
        root=root_path,
        hosts=allow_host or [],
        frames=frame or [],
    )
