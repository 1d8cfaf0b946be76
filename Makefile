# Only forwards to xtask (`cargo run -p xtask -- help`). All that a machine needs besides this file is rustup and, for
# installing Debian packages that are missing, root.

PREFIX ?= /usr/local
XTASK = cargo run --quiet -p xtask --

build: linker
	$(XTASK) build

demo: linker
	$(XTASK) demo

check: linker
	$(XTASK) check

# ONLY=name,... measures just those.
bench: linker
	$(XTASK) bench $(if $(ONLY),--only $(ONLY))

# Beside Linux. ONLY=name,..., RUNS=n (5), FRESH=1 to forget what was measured before.
compare: linker
	$(XTASK) compare $(if $(ONLY),--only $(ONLY)) $(if $(RUNS),--runs $(RUNS)) $(if $(FRESH),--fresh)

# UPDATE=1 writes what is counted to bench/baseline.tsv.
gate: linker
	$(XTASK) gate $(if $(UPDATE),--update)

# Mistakes made on purpose, each with the test that must notice. ONLY=part of a name.
mutants: linker
	$(XTASK) mutants $(if $(ONLY),--only "$(ONLY)")

# FUZZ_SECONDS of each target; ten minutes unless said otherwise.
fuzz: linker
	$(XTASK) fuzz

install: linker
	$(XTASK) install --prefix "$(PREFIX)"

uninstall: linker
	$(XTASK) uninstall --prefix "$(PREFIX)"

kvm-report: linker
	$(XTASK) kvm-report

clean:
	cargo clean

# xtask itself has to be linked before it can install anything.
linker:
	@command -v cc >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq && \
	  apt-get install -y -qq --no-install-recommends gcc libc6-dev; } || \
	  { echo "make: a C compiler is needed first: apt-get install gcc libc6-dev" >&2; exit 1; }

.PHONY: build demo check bench compare gate mutants fuzz install uninstall kvm-report clean linker
