"""`python -m unmask.cli`: for launchers that start a module, such as accelerate."""

from unmask.cli import main

main()
