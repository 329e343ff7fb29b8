"""The HTTP library of the installed hub client: httpx for huggingface_hub 1, httpx2 for 2.

Another package may bring the other one as well. Everything here that speaks to the Hub or to a
server takes this one, so that what it raises is what is caught.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx2 as httpx
else:
    try:
        from huggingface_hub.utils import httpx
    except ImportError:  # before 1.33 it has no name there
        import httpx

__all__ = ["httpx"]
