"""The group of commands: each is imported when it is run, and every error ends as one line and an exit code."""

from __future__ import annotations

import io
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, NoReturn

import click

from calibrant._version import __version__
from calibrant.cli.common import ExamplesMixin, echo, is_terminal
from calibrant.cli.option_texts import in_keys, in_options
from calibrant.errors import CalibrantError, CalibrantWarning, did_you_mean
from calibrant.kernels import tell_of_compiling
from calibrant.phrases import for_terminal

#: The commands, in the order of the work, and what each does. Its module is `calibrant.cli.<name>`, with _ for -.
COMMANDS = {
    "evaluate": "Measure how good the probabilities in a file are.",
    "check": "Run the checks of a project: gates on files, for CI.",
    "compare": "Rank the methods of calibration on a file, out of fold.",
    "audit": "List the segments of rows whose probabilities are furthest off.",
    "decide": "Promise and check what decisions on probabilities or forecasts cost.",
    "fit": "Fit a calibrator to scores and labels, and save it.",
    "segments": "Calibrate within segments of rows, and measure what it changes.",
    "apply": "Add calibrated probabilities to a file of scores.",
    "rank-preserve": "Give the columns their totals, and keep their order.",
    "export": "Write a saved calibrator as SQL or as an ONNX model.",
    "inspect": "Show what a saved calibrator does.",
    "report": "Write a report of the probabilities in a file: one page.",
    "monitor": "Raise an alarm when probabilities stop being right.",
    "forecast": "Measure and recalibrate forecasts of a number.",
    "train": "Train a model of market bars, calibrate it, and measure both.",
    "oof": "Predict out of fold by several models, calibrate, and stack them.",
    "predict": "Predict new bars or rows by a training run.",
    "refresh": "Fit a run's calibrator anew to the newest rows, behind a gate.",
    "warm-up": "Compile the loops once, for images and containers.",
    "runs": "List, show, compare and export training runs.",
}
USAGE_ERROR, OUR_FAULT = 2, 3
#: What a shell reports of a program that was interrupted, and of one whose reader went away.
INTERRUPTED, BROKEN_PIPE = 130, 141


class Commands(ExamplesMixin, click.Group):
    """A group that imports a command when it is run, and turns what went wrong into one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of the commands, in the order of the work."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"calibrant.cli.{cmd_name.replace('-', '_')}").command
        assert isinstance(command, click.Command)  # noqa: S101
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command to run, or say which one may be meant."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"there is no command {args[0]!r}.{did_you_mean(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command line. Click ends what was interrupted with 1, which here is a failed gate."""
        try:
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
            if not standalone_mode:
                return code
        except click.ClickException as error:
            if not standalone_mode:
                raise
            error.show()
            code = error.exit_code
        except (click.exceptions.Abort, KeyboardInterrupt, EOFError):
            if not standalone_mode:
                raise
            code = INTERRUPTED
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        if os.environ.get("NO_COLOR"):
            ctx.color = False
        _open_streams()
        _print_any_text()
        _announce_compiling()
        try:
            with _orderly_end(), _plain_warnings(lambda message: self._in_own_words(message, ctx)):
                return super().invoke(ctx)
        except CalibrantError as error:
            raise Refusal(in_options(str(error), self._options(ctx))) from None
        except BrokenPipeError:
            _forget_output()
            ctx.exit(BROKEN_PIPE)
        except KeyboardInterrupt:
            _end_interrupted(ctx)
        except MemoryError:
            raise Refusal("there is not enough memory. Take fewer rows.") from None
        except (click.exceptions.Exit, click.exceptions.Abort, click.ClickException):
            raise
        except OSError as error:
            where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, (str, bytes)) else ""
            raise Refusal(f"{where}{error.strerror or error}") from None
        except Exception as error:
            if _is_interruption(error):
                _end_interrupted(ctx)
            echo(f"{traceback.format_exc()}\nThis is a fault of calibrant, not yours: please report it.", err=True)
            ctx.exit(OUR_FAULT)

    def _in_own_words(self, warning: str, ctx: click.Context) -> str:
        """Say a warning in options of the command, or in keys of the file that calibrant check reads."""
        return in_keys(warning) if ctx.invoked_subcommand == "check" else in_options(warning, self._options(ctx))

    def _options(self, ctx: click.Context) -> set[str]:
        """Return the names of the options that the command has; of a group, those that all of its commands have."""
        command = self.get_command(ctx, ctx.invoked_subcommand or "")
        several = getattr(command, "commands", {}).values() or [command]
        return set.intersection(*({str(param.name) for param in getattr(each, "params", ())} for each in several))


def _is_interruption(error: BaseException | None) -> bool:
    """Say whether an error came of Ctrl-C: compiled modules that are stopped in their import raise one of their own."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _end_interrupted(ctx: click.Context) -> NoReturn:
    with _uninterrupted():
        echo("Interrupted.", err=True)
    ctx.exit(INTERRUPTED)


def _announce_compiling() -> None:
    """Let people at a terminal know why a first run takes long; nothing is said in pipes and logs."""
    if is_terminal():
        tell_of_compiling(_say_compiling)


def _say_compiling(is_kept: bool) -> None:
    if is_kept:
        text = "Compiling loops, once: later runs find them."
    else:
        text = "Compiling loops: no folder to keep them in can be written. Set NUMBA_CACHE_DIR to one."
    sys.stderr.write(f"{text}\n")  # not by click, which writes past the line that shows the progress


class Refusal(click.ClickException):
    """An error that a user can mend: one line, and the exit code of wrong usage."""

    exit_code = USAGE_ERROR

    def format_message(self) -> str:
        """Return the message as a terminal may show it."""
        return for_terminal(self.message)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ignore further signals of an interruption: Arrow sends itself the one that it was stopped by once more."""
    old = None
    for _ in range(3):
        with suppress(ValueError, KeyboardInterrupt):  # in another thread than the main one there are no signals
            old = signal.signal(signal.SIGINT, signal.SIG_IGN)
            break
    try:
        yield
    finally:
        if old is not None:
            signal.signal(signal.SIGINT, old)


@contextmanager
def _orderly_end() -> Iterator[None]:
    """Let signals that end a process end it as Ctrl-C does, so that files that are half written go."""
    signals = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    taken = [number for number in signals if signal.getsignal(number) is signal.SIG_DFL]  # nohup ignores one

    def end(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_IGN)  # what cleans up is not ended too
        raise SystemExit(128 + number)

    with suppress(ValueError):  # in another thread than the main one there are no signals
        for number in taken:
            signal.signal(number, end)
    try:
        yield
    finally:
        with suppress(ValueError):
            for number in taken:
                signal.signal(number, signal.SIG_DFL)


@contextmanager
def _plain_warnings(in_own_words: Callable[[str], str]) -> Iterator[None]:
    """Show each of our warnings once, as a line on standard error, in words of the command."""
    shown: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if not issubclass(category, CalibrantWarning):
            usual(message, category, *place, **more)
        elif str(message) not in shown:
            shown.add(str(message))
            echo(f"Warning: {in_own_words(str(message))}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", CalibrantWarning)
        usual = warnings.showwarning
        warnings.showwarning = show
        yield


def _open_streams() -> None:
    """Take an output that a shell closed (`>&-`), for which Python has no stream, for one whose reader went away."""
    if sys.stdout is None:
        read, write = os.pipe()
        os.close(read)
        sys.stdout = os.fdopen(write, "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")


def _print_any_text() -> None:
    """Let names that the terminal's encoding lacks be shown by their codes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _forget_output() -> None:
    """Let the interpreter's last flush of an output that nobody reads go nowhere."""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, sys.stdout.fileno())
    os.close(sink)


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    examples=[
        "calibrant evaluate scores.parquet --label y --score p",
        "calibrant fit scores.parquet --label y --score p -o calibrator.json",
        "calibrant apply calibrator.json new.csv -o out.csv",
    ],
)
@click.version_option(__version__, prog_name="calibrant")
def main() -> None:
    """Measure, correct, keep and apply the calibration of predicted probabilities.

    Each command explains itself: calibrant evaluate --help. Exit codes: 0 done, 1 a gate or an alarm, 2 wrong usage
    or bad input, 3 a fault of calibrant, 130 interrupted, 143 terminated.
    """
