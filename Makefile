# ebb: make help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO ?= go
BIN := bin

# Programs, and what is generated, are built in one way; what is tested, vetted and linted in
# another, with the race detector, which needs cgo. A cold cache is filled once for each.
export CGO_ENABLED := 0
export GOFLAGS := $(strip $(filter-out -trimpath,$(GOFLAGS)) -trimpath)
RACE := CGO_ENABLED=1 GOFLAGS="$(GOFLAGS) -race"
# Chance has no say in whether a change passes: every property has the same histories each
# time. "make test-full" draws others.
export RAPID_SEED ?= 1
# Without this the race detector sleeps for a second at the end of each process.
export GORACE ?= atexit_sleep_ms=0

# Each stage of the tests adds a line to this file; see tools/gate.
ifeq ($(origin EBB_RECORD),undefined)
NEW_RECORD := rm -f bin/gate.tsv
endif
export EBB_RECORD ?= $(CURDIR)/bin/gate.tsv
GATE := $(BIN)/gate
# $(call gate,STAGE,FLAGS OF THE GATE,FLAGS OF GO TEST,PACKAGES)
gate = CGO_ENABLED=1 $(GATE) test $(2) $(1) -race -vet=off $(3) -- $(4)

# What the throwaway node needs of Debian; each target installs what is missing.
NODE_PACKAGES := containerd runc busybox-static e2fsprogs xfsprogs btrfs-progs erofs-utils mount util-linux kmod
# go test -race; the image's version; rules and dashboard; pages and completions as people see them.
TEST_PACKAGES := gcc libc6-dev git prometheus groff-base bash-completion
BPF_PACKAGES  := clang llvm libbpf-dev

.PHONY: help
help: ## show what can be made
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: node-tools build ## watch ebb keep a throwaway node's disk low (root)
	@$(GO) run ./tools/demo --agent $(BIN)/ebb-agent

# Tests of real components: they need root, or Debian's packages. They run one package after
# the other, because they share the machine's loop devices and mount namespaces.
REAL := agent/doctor agent/node/e2e bpf deploy/grafana deploy/prometheus deploy/rights runtime/cgroup runtime/containerd \
	runtime/fs runtime/podlogs tools/chart tools/cluster tools/image tools/manual tools/node tools/node/cmd/throwaway \
	tools/peers tools/prometheus tools/vm/initramfs
# Those that need the real Kubernetes, which takes ten minutes to build: for "make e2e".
PEERS := agent/cluster/e2e agent/node/beside agent/orphans/e2e agent/preview/e2e agent/uninstall/e2e deploy/e2e runtime/kube/e2e \
	runtime/kube/metadata/e2e tools/extension
HERMETIC = $$($(GO) list ./... | grep -Ev '/ebb/($(subst $() ,|,$(strip $(REAL) $(PEERS)))|policy(/.*)?)$$')

.PHONY: check
check: $(GATE) ## format, vet, staticcheck, and the tests that need nothing but Go and Linux, two minutes
	@$(NEW_RECORD)
	@$(MAKE) --no-print-directory check-stages
	@echo "left out: $(REAL) (make test); $(PEERS) (make e2e)"
	@$(if $(NEW_RECORD),$(GATE) report)

.PHONY: check-stages
check-stages:
	@$(GATE) run lint $(MAKE) --no-print-directory lint
	@CGO_ENABLED=0 $(GATE) test policy -vet=off -- ./policy/...
	@RAPID_CHECKS=20 $(call gate,hermetic,,-timeout 10m,$(HERMETIC))

.PHONY: test
test: test-tools $(GATE) ## all that, and the tests on real filesystems, kernel programs, containerd 1.6 and 2.4, Prometheus and helm, seven minutes, thirteen with cold caches (root)
	@$(NEW_RECORD)
	@$(MAKE) --no-print-directory check-stages
	@$(MAKE) --no-print-directory containerd-v2 helm
	@$(MAKE) --no-print-directory test-real
	@$(if $(NEW_RECORD),$(GATE) report)

# A failed test of these gets a second look, see tools/gate. All that they left out is in
# "make test-full".
.PHONY: test-real
test-real: export RAPID_CHECKS := 10
test-real:
	@$(call gate,real,-second-look -skip '^TestImage$$',-count=1 -p 1 -timeout 15m,$(addprefix ./,$(filter-out bpf agent/node/e2e,$(REAL))))
	@$(call gate,bpf,-second-look -skip "$$(grep -v '^#' tools/vm/bpf-slow.txt | paste -sd '|')",-count=1 -timeout 10m,./bpf)
	@$(call gate,node,-second-look -run "$$(grep -v '^#' agent/node/e2e/gate.txt | paste -sd '|')",-count=1 -timeout 10m,./agent/node/e2e)

.PHONY: $(GATE)
$(GATE):
	@mkdir -p $(BIN)
	@$(GO) build -o $@ ./tools/gate

.PHONY: e2e e2e-control e2e-node e2e-image
e2e: e2e-control e2e-node e2e-image ## what make test leaves out, and tests beside the real kubelet and control plane, built on first use (root)

# Those that need no node.
e2e-control: test-tools helm $(GATE)
	@peers=$$(tools/peers/build); tools/peers/build kubectl >/dev/null; \
	export EBB_PEERS=$$peers; $(call gate,e2e-control,,-count=1 -timeout 60m -p 1,$(addprefix ./,$(filter-out agent/node/beside agent/uninstall/e2e runtime/kube/e2e,$(PEERS)) policy/container bench/soak))

# All others. They share the machine's loop devices and mount namespaces.
e2e-node: test-tools containerd-v2 $(GATE)
	@peers=$$(tools/peers/build); \
	export EBB_PEERS=$$peers; $(call gate,e2e-node,,-count=1 -timeout 60m -p 1,./agent/doctor ./agent/node/beside ./agent/node/e2e ./agent/uninstall/e2e ./bpf ./runtime/kube/e2e ./tools/peers)

e2e-image: test-tools $(GATE)
	@$(call gate,e2e-image,-run '^TestImage$$',-count=1 -timeout 30m,./tools/image)

# What chance, minutes or the clock decide, one stage after the other. One that was green on
# this commit is not run again. ONLY="soak fuzz" runs these alone.
FULL := random e2e-control e2e-node e2e-image e2e-cluster kernels soak soak-cluster fuzz image verify
ONLY ?= $(FULL)
.PHONY: test-full
test-full: export EBB_RECORD = $(CURDIR)/bench/results/full/$(shell date -u +%F)-$(shell git rev-parse --short=12 HEAD).tsv
test-full: export RAPID_SEED = $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
test-full: export RAPID_CHECKS = 100
test-full: export GORACE = halt_on_error=0
test-full: $(GATE) ## everything else, for hours: whole end-to-end tests, clusters, other kernels, soaks, fuzzing, random seeds; ONLY=STAGE (root)
	@red=; for stage in $(ONLY); do \
		if cut -f 1,4,7 bench/results/full/*-$$(git rev-parse --short=12 HEAD).tsv 2>/dev/null | grep -qx "[^	]*	$$stage	ok"; then \
			echo "make test-full: $$stage was green"; continue; \
		fi; \
		$(MAKE) --no-print-directory full-$$stage || red="$$red $$stage"; \
	done; $(GATE) report; \
	[ -z "$$red" ] || { echo "make test-full: red:$$red" >&2; exit 1; }

.PHONY: $(addprefix full-,$(FULL))
full-random: # ten times as many histories
	@RAPID_CHECKS=1000 CGO_ENABLED=0 $(GATE) test random -count=1 -vet=off -timeout 30m -- ./policy/...
full-e2e-control full-e2e-node full-e2e-image: full-%:
	@$(MAKE) --no-print-directory $*
full-e2e-cluster full-soak full-soak-cluster full-fuzz full-image full-verify: full-%:
	@$(GATE) run $* $(MAKE) --no-print-directory $*
full-kernels:
	@$(GATE) run kernels $(MAKE) --no-print-directory test-vm VM_FLAGS="--kernels cloud-amd64,6.12-amd64"

# So long for each fuzz target.
FUZZ ?= 10s
.PHONY: fuzz
fuzz: ## each fuzz target for FUZZ=10s
	@grep -rHoP '^func \KFuzz\w+' --include=*_test.go . | sed 's|/[^/]*:| |' | sort | while read -r package target; do \
		echo "$$package $$target"; \
		CGO_ENABLED=1 $(GO) test -vet=off -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZ) "$$package" </dev/null; \
	done

# What a whole cluster needs besides; openssl makes its certificates.
CLUSTER_PACKAGES := containernetworking-plugins iptables nftables iproute2 openssl prometheus procps systemd vagrant
CLUSTER_BINARIES := etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl
# TRANSCRIPT=docs/install.md puts what the run says there.
TRANSCRIPT ?=

.PHONY: cluster
cluster: ## what deploy/cluster/provision.sh takes for a cluster, into bin/cluster
	@mkdir -p $(BIN)/cluster
	@peers=$$(tools/peers/build $(CLUSTER_BINARIES)); \
		install --target-directory=$(BIN)/cluster $(addprefix "$$peers"/,$(CLUSTER_BINARIES))
	@$(GO) run ./deploy/cluster/e2e --write-images $(BIN)/cluster

.PHONY: e2e-cluster
e2e-cluster: node-tools ## a whole cluster on this machine, ebb installed from its image and manifests, about five minutes (root)
	@tools/need.sh $(CLUSTER_PACKAGES)
	@VAGRANT_HOME=$(CURDIR)/$(BIN)/vagrant VAGRANT_DOTFILE_PATH=$(CURDIR)/$(BIN)/vagrant/state \
		vagrant validate --ignore-provider
	@$(MAKE) --no-print-directory image
	@$(GO) build -o $(BIN)/e2e-cluster ./deploy/cluster/e2e
	@peers=$$(tools/peers/build $(CLUSTER_BINARIES)); helm=$$(tools/helm/build); \
		$(BIN)/e2e-cluster --binaries "$$peers" --helm "$$helm/helm" --transcript "$(TRANSCRIPT)"

# What booting another kernel needs besides.
VM_PACKAGES := qemu-system-x86 xz-utils
# For instance VM_FLAGS="--kernels all --table docs/kernels.md".
VM_FLAGS ?=

.PHONY: test-vm
test-vm: vm-tools ## the kernel's tests on Debian's own kernels, in an emulated machine
	@$(GO) run ./tools/vm/cmd/testvm $(VM_FLAGS)

# For instance VM_ARM64_FLAGS="--kernels 6.12-cloud-arm64 --package runtime/fs".
VM_ARM64_FLAGS ?= --load

.PHONY: test-vm-arm64
test-vm-arm64: vm-tools ## every kernel program loaded and attached on Debian's arm64 kernels, emulated
	@tools/need.sh qemu-system-arm
	@$(GO) run ./tools/vm/cmd/testvm --kernels cloud-arm64,6.12-cloud-arm64 $(VM_ARM64_FLAGS)

.PHONY: build
build: ## build the binaries into bin/
	@mkdir -p $(BIN)
	$(GO) build -ldflags '-s -w' -o $(BIN)/ ./cmd/...

# Without a tag, it is that of the manifests: the chart's appVersion. For instance
# IMAGE=registry.example/ebb:mine, or IMAGE_FLAGS="--arch amd64".
IMAGE ?= ghcr.io/ebb-agent/ebb
IMAGE_FLAGS ?=

.PHONY: image
image: ## the container image, for amd64 and arm64, as bin/image/ebb.tar; see tools/image
	@$(GO) run ./tools/image/cmd/image --output $(BIN)/image --name $(IMAGE) $(IMAGE_FLAGS)

.PHONY: lint
lint: ## gofmt, go vet and staticcheck
	@unformatted=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); \
	if [ -n "$$unformatted" ]; then echo "not gofmt'd:" $$unformatted; exit 1; fi
	$(RACE) $(GO) vet ./...
	GOFLAGS="-trimpath" CGO_ENABLED=0 $(GO) build -o $(BIN)/ honnef.co/go/tools/cmd/staticcheck
	$(RACE) $(BIN)/staticcheck ./...

.PHONY: generate
generate: ## rebuild the BPF objects, the admission policy, the manifests and generated docs (needs clang and libbpf-dev)
	@tools/need.sh $(BPF_PACKAGES)
	$(GO) generate ./bpf/... ./tools/admission ./tools/dashboard
	$(MAKE) --no-print-directory manifests
	$(GO) test ./agent/node ./agent/cluster -run TestGenerated -update
	$(MAKE) --no-print-directory docs

.PHONY: manifests
manifests: ## render deploy/manifests from the Helm chart, with its schema and the table of its values
	$(GO) generate ./tools/chart

.PHONY: docs
docs: ## rewrite what is made from the commands: manual pages and completions
	$(GO) test ./cmd/... -run TestGeneratedManual -update

.PHONY: generated
generated: ## regenerate everything generated and fail on a difference
	$(MAKE) --no-print-directory generate
	git diff --exit-code -- bpf deploy docs

.PHONY: verify
verify: ## the modules are tidy, and what they download is what go.sum says
	$(GO) mod tidy -diff
	cd tools/containerd && $(GO) mod verify
	cd tools/helm && $(GO) mod verify
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

.PHONY: bench-images
bench-images: node-tools containerd-v2 build ## what thousands of images cost: ready, idle, and how fast many go, about twenty minutes
	@$(GO) run ./bench/images --agent $(BIN)/ebb-agent $(BENCH_FLAGS)

.PHONY: bench-probes
bench-probes: node-tools ## what the kernel programs cost against none attached, and 1,200 random crossings
	@tools/need.sh fio
	@mkdir -p $(BIN)
	@$(GO) build -o $(BIN)/bench-probes ./bench/probes
	@$(BIN)/bench-probes $(BENCH_FLAGS)

.PHONY: bench-cascade
bench-cascade: build ## ebb-controller and the kube-controller-manager's collector on the same API server, about ten minutes
	@export EBB_PEERS=$$(tools/peers/build etcd kube-apiserver kube-controller-manager); \
		$(GO) run ./bench/cascade --controller $(BIN)/ebb-controller $(BENCH_FLAGS)

.PHONY: bench-size
bench-size: build ## ebb-controller with a million objects, and the kube-controller-manager's collector beside it, about fifteen minutes
	@export EBB_PEERS=$$(tools/peers/build etcd kube-apiserver kube-controller-manager); \
		$(GO) run ./bench/size --controller $(BIN)/ebb-controller $(BENCH_FLAGS)

.PHONY: bench-collectors
bench-collectors: build ## ebb-controller's other collectors and the kube-controller-manager's on the same API server, about ten minutes
	@export EBB_PEERS=$$(tools/peers/build etcd kube-apiserver kube-controller-manager csr-cleaner); \
		$(GO) run ./bench/collectors --controller $(BIN)/ebb-controller $(BENCH_FLAGS)

.PHONY: bench-pods
bench-pods: ## what 500 agents ask of one API server for their pods, idle and after outages, about twenty minutes
	@mkdir -p $(BIN)
	@$(GO) build -o $(BIN)/bench-pods ./bench/pods
	@EBB_PEERS=$$(tools/peers/build etcd kube-apiserver) $(BIN)/bench-pods $(BENCH_FLAGS)

.PHONY: bench-containers
bench-containers: node-tools build ## from exit to removal, 5,000 dead containers, and 2,000 pods racing against removals
	@$(GO) build -o $(BIN)/bench-containers ./bench/containers
	@$(BIN)/bench-containers --agent $(BIN)/ebb-agent $(BENCH_FLAGS)

# For instance SOAK=1h, or SOAK_FLAGS="-seed 42" to replay; see bin/bench-soak -h and bin/bench-soaknode -h.
SOAK ?= 10m
SOAK_FLAGS ?=

.PHONY: soak
soak: node-tools containerd-v2 build ## ebb-agent on throwaway nodes on which everything happens at random, for SOAK=10m, judged by an oracle (root)
	@$(GO) build -o $(BIN)/bench-soaknode ./bench/soaknode
	@EBB_PEERS=$$(tools/peers/build etcd kube-apiserver) \
		$(BIN)/bench-soaknode -agent $(BIN)/ebb-agent -soak $(SOAK) $(SOAK_FLAGS)

.PHONY: soak-cluster
soak-cluster: build ## ebb-controller beside real API servers while everything goes wrong at random, for SOAK=10m, judged by an oracle
	@$(GO) build -o $(BIN)/bench-soak ./bench/soak
	@EBB_PEERS=$$(tools/peers/build etcd kube-apiserver kube-controller-manager) \
		$(BIN)/bench-soak -controller $(BIN)/ebb-controller -soak $(SOAK) $(SOAK_FLAGS)

.PHONY: clean-node
clean-node: ## remove throwaway nodes, machines and control planes that a crash has left behind
	@$(GO) run ./tools/cmd/clean

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

.PHONY: prefetch
prefetch: test-tools # all that .ci/run downloads
	@tools/need.sh $(BPF_PACKAGES)
	@for module in . tools/containerd tools/helm; do (cd $$module && $(GO) mod download); done

.PHONY: containerd-v2
containerd-v2:
	@tools/containerd/build

.PHONY: helm
helm:
	@tools/helm/build >/dev/null
