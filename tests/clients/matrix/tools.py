"""The languages and tools that clients need, from Debian where the machine lacks them."""

import os
import shutil
import subprocess
import sys

from .clients import Client

# A command and the Debian packages that bring it.
PACKAGES = {
    "python3": ["python3", "python3-venv"],
    "go": ["golang-go"],
    "node": ["nodejs", "npm"],
    "java": ["openjdk-17-jdk-headless"],
    "mvn": ["maven"],
    "kcat": ["kcat"],
    "cc": ["build-essential"],
    "make": ["build-essential"],
}


def install_missing(chosen: list[Client]) -> None:
    """Installs what the chosen clients need and the machine has not."""
    missing = sorted({need for client in chosen for need in client.needs() if not shutil.which(need)})
    if not missing:
        return
    if unknown := [need for need in missing if need not in PACKAGES]:
        sys.exit(f"install {', '.join(unknown)} first: no Debian package is known for it")
    packages = sorted({package for need in missing for package in PACKAGES[need]})
    print(f"installing {' '.join(packages)}", flush=True)
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-qq"], env=environment, check=True)
    subprocess.run(["apt-get", "install", "-y", "-qq", *packages], env=environment, check=True,
                   stdout=subprocess.DEVNULL)
