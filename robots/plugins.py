"""Members of a folder of alternatives: built in, registered by a script, or brought by an installed package.

An installed package names its members under an entry point group; a member is imported when it is asked for by its
name. A file (campaign.toml, a robot file) holds names only, never code.
"""

from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from excitor.robots.errors import ExcitorError

Member = TypeVar("Member")


class Members(Mapping[str, Member]):
    """Members of one kind by name: the built-in ones, the registered ones, then those of installed packages.

    `check` is the kind's conformance suite: it raises ExcitorError for a member that does not do what it must.
    Iterating lists the names of installed packages' members without importing them.
    """

    def __init__(self, group: str, builtin: Mapping[str, Member], check: Callable[[Member], None]) -> None:
        self.group = group  # of entry points
        self._builtin = dict(builtin)
        self._check = check
        self._added: dict[str, Member] = {}

    def __getitem__(self, name: str) -> Member:
        for members in (self._builtin, self._added):
            if name in members:
                return members[name]
        for entry in entry_points(group=self.group, name=name):
            self._added[name] = self._loaded(entry)
            return self._added[name]
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        installed = (entry.name for entry in entry_points(group=self.group))
        return iter(dict.fromkeys([*self._builtin, *self._added, *installed]))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def loaded(self) -> dict[str, Member]:
        """Return the members that need no import: the built-in ones, then the registered ones."""
        return {**self._builtin, **self._added}

    def add(self, name: str, member: Member) -> None:
        """Register a member of this process; a built-in name is refused, and so is a member that fails its check."""
        if name in self._builtin:
            raise ExcitorError(f"{self.group}: {name!r} is the name of a built-in member; choose another name")
        self._check(member)
        self._added[name] = member

    def remove(self, name: str) -> None:
        """Forget a registered member."""
        self._added.pop(name, None)

    def _loaded(self, entry: EntryPoint) -> Member:
        package = entry.dist.name if entry.dist is not None else entry.value
        where = f"package {package}, entry point {entry.name!r} of {self.group}"
        try:
            member: Member = entry.load()
        except Exception as error:  # whatever a package does while it is imported
            raise ExcitorError(
                f"{where}: {entry.value} cannot be imported ({type(error).__name__}: {error}); update or uninstall it"
            ) from None
        name = getattr(member, "name", None)
        if name != entry.name:
            raise ExcitorError(f"{where}: its member is named {name!r}; the entry point must have the same name")
        try:
            self._check(member)
        except Exception as error:
            raise ExcitorError(f"{where}: fails its conformance suite: {error}") from None
        return member
