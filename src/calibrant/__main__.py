"""Run the command line: `python -m calibrant`."""

from calibrant.cli import main

if __name__ == "__main__":
    main(prog_name="calibrant")
