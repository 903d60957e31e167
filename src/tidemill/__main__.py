"""`python -m tidemill`: the command, where the environment's scripts are not on the path."""

from tidemill.cli.main import main

main()
