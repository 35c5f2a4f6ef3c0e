# The project's commands; `make help` lists them. Run as root: networks are made in the kernel.

PYTHON ?= /usr/bin/python3
POD ?= pod1
NETWORK ?= cni-harness
BIN_DIR ?= /opt/cni/bin
CONF_DIR ?= /etc/cni/net.d
# Tests wait on the kernel more than they compute, so there are more workers than processors.
JOBS ?= 4
# The tests of test-rest wait longer.
REST_JOBS ?= 6
# A test under containerd starts up to sixty processes at once.
RUNTIME_JOBS ?= 2
PYTEST_ARGS ?=
VM_ARGS ?=
PYTHONS_ARGS ?=
MATRIX_LISTS ?= $(addprefix --conf tests/conformance/networks/,$(addsuffix .conflist,bridge ptp macvlan tap host-device static loopback noop languages/shell-ptp))
# A folder of executables that make reports examines instead of the usual ones, and the project's name.
REPORT_DIR ?=
PROJECT ?= $(error PROJECT=NAME names the plugins in REPORT_DIR)
REPORTS := build/reports
MATRIX_SUITES = $(if $(REPORT_DIR),--bin-dir $(PROJECT)=$(REPORT_DIR),--bin-dir ours=build/matrix/bin \
	--bin-dir debian=/usr/lib/cni --bin-dir shell+perl=tests/conformance/plugins)
BENCH_ARGS ?=
SOAK_ARGS ?=
SCALE_ARGS ?=

SHELL := /bin/bash
VENV := .venv
RUN := $(VENV)/bin

# A root shell without a login may lack the folders of nft and iptables.
export PATH := $(PATH):/usr/local/sbin:/usr/sbin:/sbin
export PYTHON
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Stamps carry their dependencies in their names: a clone has no useful file times. The names are computed at each use,
# since a target may install Python or a compiler on its way.
PLACE = $(shell { pwd -P; readlink -f "$$(command -v $(PYTHON))"; } | sha256sum | cut -c1-16)
SOURCES = $(shell { cat pyproject.toml setup.py launch/*.[ch]; command -v cc >/dev/null && echo cc; } | sha256sum | cut -c1-16)
MADE = $(VENV)/.made-$(PLACE)
INSTALLED = $(VENV)/.installed-$(SOURCES)
TESTABLE = $(VENV)/.testable-$(SOURCES)
COMPARABLE = $(VENV)/.comparable-$(SOURCES)
RUNNABLE = $(VENV)/.runnable-$(SOURCES)
DOCUMENTED = $(VENV)/.documented-$(SOURCES)
RELEASABLE = $(VENV)/.releasable-$(SOURCES)

NEEDS := $(PYTHON)=python3 ip=iproute2 nft=nftables
# README.md names these with their size. None, and no dependency, brings a service, a browser or a virtual machine.
TEST_NEEDS := $(NEEDS) arping=iputils-arping conntrack=conntrack dnsmasq=dnsmasq-base iptables=iptables jq=jq json_pp=perl \
	ping=iputils-ping ps=procps tcpdump=tcpdump /usr/lib/cni/bridge=containernetworking-plugins cc=gcc \
	/usr/include/stdlib.h=libc6-dev runc=runc crun=crun strace=strace /usr/share/doc/busybox-static=busybox-static
# tests/markers.py has the reasons.
REST_NEEDS := chromium=chromium dbus-daemon=dbus-daemon firewalld=firewalld iperf3=iperf3 kea-dhcp4=kea-dhcp4-server \
	kea-dhcp6=kea-dhcp6-server rsync=rsync skopeo=skopeo systemd-analyze=systemd umoci=umoci vagrant=vagrant
BENCH_NEEDS := $(NEEDS) iptables=iptables /usr/lib/cni/bridge=containernetworking-plugins cc=gcc \
	/usr/include/stdlib.h=libc6-dev
# The compiler for ARM and its headers; this machine's own are for its own wheel.
WHEEL_NEEDS := $(PYTHON)=python3 cc=gcc /usr/include/stdlib.h=libc6-dev aarch64-linux-gnu-gcc=gcc-aarch64-linux-gnu \
	/usr/aarch64-linux-gnu/include/stdlib.h=libc6-dev-arm64-cross
IMAGE_NEEDS := mmdebstrap=mmdebstrap dpkg-deb=dpkg
# Another package's busybox needs libraries, which an image made of it would lack.
RUNTIME_NEEDS := $(NEEDS) containerd=containerd podman=podman runc=runc /usr/share/doc/busybox-static=busybox-static \
	iptables=iptables ping=iputils-ping ps=procps $(WHEEL_NEEDS) \
	/usr/lib/cni/bridge=containernetworking-plugins qemu-aarch64-static=qemu-user-static skopeo=skopeo umoci=umoci \
	$(IMAGE_NEEDS)
# Kubernetes' own programs are in no package of Debian.
KUBERNETES_NEEDS := etcd=etcd-server
VM_NEEDS := qemu-system-x86_64=qemu-system-x86 modprobe=kmod cpio=cpio mmdebstrap=mmdebstrap \
	/usr/share/doc/busybox-static=busybox-static

# Tests make nodes of their own; should one go wrong or be killed, this machine keeps its network, mounts and processes.
ROOT := $(filter 0,$(shell id -u))
ELSEWHERE := $(if $(ROOT),tools/test_run.sh)
# The packages of REST_NEEDS that this machine lacks, unpacked; their programs are in /usr for one run.
REST := build/rest
ETCD := build/etcd

# Targets install packages, and apt works for one at a time.
.NOTPARALLEL:
.PHONY: help up down test test-rest test-all test-runtimes test-vm test-kubernetes test-pythons release-check lint bench matrix reports soak scale docs pictures man stubs install wheels zipapp deb image release release-files venv test-venv clean needs \
	test-needs rest-needs bench-needs runtime-needs wheel-needs deb-needs image-needs vm-needs kubernetes-needs

help: ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

up: $(INSTALLED) ## install into .venv and give POD (pod1) its NETWORK (cni-harness, which is this project's own)
	$(RUN)/cni-harness add --exist-ok --network $(NETWORK) $(POD)

down: $(INSTALLED) ## take back every pod, also those of manifests, and the interfaces that their networks made
	$(RUN)/cni-harness del --all --prune

test: lint ## install the tests' needs, and run the tests for this kernel; results also in build/junit.xml
	$(ELSEWHERE) $(RUN)/python -m pytest -n $(JOBS) --dist worksteal --junitxml build/junit.xml -m 'not needs and not slow' $(PYTEST_ARGS)

test-rest: $(TESTABLE) rest-needs ## the tests that make test leaves out: slow ones, and those with firewalld, Kea, a browser and others, unpacked into build/rest; results in build/junit-rest.xml
	$(ELSEWHERE) $(if $(ROOT),--usr $(REST)) $(RUN)/python -m pytest -n $(REST_JOBS) --dist worksteal \
		--junitxml build/junit-rest.xml -m 'needs or slow' $(PYTEST_ARGS)

test-all: test test-rest ## make test, then make test-rest

test-runtimes: $(RUNNABLE) wheels deb image ## pods under containerd, from wheels, from the Debian package and from the image; results in build/junit-runtimes.xml and build/runtimes
	mkdir -p build/runtimes
	set -o pipefail; $(ELSEWHERE) $(RUN)/python -m pytest tests/runtime -n $(RUNTIME_JOBS) --dist worksteal \
		--junitxml build/junit-runtimes.xml $(PYTEST_ARGS) 2>&1 | tee build/runtimes/pytest.log

test-vm: $(TESTABLE) deb | vm-needs ## boot Debian's own kernel: tests that want more of it, and a node under systemd; results in build/junit-vm.xml and build/vm
	$(RUN)/python -m tools.vm $(VM_ARGS) -- $(PYTEST_ARGS)

test-kubernetes: $(TESTABLE) kubernetes-needs ## tests with a real kube-apiserver, of the folder KUBEBUILDER_ASSETS; results in build/junit-kubernetes.xml and build/kubernetes
	$(ELSEWHERE) $(if $(ROOT),--usr $(ETCD)) $(RUN)/python -m pytest tests/kubernetes --junitxml build/junit-kubernetes.xml $(PYTEST_ARGS)

test-pythons: $(TESTABLE) ## unit tests with Python 3.13 and 3.14, of Debian 13 and 14; results in build/junit-python-VERSION.xml
	tools/need.sh mmdebstrap=mmdebstrap
	$(RUN)/python -m tools.pythons $(PYTHONS_ARGS) $(TEST_NEEDS)

release-check: $(TESTABLE) zipapp deb | vm-needs ## install, upgrade and remove wheel, sdist, zipapp and deb on a fresh Debian 12 and 13; hours without KVM
	rm -f build/cni_harness-*.tar.gz
	$(RUN)/python -c 'from setuptools.build_meta import build_sdist; build_sdist("build")'
	$(RUN)/python -m tools.vm --machine release-bookworm --machine release-trixie --limit 14400 $(VM_ARGS) -- $(PYTEST_ARGS)

lint: $(TESTABLE) ## ruff, mypy and the import directions
	$(RUN)/ruff check
	$(RUN)/ruff format --check
	$(RUN)/mypy
	$(RUN)/lint-imports --no-cache

bench: $(COMPARABLE) ## measure our plugins beside Debian's and judge them; figures go into docs/performance.md and build/
	$(RUN)/python -m tools.bench $(or $(BENCH_ARGS),--pages)

matrix: $(TESTABLE) ## examine our plugins and Debian's beside each other; the full table goes to build/conformance-matrix.md
	$(RUN)/cni-harness --state-dir build/matrix/state install --no-units --bin-dir build/matrix/bin
	$(ELSEWHERE) $(RUN)/cni-harness conformance matrix $(MATRIX_SUITES) --prepare tests/conformance/uplink.sh \
		--jobs $(JOBS) --save build/conformance-matrix.md --reports $(REPORTS) $(MATRIX_LISTS)

reports: REPORTS := reports/1.1.0
reports: matrix ## make matrix, with the reports in reports/ and their table in docs/conformance-results.md; REPORT_DIR=… PROJECT=… for other plugins
	$(RUN)/python -m tools.reports

soak: $(INSTALLED) ## end thousands of ADDs and DELs by signals and count leftovers, and let workers live; SOAK_ARGS=--help tells more
	$(ELSEWHERE) $(RUN)/python -m tools.soak $(SOAK_ARGS)

scale: $(INSTALLED) ## measure 200 nodes on this machine, and an agent with 5,000 peers; figures go into docs/performance.md
	$(ELSEWHERE) $(RUN)/python -m tools.scale $(or $(SCALE_ARGS),--pages)

docs: $(DOCUMENTED) ## the site of docs/, with command line, keys and API, in build/site
	NO_MKDOCS_2_WARNING=1 $(RUN)/python -m mkdocs build --strict

pictures: $(TESTABLE) ## the drawings and the recorded terminal of the documentation; the commands are typed on a node of their own
	$(ELSEWHERE) $(RUN)/python -m tools.pictures

man: $(INSTALLED) ## manual pages, made of the command line's help, in build/man
	$(RUN)/python -m tools.site.man build/man

stubs: $(TESTABLE) ## the Python modules of harness/cri/remote/api.proto, after a change to that file
	$(RUN)/python -m tools.stubs

install: $(INSTALLED) ## put the plugins into BIN_DIR (/opt/cni/bin) and the network list into CONF_DIR
	$(RUN)/cni-harness install --bin-dir $(BIN_DIR) --conf-dir $(CONF_DIR) --conf

wheels: $(MADE) | wheel-needs ## build/wheels: for amd64 and arm64 with the compiled launcher, and those of what they need
	rm -rf build/wheels build/lib
	$(RUN)/python -m pip wheel --quiet --wheel-dir build/wheels .
	rm -rf build/lib
	CC=aarch64-linux-gnu-gcc $(RUN)/python -m pip wheel --quiet --no-deps --wheel-dir build/wheels .

zipapp: $(INSTALLED) ## build/cni-harness.pyz: the harness and the Python packages that it needs as one file
	$(RUN)/python -m tools.zipapp build/cni-harness.pyz

deb: wheels $(INSTALLED) | deb-needs ## build/cni-harness_VERSION-REVISION_ARCHITECTURE.deb, with what the plugins need and the pages of build/man
	rm -f build/*.deb
	$(RUN)/python -m tools.deb

image: deb | image-needs ## build/cni-harness-image-VERSION.tar, an OCI archive: the Debian package's files, Python, iproute2, nftables
	$(PYTHON) -m tools.release.image

release: | needs ## build/release: the commit's wheels, sdist, zipapp, deb, image, site, manual, reports, SBOM, notes and digests
	tools/need.sh git=git
	$(PYTHON) -m tools.release

# `make release` runs this target in a copy of the commit's files.
release-files: $(RELEASABLE) wheels zipapp man deb image docs
	$(RUN)/python -m tools.release.files

venv: $(INSTALLED) ## install into .venv and no more

test-venv: $(TESTABLE)

clean: ## remove what make made in this folder (`make down` first)
	rm -rf $(VENV) launch/_launcher build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache

needs:
	@tools/need.sh $(NEEDS)

test-needs:
	@tools/need.sh $(TEST_NEEDS)

rest-needs:
	@tools/need.sh --into $(REST) $(REST_NEEDS)

bench-needs:
	@tools/need.sh $(BENCH_NEEDS)

runtime-needs:
	@tools/need.sh $(RUNTIME_NEEDS)

wheel-needs:
	@tools/need.sh $(WHEEL_NEEDS)

image-needs:
	@tools/need.sh $(IMAGE_NEEDS)

deb-needs:
	@tools/need.sh dpkg-deb=dpkg strip=binutils

vm-needs:
	@tools/need.sh $(VM_NEEDS)

kubernetes-needs:
	@PATH="$$KUBEBUILDER_ASSETS:$$PATH" tools/need.sh --into $(ETCD) $(KUBERNETES_NEEDS)

# Debian's python3 has no ensurepip of its own: the package of venv brings it.
$(MADE): | needs
	tools/need.sh module:ensurepip=python3-venv
	$(PYTHON) -m venv --clear $(VENV)
	touch $(MADE)

$(INSTALLED): $(MADE) | needs
	$(RUN)/python -m pip install --quiet --editable .
	touch $(INSTALLED)

$(TESTABLE): $(MADE) | test-needs
	$(RUN)/python -m pip install --quiet --editable '.[test,lint]'
	touch $(INSTALLED) $(TESTABLE)

$(COMPARABLE): $(MADE) | bench-needs
	$(RUN)/python -m pip install --quiet --editable '.[bench]'
	touch $(INSTALLED) $(COMPARABLE)

$(RUNNABLE): $(MADE) | runtime-needs
	$(RUN)/python -m pip install --quiet --editable '.[runtimes]'
	touch $(INSTALLED) $(RUNNABLE)

$(DOCUMENTED): $(MADE) | needs
	$(RUN)/python -m pip install --quiet --editable '.[docs]'
	touch $(INSTALLED) $(DOCUMENTED)

$(RELEASABLE): $(MADE) | needs
	$(RUN)/python -m pip install --quiet --editable '.[docs,release]'
	touch $(INSTALLED) $(DOCUMENTED) $(RELEASABLE)
