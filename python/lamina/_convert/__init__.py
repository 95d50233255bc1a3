"""Python control flow on traced values as structured control flow: ``jit(f, control_flow="convert")``.

The source of a function is changed before its reads are hooked (`_rewrite`): the bodies of `if`, `while` and `for`
become functions inside it (`statements`), operators that ask for a truth become calls (`expressions`). What these calls
do is decided while the function runs (`hooks`): with plain values what Python does; with a traced test both sides are
traced as regions and joined in a `cond` (`branch`), a body in a `while` or `scan` (`loop`). What a side changed is seen
by comparing variables and containers before and after it (`state`), and joined leaf by leaf (`merging`). A block that
may end in `break`, `continue` or `return` says so by the value its function returns (`signals`). Functions that call
themselves under a traced test become one loop with a stack (`recursion`).
"""
