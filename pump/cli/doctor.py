"""`pump doctor`."""

import argparse

from pump import doctor
from pump.doctor import Finding, Level
from pump.terminal.status import Status


class Doctor:
    """Say what is wrong with this machine, this environment or a program.

    Each finding is OK, a note or a problem, with what to do. Exit status 1 when there is a problem.
    """

    name = "doctor"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """A program to look at as well."""
        parser.add_argument("program", nargs="?", help="a program: will ulms.so reach it?")

    def run(self, args: argparse.Namespace) -> list[Finding]:
        """All findings."""
        return doctor.examine(args.program)

    def main(self, args: argparse.Namespace) -> int:
        """Prints the findings."""
        findings = self.run(args)
        for finding in findings:
            print(f"{finding.level.value:8} {finding.subject}: {finding.text}")
            if finding.advice:
                print(f"{'':8} -> {finding.advice}")
        wrong = any(finding.level is Level.PROBLEM for finding in findings)
        return Status.FAILED if wrong else Status.DONE
