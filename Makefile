# ebb: make help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO ?= go
BIN := bin

# What the throwaway node needs of Debian; each target installs what is missing.
NODE_PACKAGES := containerd runc busybox-static e2fsprogs xfsprogs btrfs-progs erofs-utils mount util-linux kmod
TEST_PACKAGES := gcc libc6-dev # go test -race
BPF_PACKAGES  := clang llvm libbpf-dev

.PHONY: help
help: ## show what can be made
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: node-tools build ## watch ebb keep a throwaway node's disk low (root)
	@$(GO) run ./tools/demo --agent $(BIN)/ebb-agent

.PHONY: test
test: test-tools containerd-v2 ## all checks and tests, on real containerd 1.6 and 2.4 (root)
	$(MAKE) --no-print-directory lint
	@# Built side by side, run one package after the other: the node's and the kernel's tests
	@# share the machine's loop devices and mount namespaces.
	$(GO) test -race -exec /bin/true ./... >/dev/null
	$(GO) test -race -timeout 25m -p 1 ./...

# Packages whose tests import peerstest need the real Kubernetes, which takes minutes to
# build: "make test" skips those tests, this runs them.
.PHONY: e2e
e2e: test-tools containerd-v2 ## tests beside the real kubelet and control plane, built on first use (root)
	@peers=$$(tools/peers/build); \
	packages=$$($(GO) list -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' ./... | \
		awk '/[[ ][^ ]*\/tools\/peers\/peerstest[] ]/ {print $$1}'); \
	$(GO) test -race -exec /bin/true $$packages >/dev/null; \
	EBB_PEERS=$$peers $(GO) test -race -timeout 30m -p 1 $$packages

# What booting another kernel needs besides.
VM_PACKAGES := qemu-system-x86 xz-utils
# For instance VM_FLAGS="--kernels all --table docs/kernels.md".
VM_FLAGS ?=

.PHONY: test-vm
test-vm: vm-tools ## the kernel's tests on Debian's own kernels, in an emulated machine
	@$(GO) run ./tools/vm/cmd/testvm $(VM_FLAGS)

.PHONY: build
build: ## build the binaries into bin/
	@mkdir -p $(BIN)
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o $(BIN)/ ./cmd/...

.PHONY: lint
lint: ## gofmt, go vet and staticcheck
	@unformatted=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); \
	if [ -n "$$unformatted" ]; then echo "not gofmt'd:" $$unformatted; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

.PHONY: generate
generate: ## rebuild the BPF objects and generated docs (needs clang and libbpf-dev)
	@tools/need.sh $(BPF_PACKAGES)
	$(GO) generate ./bpf/...
	$(GO) test ./agent/node -run TestGenerated -update

.PHONY: verify
verify: ## regenerate everything generated and fail on a difference
	$(MAKE) --no-print-directory generate
	git diff --exit-code -- bpf docs go.mod go.sum
	$(GO) mod tidy -diff
	cd tools/containerd && $(GO) mod verify
	cd tools/peers/kubernetes && $(GO) mod tidy -diff && $(GO) mod verify
	cd tools/peers/etcd && $(GO) mod verify
	$(GO) mod verify

# For instance BENCH_FLAGS="-only write"; see bin/bench-probes -h.
BENCH_FLAGS ?=

.PHONY: bench-idle
bench-idle: node-tools build ## what the agent costs with 200 images and 100 containers and nothing to do
	@$(GO) run ./bench/idle --agent $(BIN)/ebb-agent

.PHONY: bench-reaction
bench-reaction: node-tools build ## from the write that crosses the line to the first removal, 100 times
	@$(GO) run ./bench/reaction --agent $(BIN)/ebb-agent

.PHONY: bench-node
bench-node: node-tools containerd-v2 build ## ebb and the real kubelet before the same full disk, about ten minutes
	@EBB_PEERS=$$(tools/peers/build kubelet) $(GO) run ./bench/node --agent $(BIN)/ebb-agent $(BENCH_FLAGS)

.PHONY: bench-probes
bench-probes: node-tools ## what the kernel programs cost against none attached, and 1,200 random crossings
	@tools/need.sh fio
	@mkdir -p $(BIN)
	@CGO_ENABLED=0 $(GO) build -trimpath -o $(BIN)/bench-probes ./bench/probes
	@$(BIN)/bench-probes $(BENCH_FLAGS)

.PHONY: bench-containers
bench-containers: node-tools build ## from exit to removal, 5,000 dead containers, and 2,000 pods racing against removals
	@$(GO) build -trimpath -o $(BIN)/bench-containers ./bench/containers
	@$(BIN)/bench-containers --agent $(BIN)/ebb-agent $(BENCH_FLAGS)

.PHONY: clean-node
clean-node: ## remove throwaway nodes that a crash has left behind
	@$(GO) run ./tools/node/cmd/throwaway clean

.PHONY: clean
clean: ## remove what was built
	rm -rf $(BIN)

.PHONY: node-tools
node-tools:
	@tools/need.sh $(NODE_PACKAGES)

.PHONY: vm-tools
vm-tools: node-tools
	@tools/need.sh $(VM_PACKAGES)

.PHONY: test-tools
test-tools: node-tools
	@tools/need.sh $(TEST_PACKAGES)

.PHONY: containerd-v2
containerd-v2:
	@tools/containerd/build
