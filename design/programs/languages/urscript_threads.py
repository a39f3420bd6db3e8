"""Threads of a URScript program on a virtual clock that counts control steps."""

from collections.abc import Callable

from excitor.design.programs.languages.urscript_expressions import Steps
from excitor.design.programs.languages.urscript_values import Trouble


class Thread:
    """A running thread; what waits does so until a step."""

    __slots__ = ("alive", "resume", "wake")

    def __init__(self, steps: Steps, wake: int) -> None:
        self.resume: Callable[[], int] = steps.__next__
        self.wake = wake
        self.alive = True

    def kill(self) -> None:
        """End it."""
        self.alive = False


class Clock:
    """Runs the main thread, and those it starts, until the main one ends; `passes` counts work within a step."""

    def __init__(self, passes: list[int], most_steps: float) -> None:
        self.now = 0
        self.threads: list[Thread] = []
        self.current: Thread | None = None
        self._passes = passes
        self._most = most_steps

    def spawn(self, steps: Steps) -> Thread:
        """Start a thread; it has its first turn after the one that starts it."""
        if len(self.threads) > 50:
            raise Trouble("more than 50 threads run")
        thread = Thread(steps, self.now)
        self.threads.append(thread)
        return thread

    def run(self, steps: Steps) -> bool:
        """Run the main thread to its end, or tell that it has none."""
        main = self.spawn(steps)
        threads = self.threads
        while main.alive:
            self._passes[0] = 0
            for thread in threads:
                if thread.wake <= self.now and thread.alive:
                    self.current = thread
                    try:
                        thread.wake = self.now + thread.resume()
                    except StopIteration:
                        thread.alive = False
            if not all(thread.alive for thread in threads):
                threads[:] = [thread for thread in threads if thread.alive]
                if not main.alive:
                    break
            self.now = max(self.now + 1, min(thread.wake for thread in threads))
            if self.now > self._most:
                return False
        return True
