"""What a keeper saw of a job that has ended."""

from __future__ import annotations


class Facts:
    """What a keeper saw; see `launch.Report`."""

    __slots__ = ("in_time", "keeps", "output_open", "proven", "signalled", "status", "survivors")

    def __init__(
        self,
        status: int | None,
        signalled: tuple[int, ...],
        in_time: bool,
        survivors: int,
        output_open: bool,
        proven: bool,
        keeps: bool,
    ) -> None:
        self.status = status
        self.signalled = signalled
        self.in_time = in_time
        self.survivors = survivors
        self.output_open = output_open
        self.proven = proven
        self.keeps = keeps

    def values(self) -> tuple[int | None, tuple[int, ...], bool, int, bool, bool, bool]:
        """The arguments that make it again."""
        return (
            self.status,
            self.signalled,
            self.in_time,
            self.survivors,
            self.output_open,
            self.proven,
            self.keeps,
        )
