"""The levels of this broker's loggers, which Kafka's tools show and set as a kind of configuration."""

import logging
from typing import Final

ROOT: Final = "root"
LEVELS: Final = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_NAMES: Final = {level: name for name, level in LEVELS.items()} | {logging.NOTSET: "INFO"}


def logger_levels() -> dict[str, str]:
    """Return the levels of the root logger and of all others, by name."""
    named = (
        name for name, logger in logging.root.manager.loggerDict.items() if isinstance(logger, logging.Logger)
    )
    levels = {name: logging.getLogger(name).getEffectiveLevel() for name in sorted(named)}
    levels[ROOT] = logging.getLogger().getEffectiveLevel()
    return {name: _NAMES.get(level, str(level)) for name, level in levels.items()}


def set_level(name: str, level: str | None) -> None:
    """Set a logger's level; None makes it follow the root again.

    Raises:
        KeyError: there is no such logger, or no such level.
    """
    if name not in logger_levels():
        raise KeyError(name)
    logging.getLogger("" if name == ROOT else name).setLevel(
        logging.NOTSET if level is None else LEVELS[level]
    )
