# Only forwards to xtask (`make help`; `cargo run -p xtask -- help` has more tasks). All that a machine needs besides this file is rustup and, for
# installing Debian packages that are missing, root.

PREFIX ?= /usr/local
XTASK = cargo run --quiet -p xtask --
# Programs that are tested count their descriptors: none is to come from who runs the tests.
ALONE = exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-;

#: make               the kernel, the PCT and yod (target/release/yod), as make build
build: linker
	$(XTASK) build

#: make demo          STREAM and a small gallery on two ranks
demo: linker
	$(XTASK) demo

#: make check         every test, as CI runs it
check: linker
	$(ALONE) $(XTASK) check

#: make bench         measure; ONLY=name,...: just those
bench: linker
	$(XTASK) bench $(if $(ONLY),--only $(ONLY))

#: make compare       measure beside Linux; ONLY=name,..., RUNS=n (5), FRESH=1 to forget what was measured before
compare: linker
	$(XTASK) compare $(if $(ONLY),--only $(ONLY)) $(if $(RUNS),--runs $(RUNS)) $(if $(FRESH),--fresh)

#: make gate          counts that must not change unseen; UPDATE=1 writes them to bench/baseline.tsv
gate: linker
	$(XTASK) gate $(if $(UPDATE),--update)

#: make mutants       mistakes made on purpose, each with the test that must notice; ONLY=part of a name
mutants: linker
	$(XTASK) mutants $(if $(ONLY),--only "$(ONLY)")

#: make check-long    what takes too long for every check, about an hour; ONLY=part of a step's name
check-long: linker
	$(ALONE) $(XTASK) check-long $(if $(ONLY),--only $(ONLY))

#: make install       bin/yod, lib/margay, manual page and completions below PREFIX (/usr/local)
install: linker
	$(XTASK) install --prefix "$(PREFIX)"

#: make uninstall     take them away again
uninstall: linker
	$(XTASK) uninstall --prefix "$(PREFIX)"

#: make kvm-report    check and benchmarks with KVM, to target/kvm-report.md
kvm-report: linker
	$(XTASK) kvm-report

#: make native-report a co-kernel beside this machine's Linux, to target/native-report.md (docs/first-run.md)
native-report: linker
	$(XTASK) native-report

#: make clean         remove what was built
clean:
	cargo clean

help:
	@sed -n 's/^#: //p' $(firstword $(MAKEFILE_LIST))

# xtask itself has to be linked before it can install anything.
linker:
	@command -v cc >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq && \
	  apt-get install -y -qq --no-install-recommends gcc libc6-dev; } || \
	  { echo "make: a C compiler is needed first: apt-get install gcc libc6-dev" >&2; exit 1; }

.PHONY: build demo check check-long bench compare gate mutants install uninstall kvm-report native-report clean help linker
