"""Noticing that a topic was deleted and made again under a checkpoint.

The connector compares offsets: a new topic that has grown past the old offsets is read on as if nothing had happened,
and its first records are lost without a word. So the ids of the topics are kept beside the checkpoint, and compared
when a job starts and every few seconds while it runs.
"""

import json
from collections.abc import Mapping
from typing import Final

from pipeline.failure import JobError
from pipeline.job_files import JobFiles
from pipeline.kafka_access import TopicFacts

CHECK_EVERY_S: Final = 3.0


class TopicIdentity:
    """The topics that a checkpoint is about, by id."""

    def __init__(self, files: JobFiles, path: str) -> None:
        self._files = files
        self._path = path
        text = files.read_text(path)
        try:
            self._known: dict[str, str] = {} if text is None else dict(json.loads(text))
        except ValueError:
            raise JobError(
                f"the checkpoint cannot be read: {path} is damaged; "
                "restore it, or start with a new checkpoint and a new table"
            ) from None

    def check(self, topics: Mapping[str, TopicFacts]) -> list[str]:
        """Compare with the topics as they are now, and remember new ones.

        Returns:
            What is wrong, a line a topic: it is gone, or another one has its name.
        """
        wrong = []
        for name, known in self._known.items():
            now = topics.get(name)
            if now is None:
                wrong.append(f"topic {name} was deleted")
            elif now.id != known:
                wrong.append(f"topic {name} was deleted and made again")
        new = {name: facts.id for name, facts in topics.items() if name not in self._known}
        if new:
            self._known.update(new)
            self._files.write_text(self._path, json.dumps(self._known))
        return wrong
