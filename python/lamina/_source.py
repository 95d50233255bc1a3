"""The user's source: the frame, line and expression that an error is about."""

from __future__ import annotations

import ast
import linecache
import os
import sys
import types

PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def user_frame() -> types.FrameType | None:
    """The innermost frame that is not the library's own."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    return frame


def expression_at(frame: types.FrameType) -> str:
    """The expression that the frame is evaluating, as written; the whole line where Python does not know it better."""
    file, line = frame.f_code.co_filename, frame.f_lineno
    if hasattr(frame.f_code, "co_positions"):  # Python 3.11
        positions = list(frame.f_code.co_positions())
        at = frame.f_lasti // 2
        if at < len(positions) and None not in positions[at]:
            first, last, begin, end = positions[at]
            lines = [linecache.getline(file, n) for n in range(first, last + 1)]
            if all(lines):
                data = [text.encode() for text in lines]  # columns count bytes
                data[-1] = data[-1][:end]
                data[0] = data[0][begin:]
                text = b"".join(data).decode(errors="replace")
                return _condition(" ".join(text.split()))
    return _condition(linecache.getline(file, line).strip())


def _condition(text: str) -> str:
    """Of a statement that branches, its condition."""
    for form in (text, text + " pass", text + "\n  pass"):
        try:
            body = ast.parse(form).body
        except SyntaxError:
            continue
        if body and isinstance(body[0], (ast.If, ast.While, ast.Assert)):
            return ast.unparse(body[0].test)
        return text
    return text
