"""A job's small files, beside the checkpoint and in tables, in any file system that Spark's Hadoop reaches."""

from typing import TYPE_CHECKING, Any

from pipeline.failure import JobError, known_meaning

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class JobFiles:
    """Reads and writes whole small files, and lists folders. Paths are Hadoop's: with or without a scheme.

    Every method raises JobError where the file system refuses.
    """

    def __init__(self, spark: "SparkSession") -> None:
        self._jvm: Any = spark._jvm
        self._conf: Any = spark._jsc.hadoopConfiguration()

    def exists(self, path: str) -> bool:
        """Return whether a file or folder exists."""
        with _Explained(path):
            return bool(self._system(path).exists(self._path(path)))

    def names(self, path: str) -> list[str]:
        """Return the names in a folder; none where there is no folder."""
        with _Explained(path):
            if not self._system(path).exists(self._path(path)):
                return []
            return [
                str(status.getPath().getName()) for status in self._system(path).listStatus(self._path(path))
            ]

    def read_text(self, path: str) -> str | None:
        """Return a file's text, None where there is none."""
        with _Explained(path):
            if not self._system(path).exists(self._path(path)):
                return None
            stream = self._system(path).open(self._path(path))
            try:
                return bytes(stream.readAllBytes()).decode()
            finally:
                stream.close()

    def write_text(self, path: str, text: str) -> None:
        """Replace a file, so that a reader sees the old one or the new one."""
        with _Explained(path):
            system, scratch = self._system(path), self._path(f"{path}.tmp")
            stream = system.create(scratch, True)
            try:
                stream.write(bytearray(text.encode()))
            finally:
                stream.close()
            # While a file is replaced, a checksum beside it would not match for a moment.
            for checksummed in (scratch, self._path(path)):
                parent = str(checksummed.getParent().toString())
                system.delete(self._path(f"{parent}/.{checksummed.getName()}.crc"), False)
            options = self._jvm.org.apache.hadoop.fs.Options.Rename
            overwrite = self._java_array([options.OVERWRITE])
            context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(system.getUri(), self._conf)
            context.rename(system.makeQualified(scratch), system.makeQualified(self._path(path)), overwrite)

    def delete(self, path: str) -> None:
        """Remove a file; one that is not there is no error."""
        with _Explained(path):
            self._system(path).delete(self._path(path), False)

    def delete_tree(self, path: str) -> None:
        """Remove a folder and all in it."""
        with _Explained(path):
            self._system(path).delete(self._path(path), True)

    def move(self, source: str, target: str) -> tuple[int, int]:
        """Move a file within its file system, and return its size in bytes and its modification time in ms."""
        with _Explained(target):
            system = self._system(source)
            system.rename(self._path(source), self._path(target))
            status = system.getFileStatus(self._path(target))
            return int(status.getLen()), int(status.getModificationTime())

    def qualified(self, path: str) -> str:
        """Return a path with its scheme, as Spark writes it down."""
        with _Explained(path):
            return str(self._system(path).makeQualified(self._path(path)).toString())

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)

    def _system(self, path: str) -> Any:
        return self._path(path).getFileSystem(self._conf)

    def _java_array(self, values: list[Any]) -> Any:
        array = self._jvm.java.lang.reflect.Array.newInstance(values[0].getClass(), len(values))
        for index, value in enumerate(values):
            array[index] = value
        return array


class _Explained:
    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        java = getattr(error, "java_exception", None)
        if java is not None:
            text = f"{self._path}: {java.getClass().getSimpleName()}: {java.getMessage()}"
            raise JobError(known_meaning(text) or text) from error
