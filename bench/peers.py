"""The two programs under test, as processes: `speed` of the Rust workspace, and `torch_worker.py`."""

import json
import os
import selectors
import subprocess
import sys
from pathlib import Path

WORKER = Path(__file__).with_name("torch_worker.py")


class Rust:
    """Runs the Rust example; each call is a fresh process."""

    def __init__(self, speed: Path) -> None:
        self.speed = speed

    def run(self, *args: object) -> list[dict]:
        """The JSON lines it prints."""
        command = [str(self.speed), *map(str, args)]
        out = subprocess.run(command, capture_output=True, text=True, check=False)
        if out.returncode:
            raise RuntimeError(f"speed {' '.join(map(str, args))}: {out.stderr.strip()}")
        return [json.loads(line) for line in out.stdout.splitlines()]


class Torch:
    """A PyTorch process with a fixed number of threads, started when first asked."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.process: subprocess.Popen | None = None

    def ask(self, request: dict, limit: float | None = None) -> dict:
        """Its answer, or `{"error": ...}`; a process that passes the limit is ended."""
        if self.process is None:
            env = os.environ | {"OMP_NUM_THREADS": str(self.threads)}
            self.process = subprocess.Popen(
                [sys.executable, str(WORKER), str(self.threads)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=env,
                start_new_session=True,
            )
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(limit):
                self.close()
                return {"error": f"did not answer in {limit:.0f} s"}
        line = self.process.stdout.readline()
        if not line:
            self.close()
            return {"error": "the process ended (out of memory?)"}
        return json.loads(line)

    def close(self) -> None:
        """Ends the process and its compilers."""
        if self.process is not None:
            try:
                os.killpg(self.process.pid, 9)
            except ProcessLookupError:
                pass
            self.process.wait()
            self.process = None
