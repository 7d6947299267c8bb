# Two commands matter: make demo, make test. Both need Go 1.26 and a C compiler; PostgreSQL
# is taken from the machine (15 or later) or downloaded.
GO ?= go
export GOTOOLCHAIN = local
SEEDS ?= 1000
DEMO_FLAGS ?=
BENCH_FLAGS ?=
CHAOS_FLAGS ?=
REGRESS_FLAGS ?=
DRIVERS ?= all
DRIVERS_FLAGS ?=

.PHONY: demo test build bench chaos regress isolation drivers vet clean

demo: build
	./bin/tutti demo $(DEMO_FLAGS)

build:
	@mkdir -p bin
	@echo "building bin/tutti (the first build compiles PostgreSQL's parser and takes a minute)"
	$(GO) build -o bin/tutti ./cmd/tutti

vet:
	$(GO) vet ./...

test: build vet
	TUTTI_SIM_SEEDS=$(SEEDS) $(GO) test -count=1 -timeout 35m -p 2 -parallel 4 ./test/... ./cmd/... ./internal/... # the longest first; those that run beside others mostly wait

bench: build
	./bin/tutti bench compare $(BENCH_FLAGS)

chaos: build
	./bin/tutti chaos $(CHAOS_FLAGS)

# PostgreSQL's own suites against Tutti and against plain PostgreSQL: test/regress/doc.go.
regress isolation:
	TUTTI_REGRESS=$@ $(GO) test ./test/regress -run TestSuite -count=1 -v -timeout 3h -args $(REGRESS_FLAGS)

# Suites of drivers and object-relational mappers against Tutti and against plain PostgreSQL:
# test/drivers/doc.go.
drivers:
	TUTTI_DRIVERS=$(DRIVERS) $(GO) test ./test/drivers -run TestSuite -count=1 -v -timeout 3h -args $(DRIVERS_FLAGS)

clean:
	rm -rf bin
