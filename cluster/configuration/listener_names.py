"""Names of listeners: upper case wherever they are compared, lower case in the settings that belong to one."""

import re
from typing import Final

OWN_PREFIX: Final = "listener.name."
_OWN_SETTING: Final = re.compile(r"listener\.name\.[^.]+\.(?:[^.]+\.(?=sasl\.|connections\.))?")


def listener_name(text: str) -> str:
    """Return a listener's name as it is compared, registered and shown: in Kafka it is not case-sensitive."""
    return text.strip().upper()


def own_setting(listener: str, setting: str) -> str:
    """Return the name of a listener's own setting, which overrides the broker's."""
    return f"{OWN_PREFIX}{listener.lower()}.{setting}"


def base_name(name: str) -> str:
    """Return the setting that a listener's own one overrides: `max.connections` for `listener.name.x.max.connections`.

    A name without a listener's prefix is its own base.
    """
    return _OWN_SETTING.sub("", name, count=1)
