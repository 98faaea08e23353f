"""Log lines as JSON objects, for log collectors."""

import json
import logging
from datetime import UTC, datetime


class JsonLines(logging.Formatter):
    """Writes each record as a JSON object on one line: time, level, logger, message, and an exception."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info is not None:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)
