"""Where a command finds the service. Asked often: what reads configurations is loaded only where one decides."""

from __future__ import annotations

import os
from pathlib import Path

from chase import unixhttp
from chase.cli.output import say_more
from chase.errors import ConfigError


def socket_path(socket_file: Path | None, config_file: Path | None) -> Path:
    """The socket that was named, else that of the service file that was named, else where one usually is.

    Where nothing is there either, that of the node's own file. Raises ``ConfigError`` for a file that was named and
    cannot be used.
    """
    if socket_file is not None:
        return socket_file
    usual = unixhttp.default_socket()
    if config_file is not None:
        return _configured(config_file) or usual
    try:
        return usual if _is_there(usual) else _configured(None) or usual
    except ConfigError as error:
        say_more(f"the configuration is left aside: {error}")
        return usual


def _configured(config_file: Path | None) -> Path | None:
    """None where nobody has said where: by default it depends on who runs the service, who need not be who asks."""
    from chase.config import load

    loaded = load(service_file=config_file)
    path = loaded.config.service.socket_path
    said = any(loaded.origin[f"service.{key}"] != "default" for key in ("socket", "run_dir"))
    return path if said or _is_there(path) else None


def _is_there(path: Path) -> bool:
    return os.path.exists(path)  # noqa: PTH110  Path.exists raises where we may not look
