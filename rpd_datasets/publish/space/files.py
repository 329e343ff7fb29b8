"""A metric Space: the files from which the Hub serves `evaluate.load("USER/NAME")` and a page.

`evaluate` downloads one file from the Space, named after it, and runs it where `rpd_metric` is
installed; the page (`app.py`) runs in the Space. As long as the package is on no index, its wheel
lies beside the page, which imports it from there: a Space sees nothing but `requirements.txt`
while that is installed, and a private one may not download its own files. Nothing here needs
Gradio.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from rpd_datasets.publish.hub import Pushed, publish
from rpd_datasets.publish.space.wheel import build_wheel, requirements
from rpd_metric.errors import InputError, OutputError

if TYPE_CHECKING:
    from huggingface_hub import HfApi

# The version that the page is tested with; the Space installs exactly this one.
GRADIO = "6.31.0"
EXTRA = "offline"


def space_files(name: str = "rpd", *, package: str | None = None) -> dict[str, bytes]:
    """The files of a Space.

    Args:
        name (`str`, defaults to `"rpd"`): The Space's name without its namespace; `evaluate` asks
            for the file `<name>.py`.
        package (`str`, *optional*): What pip installs in the Space: a requirement such as
            `"rpd-metric[offline] @ git+https://host/repo"`; if unset, what the package needs, and
            the package itself lies in the Space as a wheel.

    Returns:
        `dict[str, bytes]`: Contents by file name.

    Raises:
        InputError: If `evaluate` could not load a module of that name.

    Example:

    ```py
    >>> from rpd_datasets.publish.space.files import space_files
    >>> sorted(space_files("diverse", package="rpd-metric[offline]"))
    ['README.md', 'app.py', 'diverse.py', 'requirements.txt']

    ```
    """
    if "." in name:
        raise InputError(
            f"evaluate cannot load a metric called {name!r}, because its file would be a module "
            "with a dot in its name: choose a name without one"
        )
    metric = resources.files("rpd_metric.metrics.rpd")
    card = (metric / "README.md").read_text(encoding="utf-8")
    sdk = "sdk: gradio\n"
    if card.count(sdk) != 1:
        raise InputError("the metric's card has no line 'sdk: gradio'; install rpd-metric again")
    if package is None:
        needed = requirements(EXTRA)
        shipped = dict([build_wheel()])
    else:
        needed, shipped = [package], {}
    return {
        **shipped,
        "README.md": card.replace(sdk, f"{sdk}sdk_version: {GRADIO}\n").encode(),
        f"{name}.py": (metric / "rpd.py").read_bytes(),
        "app.py": (resources.files("rpd_datasets.publish.space") / "app.py").read_bytes(),
        "requirements.txt": "".join(f"{line}\n" for line in needed).encode(),
    }


def write_space(folder: str | Path, *, package: str | None = None, overwrite: bool = False) -> Path:
    """Write the files of a Space into a folder.

    Args:
        folder (`str` or `Path`): Made where it is missing. `evaluate.load` of it looks for a file
            of its name, so that it must keep the name.
        package (`str`, *optional*): See [`space_files`].
        overwrite (`bool`, defaults to `False`): Replace files that have another content.

    Returns:
        `Path`: The folder.

    Raises:
        InputError: If `evaluate` could not load a module of the folder's name.
        OutputError: If a file is there with another content, or the folder cannot be written.
    """
    folder = Path(folder)
    files = space_files(folder.resolve().name, package=package)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            path = folder / name
            if not overwrite and path.exists() and path.read_bytes() != content:
                raise OutputError(
                    f"{path} exists with another content: pass --overwrite to replace it, or "
                    "choose another folder"
                )
        for name, content in files.items():
            (folder / name).write_bytes(content)
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write {error.filename or folder}: {error.strerror}") from error
    return folder


def push_space(
    repo_id: str,
    *,
    package: str | None = None,
    private: bool = True,
    revision: str | None = None,
    commit_message: str | None = None,
    api: HfApi | None = None,
) -> Pushed:
    """Publish a Space with the metric and its page, in one commit.

    Args:
        repo_id (`str`): The Space's id; without a namespace, the user's own is taken.
        package (`str`, *optional*): See [`space_files`].
        private (`bool`, defaults to `True`): See [`~rpd_datasets.publish.hub.push_folder`].
        revision (`str`, *optional*): See [`~rpd_datasets.publish.hub.push_folder`].
        commit_message (`str`, *optional*): The first line of the commit.
        api ([`~huggingface_hub.HfApi`], *optional*): See
            [`~rpd_datasets.publish.hub.push_folder`].

    Returns:
        [`~rpd_datasets.publish.hub.Pushed`]: What happened.

    Raises:
        OutputError: As [`~rpd_datasets.publish.hub.push_folder`].
    """
    return publish(
        lambda full_id: space_files(full_id.rpartition("/")[2], package=package),
        repo_id,
        repo_type="space",
        private=private,
        revision=revision,
        commit_message=commit_message or "Reasoning Path Divergence",
        api=api,
    )
