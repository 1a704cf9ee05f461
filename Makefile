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
# go test -race; the image's version; rules, alerts and dashboard; pages and completions as people see them.
TEST_PACKAGES := gcc libc6-dev git prometheus prometheus-alertmanager groff-base bash-completion
BPF_PACKAGES  := clang llvm libbpf-dev
BROWSER_PACKAGES := chromium chromium-driver

.PHONY: help
help: ## show what can be made
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: node-tools build ## watch ebb keep a throwaway node's disk low (root)
	@$(GO) run ./tools/demo --agent $(BIN)/ebb-agent

# Tests of real components: they need root, or Debian's packages. They run one package after
# the other, because they share the machine's loop devices and mount namespaces.
REAL := agent/doctor agent/node/e2e bpf deploy/grafana deploy/prometheus deploy/rights runtime/cgroup runtime/containerd \
	runtime/fs runtime/podlogs tools/chart tools/cluster tools/image tools/manual tools/node \
	tools/prometheus tools/cgroup tools/process tools/vm/initramfs
# Those that need the real Kubernetes, which takes ten minutes to build: for "make e2e".
PEERS := agent/cluster/e2e agent/desk/e2e agent/node/beside agent/orphans/e2e agent/preview/e2e agent/sysdump/e2e agent/uninstall/e2e \
	agent/ui/e2e deploy/e2e runtime/kube/e2e \
	runtime/kube/metadata/e2e tools/extension tools/peers
$(foreach dir,$(REAL) $(PEERS),$(if $(wildcard $(dir)/*.go),,$(error REAL and PEERS name $(dir), which has no Go files)))
HERMETIC = $$($(GO) list ./... | grep -Ev '/ebb/($(subst $() ,|,$(strip $(REAL) $(PEERS)))|policy(/.*)?)$$')

.PHONY: check
check: $(GATE) ## format, vet, staticcheck, and the tests that need nothing but Go and Linux, 1.5 minutes with warm caches
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
	@tools/need.sh $(BROWSER_PACKAGES)
	@peers=$$(tools/peers/build); tools/peers/build kubectl >/dev/null; \
	export EBB_PEERS=$$peers; $(call gate,e2e-control,,-count=1 -timeout 60m -p 1,$(addprefix ./,$(filter-out agent/node/beside agent/uninstall/e2e runtime/kube/e2e tools/peers,$(PEERS)) policy/container bench/soak))

# All others. They share the machine's loop devices and mount namespaces.
e2e-node: test-tools containerd-v2 $(GATE)
	@peers=$$(tools/peers/build); \
	export EBB_PEERS=$$peers; $(call gate,e2e-node,,-count=1 -timeout 60m -p 1,./agent/doctor ./agent/node/beside ./agent/node/e2e ./agent/uninstall/e2e ./bpf ./runtime/kube/e2e ./tools/peers)

e2e-image: test-tools $(GATE)
	@$(call gate,e2e-image,-run '^TestImage$$',-count=1 -timeout 30m,./tools/image)

# Releases between the two of "make test": 1.7 in the place of Debian's, the others in that of 2.4.
.PHONY: test-containerd
test-containerd: test-tools $(GATE) ## the container runtime's suite, reclaim, a full disk and an upgrade in place on the last containerd 1.7, 2.0, 2.1, 2.2 and 2.3 (root)
	@for release in 1.7 2.0 2.1 2.2 2.3; do \
		dir=$$(tools/containerd/build $$release); \
		case $$release in 1.*) export PATH=$$dir:$$PATH flavor=debian ;; *) export EBB_CONTAINERD=$$dir flavor=v2 ;; esac; \
		$(call gate,containerd-$$release,-run "/^$$flavor\$$",-count=1 -timeout 20m,./runtime/containerd); \
		$(call gate,containerd-$$release-agent,-run "^(TestReclaim|TestFullAtStart|TestRuntimeUpgrade)\$$/^$$flavor\$$",-count=1 -timeout 20m,./agent/node/e2e); \
	done

# Each test of "make test" with real components N times, one at a time, beside two busy loops:
# how often does it fail?
N ?= 50
.PHONY: flake-hunt
flake-hunt: test-tools containerd-v2 helm $(GATE) ## how often tests with real components fail on a busy machine: N=50 runs of each (root)
	@export RAPID_CHECKS=10; hunt() { CGO_ENABLED=1 $(GATE) hunt "$$@"; }; red=; \
	hunt -skip '^TestImage$$' $(N) -race -vet=off -p 1 -- $(addprefix ./,$(filter-out bpf agent/node/e2e,$(REAL))) || red=1; \
	hunt -skip "$$(grep -v '^#' tools/vm/bpf-slow.txt | paste -sd '|')" $(N) -race -vet=off -- ./bpf || red=1; \
	hunt -run "$$(grep -v '^#' agent/node/e2e/gate.txt | paste -sd '|')" $(N) -race -vet=off -- ./agent/node/e2e || red=1; \
	[ -z "$$red" ]

# What chance, minutes or the clock decide, one stage after the other. One that was green on
# this commit is not run again. ONLY="soak fuzz" runs these alone.
FULL := flakes random hermetic real e2e-control e2e-node e2e-image e2e-cluster kernels vagrant soak soak-reboot soak-cluster fuzz image verify
ONLY ?= $(FULL)
.PHONY: test-full
test-full: export EBB_RECORD = $(CURDIR)/bench/results/full/$(shell date -u +%F)-$(shell git rev-parse --short=12 HEAD).tsv
test-full: export RAPID_SEED = $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
test-full: export RAPID_CHECKS = 100
test-full: export GORACE = halt_on_error=0
test-full: export SOAK_FLAGS = -results bin/results
test-full: $(GATE) ## everything else, for hours: whole end-to-end tests, clusters, other kernels, soaks, fuzzing, random seeds; ONLY=STAGE (root)
	@red=; for stage in $(ONLY); do \
		if cut -f 1,4,7 bench/results/full/*-$$(git rev-parse --short=12 HEAD).tsv 2>/dev/null | grep -qx "[^	]*	$$stage	ok"; then \
			echo "make test-full: $$stage was green"; continue; \
		fi; \
		$(MAKE) --no-print-directory full-$$stage || red="$$red $$stage"; \
	done; $(GATE) report; \
	[ -z "$$red" ] || { echo "make test-full: red:$$red" >&2; exit 1; }

.PHONY: $(addprefix full-,$(FULL))
full-flakes:
	@$(GATE) run flakes $(GATE) flakes
full-random: # ten times as many histories
	@RAPID_CHECKS=1000 CGO_ENABLED=0 $(GATE) test random -count=1 -vet=off -timeout 30m -- ./policy/...
full-hermetic:
	@$(call gate,hermetic,,-count=1 -timeout 60m,$(HERMETIC))
full-real: test-tools containerd-v2 helm
	@$(MAKE) --no-print-directory test-real
full-e2e-control full-e2e-node full-e2e-image: full-%:
	@$(MAKE) --no-print-directory $*
full-e2e-cluster full-soak full-soak-reboot full-soak-cluster full-fuzz full-verify: full-%:
	@$(GATE) run $* $(MAKE) --no-print-directory $*
full-image:
	@$(GATE) run image $(MAKE) --no-print-directory image dist
full-vagrant:
	@$(GATE) run vagrant $(MAKE) --no-print-directory test-vagrant
full-kernels:
	@$(GATE) run kernels $(MAKE) --no-print-directory test-vm VM_FLAGS="--kernels cloud-amd64,6.12-amd64"

# What a whole cluster needs besides; openssl makes its certificates.
CLUSTER_PACKAGES := containernetworking-plugins iptables nftables iproute2 openssl prometheus procps systemd vagrant chromium
CLUSTER_BINARIES := etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl
# TRANSCRIPT=docs/install-transcript.md writes the output of the run there.
TRANSCRIPT ?=

.PHONY: cluster
cluster: build ## what deploy/cluster/provision.sh takes for a cluster, into bin/cluster, and the command ebb
	@mkdir -p $(BIN)/cluster/ebb
	@cp deploy/manifests/00-namespace.yaml $(BIN)/cluster/ebb
	@helm=$$(tools/helm/build); "$$helm/helm" template ebb deploy/chart --no-hooks --namespace ebb-system \
		--values deploy/vagrant/values.yaml >$(BIN)/cluster/ebb/ebb.yaml
	@peers=$$(tools/peers/build $(CLUSTER_BINARIES)); \
		install --target-directory=$(BIN)/cluster $(addprefix "$$peers"/,$(CLUSTER_BINARIES))
	@$(GO) run ./deploy/cluster/e2e --write-images $(BIN)/cluster

.PHONY: e2e-cluster
e2e-cluster: node-tools build ## a whole cluster on this machine, docs/install.md followed command by command, 14 minutes (root)
	@tools/need.sh $(CLUSTER_PACKAGES)
	@VAGRANT_HOME=$(CURDIR)/$(BIN)/vagrant VAGRANT_DOTFILE_PATH=$(CURDIR)/$(BIN)/vagrant/state \
		vagrant validate --ignore-provider
	@# The run makes the image where there is no network to download anything.
	@$(GO) list -deps -export ./tools/image/cmd/image >/dev/null
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

# What virtual machines need, and their box, which deploy/vagrant/box.sh makes.
VAGRANT_PACKAGES := vagrant vagrant-libvirt libvirt-daemon-system libvirt-daemon-driver-qemu libvirt-clients \
	dnsmasq-base qemu-system-x86 qemu-utils rsync mmdebstrap fdisk e2fsprogs grub-common grub-pc-bin

.PHONY: vagrant-box
vagrant-box: ## the box of "vagrant up", of Debian's packages, about a minute (root)
	@tools/need.sh $(VAGRANT_PACKAGES)
	@mkdir -p $(BIN)
	@deploy/vagrant/box.sh $(BIN)/ebb.box
	@vagrant box add --force --name ebb/bookworm $(BIN)/ebb.box
	@rm $(BIN)/ebb.box # Vagrant has unpacked it

BENCH ?= node
.PHONY: vagrant-bench
vagrant-bench: build ## what "vagrant up bench" runs, into bin/vagrant-bench; BENCH=reaction or probes for another benchmark
	@peers=$$($(NODE_PEERS)); containerd=$$(tools/containerd/build); \
		install -D --target-directory=$(BIN)/vagrant-bench $(BIN)/ebb-agent \
		"$$peers"/kubelet "$$peers"/etcd "$$peers"/kube-apiserver "$$containerd/containerd" "$$containerd/containerd-shim-runc-v2"
	@# There is no checkout inside: the program records the commit in its result.
	@$(GO) build -buildvcs=true -o $(BIN)/vagrant-bench/ ./bench/$(BENCH)
	@$(GO) version -m $(BIN)/vagrant-bench/$(BENCH) | grep -q vcs.revision || \
		{ echo "vagrant-bench: Go finds no commit: build in a clone, not in a worktree of git" >&2; exit 1; }

.PHONY: test-vagrant
test-vagrant: vagrant-box cluster image vagrant-bench ## both machines of Vagrantfile, made, tried and destroyed: an hour where all is emulated (root)
	@deploy/vagrant/test.sh

# Agent and controller are for Linux alone.
PROGRAMS = $(if $(filter linux,$(shell $(GO) env GOOS)),./cmd/...,./cmd/ebb)

.PHONY: build
build: ## build the binaries into bin/; on macOS ebb alone
	@mkdir -p $(BIN)
	$(GO) build -ldflags '-s -w' -o $(BIN)/ $(PROGRAMS)

.PHONY: kubectl-plugin
kubectl-plugin: build ## bin/kubectl-ebb: put it on your PATH beside ebb, for "kubectl ebb"
	@ln -sf ebb $(BIN)/kubectl-ebb

# Without a tag, it is that of the manifests: the chart's appVersion. For instance
# IMAGE=registry.example/ebb:mine, or IMAGE_FLAGS="--arch amd64".
IMAGE ?= ghcr.io/ebb-agent/ebb
IMAGE_FLAGS ?=

.PHONY: image
image: ## the container image, for amd64 and arm64, as bin/image/ebb.tar; see tools/image
	@$(GO) run ./tools/image/cmd/image --output $(BIN)/image --name $(IMAGE) $(IMAGE_FLAGS)

# For instance REGISTRY=registry.example/team, with the credentials of docker login or podman login.
REGISTRY ?=

.PHONY: push
push: ## the container image, as make image makes it, to REGISTRY=registry.example/team
	@[ -n "$(REGISTRY)" ] || { echo "say where to: make push REGISTRY=registry.example/team"; exit 1; }
	@$(GO) run ./tools/image/cmd/image --output $(BIN)/image --name $(REGISTRY)/ebb $(IMAGE_FLAGS) --push

# What is built for people: all programs for Linux, and ebb for whoever asks from another desk.
DIST := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64

.PHONY: dist
dist: ## static binaries for Linux, and ebb for darwin, as archives with checksums, in bin/dist
	@rm -rf $(BIN)/dist; mkdir -p $(BIN)/dist
	@version=$$(sed -n 's/^appVersion: *//p' deploy/chart/Chart.yaml); \
	for target in $(DIST); do \
		os=$${target%/*}; arch=$${target#*/}; name=ebb-$$version-$$os-$$arch; programs=./cmd/...; \
		if [ "$$os" != linux ]; then programs=./cmd/ebb; fi; \
		echo "make dist: $$name"; \
		GOOS=$$os GOARCH=$$arch $(GO) build -ldflags '-s -w' -o $(BIN)/dist/$$name/ $$programs; \
		licences=$$($(GO) run ./tools/image/cmd/image licences $(BIN)/dist/$$name/*); \
		printf '%s\n' "$$licences" >$(BIN)/dist/$$name/THIRD-PARTY; \
		cp LICENSE $(BIN)/dist/$$name/; cp LICENSES/GPL-2.0-only.txt $(BIN)/dist/$$name/LICENSE-GPL-2.0-only; \
		tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$$(git log -1 --format=%ct)" -C $(BIN)/dist -c $$name | gzip -n >$(BIN)/dist/$$name.tar.gz; \
	done; cd $(BIN)/dist && sha256sum *.tar.gz >SHA256SUMS

.PHONY: lint
lint: ## gofmt, go vet and staticcheck
	@unformatted=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); \
	if [ -n "$$unformatted" ]; then echo "not gofmt'd:" $$unformatted; exit 1; fi
	$(RACE) $(GO) vet ./...
	GOFLAGS="-trimpath" CGO_ENABLED=0 $(GO) build -o $(BIN)/ honnef.co/go/tools/cmd/staticcheck
	$(RACE) $(BIN)/staticcheck ./...

.PHONY: generate
generate: generate-bpf generate-others ## rebuild the BPF objects, the admission policy, the manifests and generated docs (needs clang and libbpf-dev)

# What the BPF objects are made of.
BPF_SUMS = sha256sum bpf/*.bpf.c $$(find bpf/headers -type f | LC_ALL=C sort) bpf/gen.go && clang --version | head -n 1

.PHONY: generate-bpf generate-others
generate-bpf:
	@tools/need.sh $(BPF_PACKAGES)
	$(GO) generate ./bpf/...
	@{ $(BPF_SUMS); } >bpf/objects.sums

generate-others:
	$(GO) generate ./tools/admission
	$(MAKE) --no-print-directory manifests
	$(GO) test ./agent/node ./agent/cluster -run TestGenerated -update
	$(MAKE) --no-print-directory docs

.PHONY: manifests
manifests: ## render deploy/manifests from the Helm chart, with its schema and the table of its values
	$(GO) generate ./tools/chart

.PHONY: docs
docs: ## rewrite what is made from the commands: manual pages and completions
	$(GO) test ./cmd/... -run TestGenerated -update

.PHONY: generated
generated: ## regenerate everything generated and fail on a difference
	@tools/need.sh $(BPF_PACKAGES)
	@# Another clang makes other objects of the same sources: then the sources alone are compared.
	@if [ "$$(tail -n 1 bpf/objects.sums)" = "$$(clang --version | head -n 1)" ]; then \
		$(MAKE) --no-print-directory generate-bpf; \
	elif diff <(sed '$$d' bpf/objects.sums) <({ $(BPF_SUMS); } | sed '$$d'); then \
		echo "not compared: the BPF objects are made by $$(tail -n 1 bpf/objects.sums), and here is $$(clang --version | head -n 1)"; \
	else \
		echo "the BPF objects are older than their sources: make generate" >&2; exit 1; \
	fi
	$(MAKE) --no-print-directory generate-others
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
# What of Kubernetes a benchmark runs ebb beside.
NODE_PEERS := tools/peers/build etcd kube-apiserver kubelet
CLUSTER_PEERS := tools/peers/build etcd kube-apiserver kube-controller-manager csr-cleaner

# What README quotes: all of it has to be of the same sources. And what takes hours.
BENCHES := idle reaction node containers cascade collectors probes
BENCHES_FULL := shapes writers images account size pods

.PHONY: bench bench-full bench-publish bench-smoke
bench: ## every benchmark that README quotes, in one go, in an hour; then make bench-publish
	@for name in $(BENCHES); do \
		echo "make bench: $$SECONDS s: $$name"; $(MAKE) --no-print-directory bench-$$name BENCH_FLAGS=; \
	done; echo "make bench: $$SECONDS s"

bench-full: bench ## those, and the others: other shapes of cascades, thousands of images, a million objects, 500 agents; about three hours
	@for name in $(BENCHES_FULL); do \
		echo "make bench-full: $$SECONDS s: $$name"; $(MAKE) --no-print-directory bench-$$name BENCH_FLAGS=; \
	done; echo "make bench-full: $$SECONDS s"

bench-publish: ## the tables in README, docs/benchmarks.md, docs/why.md and bench/RESULTS.md from bench/results, if these are of the sources as they are
	@$(GO) run ./bench/headline
	@for name in $(BENCHES) $(BENCHES_FULL); do \
		case $$name in reaction|account|images|writers) continue ;; shapes) set cascade -shapes ;; *) set $$name ;; esac; \
		! grep -qs '^{"origin"' bench/results/$$name.json || \
		$(GO) run ./bench/$$1 -render $${2-}; \
	done

.PHONY: bench-idle
bench-idle: node-tools containerd-v2 build ## what the agent and the kubelet cost with 200 images, 100 pods and nothing to do, about twelve minutes
	@EBB_PEERS=$$($(NODE_PEERS)) $(GO) run ./bench/idle --agent $(BIN)/ebb-agent $(BENCH_FLAGS)

.PHONY: bench-reaction
bench-reaction: node-tools containerd-v2 build ## from the write that crosses the high threshold to the first removal, 120 times
	@EBB_PEERS=$$($(NODE_PEERS)) $(GO) run ./bench/reaction --agent $(BIN)/ebb-agent $(BENCH_FLAGS)

.PHONY: bench-writers
bench-writers: node-tools containerd-v2 build ## how long disks of three kinds are over the threshold beside a process that fills them, about five minutes
	@EBB_PEERS=$$($(NODE_PEERS)) $(GO) run ./bench/writers --agent $(BIN)/ebb-agent $(BENCH_FLAGS)

.PHONY: bench-node
bench-node: node-tools containerd-v2 build ## ebb and the real kubelet before the same full disk, about ten minutes
	@EBB_PEERS=$$($(NODE_PEERS)) $(GO) run ./bench/node --agent $(BIN)/ebb-agent $(BENCH_FLAGS)

.PHONY: bench-images
bench-images: node-tools containerd-v2 build ## what thousands of images cost: ready, idle, and how fast many go, about twenty minutes
	@EBB_PEERS=$$($(NODE_PEERS)) $(GO) run ./bench/images --agent $(BIN)/ebb-agent $(BENCH_FLAGS)

.PHONY: bench-account
bench-account: node-tools containerd-v2 build ## what it costs to say what 10,000 images take and why they stay, whether plans free what they say, and 500 nodes asked from a desk, about fifteen minutes
	@mkdir -p $(BIN)
	@$(GO) build -o $(BIN)/bench-account ./bench/account
	@EBB_PEERS=$$($(NODE_PEERS)) $(BIN)/bench-account --agent $(BIN)/ebb-agent --ebb $(BIN)/ebb $(BENCH_FLAGS)

.PHONY: bench-probes
bench-probes: node-tools ## what the kernel programs cost against none attached, and 1,200 random crossings
	@tools/need.sh fio
	@mkdir -p $(BIN)
	@$(GO) build -o $(BIN)/bench-probes ./bench/probes
	@$(BIN)/bench-probes $(BENCH_FLAGS)

.PHONY: bench-cascade
bench-cascade: build ## ebb-controller and the kube-controller-manager on the same API server, as shipped and at their best, about fifteen minutes
	@EBB_PEERS=$$($(CLUSTER_PEERS)) $(GO) run ./bench/cascade --controller $(BIN)/ebb-controller $(BENCH_FLAGS)

.PHONY: bench-shapes
bench-shapes: ## the same at their best, with many owners, chains, Pods and custom resources, about ten minutes
	@$(MAKE) --no-print-directory bench-cascade BENCH_FLAGS="-shapes $(BENCH_FLAGS)"

.PHONY: bench-size
bench-size: build ## ebb-controller with a million objects, and the kube-controller-manager's collector beside it, about fifteen minutes
	@EBB_PEERS=$$($(CLUSTER_PEERS)) $(GO) run ./bench/size --controller $(BIN)/ebb-controller $(BENCH_FLAGS)

.PHONY: bench-collectors
bench-collectors: build ## ebb-controller's other collectors and the kube-controller-manager's on the same API server, about ten minutes
	@EBB_PEERS=$$($(CLUSTER_PEERS)) $(GO) run ./bench/collectors --controller $(BIN)/ebb-controller $(BENCH_FLAGS)

.PHONY: bench-pods
bench-pods: ## what 500 agents ask of one API server for their pods, idle and after outages, about twenty minutes
	@mkdir -p $(BIN)
	@$(GO) build -o $(BIN)/bench-pods ./bench/pods
	@EBB_PEERS=$$($(NODE_PEERS)) $(BIN)/bench-pods $(BENCH_FLAGS)

.PHONY: bench-containers
bench-containers: node-tools containerd-v2 build ## from exit to removal, 5,000 dead containers, and 1,000 pods racing against removals
	@$(GO) build -o $(BIN)/bench-containers ./bench/containers
	@EBB_PEERS=$$($(NODE_PEERS)) $(BIN)/bench-containers --agent $(BIN)/ebb-agent $(BENCH_FLAGS)

# As short as each can be and still do what it does; its figures say nothing. What only waits
# for the kubelet's five minutes is left out.
SMOKE := $(BIN)/smoke/results
SMOKE_idle := -images 4 -containers 2 -period 2s -rest 1s
SMOKE_reaction := -runs 3
SMOKE_writers := -speeds 200
SMOKE_node := -only ebb,beside -repeats 1 -storm 2s
SMOKE_containers := -exits 3 -dead 3 -starts 30 -kubelet-starts 20
SMOKE_cascade := -only start,speed,fsync,memory -rounds 1 -dependents 40 -slow 20 -tracked 300 -rest 1s
SMOKE_shapes := -rounds 1 -dependents 40
SMOKE_collectors := -rounds 1 -batch 20 -objects 100 -csrs 40 -families 5 -lasts 2s -ahead 8s -rest 1s -first-day 50 -later 1s
SMOKE_probes := -pairs 2 -window 50ms -crossings 30 -steps 300 -spurious-gib 1
SMOKE_images := -images 300 -idle 1s -rest 1s
SMOKE_account := -images 50 -runs 1 -rest 1s
SMOKE_size := -objects 2000 -rest 1s
SMOKE_pods := -agents 5 -idle 1s -outage 6s -after 1s -spread 1s

bench-smoke: ## every benchmark runs, and says what the pages quote; a few minutes, no figures
	@rm -rf $(BIN)/smoke
	@$(foreach name,$(BENCHES) $(BENCHES_FULL),echo "make bench-smoke: $$SECONDS s: $(name)"; \
		$(MAKE) --no-print-directory bench-$(name) BENCH_FLAGS="-results $(SMOKE) $(SMOKE_$(name))";) \
	$(GO) run ./bench/headline -results $(SMOKE) -show; echo "make bench-smoke: $$SECONDS s"

# For instance SOAK=1h, or SOAK_FLAGS="-seed 42" to replay; see bin/bench-soak -h and bin/bench-soaknode -h.
SOAK ?= 10m
SOAK_FLAGS ?=

.PHONY: soak
soak: node-tools containerd-v2 build ## ebb-agent on throwaway nodes on which everything happens at random, for SOAK=10m, judged by an oracle (root)
	@$(GO) build -o $(BIN)/bench-soaknode ./bench/soaknode
	@EBB_PEERS=$$($(NODE_PEERS)) \
		$(BIN)/bench-soaknode -agent $(BIN)/ebb-agent -soak $(SOAK) $(SOAK_FLAGS)

.PHONY: soak-reboot
soak-reboot: vm-tools ## ebb-agent through a reset of an emulated machine in the middle of its work
	@$(GO) run ./tools/vm/cmd/testvm --reboot --kernels cloud-amd64 $(VM_FLAGS)

.PHONY: soak-cluster
soak-cluster: build ## ebb-controller beside real API servers while everything goes wrong at random, for SOAK=10m, judged by an oracle
	@$(GO) build -o $(BIN)/bench-soak ./bench/soak
	@EBB_PEERS=$$(tools/peers/build etcd kube-apiserver kube-controller-manager) \
		$(BIN)/bench-soak -controller $(BIN)/ebb-controller -soak $(SOAK) $(SOAK_FLAGS)

# So many seconds for all targets together.
FUZZ ?= 600

.PHONY: fuzz
fuzz: ## all fuzz targets in turn, for FUZZ seconds together; what they find is kept in ~/.cache/ebb/fuzz
	@tools/fuzz.sh $(FUZZ)

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
