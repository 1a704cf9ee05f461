# ebb: make help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO ?= go
BIN := bin

# What is built, linted and generated is built in one way, so that a cold cache is filled
# once; tests are built in another: the race detector needs cgo, and lint has vetted them.
export CGO_ENABLED := 0
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)
GO_TEST := CGO_ENABLED=1 $(GO) test -race -vet=off
# What tests are made of, compiled side by side and not linked yet: each is, when its turn comes.
GO_COMPILE := CGO_ENABLED=1 $(GO) list -race -test -deps -export

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

.PHONY: test
test: test-tools containerd-v2 helm ## all checks and tests, on real containerd 1.6 and 2.4 (root)
	$(MAKE) --no-print-directory lint
	@# One package after the other: the node's and the kernel's tests share the machine's
	@# loop devices and mount namespaces.
	$(GO_COMPILE) ./... >/dev/null
	$(GO_TEST) -timeout 45m -p 1 ./...

# Packages whose tests import peerstest need the real Kubernetes, which takes minutes to
# build: "make test" skips those tests, these run them. Those that need a node share the
# machine's loop devices and mount namespaces with all tests of that kind; those with a
# control plane alone, or with the kubelet's own container policy, disturb nobody.
E2E := $(GO) list -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' ./... | \
	awk '/[[ ][^ ]*\/tools\/peers\/peerstest[] ]/ {print $$1}'
E2E_CONTROL := /((agent/cluster|agent/orphans|agent/preview|deploy|runtime/kube/metadata)/e2e|policy/container|bench/soak|tools/extension)$$

.PHONY: e2e e2e-control e2e-node
e2e: e2e-control e2e-node ## tests beside the real kubelet and control plane, built on first use (root)

e2e-control: test-tools helm # those that need no node
	@peers=$$(tools/peers/build); tools/peers/build kubectl >/dev/null; \
	packages=$$($(E2E) | grep -E '$(E2E_CONTROL)'); \
	$(GO_COMPILE) $$packages >/dev/null; \
	EBB_PEERS=$$peers $(GO_TEST) -timeout 60m -p 1 $$packages

e2e-node: test-tools containerd-v2 # all others
	@peers=$$(tools/peers/build); \
	packages=$$($(E2E) | grep -Ev '$(E2E_CONTROL)'); \
	$(GO_COMPILE) $$packages >/dev/null; \
	EBB_PEERS=$$peers $(GO_TEST) -timeout 60m -p 1 $$packages

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
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

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

.PHONY: verify
verify: ## regenerate everything generated and fail on a difference
	$(MAKE) --no-print-directory generate
	git diff --exit-code -- bpf deploy docs go.mod go.sum
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
clean-node: ## remove throwaway nodes that a crash has left behind
	@$(GO) run ./tools/node/cmd/throwaway clean
	@$(GO) run ./tools/cluster/cmd/throwaway-machine clean

.PHONY: clean
clean: ## remove what was built
	rm -rf $(BIN)

.PHONY: cluster-binaries
cluster-binaries:
	@tools/peers/build $(CLUSTER_BINARIES) >/dev/null

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

.PHONY: helm
helm:
	@tools/helm/build >/dev/null
