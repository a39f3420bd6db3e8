"""Bags in SQLite files: messages of chosen types, read without trusting the file's own definitions."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from excitor.identify.logs.mcap_file import Topic
from excitor.identify.logs.opened import LARGEST_BINARY, check_file
from excitor.robots.errors import InvalidLog

MARK = b"SQLite format 3\0"
_LARGEST_MESSAGE = 2**26
_STEPS = 500_000_000  # of SQLite's machine


def database_messages(path: Path, types: tuple[str, ...]) -> Iterator[tuple[Topic, int, memoryview]]:
    """Yield (topic, time of recording in ns, content) of messages of these types, in order of time."""
    check_file(path, LARGEST_BINARY)
    address = path.resolve().as_uri() + "?mode=ro&immutable=1"
    try:
        database = sqlite3.connect(address, uri=True)
    except sqlite3.Error as error:
        raise InvalidLog(path, f"cannot be read: {error}") from None
    try:
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST_MESSAGE)
        database.execute("PRAGMA trusted_schema = OFF")
        database.execute("PRAGMA cell_size_check = ON")
        budget = iter(range(_STEPS // 100_000))
        database.set_progress_handler(lambda: int(next(budget, None) is None), 100_000)
        yield from _messages(path, database, types)
    except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
        raise InvalidLog(path, f"is a damaged bag: {str(error)[:120]}") from None
    finally:
        database.close()


def _messages(
    path: Path, database: sqlite3.Connection, types: tuple[str, ...]
) -> Iterator[tuple[Topic, int, memoryview]]:
    tables = {name for name, text in database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
              if isinstance(text, str) and text.lstrip().upper().startswith("CREATE TABLE")}  # fmt: skip
    if not {"topics", "messages"} <= tables:
        raise InvalidLog(path, "is a database, but no bag: it has no tables of topics and messages")
    definitions: dict[object, object] = {}
    if "message_definitions" in tables:
        query = "SELECT topic_type, encoded_message_definition FROM message_definitions"
        definitions = dict(database.execute(query).fetchmany(1000))
    for key, name, kind, encoding in database.execute(
        "SELECT id, name, type, serialization_format FROM topics ORDER BY id"
    ).fetchmany(10_000):
        if kind not in types:
            continue
        topic = Topic(str(name), str(kind), str(definitions.get(kind) or ""), str(encoding))
        rows = database.execute(
            "SELECT timestamp, data FROM messages WHERE topic_id = ? ORDER BY timestamp, id", (key,)
        )
        for stamp, data in rows:
            if not isinstance(stamp, int) or not isinstance(data, bytes):
                raise InvalidLog(path, f"is a damaged bag: a message of {topic.name} has no time or no content")
            yield topic, stamp, memoryview(data)
