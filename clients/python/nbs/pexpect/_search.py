"""Which of several patterns comes first."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

from ._exceptions import EOF, TIMEOUT


class _Searcher:
    start = end = 0
    match: Any = None

    def __init__(self, patterns: Sequence[Any]) -> None:
        self.eof_index = -1
        self.timeout_index = -1
        self._patterns: List[Tuple[int, Any]] = []
        for index, pattern in enumerate(patterns):
            if pattern is EOF:
                self.eof_index = index
            elif pattern is TIMEOUT:
                self.timeout_index = index
            else:
                self._patterns.append((index, pattern))

    def _shown(self, pattern: Any) -> str:
        raise NotImplementedError

    def reach(self, fresh: Optional[int]) -> Optional[int]:
        """How much of the end of a text has to be searched, if the last `fresh` of it are new; or
        `None`: all of it."""
        return None if self._patterns else fresh

    def __str__(self) -> str:
        lines = [(index, f"    {index}: {self._shown(pattern)}") for index, pattern in self._patterns]
        lines.append((-1, f"{type(self).__name__}:"))
        if self.eof_index >= 0:
            lines.append((self.eof_index, f"    {self.eof_index}: EOF"))
        if self.timeout_index >= 0:
            lines.append((self.timeout_index, f"    {self.timeout_index}: TIMEOUT"))
        return "\n".join(line for _, line in sorted(lines))


class searcher_string(_Searcher):
    """Searches for texts."""

    def _shown(self, pattern: Any) -> str:
        return repr(pattern)

    def reach(self, fresh: Optional[int]) -> Optional[int]:
        return None if fresh is None else fresh + max((len(text) for _, text in self._patterns), default=0)

    def search(self, buffer: Any, freshlen: int, searchwindowsize: Optional[int] = None) -> int:
        """The index of the pattern that occurs first, or -1. Only the last `freshlen` of `buffer`
        were not searched before."""
        first = -1
        found = -1
        for index, text in self._patterns:
            back = freshlen + len(text) if searchwindowsize is None else searchwindowsize
            at = buffer.find(text, max(0, len(buffer) - back))
            if at >= 0 and (first < 0 or at < first):
                first, found, self.match = at, index, text
        if found >= 0:
            self.start, self.end = first, first + len(self.match)
        return found


class searcher_re(_Searcher):
    """Searches for regexes."""

    def _shown(self, pattern: Any) -> str:
        return f"re.compile({pattern.pattern!r})"

    def search(self, buffer: Any, freshlen: int, searchwindowsize: Optional[int] = None) -> int:
        """The index of the pattern that matches first, or -1."""
        begin = 0 if searchwindowsize is None else max(0, len(buffer) - searchwindowsize)
        found = -1
        for index, regex in self._patterns:
            match = regex.search(buffer, begin)
            if match is not None and (found < 0 or match.start() < self.start):
                found, self.match, self.start, self.end = index, match, match.start(), match.end()
        return found
