"""The documents name files that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("document", ["README.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))])
def test_links_lead_to_files(document):
    path = ROOT / document
    prose = re.sub(r"```.*?```|`[^`]*`(?!\])", "", path.read_text(), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", prose)
    missing = [link for link in links if "://" not in link and not (path.parent / link).exists()]
    assert missing == []


def test_the_table_of_folders_names_all_of_them():
    table = set(re.findall(r"`([a-z]+/(?:[a-z]+/)?)`", (ROOT / "README.md").read_text()))
    folders = {"hlo/", "trace/", "cluster/", "lazy/", "python/", "tests/", "examples/"}
    rooms = {f"jit/{p.name}/" for p in (ROOT / "jit").iterdir() if p.is_dir()}
    assert folders | rooms <= table
    assert all((ROOT / named).is_dir() for named in table if named.startswith("jit/"))
