"""`pump options`."""

import argparse

from pump import __version__
from pump.binding import Option, option_rows
from pump.terminal.render import console
from pump.terminal.tables import table


class Options:
    """List the environment variables that steer ulms.so."""

    name = "options"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """How to show them."""
        form = parser.add_mutually_exclusive_group()
        form.add_argument("--markdown", action="store_true", help="as the table in docs/options.md")
        form.add_argument(
            "--man", action="store_true", help="as a manual page (pipe it to man -l -)"
        )

    def run(self) -> list[Option]:
        """Every option."""
        return option_rows()

    def main(self, args: argparse.Namespace) -> int:
        """Prints them."""
        options = self.run()
        if args.markdown:
            print(markdown(options))
        elif args.man:
            print(manual_page(options))
        else:
            rows = [(names(o), o.default or "not set", o.accepts, o.help) for o in options]
            columns = ("variable", "default", "accepts", "what it does")
            console().print(table(columns, rows, leaves=("accepts", "default")))
        return 0


def names(option: Option) -> str:
    """An option's name and what others call it."""
    return f"{option.name} (or {', '.join(option.aliases)})" if option.aliases else option.name


def markdown(options: list[Option]) -> str:
    """The options as a Markdown table."""
    lines = ["| variable | default | accepts | what it does |", "|---|---|---|---|"]
    for option in options:
        name = ", ".join(f"`{n}`" for n in (option.name, *option.aliases))
        default = f"`{option.default}`" if option.default else "not set"
        lines.append(f"| {name} | {default} | {option.accepts} | {option.help} |")
    return "\n".join(lines)


def manual_page(options: list[Option]) -> str:
    """The options as a manual page of section 7, in man macros."""
    lines = [
        f'.TH ULMS 7 "" "PUMP {__version__}" "Miscellaneous"',
        ".SH NAME",
        "ulms \\- see and limit the device memory of an unmodified CUDA program",
        ".SH SYNOPSIS",
        ".B LD_PRELOAD=ulms.so",
        ".I program",
        ".SH ENVIRONMENT",
        "Read when the program initialises CUDA. A value that is not accepted costs one line on",
        "standard error, and the default holds.",
    ]
    for option in options:
        lines += [".TP", f".B {escaped(names(option))}"]
        default = f"Default: {option.default}." if option.default else "Not set by default."
        lines.append(escaped(f"{sentence(option.help)} Accepts {option.accepts}. {default}"))
    return "\n".join([*lines, ".SH SEE ALSO", ".BR pump (1)"])


def sentence(words: str) -> str:
    """Words with a capital letter and a full stop."""
    return f"{words[:1].upper()}{words[1:]}."


def escaped(words: str) -> str:
    """Words that troff prints as they stand; a dot at the start of a line would be a request."""
    plain = words.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{plain}" if plain.startswith((".", "'")) else plain
