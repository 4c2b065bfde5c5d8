"""What a check finds."""

from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    """How bad a finding is."""

    OK = "OK"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Finding:
    """One thing looked at: what was found and, unless it is well, what to do."""

    level: Level
    subject: str
    text: str
    advice: str = ""


def ok(subject: str, text: str) -> Finding:
    """All is well."""
    return Finding(Level.OK, subject, text)


def note(subject: str, text: str, advice: str = "") -> Finding:
    """Works, but worth knowing."""
    return Finding(Level.NOTE, subject, text, advice)


def problem(subject: str, text: str, advice: str) -> Finding:
    """Does not work."""
    return Finding(Level.PROBLEM, subject, text, advice)
