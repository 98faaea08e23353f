"""Why a broker stopped: each reason that an operator can act on has one message and one exit code.

Any other failure is a bug of ours, and the broker exits with its traceback.
"""

from collections.abc import Iterator
from enum import IntEnum

from cluster.configuration.errors import ConfigError
from cluster.network.port import ListenError
from cluster.replication.periodic_tasks import AllDirectoriesFailedError
from cluster.zookeeper.client import NoAuthError, ZooKeeperError
from cluster.zookeeper.kraft import KraftControllerError
from cluster.zookeeper.registration import BrokerIdTakenError
from storage.errors import DirectoryLockedError, InconsistentDirectoryError, StorageError


class ExitCode(IntEnum):
    """The exit codes of a broker's process."""

    STOPPED = 0  # as requested
    BUG = 1  # with a traceback
    CONFIGURATION = 2  # a setting is wrong, or asks for something that is not served
    ZOOKEEPER = 3  # not reached, or lost for good
    PORT = 4  # a port is taken, or an address is not ours
    DIRECTORY_LOCKED = 5  # another broker runs on a log directory
    FOREIGN_DIRECTORY = 6  # a log directory belongs to another broker or cluster
    DISK = 7  # no log directory is left: each is full, failed or read-only
    BROKER_ID_TAKEN = 8  # another live broker has our id
    KRAFT = 9  # a KRaft controller has taken the cluster over


class BrokerStopError(Exception):
    """The broker cannot start or go on, for a reason that an operator can act on.

    Attributes:
        code: The exit code of the process.
    """

    def __init__(self, code: ExitCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def stop_reason(failure: BaseException) -> BrokerStopError | None:
    """Find the reason in what a broker's tasks raised; return None if it is a bug.

    Args:
        failure: What left the outermost nursery: an error, or a group of them. Tasks that were cancelled
            because of it raise nothing; where several failed, all of them must be reasons.
    """
    reasons = [_reason(leaf) for leaf in _leaves(failure)]
    found = [reason for reason in reasons if reason is not None]
    return found[0] if found and len(found) == len(reasons) else None


def _leaves(failure: BaseException) -> Iterator[BaseException]:
    if isinstance(failure, BaseExceptionGroup):
        for each in failure.exceptions:
            yield from _leaves(each)
    else:
        yield failure


def _reason(error: BaseException) -> BrokerStopError | None:
    match error:
        case BrokerStopError():
            return error
        case ConfigError():
            code = ExitCode.CONFIGURATION
        case ListenError():
            code = ExitCode.PORT
        case DirectoryLockedError():
            code = ExitCode.DIRECTORY_LOCKED
        case InconsistentDirectoryError():
            code = ExitCode.FOREIGN_DIRECTORY
        case StorageError() | AllDirectoriesFailedError():
            code = ExitCode.DISK
        case BrokerIdTakenError():
            code = ExitCode.BROKER_ID_TAKEN
        case KraftControllerError():
            code = ExitCode.KRAFT
        case NoAuthError():
            code = ExitCode.ZOOKEEPER
        case ZooKeeperError():
            code = ExitCode.ZOOKEEPER
        case _:
            return None
    return BrokerStopError(code, str(error))
