"""Noticing that a topic was deleted and created again during the life of a checkpoint.

The connector compares offsets: a new topic that has grown past the old offsets is read on as if nothing had happened,
and its first records are lost silently. So the ids of the topics are kept beside the checkpoint, and compared
when a job starts and every few seconds while it runs.
"""

import json
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Final

from pipeline.failure import JobError
from pipeline.job_files import JobFiles
from pipeline.kafka_access import KafkaAccess, TopicFacts

CHECK_EVERY_S: Final = 3.0


class TopicIdentity:
    """The ids of the topics that a checkpoint reads."""

    def __init__(self, files: JobFiles, path: str) -> None:
        self._files = files
        self._path = path
        self._missing: set[str] = set()
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
            The faults, one line for each topic: it is gone, or another one has its name.
        """
        wrong = []
        missing = self._missing
        self._missing = set(self._known) - set(topics)
        for name, known in self._known.items():
            now = topics.get(name)
            if now is None:
                # A broker that has just started may not know its topics yet: missing once proves nothing.
                if name in missing:
                    wrong.append(f"topic {name} was deleted")
            elif now.id != known:
                wrong.append(f"topic {name} was deleted and made again")
        new = {name: facts.id for name, facts in topics.items() if name not in self._known}
        if new:
            self._known.update(new)
            self._files.write_text(self._path, json.dumps(self._known))
        return wrong


class TopicWatch:
    """Compares the ids of a job's topics when it starts and every few seconds.

    Args:
        files: Where the ids are kept.
        root: The job's checkpoint.
        access: The cluster.
        topics: Names.
        pattern: Or a regular expression.
        fail: Whether a topic that was created again ends the job.

    Raises:
        JobError: a topic was deleted or created again since the checkpoint was begun.
    """

    def __init__(
        self,
        files: JobFiles,
        root: str,
        access: KafkaAccess,
        *,
        topics: Sequence[str] = (),
        pattern: str | None = None,
        fail: bool = True,
    ) -> None:
        self._identity = TopicIdentity(files, f"{root}/ottla/topics.json")
        self._root = root
        self._access = access
        self._topics = topics
        self._pattern = pattern
        self._fail = fail
        self._check(self._access.topics(topics, pattern))
        self._looked_at = monotonic()

    def look(self) -> None:
        """Compare if the last look was some seconds ago. An unreachable cluster is ignored: the query reports it.

        Raises:
            JobError: a topic was deleted or created again.
        """
        if monotonic() - self._looked_at >= CHECK_EVERY_S:
            self._look_now()

    def look_after_failure(self) -> None:
        """Compare at once, since a query has failed: a deleted topic may be the reason.

        Raises:
            JobError: a topic was deleted or created again.
        """
        for _look in range(2):  # a topic that is missing counts the second time
            self._look_now()

    def _look_now(self) -> None:
        try:
            topics = self._access.topics(self._topics, self._pattern)
        except JobError:
            topics = None
        self._looked_at = monotonic()
        if topics is not None:
            self._check(topics)

    def _check(self, topics: Mapping[str, TopicFacts]) -> None:
        wrong = self._identity.check(topics)
        if wrong and self._fail:
            raise JobError(
                f"{'; '.join(wrong)} under the checkpoint {self._root}: records may be lost. "
                "Start with a new checkpoint and a new table, or with --no-fail-on-data-loss"
            )
