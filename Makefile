# Everything a newcomer needs: `make demo` and `make test` build .venv by themselves.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
TESTS  ?= tests
NO_TORCH := data,parquet,optimum,web,oidc,predict,postgres,kubernetes,dev
ALL    := $(NO_TORCH),runtime
EXTRAS ?= $(ALL)
CACHE  ?= .pytest_cache
# twice as many as there are cores: tests of real processes and engines wait half of their time
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) \* 2)
# whole traces, a minute of chaos and the like have a target of their own; continuous integration runs everything
SELECT ?= not gpu and not long
# a test that hangs says where, ends its worker and fails; the others go on
NO_HANGS := -o faulthandler_timeout=1200 -o faulthandler_exit_on_timeout=true
# also where Python may not write bytecode by itself: every process of ours starts from it
COMPILE := $(BIN)/python -m compileall -q src/penstock && $(BIN)/python -m penstock.simulate.precompile

.DEFAULT_GOAL := help
.PHONY: $(shell awk -F: '/^[a-z-]+:.*\#\# /{print $$1}' $(firstword $(MAKEFILE_LIST)))

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Penstock needs Python 3.11 or newer; found $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.11 ..."; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
		{ echo "Python's venv module is missing. On Debian or Ubuntu: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[$(EXTRAS)]'
	@$(COMPILE)
	@touch $@

demo: $(STAMP) ## a real platform on this machine: train, shrink for a deadline, survive a killed worker
	@$(BIN)/python examples/demo.py

demo-simulate: $(STAMP) ## make a trace, compare five policies, draw who ran where
	@$(BIN)/python examples/demo_simulate.py

test: lint unit ## everything that must be green: lint, types, layers, tests

lint: $(STAMP) ## ruff, mypy --strict, import layers
	$(BIN)/ruff check src tests bench examples
	$(BIN)/ruff format --check src tests bench examples
	$(BIN)/mypy
	$(BIN)/lint-imports

engines: ## install the programs that some tests drive, where they are missing: browser, Prometheus, Slurm, PostgreSQL ... (Debian, root)
	@tests/tools/install-engines

engines-kubernetes: $(STAMP) ## build the Kubernetes control plane that some tests drive, once (Debian, ten minutes of a processor)
	@PYTHON=$(BIN)/python tests/tools/build-kubernetes

unit: $(STAMP) engines ## the tests alone (TESTS=tests/policies picks some)
	@$(COMPILE)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(NO_HANGS) -o cache_dir=$(CACHE) -m '$(SELECT)' $(TESTS)

unit-again: $(STAMP) ## the few tests that failed last, named and run once more by themselves; one that fails again has failed
	@$(BIN)/python -m tests.tools.few_failures $(CACHE)
	$(BIN)/python -m pytest --last-failed --last-failed-no-failures none $(NO_HANGS) -o cache_dir=$(CACHE) -m '$(SELECT)' $(TESTS)

test-pythons: ## the tests that depend on the version of Python, under 3.11, 3.12 and 3.13 where they are installed
	@tests/tools/test-pythons

test-fresh: ## make demo and make test in new, minimal Debian 12 and 13, as a user and as root (Debian, root, 20 GB, 2 hours)
	@tests/tools/test-fresh

test-long: $(STAMP) engines ## what make test leaves out: whole traces, a minute of chaos, fuzzing, every module of the wheel
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(NO_HANGS) -m 'long and not gpu' $(TESTS)

test-search: $(STAMP) ## the property tests with new random examples, some for long (make test repeats the known ones)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --hypothesis-profile=search -m 'hypothesis and not gpu' $(TESTS)

mutants: $(STAMP) ## small random faults in a copy of the code, and which ones no test notices (COUNT=100 SEED=1 PACKAGES="spec runtime" MINUTES=120; root)
	@$(BIN)/python -u -m tests.tools.mutants

chaos: $(STAMP) ## half an hour of killed, frozen and locked parts under real jobs, with a table of what was survived (MINUTES=30)
	$(BIN)/python -m tests.live.chaos $${MINUTES:-30}

chaos-kubernetes: $(STAMP) engines-kubernetes ## pods, nodes, API servers and servers that fall under real jobs on a real control plane (SEEDS=20)
	$(BIN)/python -m tests.live.cluster_chaos kubernetes $${SEEDS:-20}

chaos-slurm: $(STAMP) engines ## batch jobs, slurmd, controllers and servers that fall under real jobs on a real Slurm (SEEDS=10)
	$(BIN)/python -m tests.live.cluster_chaos slurm $${SEEDS:-10}

fuzz: $(STAMP) ## every operation of a real server under schemathesis, for FUZZ_S seconds (make test-long does it for 15)
	FUZZ_S=$${FUZZ_S:-600} $(BIN)/python -m pytest -q -m long tests/serve/test_fuzz.py

test-wheel: $(STAMP) ## the wheel in an empty environment: run, submit, simulate (needs a package registry)
	$(BIN)/python -m tests.packaging.installed

test-trackers: $(STAMP) ## exports of metrics read back by tensorboard, mlflow and wandb themselves (needs a package registry)
	for tracker in tensorboard mlflow-skinny wandb; do \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --target build/trackers/$$tracker --upgrade $$tracker && \
		PYTHONPATH=build/trackers/$$tracker $(BIN)/python -m pytest -q -rs -W ignore tests/client/test_metric_exports.py tests/tools/test_event_files.py || exit 1; \
	done

test-gpu: ## elastic training on a real GPU; needs PyTorch in PYTHON, installs nothing (make test leaves it out)
	PYTHONPATH=src $(PYTHON) -m tests.gpu.run

bench: bench-deadline bench-speed bench-scale bench-predict ## schedules, speed, predictions (needs ../shared/data for the public traces)

bench-deadline: $(STAMP) ## deadline ratio on the public traces, against published values and ceilings
	$(BIN)/python -m bench.deadline

bench-policies: $(STAMP) ## policies in one world over loads and seeds, with 95 % intervals (resumes where it stopped; ARGS="hard" for a harder world)
	$(BIN)/python -m bench.policies $(ARGS)

bench-chronus: $(STAMP) ## value missed and completion times on Chronus' traces, strict, soft and no deadlines (ARGS="--jobs 3000 deadline srtf")
	$(BIN)/python -m bench.chronus $(ARGS)

bench-taxonomy: $(STAMP) ## one policy and more of every class on cuts of Philly and Venus and on generated jobs, beside what papers claim
	$(BIN)/python -m bench.taxonomy

bench-heterogeneous: $(STAMP) ## gavel, sia and pollux beside ours on the workloads of Gavel and Sia, and what was published (needs ../shared/data)
	$(BIN)/python -m bench.heterogeneous $(ARGS)

bench-astraea: $(STAMP) ## completion times and fairness on Astraea's jobs, beside its own simulator (needs ../shared/data)
	$(BIN)/python -m bench.astraea

bench-promises: $(STAMP) ## promises given and broken over 18 kinds of generated worlds, under deadline and unified
	$(BIN)/python -m bench.promises

bench-sharing: $(STAMP) ## large gangs, small tenants beside a greedy one, and cuts of public traces (ARGS="gangs --policies unified,fifo --seeds 2")
	$(BIN)/python -m bench.sharing $(ARGS)

bench-unisched: $(STAMP) ## jobs that end by a metric: coverage of forecasts, miss rate and completion time beside an oracle
	$(BIN)/python -m bench.unisched

bench-doctor: $(STAMP) ## how fast the doctor reads logs, and in how much memory
	$(BIN)/python -m bench.doctor

bench-speed: $(STAMP) ## CPU seconds per policy and trace, against the public simulator
	$(BIN)/python -m bench.speed

bench-six-months: $(STAMP) ## half a year of Acme's failures at 2,048 devices: the productive share of the time, by what is done about them
	$(BIN)/python -m bench.six_months

bench-startup: $(STAMP) ## how long penstock --help, ps and a small simulate take to start
	$(BIN)/python -m bench.startup

bench-scale: $(STAMP) ## how cost grows with jobs and devices; a million jobs on 10,000 devices
	$(BIN)/python -m bench.scale

bench-live: $(STAMP) ## the live platform: latencies with 5,000 jobs, promises against what happened
	$(BIN)/python -m bench.live

bench-round: $(STAMP) ## eighteen jobs that nobody has seen: promises kept, first forecasts, guesses stated as facts (7 min)
	$(BIN)/python -m bench.first_round

bench-growth: $(STAMP) ## what years of use cost: a server on 100,000 finished jobs (JOBS="20000 1000000" for others)
	$(BIN)/python -m bench.growth $(JOBS)

bench-crowd: $(STAMP) ## a crowd in front of one server: 200 dashboards, 500 log followers, 100 submissions a second
	$(BIN)/python -m bench.crowd

bench-report: $(STAMP) ## how large a report of 5,000 jobs is and how fast it opens; how long a scrape takes
	$(BIN)/python -m bench.report

bench-vtrain: $(STAMP) ## predicted against measured iterations of large models; computed against measured operators
	$(BIN)/python -m bench.vtrain
	$(BIN)/python -m bench.analytic

bench-published: $(STAMP) ## iterations of published runs (SC'21, MLSys'23, MegaScale, Llama 3, torchtitan, BERT) predicted, with sources
	$(BIN)/python -m bench.published $(ARGS)

bench-held-out: $(STAMP) ## published runs that were kept apart (llm-foundry, NeMo, Megatron-Bridge, fms-fsdp, torchtitan), in bf16 and fp8
	$(BIN)/python -m bench.held_out $(ARGS)
	$(BIN)/python -m bench.held_out --precision fp8 $(ARGS)

bench-arrival: $(STAMP) ## from nothing installed to a first result: commands, lines and minutes, beside Slurm and Ray Train (needs a package registry)
	$(BIN)/python -m bench.arrival $(ROUTES)

bench-elastic: $(STAMP) ## pauses of resizes, overhead of the elastic loop, checkpoints (needs PyTorch)
	$(BIN)/python -m bench.elastic

bench-checkpoints: $(STAMP) ## how long checkpoints hold training up, beside synchronous ones, and a lost worker's way back (needs PyTorch)
	$(BIN)/python -m bench.checkpoints

bench-evaluation: $(STAMP) ## evaluation of a checkpoint beside one job for each data set: Acme's 63 data sets simulated, small real models (needs PyTorch)
	$(BIN)/python -m bench.evaluation
bench-watch: $(STAMP) ## what watching a run costs: clocks, the watch of the loss, sampled profiles (needs PyTorch)
	$(BIN)/python -m bench.watch

bench-loader: $(STAMP) ## packed tokens beside JSON lines and a bare memory map: rates, resume, waits, waste, memory (needs PyTorch)
	$(BIN)/python -m bench.loader $(ARGS)

bench-pretrain: ## the pretraining recipe on the GPU at hand: tokens/s, MFU, input stall; needs PyTorch in PYTHON, installs nothing
	PYTHONPATH=src $(PYTHON) -m bench.pretrain_gpu $(ARGS)

bench-clusters: $(STAMP) engines engines-kubernetes ## resizes, killed workers and submissions on a real Kubernetes and a real Slurm, beside stop and restart
	$(BIN)/python -m bench.clusters

bench-cluster-scale: $(STAMP) engines-kubernetes ## a server on 1,000 nodes and 500 gangs of a real API server: processor time, memory, decisions
	$(BIN)/python -m bench.cluster_scale

screenshots: $(STAMP) engines ## pictures of every page of the dashboard, of a platform with jobs on it, into docs/pictures
	$(BIN)/python -m tests.web.screenshots

bench-web: $(STAMP) ## the dashboard in a real browser: pages and updates with 5,000 jobs (needs Chromium)
	$(BIN)/python -m bench.web

bench-predict: $(STAMP) ## kernels and iterations on an H200 predicted without running, against measurements (no GPU needed)
	$(BIN)/python -m bench.predict

bench-strangers: $(STAMP) ## networks of kinds that no profile learned from, on an H200: error, bars, memory (no GPU needed)
	$(BIN)/python -m bench.strangers

bench-predict-cpu: $(STAMP) ## whole iterations on this CPU after three minutes of profiling, against what they take
	$(BIN)/python -m bench.predict_cpu

bench-neusight: $(STAMP) ## the kernel time model on NeuSight's public measurements, against its published errors
	$(BIN)/python -m bench.neusight

bench-devices: $(STAMP) ## predictions from data sheets against iterations others measured on 15 devices: error, and how often bars hold
	$(BIN)/python -m bench.devices $(ARGS)

bench-own-profile: $(STAMP) ## a profile of about three minutes on an H200 against the one that ships (no GPU needed)
	$(BIN)/python -m bench.own_profile --first 90

bench-hardware: $(STAMP) ## models of links and power against public measurements
	$(BIN)/python -m bench.hardware

bench-plan: $(STAMP) ## parallel plans: our search beside Aceso's on its own profile database and cost model
	$(BIN)/python -m bench.plan

bench-preflight: $(STAMP) ## seconds of a node's check and of a job with one, mutants found and located, what watching a model costs
	$(BIN)/python -m bench.preflight

clean: ## remove what the targets built
	rm -rf $(VENV) .venv-3.* build/test-fresh demo-output .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
