"""What looks like a credential, and how it is masked in whatever is kept or shown.

A last line of defence, not the first: nothing here ought to meet a key. But clients put their key where the model's
name belongs, and libraries quote URLs in errors.
"""

from __future__ import annotations

import re
from typing import Final

MASK: Final = "[secret]"

_CREDENTIAL = re.compile(
    r"\b(?:tw|sk|hf|gsk)[-_][A-Za-z0-9_-]{16,}"  # API keys, ours and others'
    r"|(?i:(\bbearer\s+))[^\s\"']+"
    r"|(?<=://)[^/@\s\"']+(?=@)"  # user and password of a URL
)


def mask_credentials(text: str) -> str:
    """`text` with API keys, bearer tokens and the credentials of URLs replaced by `MASK`."""
    return _CREDENTIAL.sub(lambda match: (match[1] or "") + MASK, text)
