# Everything a developer runs, on a bare Debian 12: `make setup build test`.
#
# The work happens in cmake/setup.sh and the CMake presets; a step that is done is skipped the next time.
PRESET ?= release
BUILD := build/$(PRESET)
VENV := .venv
PYTHON := $(CURDIR)/$(VENV)/bin/python
# One job per processor, but no more than leaves each job 2 GiB of memory.
JOBS ?= $(shell cmake/jobs.sh)
# What hangs ends with what it printed: seconds, several times what the longest test takes.
CTEST := ctest --test-dir $(BUILD) -j $(JOBS) --output-on-failure --no-tests=error --timeout 1500
PYTEST := PYTHONPATH=python $(PYTHON) -m pytest -q -n $(JOBS) --dist worksteal
# Kernels, numerics, memory.
MACHINE_TESTS := tests/numerics tests/python/test_jit.py tests/python/test_loop_kernels.py tests/python/test_row_chains.py \
  tests/python/test_numpy_functions.py tests/python/test_nn.py tests/python/test_linalg_lanes.py
# Random programs, in number; what they test is there without generated code, and is cheaper so.
PROGRAM_TESTS := tests/python/test_loop_programs.py tests/python/test_control_flow_programs.py
PYTHON_TESTS := tests/python tests/numerics tests/differential tests/stablehlo tests/spec tests/xla_hlo
# Where values and programs are on another device than the host's; test-fake runs all so.
FAKE_TESTS := tests/python/test_devices.py tests/python/test_mixed_devices.py tests/python/test_transforms.py \
  tests/python/test_jit.py tests/python/test_loops.py tests/python/test_indexing.py tests/python/test_array_api.py \
  tests/python/test_interop.py tests/python/test_interrupts.py tests/python/test_fork.py tests/python/test_plans.py
CUDA_TESTS := tests/python/test_mixed_devices.py tests/python/test_jit.py tests/python/test_loops.py \
  tests/python/test_indexing.py tests/python/test_interop.py tests/python/test_linalg.py tests/python/test_fft.py
# The driver and libraries of CUDA: a stand-in for all of them, or with CUDA_DRIVER= those of the machine.
CUDA_DRIVER ?= $(CURDIR)/$(BUILD)/tests/liblamina_cuda_standin.so
ON_CUDA = LAMINA_DEFAULT_DEVICE=cuda $(if $(CUDA_DRIVER),$(foreach l,CUDA_DRIVER CUBLAS CUBLASLT CUDNN CUFFT CUSOLVER,LAMINA_$(l)=$(CUDA_DRIVER)))
CXX_SOURCES = $(shell git ls-files -co --exclude-standard '*.cc' '*.h')
PYTHON_FOLDERS = $(wildcard python tests examples)
TIDY_SOURCES = $(shell git ls-files -co --exclude-standard 'hlo/*.cc' 'trace/*.cc' 'cluster/*.cc' 'jit/*.cc' 'lazy/*.cc')

.DEFAULT_GOAL := build
.PHONY: setup build test test-full test-fake test-cuda gpu-bundle demo bench bench-core accuracy format lint clean

setup:
	cmake/setup.sh $(VENV)

$(BUILD)/build.ninja: CMakePresets.json
	cmake --preset $(PRESET) -DPython3_EXECUTABLE=$(PYTHON)

build: setup
	@$(MAKE) --no-print-directory $(BUILD)/build.ninja
	cmake --build $(BUILD) -j $(JOBS)

# Each runner prints its own summary line; the first failure stops the run. What depends on the machine is tested
# again as machines with AVX2 and with neither AVX2 nor generated code see it, what depends on devices on the fake one.
test: build
	$(CTEST)
	$(PYTEST) $(PYTHON_TESTS) -m "not slow"
	tests/as_avx2.sh env $(PYTEST) $(MACHINE_TESTS) -m "not slow" || [ $$? = 77 ]
	LAMINA_ISA=baseline $(PYTEST) $(MACHINE_TESTS) -m "not slow"
	LAMINA_ISA=baseline $(PYTEST) $(PROGRAM_TESTS) -m programs
	LAMINA_DEFAULT_DEVICE=fake $(PYTEST) $(FAKE_TESTS) -m "not slow"
	$(ON_CUDA) $(PYTEST) $(CUDA_TESTS) -m "not slow"

# Adds the slow Python tests and Catch2's hidden [slow] cases; test-fake is the same with the fake device
# (docs/devices.md) as the default one.
test-full: CONFIGURATION := -C full
test-fake: export LAMINA_DEFAULT_DEVICE := fake
test-full test-fake: build
	$(CTEST) $(CONFIGURATION)
	@for program in lamina_tests lamina_fault_tests; do \
	  if [ -x $(BUILD)/tests/$$program ]; then $(BUILD)/tests/$$program '[slow]' || exit 1; fi; done
	$(PYTEST) $(PYTHON_TESTS)

# By themselves, and the slow ones among them.
test-cuda: build
	$(ON_CUDA) $(PYTEST) $(CUDA_TESTS)

# Tests and measurements for a machine that has a GPU and nothing else: there, python3 lamina-gpu/run.py.
gpu-bundle: build
	cmake --build $(BUILD) -j $(JOBS) --target cuda_bench
	tests/gpu/bundle.sh $(BUILD)

# Installs and builds what it runs: the Python module.
demo:
	cmake/setup.sh $(VENV) module
	@$(MAKE) --no-print-directory $(BUILD)/build.ninja
	cmake --build $(BUILD) -j $(JOBS) --target lamina_module
	PYTHONPATH=python $(PYTHON) examples/lenet_mnist.py

# Lamina beside its peers, in an environment of its own (PyTorch, too, with BENCH_TORCH=1); ONLY=text takes the
# workloads whose group or name has the text. Tables on the screen, all rounds in build/bench.json, .md and .svg.
# BEFORE=checkout: beside an earlier state of Lamina, built in another folder, in place of the peers.
bench: build
	PYTHONPATH=python $(PYTHON) tests/bench/bench.py --environment build/bench-env --out build/bench \
	  --only "$(ONLY)" --before "$(BEFORE)" $(if $(BENCH_TORCH),--torch)

# The core by itself: kernels beside oneDNN, and the instructions of calls.
bench-core: build
	cmake --build $(BUILD) -j $(JOBS) --target bench
	@for program in $(BUILD)/tests/bench/*_bench; do echo "== $$program"; $$program || exit 1; done
	PYTHONPATH=python $(PYTHON) tests/bench/call_bench.py --instructions

# The table of errors: minutes for each function, since all 2^32 inputs of f32 are tried.
accuracy: build
	$(PYTHON) tests/numerics/accuracy_report.py $(BUILD)/tests/lamina_tests > docs/accuracy.md

format: setup
	clang-format -i $(CXX_SOURCES)
	$(PYTHON) -m ruff format $(PYTHON_FOLDERS)

lint: setup
	cmake --preset lint -DPython3_EXECUTABLE=$(PYTHON) --log-level=WARNING
	clang-format --dry-run -Werror $(CXX_SOURCES)
	$(PYTHON) -m ruff check $(PYTHON_FOLDERS)
	clang-tidy-19 -p build/lint --quiet --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-ignored-gch $(TIDY_SOURCES)

clean:
	cmake -E rm -rf build
