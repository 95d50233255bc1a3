"""Random functions with Python's control flow over small integers, which are exact in every element type.

All loops end: each counts its rounds. Variables may be unbound on some paths, as in a beginner's program.
"""

from __future__ import annotations

import linecache
import random

ARGUMENTS = ("a", "b", "c")
LOCALS = ("x", "y", "z", "t")


class Program:
    """The source of one function of three integers; the seed decides all. One that is `recursive` calls itself, at
    most `c` deep.
    """

    def __init__(self, seed: int, ranges: bool = True, recursive: bool = False) -> None:
        self.random = random.Random(seed)
        self.calls = 2 if recursive else 0  # of itself that are still to come
        self.recursive, self.looping = recursive, 0
        self.lines: list[str] = []
        self.ranges = ranges  # of arguments, too
        self.counters = 0
        self.statements = 0
        self.known = list(ARGUMENTS)
        self.in_helper = False
        self.line(0, "def f(a, b, c):")
        self.helper = self.random.random() < 0.4 and not recursive
        if self.helper:
            self.define_helper()
        self.container = self.random.choice(["", "", "d", "v"]) if not recursive else ""
        if recursive:
            self.line(1, "if c < 1 or c > 3:")
            self.line(2, f"return {self.random.choice('ab')}, {self.random.randint(0, 5)}")
        if self.container == "d":
            self.line(1, "d = {'p': a, 'q': 2}")
        elif self.container == "v":
            self.line(1, "v = [a, 1, b]")
        for name in LOCALS[: self.random.randint(1, 4)]:
            self.line(1, f"{name} = {self.value(2)}")
            self.known.append(name)
        self.block(1, 0, loops=0, size=self.random.randint(3, 6))
        self.line(1, f"return {self.result()}")
        self.source = "\n".join(self.lines) + "\n"

    def line(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def define_helper(self) -> None:
        self.line(1, "def g(p, q):")
        if self.random.random() < 0.5:
            self.line(2, "if p > q:")
            self.line(3, "return p - q")
        else:
            self.line(2, "while p > 7:")
            self.line(3, "p = p // 2")
            self.line(3, "if p == q:")
            self.line(4, self.random.choice(["break", "continue", "return q"]))
        self.line(2, "return p + q % 5")

    # --- expressions ---

    def value(self, depth: int) -> str:
        r = self.random
        kind = r.randint(0, 9)
        if self.calls and depth > 0 and kind < 5:
            self.calls -= 1
            less = "c - 2" if self.looping else "c - 1"
            return f"f({self.value(1)}, {self.value(0)}, {less})[{r.randint(0, 1)}]"
        if depth == 0 or kind < 3:
            return r.choice([*self.known, *self.known, str(r.randint(-4, 9))])
        if kind < 7:
            op = r.choice(["+", "-", "*", "%", "//"])
            if op in ("%", "//"):
                return f"({self.value(depth - 1)} {op} {r.randint(2, 7)})"
            return f"({self.value(depth - 1)} {op} {self.value(depth - 1)}) % 101"
        if kind == 7:
            return f"({self.value(depth - 1)} if {self.test(depth - 1)} else {self.value(depth - 1)})"
        if kind == 8 and self.helper and not self.in_helper:
            return f"g({self.value(0)}, {self.value(0)})"
        return r.choice(
            [f"abs({self.value(0)})", f"min({self.value(0)}, {self.value(0)})", f"max({self.value(0)}, 3)"]
        )

    def test(self, depth: int) -> str:
        r = self.random
        kind = r.randint(0, 9)
        if depth > 0 and kind == 0:
            return f"({self.test(depth - 1)} {r.choice(['and', 'or'])} {self.test(depth - 1)})"
        if depth > 0 and kind == 1:
            return f"not {self.test(depth - 1)}"
        if kind == 2:
            return f"{r.randint(-3, 3)} < {self.value(0)} <= {self.value(0)}"
        if kind == 3:
            return f"{self.value(0)} in (1, 2, {self.value(0)})"
        return f"{self.value(1)} {r.choice(['<', '>', '<=', '==', '!='])} {self.value(1)}"

    def result(self) -> str:
        extra = {"": "", "d": ", d['p'], d['q']", "v": ", v[0], v[1], v[2]"}[self.container]
        return f"{self.value(1)}, {self.value(1)}{extra}"

    # --- statements ---

    def written(self) -> list[str]:
        """The variables that statements may change: not those that count rounds or calls."""
        return [name for name in self.known if name[0] != "k" and not (self.recursive and name == "c")]

    def block(self, indent: int, depth: int, loops: int, size: int) -> None:
        for _ in range(size):
            self.statements += 1
            kind = self.random.random()
            if depth < 3 and self.statements < 24 and kind < 0.24:
                self.branch(indent, depth, loops)
            elif depth < 3 and loops < 2 and self.statements < 24 and kind < 0.42:
                self.loop(indent, depth, loops)
            elif depth > 0 and loops and kind < 0.50:
                self.line(indent, self.random.choice(["break", "continue"]))
                return
            elif depth > 0 and kind < 0.55:
                self.line(indent, f"return {self.result()}")
                return
            elif depth > 0 and depth < 3 and kind < 0.58:
                self.line(indent, "try:")
                self.block(indent + 1, depth + 1, loops, 2)
                self.line(indent, "finally:")
                self.assign(indent + 1)
            elif kind < 0.60:
                self.line(indent, f"if {self.test(0)}:")
                self.line(indent + 1, f"raise ValueError('{self.random.randint(0, 9)}')")
            else:
                self.assign(indent)

    def assign(self, indent: int) -> None:
        r = self.random
        kind = r.randint(0, 9)
        if self.container == "d" and kind < 2:
            self.line(indent, f"d['{r.choice('pq')}'] = {self.value(2)}")
        elif self.container == "v" and kind < 2:
            self.line(indent, f"v[{r.randint(0, 2)}] = {self.value(2)}")
        elif kind < 4 and len(self.known) > 3:
            self.line(indent, f"{r.choice(self.written())} += {r.randint(-3, 3)}")
        elif kind < 5:
            one, two = r.sample(self.written(), 2)
            self.line(indent, f"{one}, {two} = {two}, {one} - 1")
        else:
            name = r.choice([*(ARGUMENTS[:2] if self.recursive else ARGUMENTS), *LOCALS])
            self.line(indent, f"{name} = {self.value(2)}")
            if name not in self.known and r.random() < 0.5:
                self.known.append(name)  # on some paths it is not bound

    def branch(self, indent: int, depth: int, loops: int) -> None:
        r = self.random
        self.line(indent, f"if {self.test(2)}:")
        self.block(indent + 1, depth + 1, loops, r.randint(1, 3))
        if r.random() < 0.3:
            self.line(indent, f"elif {self.test(1)}:")
            self.block(indent + 1, depth + 1, loops, r.randint(1, 2))
        if r.random() < 0.5:
            self.line(indent, "else:")
            self.block(indent + 1, depth + 1, loops, r.randint(1, 2))

    def loop(self, indent: int, depth: int, loops: int) -> None:
        r = self.random
        self.counters += 1
        k = f"k{self.counters}"
        self.looping += 1
        kind = r.randint(0, 3)
        if kind == 0:
            self.line(indent, f"for {k} in range({r.randint(1, 6)}):")
        elif kind == 1 and self.ranges:
            self.line(indent, f"for {k} in range({r.choice(ARGUMENTS)} % 5):")
        elif kind == 2:
            self.line(indent, f"for {k} in (1, 5, {self.value(0)}):")
        else:
            self.line(indent, f"{k} = 0")
            self.line(indent, f"while {k} < {r.randint(1, 6)} and {self.test(1)}:")
            self.line(indent + 1, f"{k} += 1")
        self.known.append(k)
        self.block(indent + 1, depth + 1, loops + 1, r.randint(1, 3))
        self.looping -= 1
        if r.random() < 0.25:
            self.line(indent, "else:")
            self.block(indent + 1, depth + 1, loops, 1)
        if r.random() < 0.7:
            self.known.remove(k)

    def function(self, name: str):
        """The function, whose source tracebacks and the library find."""
        names: dict[str, object] = {}
        linecache.cache[name] = (len(self.source), None, self.source.splitlines(True), name)
        exec(compile(self.source, name, "exec"), names)
        return names["f"]
