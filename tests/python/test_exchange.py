"""Arrays that cross between libraries on CUDA devices: in place, and in the order in which the devices work.

The other library is tests/python/cuda_peer.py. The stand-in for the driver runs what is enqueued late and in any order
that nothing forbids, and reports what nothing orders; device memory is none that the host can read.
"""

import textwrap

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from cuda_support import run

BEGIN = """
    import cuda_peer as peer
    import lamina as lm
    import lamina.numpy as lnp
    import numpy as np

    peer.enter()

    def check_refused(f, error, text):
        try:
            f()
        except error as e:
            assert text in str(e), str(e)
            return
        raise SystemExit(f"no {error.__name__}: {text}")

    def check_unordered(f):
        try:
            f()
        except RuntimeError:
            pass
        found = peer.violations()
        assert any("nothing orders" in v for v in found), found

    def address(x):
        return x.__cuda_array_interface__["data"][0]

    def settled(theirs, count=1):
        for _ in range(100):
            if theirs.released == count:
                return True
            f(lnp.zeros(3, device="cuda:0")).block_until_ready()
        return False

    f = lm.jit(lambda x: lnp.sin(x) * 2 + x)
    less = lm.jit(lambda x: x - 1, donate_argnums=0)
    values = np.linspace(0, 1, 3000, dtype="f4").reshape(3, 1000)
    want = np.asarray(f(lm.device_put(values, "cpu")))
"""


def check(program, cuda_standin):
    end = "\nassert peer.violations() == []\n"
    text = textwrap.dedent(BEGIN) + textwrap.dedent(program) + end
    run(text, LAMINA_CUDA_DRIVER=cuda_standin, LAMINA_DEFAULT_DEVICE="cpu")


def test_their_arrays_are_read_where_they_lie_and_after_their_work(cuda_standin):
    program = """
        for seed in range(10):
            peer.CONTROL.set_seed(seed)
            theirs = peer.Array(values)
            x = lnp.from_dlpack(theirs)
            assert x.device == "cuda:0" and x.__dlpack_device__() == (2, 0) and address(x) == theirs.address
            y = f(x)
            assert y.device == "cuda:0"
            np.testing.assert_array_equal(y, want)
            np.testing.assert_array_equal(x, values)
            assert theirs.released == 0

        theirs = peer.Array(values)
        theirs.is_ordered = False
        x = lnp.from_dlpack(theirs)
        check_unordered(lambda: f(x).tolist())
    """
    check(program, cuda_standin)


def test_what_they_write_later_is_seen(cuda_standin):
    program = """
        values = np.arange(3000, dtype="f4").reshape(3, 1000)
        theirs = peer.Array(values)
        x = lnp.from_dlpack(theirs)
        kept, copied = x.copy(), lnp.from_dlpack(theirs, copy=True)
        for i in range(3):
            np.testing.assert_array_equal(x, values + i)
            np.testing.assert_array_equal(x + 1, values + i + 1)
            assert lm.device_put(x, "cuda:1")[0, 0] == i and float(x[0, 0]) == i
            theirs.write(values + i + 1)
            theirs.stream.synchronize()
        np.testing.assert_array_equal(kept, values)
        np.testing.assert_array_equal(copied, values)
    """
    check(program, cuda_standin)


def test_their_memory_is_let_go_of_when_nothing_reads_it_any_more(cuda_standin):
    program = """
        def taken_by(use, seed):
            peer.CONTROL.set_seed(seed)
            theirs = peer.Array(values)
            # An allocator hands the memory on at once.
            theirs.on_release = theirs.free if seed % 2 else lambda: theirs.write(values - 1)
            x = lnp.from_dlpack(theirs)
            y = use(x)
            del x
            return theirs, y

        uses = {
            "a program": (f, want),
            "a copy to another device": (lambda x: x.to_device("cuda:1"), values),
            "an element": (lambda x: x[1, 5], values[1, 5]),
        }
        for use, wanted in uses.values():
            for seed in range(10):
                theirs, y = taken_by(use, seed)
                np.testing.assert_array_equal(y, wanted)
                assert settled(theirs)
        assert peer.violations() == []

        theirs = peer.Array(values)
        x = lnp.from_dlpack(theirs)
        y = f(x)
        check_unordered(lambda: theirs.write(values))
    """
    check(program, cuda_standin)


def test_others_find_the_values_on_the_stream_that_they_name(cuda_standin):
    program = """
        mine, blocking = peer.Stream(), peer.Stream(flags=0)
        for seed in range(5):
            peer.CONTROL.set_seed(seed)
            for stream in (None, 1, 2, mine.handle, blocking.handle):
                for make in (f, lambda x: x):
                    x = make(lm.device_put(values, "cuda:0"))
                    capsule = x.__dlpack__(stream=stream, max_version=(1, 0))
                    taken = peer.Taken(capsule)
                    assert taken.device == (2, 0) and taken.flags == 1 and taken.shape == (3, 1000)
                    assert taken.address == address(x)
                    got = taken.read_later(stream or 1)
                    assert got().tobytes() == np.asarray(x).tobytes()
                    taken.release()
        assert peer.violations() == []

        # The legacy stream, which others have waited for, orders the blocking ones.
        x = f(lm.device_put(values, "cuda:0"))
        taken = peer.Taken(x.__dlpack__(max_version=(1, 0)))
        assert taken.read_later(blocking.handle)().tobytes() == want.tobytes()
        assert peer.violations() == []

        for stream, forgets in ((-1, False), (mine.handle, True)):
            x = f(lm.device_put(values, "cuda:0"))
            peer.CONTROL.set_mistake(peer.FORGETS_WAITS if forgets else 0)
            taken = peer.Taken(x.__dlpack__(stream=stream, max_version=(1, 0)))
            peer.CONTROL.set_mistake(0)
            check_unordered(taken.read_later(mine.handle))
    """
    check(program, cuda_standin)


def test_memory_that_others_had_is_used_again_after_their_work(cuda_standin):
    program = """
        blocking = peer.Stream(flags=0)

        def given_back(stream):
            x = f(lm.device_put(values, "cuda:0"))
            taken = peer.Taken(x.__dlpack__(stream=stream, max_version=(1, 0)))
            got = taken.read_later(stream)
            at = taken.address
            del x
            taken.release()
            return got, at

        def made_at(at):
            made = []
            for _ in range(10):
                made.append(f(lm.device_put(values, "cuda:0") - 1))
                if address(made[-1]) == at:
                    return
            raise SystemExit("the memory was not used again")

        for seed in range(5):
            peer.CONTROL.set_seed(seed)
            for stream in (1, 2, blocking.handle):
                got, at = given_back(stream)
                made_at(at)
                assert got().tobytes() == want.tobytes()
                # Donated, and written over.
                x = f(lm.device_put(values, "cuda:0"))
                taken = peer.Taken(x.__dlpack__(stream=stream, max_version=(1, 0)))
                got, at = taken.read_later(stream), taken.address
                taken.release()
                y = less(x)
                assert address(y) == at and got().tobytes() == want.tobytes()
                np.testing.assert_array_equal(y, want - 1)
        assert peer.violations() == []

        # The point is not to be had: nobody gets the memory.
        x = f(lm.device_put(values, "cuda:0"))
        taken = peer.Taken(x.__dlpack__(stream=1, max_version=(1, 0)))
        got, at = taken.read_later(1), taken.address
        del x
        peer.CONTROL.fail(peer.RECORD, 0, 1)
        taken.release()
        check_refused(lambda: made_at(at), SystemExit, "not used again")
        assert got().tobytes() == want.tobytes()

        got, at = given_back(1)
        peer.CONTROL.set_mistake(peer.FORGETS_WAITS)
        made_at(at)
        peer.CONTROL.set_mistake(0)
        found = peer.violations()
        assert any("on cuda:0 legacy stream, which reads bytes that it writes" in v for v in found), found
    """
    check(program, cuda_standin)


def test_memory_that_others_have_stays(cuda_standin):
    program = """
        x = f(lm.device_put(values, "cuda:0"))
        taken = peer.Taken(x.__dlpack__(stream=2, max_version=(1, 0)))
        y = less(x)
        assert address(y) != taken.address
        assert taken.read_later(2)().tobytes() == want.tobytes()

        x = f(lm.device_put(values, "cuda:0"))
        shown = x.__cuda_array_interface__
        x[0, 0] = 5.0
        assert address(x) != shown["data"][0]
        peer.order(2, shown["stream"])
        assert peer.read_later(shown["data"][0], values.shape, "f4", 2)().tobytes() == want.tobytes()

        capsule = f(lm.device_put(values, "cuda:0")).__dlpack__(stream=1)
        del capsule  # never consumed
        mine = peer.Taken(f(lm.device_put(values, "cuda:0")).__dlpack__(max_version=(1, 0), copy=True))
        assert mine.flags == 2
        peer.write(mine.address, values, 1)
        assert mine.read_later(1)().tobytes() == values.tobytes()
        mine.release()
    """
    check(program, cuda_standin)


def test_the_array_interface_both_ways(cuda_standin):
    program = """
        for seed in range(10):
            peer.CONTROL.set_seed(seed)
            x = f(lm.device_put(values, "cuda:0"))
            shown = x.__cuda_array_interface__
            assert shown["version"] == 3 and shown["shape"] == (3, 1000) and shown["typestr"] == "<f4"
            assert shown["data"][1] is True and shown["strides"] is None
            mine = peer.Stream()
            mine.waits_for(shown["stream"])
            got = peer.read_later(shown["data"][0], shown["shape"], shown["typestr"], mine.handle)
            assert got().tobytes() == want.tobytes()
            # Theirs: ordered by their stream, or by themselves.
            theirs = peer.Array(values)
            x = lnp.from_dlpack(peer.CudaArray(theirs, theirs.stream.handle))
            assert address(x) == theirs.address
            np.testing.assert_array_equal(f(x), want)
            theirs.write(values + 1)
            theirs.stream.synchronize()
            np.testing.assert_array_equal(lnp.asarray(peer.CudaArray(theirs, None), copy=False), values + 1)
            # A function of arrays takes a copy as they are now.
            y = lnp.asarray(peer.CudaArray(theirs, theirs.stream.handle))
            z = lnp.cos(peer.CudaArray(theirs, None)) + f(peer.CudaArray(theirs, None))
            theirs.write(values)
            assert y.device == z.device == "cuda:0" and address(y) != theirs.address
            np.testing.assert_array_equal(y, values + 1)
            theirs.stream.synchronize()
        legacy = peer.Array(values)
        legacy.stream.synchronize()
        legacy.stream.handle = 1
        legacy.write(values)
        np.testing.assert_array_equal(f(lnp.from_dlpack(peer.CudaArray(legacy, 1))), want)
        assert peer.violations() == []

        theirs = peer.Array(values)
        x = lnp.from_dlpack(peer.CudaArray(theirs, None))
        check_unordered(lambda: f(x).tolist())
        theirs.stream.synchronize()

        shows = [lnp.ones((2, 0), device="cuda:0"), lnp.ones(2, bool, device="cuda:0")]
        assert [s.__cuda_array_interface__["typestr"] for s in shows] == ["<f4", "|b1"]
        assert shows[0].__cuda_array_interface__["data"] == (0, True)
        assert not hasattr(lnp.ones(2, device="cpu"), "__cuda_array_interface__")
        assert not hasattr(lnp.ones(2, "bfloat16", device="cuda:0"), "__cuda_array_interface__")
        bad = peer.CudaArray(theirs, 0)
        check_refused(lambda: lnp.from_dlpack(bad), BufferError, "the stream 0 is none of CUDA")
        bad = peer.CudaArray(theirs, None)
        bad.__cuda_array_interface__["mask"] = bad
        check_refused(lambda: lnp.from_dlpack(bad), ValueError, "mask")
        for typestr in (">f4", "<M8[s]", "|V4"):
            bad = peer.CudaArray(theirs, None)
            bad.__cuda_array_interface__["typestr"] = typestr
            check_refused(lambda: lnp.from_dlpack(bad), TypeError, "cannot become a Tensor")
        bad = peer.CudaArray(theirs, None)
        bad.__cuda_array_interface__["strides"] = (4000, 2)
        check_refused(lambda: lnp.from_dlpack(bad), BufferError, "no multiples")
        bad = peer.CudaArray(theirs, None)
        bad.__cuda_array_interface__["data"] = (12345, False)
        check_refused(lambda: lnp.from_dlpack(bad), BufferError, "the address 12345 is in the memory of no CUDA")
        check_refused(lambda: lnp.asarray(bad, copy=False), ValueError, "12345")
    """
    check(program, cuda_standin)


def test_what_does_not_lie_dense_and_aligned_is_copied_on_the_device(cuda_standin):
    program = """
        for seed in range(10):
            peer.CONTROL.set_seed(seed)
            flat = np.arange(3000, dtype="f4")
            theirs = peer.Array(flat)
            parts = {
                "transposed": (theirs.part((1000, 3), (1, 1000)), flat.reshape(3, 1000).T),
                "spaced": (theirs.part((40, 2), (60, 3), 16), flat[16 + 60 * np.arange(40)[:, None] + 3 * np.arange(2)]),
                "reversed": (theirs.part((3000,), (-1,), 2999), flat[::-1]),
                "within": (theirs.part((30,), (1,), 3), flat[3:33]),
                "spread": (theirs.part((4, 5), (0, 1), 16), np.tile(flat[16:21], (4, 1))),
            }
            got = []
            for name, (part, wanted) in parts.items():
                x = lnp.from_dlpack(part)
                assert x.device == "cuda:0", name
                got.append((x, wanted))
                shown = peer.CudaArray(part, part.stream.handle)
                got.append((lnp.asarray(shown), wanted))
                for take in (part, shown):
                    check_refused(lambda: lnp.from_dlpack(take, copy=False), BufferError, "leave out copy=False")
            theirs.write(-flat)
            for x, wanted in got:
                np.testing.assert_array_equal(x, wanted)
            one = theirs.part((1, 7), (1000, 1), 16)
            assert address(lnp.from_dlpack(one, copy=False)) == theirs.address + 64
            theirs.stream.synchronize()
        assert lnp.from_dlpack(peer.Array(np.zeros((0, 3), "f4"))).shape == (0, 3)
    """
    check(program, cuda_standin)


def test_other_places_and_what_is_refused(cuda_standin):
    program = """
        x = f(lm.device_put(values, "cuda:0"))
        np.testing.assert_array_equal(np.from_dlpack(x, device="cpu"), want)
        assert np.from_dlpack(x, device="cpu", copy=True).flags.writeable
        np.testing.assert_array_equal(np.from_dlpack(f(lm.device_put(values, "cuda:1")), device="cpu"), want)
        check_refused(lambda: x.__dlpack__(stream=0), BufferError, "the stream 0 is none of CUDA")
        check_refused(lambda: x.__dlpack__(stream=-2), BufferError, "the stream -2 is none of CUDA")
        check_refused(lambda: x.__dlpack__(stream="1"), TypeError, "")
        check_refused(lambda: x.__dlpack__(dl_device=(2, 1)), BufferError, "cannot be exported to DLPack's device")
        check_refused(lambda: x.__dlpack__(dl_device=(1, 0), copy=False), BufferError, "leave out copy=False")
        host = lnp.ones(3, device="cpu")
        assert host.__dlpack_device__() == (1, 0)
        check_refused(lambda: host.__dlpack__(dl_device=(2, 0)), BufferError, "on cpu:0 cannot be exported")
        # A number that the host knows is brought where its device says it is.
        with lm.default_device("cuda:0"):
            number = lnp.asarray(2.5)
            taken = peer.Taken(number.__dlpack__(max_version=(1, 0)))
            assert taken.device == (2, 0) and taken.read_later(1)() == 2.5
            taken.release()

        theirs = peer.Array(values)
        y = lnp.from_dlpack(theirs, device="cpu")
        assert y.device == "cpu:0"
        np.testing.assert_array_equal(y, values)
        z = lnp.from_dlpack(theirs, device="cuda:1")
        assert z.device == "cuda:1"
        np.testing.assert_array_equal(z, values)
        assert address(lnp.from_dlpack(theirs, device="cuda:0", copy=False)) == theirs.address
        for device in ("cpu", "cuda:1"):
            for take in (theirs, peer.CudaArray(theirs, theirs.stream.handle)):
                check_refused(
                    lambda: lnp.from_dlpack(take, device=device, copy=False), BufferError, f"cuda:0 comes to {device}"
                )
        theirs.device, theirs.is_ordered = 1, False
        check_refused(lambda: lnp.from_dlpack(theirs), BufferError, "is in the memory of cuda:0, not of cuda:1")
        theirs.device = 7
        check_refused(lambda: lnp.from_dlpack(theirs), BufferError, "there is no device 'cuda:7'")
        assert settled(theirs, 4), theirs.released

        # From us to us.
        x = f(lm.device_put(values, "cuda:0"))
        y = lnp.from_dlpack(x)
        assert y.device == "cuda:0" and address(y) == address(x)
        del x
        np.testing.assert_array_equal(y, want)

        def out_of_trace(x):
            return lnp.from_dlpack(x)
        check_refused(lambda: lm.jit(out_of_trace)(lm.device_put(values, "cuda:0")), TypeError, "traced")
        check_refused(
            lambda: lm.grad(lambda x: lnp.sum(lnp.from_dlpack(x)))(lm.device_put(values, "cuda:0")), TypeError, ""
        )
        inside = lm.jit(lambda x: x + lnp.from_dlpack(peer.Array(values)))
        np.testing.assert_array_equal(inside(lm.device_put(values, "cuda:0")), 2 * values)
    """
    check(program, cuda_standin)


def test_a_forked_child_gets_an_error(cuda_standin):
    program = """
        import os

        x = f(lm.device_put(values, "cuda:0"))
        theirs = peer.Array(values)
        shared = lnp.from_dlpack(theirs)
        taken = peer.Taken(x.__dlpack__(stream=1, max_version=(1, 0)))
        child = os.fork()
        if child == 0:
            try:
                x.__dlpack__(stream=1)
            except RuntimeError as e:
                assert "cuda:0 was lost: a process forked" in str(e)
                taken.release()
                del shared
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        np.testing.assert_array_equal(shared, values)
    """
    check(program, cuda_standin)


def test_devices_that_others_do_not_know():
    x = lnp.ones(3, device="fake:1")
    for ask in (x.__dlpack_device__, x.__dlpack__, lambda: np.from_dlpack(x), lambda: lnp.from_dlpack(x)):
        with pytest.raises(BufferError, match=r"DLPack has no kind of device for fake:1; .*a copy"):
            ask()
    assert np.from_dlpack(x, device="cpu").tolist() == [1, 1, 1]
    assert lnp.from_dlpack(x, device="cpu").tolist() == [1, 1, 1]
    with pytest.raises(BufferError, match="fake:1 comes to the host as a copy"):
        np.from_dlpack(x, device="cpu", copy=False)
    with pytest.raises(BufferError, match="cannot be exported to DLPack's device"):
        x.__dlpack__(dl_device=(2, 0))
    assert not hasattr(x, "__cuda_array_interface__")


class Elsewhere:
    """An array in memory that is none here; on request it comes to the host."""

    asked = None

    def __dlpack_device__(self):
        return 10, 0

    def __dlpack__(self, **asked):
        self.asked = asked
        return np.arange(3.0).__dlpack__(max_version=asked["max_version"], dl_device=asked["dl_device"])


def test_arrays_of_other_kinds_of_devices_come_to_the_host():
    x = Elsewhere()
    with pytest.raises(BufferError, match="no device here of DLPack's kind 10"):
        lnp.from_dlpack(x)
    with pytest.raises(BufferError, match="leave out copy=False"):
        lnp.from_dlpack(x, device="cpu", copy=False)
    assert x.asked is None
    assert lnp.from_dlpack(x, device="cpu").tolist() == [0, 1, 2]
    assert x.asked == {"max_version": (1, 0), "dl_device": (1, 0)}


def test_what_has_to_be_copied_is_refused_where_it_must_not_be():
    source = np.arange(12.0).reshape(3, 4)
    for part in (source.T, source[:, ::2], source[::-1]):
        with pytest.raises(BufferError, match="do not lie one behind the other: leave out copy=False"):
            lnp.from_dlpack(part, copy=False)
        with pytest.raises(ValueError, match="without a copy"):
            lnp.asarray(part, copy=False)
    odd = np.frombuffer(bytearray(33), np.uint8)[1:].view("f8")
    with pytest.raises(BufferError, match="not aligned"):
        lnp.from_dlpack(odd, copy=False)
    assert lm.device_put(lnp.from_dlpack(odd), "cpu").tolist() == [0.0] * 4


def test_arrays_of_cuda_say_what_is_missing_where_there_is_no_driver():
    program = """
        import lamina.numpy as lnp
        import numpy as np

        class Theirs:
            def __dlpack_device__(self):
                return 2, 0

            def __dlpack__(self, *, dl_device, max_version):
                return np.arange(3.0).__dlpack__(dl_device=dl_device, max_version=max_version)

        class Shown:
            __cuda_array_interface__ = dict(shape=(3,), typestr="<f4", data=(4096, False), version=3)

        for take in (lambda: lnp.from_dlpack(Theirs()), lambda: lnp.from_dlpack(Shown()), lambda: lnp.sin(Shown())):
            try:
                take()
            except BufferError as e:
                assert str(e).startswith("there is no device 'cuda:0': the CUDA driver that"), e
                continue
            raise SystemExit("no BufferError")
        assert lnp.from_dlpack(Theirs(), device="cpu").tolist() == [0, 1, 2]
    """
    run(program, LAMINA_CUDA_DRIVER="/nowhere/libcuda.so.1", LAMINA_DEFAULT_DEVICE="cpu")
