"""How a job fails: one line that states the fault and the remedy.

Spark wraps a cause in several exceptions of Java and of Python, each with a trace. `explain` finds the innermost
one that a user can act on. For an unknown failure it returns the first line with content.
"""

import re
from typing import Final


class JobError(Exception):
    """A job cannot do what it was asked to; the text is one line for the user."""


# (text anywhere in the chain of causes, its meaning). The first match is used.
_KNOWN: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (
        re.compile(r"No space left on device|Disk quota exceeded"),
        "the disk is full: make room and start the job again; it goes on at its checkpoint, "
        "and no reader sees what was half-written",
    ),
    (
        # Don't match the option's name: Spark prints it with every plan.
        re.compile(r"KAFKA_DATA_LOSS|data may have been (?:lost|missed)|may have been aged out"),
        "records are gone from the topic before they were read (retention overtook the job, or the topic was "
        "deleted or made again): {detail}; "
        "start with a new checkpoint to read what is there, or with --no-fail-on-data-loss to go on with a gap",
    ),
    (
        re.compile(r"UnknownTopicOrPartition|does not host this topic-partition"),
        "a topic does not exist: {detail}; create it with `ottla topics --create`, or correct --topic",
    ),
    (
        re.compile(r"Timed out waiting for a node assignment|Failed to construct kafka|No resolvable bootstrap|"
                   r"Timeout expired while fetching topic metadata"),
        "the cluster cannot be reached: check --bootstrap-server and that its brokers run ({detail})",
    ),
    (
        re.compile(r"SaslAuthentication|SslAuthentication|TopicAuthorization|GroupAuthorization|ClusterAuthorization"),
        "the cluster refuses us: {detail}; give the credentials with --kafka-config",
    ),
    (
        re.compile(r"Malformed log file|failed to read log|Incomplete log file|MALFORMED_CHECKPOINT|"
                   r"INVALID_CHECKPOINT|checkpoint.*(?:corrupt|cannot be read)|UnsupportedLogVersion|"
                   r"Unexpected version marker|No usable value for|MALFORMED_LOG_FILE"),
        "the checkpoint cannot be read: {detail}; restore it, or start with a new checkpoint and a new table",
    ),
    (
        re.compile(r"PATH_NOT_FOUND|FileNotFoundException|Path does not exist"),
        "a path does not exist: {detail}",
    ),
    (
        re.compile(r"RecordTooLarge|MessageSizeTooLarge"),
        "a record is larger than the topic takes: {detail}; raise max.message.bytes of the topic, "
        "and max.request.size with --kafka-config",
    ),
)  # fmt: skip

_CAUSE: Final = re.compile(r"^\s*Caused by: (.+)$", re.MULTILINE)
_PREFIX: Final = re.compile(r"^(?:[\w$]+\.)*[\w$]+(?:Exception|Error|Failure): ")
_CONDITION: Final = re.compile(r"^\[[A-Z0-9_.]+\] ")
_DETAIL_LENGTH_MAX: Final = 400


def explain(error: BaseException) -> str:
    """Return one line for an exception of Spark, of Kafka's client or of our own."""
    if isinstance(error, JobError):
        return one_line(str(error))
    text = full_text(error)
    return one_line(known_meaning(text) or _last_cause(text) or type(error).__name__)


def known_meaning(text: str) -> str | None:
    """Return the meaning of a failure that is known by its text, None for any other."""
    for pattern, meaning in _KNOWN:
        found = pattern.search(text)
        if found is not None:
            return meaning.replace("{detail}", _line_around(text, found.start()))
    return None


def one_line(text: str) -> str:
    """Fold a text into one line of limited length."""
    line = " ".join(text.split())
    return line if len(line) <= 1000 else line[:999] + "…"


def full_text(error: BaseException) -> str:
    """Return the full text of an exception and its causes, Java's trace included."""
    parts: list[str] = []
    seen: BaseException | None = error
    while seen is not None and len(parts) < 20:
        java = getattr(seen, "java_exception", None)
        parts += [str(seen), "" if java is None else str(java), str(getattr(seen, "_stackTrace", "") or "")]
        # PySpark keeps the Java causes of a failed query only here.
        seen = seen.__cause__ or getattr(seen, "_cause", None) or seen.__context__
    return "\n".join(parts)


def _line_around(text: str, position: int) -> str:
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    return _stripped(text[start : end if end >= 0 else len(text)])


def _last_cause(text: str) -> str:
    causes = _CAUSE.findall(text)
    if causes:
        return _stripped(causes[-1])
    return next((_stripped(line) for line in text.splitlines() if line.strip()), "")


def _stripped(line: str) -> str:
    line = line.strip().removeprefix("Caused by: ")
    line = _CONDITION.sub("", _PREFIX.sub("", line))
    line = re.split(r" SQLSTATE: |\n", line)[0].strip().rstrip(".;")
    return line if len(line) <= _DETAIL_LENGTH_MAX else line[: _DETAIL_LENGTH_MAX - 1] + "…"
