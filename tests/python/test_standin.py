"""The stand-in for jax that outside test suites are run with: installs in a fresh process, gives JAX's numbers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
STANDIN = ROOT / "tests" / "standin"


def run(*arguments, code=None):
    path = os.pathsep.join([str(ROOT / "python"), str(STANDIN)])
    command = [sys.executable, *(["-c", code] if code else [str(STANDIN / "programs.py"), *arguments])]
    environment = {**os.environ, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def both():
    return json.loads(run("lamina")), json.loads(run())


def flat(x):
    return [v for part in x for v in flat(part)] if isinstance(x, list) else [x]


def names():
    files = [STANDIN / "programs.py", STANDIN / "typed_programs.py"]
    return [
        line[4:].split("(")[0]
        for line in "".join(file.read_text() for file in files).splitlines()
        if line.startswith("def ") and "()" in line and not line.startswith("def _")
    ]


@pytest.mark.parametrize("name", names())
def test_a_program_gives_what_jax_gives(both, name):
    ours, real = flat(both[0][name]), flat(both[1][name])
    assert len(ours) == len(real)
    for a, b in zip(ours, real):
        if isinstance(b, float):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
        else:
            assert a == b


def test_names_that_are_not_there_are_absent():
    code = (
        "import lamina_as_jax; lamina_as_jax.install(); lamina_as_jax.install()\n"
        "import jax, jax.numpy as jnp, jax.nn.initializers, jax.scipy.stats.norm\n"
        "print(hasattr(jnp, 'no_such_name'), hasattr(jax, 'no_such'), isinstance(jnp.ones(2), jax.Array))\n"
        "try:\n    import jax.experimental.mosaic\nexcept ImportError: print('absent')"
    )
    assert run(code=code).split() == ["False", "False", "True", "absent"]


def test_real_jax_loaded_before_is_refused():
    code = (
        "import jax, lamina_as_jax\n"
        "try:\n    lamina_as_jax.install()\nexcept RuntimeError as e: print('imported already' in str(e))"
    )
    assert run(code=code).strip() == "True"


@pytest.mark.parametrize(
    "wrong",
    [
        "jnp.ones(3) + jnp.ones(2)",
        "x = jnp.zeros(10); jax.jit(lambda x: x * 2, donate_argnums=0)(x); (x + 1).block_until_ready()",
        "jax.jit(lambda: jax.pure_callback(lambda: 1 / 0, jax.ShapeDtypeStruct((), 'float32')))()",
    ],
)
def test_an_error_points_at_the_users_line(wrong):
    code = (
        "import lamina_as_jax; lamina_as_jax.install()\nimport jax, jax.numpy as jnp\n"
        f"try:\n    {wrong}\nexcept Exception as e: print('as_jax' in str(e))"
    )
    assert run(code=code).strip() == "False"


@pytest.mark.parametrize(
    ("code", "kind", "phrase", "own"),
    [
        # Since Python 3.13 the line of a program given by -c is known, and shown: the text has another form then.
        ("jnp.ones(3) + jnp.ones(4)", "TypeError", "add got incompatible shapes", "[4]"),
        ("jax.jit(float)(1.0)", "TypeError", "x.astype(float)", "which is being traced"),
        ("jax.jit(range)(3)", "TypeError", "The __index__() method was called", "which is being traced"),
        ("jax.grad(lambda x: x)(jnp.ones(3))", "TypeError", "Gradient only defined for scalar", "use .sum()"),
        ("jax.grad(lambda x: x)(1)", "TypeError", "grad requires real- or complex-valued", "x is int32[]"),
        (
            "jax.vmap(lambda x: x)(1.0)",
            "ValueError",
            "rank should be at least 1, but is only 0",
            "axis 0 of x",
        ),
        (
            "jax.vmap(lambda a, b: a, in_axes=(0, 1))(jnp.ones((10, 4)), jnp.ones((10, 2)))",
            "ValueError",
            "* one axis had size 10: axis 0 of argument a of type float32[10,4];\n  * one axis had size 2",
            "vmap got batch axes of different sizes",
        ),
        (
            "jax.lax.scan(lambda c, _: (c.astype('float32'), None), jnp.int32(0), length=3)",
            "TypeError",
            "carry output must have equal types",
            "going in but",
        ),
        ("jax.jit(3)", "TypeError", "Expected a callable value, got 3", "jit needs a function"),
        ("jax.jit(jnp.sin)('a')", "TypeError", "of type <class 'str'>", "which is not an array"),
        (
            "with jax.debug_nans(True): jnp.log(-1.0)",
            "FloatingPointError",
            "invalid value (nan) encountered",
            "log of f32[]",
        ),
        ("jnp.sin('a')", "TypeError", "Argument 'a' of type <class 'str'> is not a valid", "array is needed"),
    ],
)
def test_an_error_says_what_jax_says_and_then_its_own(code, kind, phrase, own):
    code = (
        "import lamina_as_jax; lamina_as_jax.install()\nimport jax, jax.numpy as jnp\n"
        f"try:\n    {code}\nexcept {kind} as e: text = str(e)\n"
        f"print(-1 < text.find({phrase!r}) < text.find({own!r}), text)"
    )
    assert run(code=code).startswith("True")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (
            # each equation is evaluated by itself, as interpreters do
            "def f(x): return jnp.tanh(x @ x.T).sum(0) + jax.jit(jnp.exp)(x[1:3, 0]).reshape(2, 1)\n"
            "x = jnp.arange(8.0).reshape(2, 4)[:, :] / 8; x = jnp.concatenate([x, x[:1] * 2])\n"
            "j = jax.make_jaxpr(f)(x)\n"
            "env = dict(zip(map(id, j.jaxpr.constvars), j.consts)) | {id(j.jaxpr.invars[0]): x}\n"
            "read = lambda v: v.val if isinstance(v, jax.extend.core.Literal) else env[id(v)]\n"
            "for e in j.jaxpr.eqns:\n"
            "    out = e.primitive.bind(*map(read, e.invars), **e.params)\n"
            "    out = out if e.primitive.multiple_results else [out]\n"
            "    env.update(zip(map(id, e.outvars), out))\n"
            "print(bool(jnp.allclose(env[id(j.jaxpr.outvars[0])], f(x))))",
            "True",
        ),
        ("print(jax.lax.pow_p.bind(jnp.float32(3), 2.0), jax.lax.conj_p.bind(1 - 2j))", "9.0 (1+2j)"),
        (
            "from jax.api_util import flatten_axes; t = jax.tree.structure((1, {'a': 2, 'b': 3}))\n"
            "print(flatten_axes('axes', t, (None, 0)))",
            "[None, 0, 0]",
        ),
        (
            "import importlib.metadata as m; print(m.version('jax') == m.version('jaxlib'), jax.__version__)",
            "True 0.10.2",  # which JAX is installed beside does not matter
        ),
        (
            "from jax.experimental import multihost_utils as m; print(m.process_allgather(jnp.ones(2)).shape,"
            " m.process_allgather(jnp.ones(2), tiled=True).shape)",
            "(1, 2) (2,)",
        ),
        (
            "from jax import monitoring as m; seen = []; m.register_event_listener(lambda e, **k: seen.append(e))\n"
            "m.record_event('a'); m.record_event_duration_secs('b', 1.0); print(seen)",
            "['a']",
        ),
        (
            "from jax.tree_util import default_registry as r; print(r.flatten_one_level([1, (2,)])[0],"
            " r.flatten_one_level(3))",
            "[1, (2,)] None",
        ),
        ("print(jnp.shape(None), jnp.size(None), jnp.shape([1, 2]))", "() 1 (2,)"),
        (
            # a method's result has JAX's types in a body that is watched
            "body = lambda s, x: (jnp.sum(x * s).astype(jnp.int64),) * 2\n"
            "print(jax.jit(lambda x: jax.lax.scan(body, jnp.argmax(x[0]), x))(jnp.ones((3, 2)))[0].dtype)",
            "int32",
        ),
        (
            "x = jax.ShapeDtypeStruct((2,), jnp.bfloat16); y = jax.eval_shape(jnp.sin, x)\n"
            "print({jnp.dtype('bfloat16'): 1}[y.dtype], {np.dtype('float32'): 2}[jnp.ones(2).dtype],"
            " isinstance(jnp.ones(2).dtype, np.dtype), x == y)",
            "1 2 True True",
        ),
        (
            "f = lambda index: np.arange(6.0).reshape(2, 3)[index]\n"
            "print(jax.make_array_from_callback((2, 3), None, f).dtype)",
            "float32",
        ),
        (
            "print(jax.ShapeDtypeStruct((2, 3), jnp.int8), jax.jit(len))",
            "ShapeDtypeStruct(shape=(2, 3), dtype=int8) <PjitFunction of <built-in function len>>",
        ),
        (
            # a primitive with nothing but rules serves transforms that need no more
            "from jax.interpreters import batching; p = jax.extend.core.Primitive('rules_only')\n"
            "p.def_abstract_eval(lambda x: x); batching.primitive_batchers[p] = lambda x, d: (x[0] * 3, d[0])\n"
            "print(jax.vmap(jax.checkpoint(p.bind))(jnp.ones(2)))\n"
            "try: jax.jit(p.bind)(1.0)\nexcept NotImplementedError as e: print('rules_only' in str(e))",
            "[3. 3.]\nTrue",
        ),
        (
            "try: jax.jit(lambda: jax.pure_callback(lambda: 1 / 0, jax.ShapeDtypeStruct((), 'float32')))()\n"
            "except RuntimeError as e: print(type(e.__cause__).__name__)",
            "ZeroDivisionError",
        ),
        (
            # NumPy has no kind for this type
            "h = jnp.ones(2, jnp.bfloat16); f = lambda x: x * 2\n"
            "print(jax.linearize(f, h)[1](h).dtype, jax.jvp(f, (h,), (h,))[1].dtype, jax.vjp(f, h)[1](h)[0].dtype)",
            "bfloat16 bfloat16 bfloat16",
        ),
        (
            "print(jax.print_environment_info(return_string=True).splitlines()[0])",
            "jax:    0.10.2",
        ),
        (
            "t = jax.lax.create_token(); x, u = jax.jit(lambda x, t: (x, t))(1.0, t)\n"
            "print(isinstance(u, type(t)), u is t)",
            "True False",
        ),
        pytest.param(
            # arguments that a pull-back keeps are taken out and given again, gradients go to references
            "f = lambda x, w: jnp.sin(x @ w); x, w = jnp.ones((2, 3)), jnp.full((3, 2), 0.1)\n"
            "y, pull = jax.vjp(f, x, w); want = pull(y); y, pull = jax.vjp(f, x, w)\n"
            "pull.args_res[1] = None\n"
            "try: pull(y)\nexcept ValueError as e: print('argument 1' in str(e))\n"
            "pull.args_res[1] = w; got = pull(y); print(all(map(jnp.array_equal, got, want)))\n"
            "acc = jax.new_ref(jnp.ones_like(w)); out = pull.with_refs(jax.ad.DontWant(), acc)(y)\n"
            "print(out, bool(jnp.array_equal(acc[...], 1 + want[1])), len(pull.opaque_residuals) > 0)",
            "True\nTrue\n(DidntWant(), GradRef()) True True",
            marks=pytest.mark.host_only(
                reason="the stand-in knows kept arguments by their host memory; values of this device are copied there"
            ),
        ),
        (
            "y, pull = jax.jit(lambda x: jax.vjp(lambda x: x * x, x))(jnp.float32(3.0))\n"
            "print(jax.jit(lambda p: p(1.0))(pull)[0], len(jax.tree.leaves(pull)))",
            "6.0 1",
        ),
        (
            # numbers are of 32 bits from the start
            "print(len(jax.make_jaxpr(lambda x: jnp.sin(x) * 0.1)(1.0).eqns), 0.1 == jax.grad(lambda x: 0.1 * x)(2.0))",
            "2 True",
        ),
        (
            # a value that a trace has left behind is told at its first use, but in a rule
            "kept = []; jax.jit(lambda x: kept.append(x + 1))(1.0)\n"
            "for use in (lambda: kept[0] + 1, lambda: jax.jit(jnp.sin)(kept[0])):\n"
            "    try: use()\n    except jax.errors.UnexpectedTracerError as e: print('unexpected tracer' in str(e))\n"
            "print(isinstance(kept[0], jax.core.Tracer))",
            "True\nTrue\nTrue",
        ),
        (
            "try: jax.jit(lambda x: 1 if x > 0 else 0)(1.0)\n"
            "except jax.errors.TracerBoolConversionError as e: print('shape bool[].' in str(e), 'on x of' in str(e))",
            "True True",
        ),
        (
            # an operation with another implementation: outside of jit, equation by equation
            "p, seen = jax.lax.sin_p, []; own = p.impl; p.def_impl(lambda x, **k: seen.append(1) or own(x, **k))\n"
            "f = lambda x: jnp.sin(jnp.sin(x)) * 2; y = (f(1.0), jax.grad(f)(1.0), jax.jit(f)(1.0)); p.def_impl(own)\n"
            "print(len(seen), f(1.0) == y[0] == y[2], jax.grad(f)(1.0) == y[1], len(seen))",
            "3 True True 3",
        ),
        (
            "import logging; seen = []; h = logging.Handler(); h.emit = lambda r: seen.append(r.getMessage())\n"
            "logging.getLogger('jax').addHandler(h); f = jax.jit(lambda x, y: x); f(jnp.ones(2), jnp.ones(3))\n"
            "with jax.log_compiles(): f(jnp.ones(3), jnp.ones(3)); jax.clear_caches(); f(jnp.ones(3), jnp.ones(3))\n"
            "print(sum('Finished tracing' in s for s in seen), sum('Compiling jit(' in s for s in seen)); seen.clear()\n"
            "with jax.explain_cache_misses(): f(jnp.ones(3), jnp.ones(3, int))\n"
            "print(seen[0].partition(': ')[2])",
            "2 2\ndifferent input types: at y, now i32[3] and before f32[3]",
        ),
        (
            "f = lambda x: x * 2\n"
            "for wrong in (lambda: jax.jvp(f, (1.0,), [1.0]), lambda: jax.jvp(f, (1.0,), (jnp.bfloat16(1),)),\n"
            "    lambda: jax.vjp(f, 1.0)[1](jnp.bfloat16(1)), lambda: jax.linearize(f, 1.0)[1](1),\n"
            "    lambda: jax.linear_transpose(f, 1.0)(1j)):\n"
            "    try: wrong()\n    except (TypeError, ValueError) as e: print(type(e).__name__, str(e)[:19])",
            "TypeError primal and tangent \nTypeError primal and tangent \nValueError unexpected JAX type\n"
            "ValueError linearized function\nTypeError the cotangent type",
        ),
        (
            "x = jnp.ones(3); f = jax.jit(lambda a, b: a + b, donate_argnums=0)\n"
            "for wrong in (lambda: f(x, x), lambda: jax.jit(f, compiler_options={'no_option': 1})(x, x + 1)):\n"
            "    try: wrong()\n    except RuntimeError as e: print(e)\n"
            "print(jax.jit(f, compiler_options={'xla_embed_ir_in_executable': True})(x, x + 1)[0])",
            "Attempt to donate a buffer that another argument of the same call uses\n"
            "No such compile option: 'no_option'\n3.0",
        ),
        (
            "print(jnp.issubdtype(jnp.int1, jnp.signedinteger), jnp.issubdtype(jnp.uint1, jnp.floating))\n"
            "try: jnp.ones(2, jnp.int1)\nexcept TypeError as e: print('int1' in str(e))",
            "True False\nTrue",
        ),
        (
            # zeros without a type are leaves, whichever container is walked
            "g = jax.grad(lambda p: (p['x'] * 2.0).sum() + p['n'] * 1.0, allow_int=True)({'x': jnp.ones(2), 'n': 3})\n"
            "p = {'x': jnp.ones(2), 'n': 3}; tree = jax.tree\n"
            "step = lambda p, g: p if g.dtype == jax.dtypes.float0 else p - g\n"
            "print(tree.map(step, p, g)['x'], tree.map(lambda g, p: step(p, g), g, p)['n'], len(tree.leaves(g)))\n"
            "print(tree.structure(jax.jit(lambda g: g)(g)) == tree.structure(p))",
            "[-1. -1.] 3 2\nTrue",
        ),
        (
            "import jax.interpreters.partial_eval as pe\n"
            "from jax.extend.core import check_jaxpr, subjaxprs\n"
            "def step(c, x): return ((c[0] + 1, c[0] * c[1], jnp.sin(c[2])), (c[1] * x, c[2]))\n"
            "t = jax.make_jaxpr(lambda c, x: jax.lax.scan(step, c, x))((1.0, 2.0, 3.0), jnp.arange(3.0)).jaxpr\n"
            "given = (1.0, 2.0, 3.0, jnp.arange(3.0)); whole = t(*given)\n"
            "for asked in ([0], [1], [2], [3], [4], [0, 4]):\n"
            "    marks = [i in asked for i in range(5)]; fewer, used = pe.dce_jaxpr(t, marks); check_jaxpr(fewer)\n"
            "    out = fewer(*(v for v, u in zip(given, used) if u))\n"
            "    same = all(bool((o == whole[i]).all()) for o, i in zip(out, asked)) and len(out) == len(asked)\n"
            "    print(''.join('01'[u] for u in used), sum(len(s.eqns) for s in subjaxprs(fewer)), same)",
            "1000 1 True\n1100 2 True\n0010 1 True\n1101 3 True\n0010 1 True\n1010 2 True",
        ),
        (
            "f = jax.jit(lambda: jnp.ones(3)); f(); x = jnp.ones(3, 'bfloat16'); lines = []\n"
            "def told(g):\n"
            "    try: g(); lines.append('ran')\n"
            "    except Exception as e: lines.append(type(e).__name__)\n"
            "with jax.no_execution(): told(f); told(lambda: f.lower())\n"
            "with jax.allow_f16_reductions(False):\n"
            "    told(lambda: jax.lax.reduce_sum(x, (0,))); told(lambda: jax.lax.reduce_sum(x[:1], (0,)))\n"
            "told(f); told(lambda: jax.lax.reduce_sum(x, (0,))); told(lambda: jax.lax.add(0, 0.0)); print(*lines)\n"
            "context = jax.make_user_context(1)\n"
            "with context(2): seen = context.value\n"
            "g = jax.jit(lambda x: x * context.value); before = g(3); context.set_global(5)\n"
            "print(seen, before, context.get_global(), g(3))",
            "RuntimeError ran ValueError ran ran ran TypeError\n2 3 5 15",
        ),
        (
            "x = jnp.ones((2, 2)); import operator\n"
            "for f in (jnp.dot, operator.matmul, lambda a, b: jnp.einsum('ij,jk', a, b), jax.lax.dot):\n"
            "    with jax.default_matmul_precision('tensorfloat32'): e = jax.make_jaxpr(f)(x, x).eqns[0]\n"
            "    print(e.params['precision'], jax.make_jaxpr(f)(x, x).eqns[0].params['precision'])",
            "\n".join(["(Precision.HIGH, Precision.HIGH) None"] * 4),
        ),
    ],
)
def test_names_that_libraries_take(code, expected):
    start = "import lamina_as_jax; lamina_as_jax.install()\nimport jax, jax.numpy as jnp, numpy as np, jax.extend\n"
    assert run(code=start + code).strip() == expected
