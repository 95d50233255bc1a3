"""What was measured, as tables on the screen, Markdown, JSON and a chart."""

from __future__ import annotations

import html
import statistics
from dataclasses import dataclass, field
from typing import Any

from systems import OWN
from workload import Target


@dataclass
class Row:
    """Seconds (bytes for a row of memory) by system and round; `limit` is the least the machine could take."""

    name: str
    group: str
    threads: int
    targets: tuple[Target, ...] = ()
    limit: float = 0
    unit: str = "s"
    times: dict[str, list[float]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    speedup: float = 0  # of Lamina, over one thread

    @property
    def best(self) -> dict[str, float]:
        return {name: min(t) for name, t in self.times.items() if t}

    def ratio(self, peer: str) -> float | None:
        best = self.best
        return best["lamina"] / best[peer] if "lamina" in best and best.get(peer) else None

    def value(self, what: str) -> float | None:
        """What a target of this name is held against."""
        best = self.best
        peers = [t for name, t in best.items() if name not in OWN]
        if "lamina" not in best:
            return None
        if what == "best":
            return best["lamina"] / min(peers) if peers else None
        if what == "limit":
            return self.limit / best["lamina"] if self.limit else None
        if what == "seconds":
            return best["lamina"]
        if what == "speedup":
            return self.speedup or None
        return self.ratio(what)

    def judged(self) -> list[tuple[Target, float, bool]]:
        found = [(t, self.value(t.what)) for t in self.targets]
        return [(t, v, t.met(v)) for t, v in found if v is not None]

    def spread(self) -> float:
        """The median of Lamina's rounds over the least; 1 where that is nothing, as in a row of memory."""
        t = self.times.get("lamina") or [1.0]
        return statistics.median(t) / least if (least := min(t)) else 1.0


def amount(value: float, unit: str) -> str:
    if unit == "B":
        return f"{value / 2**20:.3g} MiB"
    for name, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {name}"
    return f"{value * 1e9:.3g} ns"


TOLERATED = 1.03  # of the time of the build before, which repeated rounds can tell from noise
HEADINGS = ("what", "threads", "Lamina", "limit", "speed-up", "targets", "met")


def cells(row: Row, peers: tuple[str, ...]) -> list[str]:
    best, judged = row.best, row.judged()
    ratios = [row.ratio(p) for p in peers]
    share = row.value("limit")
    failed = "failed: " + ", ".join(row.failures) if row.failures else ""
    return [
        row.name,
        str(row.threads),
        amount(best["lamina"], row.unit) if "lamina" in best else "",
        *(f"{r:.2f}" if r is not None else "" for r in ratios),
        f"{share:.0%}" if share else "",
        f"{row.speedup:.2f}" if row.speedup else "",
        ", ".join(str(t) for t, _, _ in judged),
        failed or ("" if not judged else "yes" if all(met for _, _, met in judged) else "NO"),
    ]


def headings(peers: tuple[str, ...]) -> list[str]:
    return [*HEADINGS[:3], *(f"/ {p}" for p in peers), *HEADINGS[3:]]


def groups(rows: list[Row]) -> dict[str, list[Row]]:
    out: dict[str, list[Row]] = {}
    for row in rows:
        out.setdefault(row.group, []).append(row)
    return out


def peers_of(rows: list[Row]) -> tuple[str, ...]:
    names = dict.fromkeys(name for row in rows for name in row.times if name != "lamina")
    return tuple(names)


def closing(rows: list[Row], failures: list[str]) -> list[str]:
    """Sentences over all rows."""
    judged = [(r, t, v, met) for r in rows for t, v, met in r.judged()]
    missed = [f"{r.name}, {r.threads} threads: {t} is {v:.3g}" for r, t, v, met in judged if not met]
    slower = [r.name for r in rows if r.speedup and r.speedup < 0.95]
    lines = [f"{len(judged) - len(missed)} of {len(judged)} targets met."]
    exponent = growth(rows)
    if exponent is not None:
        lines.append(
            f"First results of chains grow with exponent {exponent:.2f} from 1,000 to 10,000 operations."
        )
    compared = [(r.name, r.threads, v) for r in rows if (v := r.ratio("before")) is not None]
    if compared:
        worse = [f"{name}, {threads} threads: {v:.3f}" for name, threads, v in compared if v > TOLERATED]
        lines.append(f"{len(worse)} of {len(compared)} rows take more than {TOLERATED} of the time before.")
        lines += ["Slower than before: " + w for w in worse]
    if slower:
        lines.append("Slower with all threads than with one: " + ", ".join(slower) + ".")
    return lines + ["Missed: " + m for m in missed] + ["Failed: " + f for f in failures]


def growth(rows: list[Row]) -> float | None:
    import math

    by_name = {r.name: r.best.get("lamina") for r in rows}
    short, long = (by_name.get(f"chain of {n}, first, cold") for n in ("1,000", "10,000"))
    return math.log10(long / short) if short and long else None


def markdown(rows: list[Row], machine: dict[str, Any], sentences: list[str]) -> str:
    versions = ", ".join(f"{k} {v}" for k, v in machine["versions"].items())
    lines = [
        f"{machine['processor']}, {machine['processors']} processors, {machine['instructions']}; {machine['date']}; "
        f"{versions}; load before the run {machine['load']:.1f}. Times are the least of the rounds; the columns of "
        "peers are Lamina's time over theirs, so that less than 1 is faster.",
    ]
    for group, members in groups(rows).items():
        peers = peers_of(members)
        lines += ["", f"## {group}", "", "| " + " | ".join(headings(peers)) + " |"]
        lines.append("|---" * len(headings(peers)) + "|")
        lines += ["| " + " | ".join(cells(r, peers)) + " |" for r in members]
    return "\n".join([*lines, "", *(f"- {s}" for s in sentences)]) + "\n"


def chart(rows: list[Row]) -> str:
    """Bars as SVG: for each row Lamina's time over the best peer's, on a logarithmic axis."""
    import math

    shown = [(r, v) for r in rows if (v := r.value("best")) is not None]
    height, left, width = 14, 360, 400
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 60}" height="{height * len(shown) + 30}" '
        'font-family="sans-serif" font-size="10">',
        f'<text x="{left}" y="12">time of Lamina over the best peer: 1/100 ... 1 ... 10</text>',
    ]

    def place(v: float) -> float:
        return left + width * (min(max(math.log10(v), -2.0), 1.0) + 2) / 3

    for i, (r, v) in enumerate(shown):
        y, one, x = 20 + i * height, place(1), place(v)
        label = html.escape(f"{r.name} ({r.threads})")
        colour = "#2a7" if v <= 1 else "#c43"
        parts.append(f'<text x="{left - 6}" y="{y + 10}" text-anchor="end">{label}</text>')
        parts.append(
            f'<rect x="{min(x, one):.1f}" y="{y}" width="{abs(x - one):.1f}" height="{height - 3}" fill="{colour}"/>'
        )
        parts.append(f'<text x="{left + width + 8}" y="{y + 10}">{v:.2f}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def as_json(rows: list[Row], machine: dict[str, Any], sentences: list[str]) -> dict[str, Any]:
    return {
        "machine": machine,
        "rows": [
            {
                "name": r.name,
                "group": r.group,
                "threads": r.threads,
                "unit": r.unit,
                "least": r.best,
                "rounds": r.times,
                "spread": r.spread(),
                "limit": r.limit,
                "speedup": r.speedup,
                "targets": [{"target": str(t), "value": v, "met": met} for t, v, met in r.judged()],
                "failures": r.failures,
            }
            for r in rows
        ],
        "summary": sentences,
    }
