"""Exits with 0 if the packages of requirements.txt are installed in exactly these versions."""

import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def installed(requirement: str) -> bool:
    """Whether `name==version` is there."""
    name, wanted = requirement.split("==")
    try:
        return version(name).split("+")[0] == wanted
    except PackageNotFoundError:
        return False


if __name__ == "__main__":
    lines = Path(__file__).with_name("requirements.txt").read_text().split()
    sys.exit(0 if all(map(installed, lines)) else 1)
