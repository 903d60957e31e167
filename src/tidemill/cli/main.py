"""The command `tidemill`."""

from __future__ import annotations

import sys

import click

from tidemill.cli.doctor import doctor, setup
from tidemill.errors import TidemillError


@click.group()
@click.version_option(package_name="tidemill")
def tidemill() -> None:
    """Incremental tables on Spark that are exact."""


tidemill.add_command(doctor)
tidemill.add_command(setup)


def main() -> None:
    """Runs the command line; an error of ours is two lines on stderr, never a traceback."""
    try:
        tidemill()
    except TidemillError as error:
        click.echo(f"error[{error.code}] {error.problem}\n  {error.remedy}", err=True)
        sys.exit(error.exit_code)
