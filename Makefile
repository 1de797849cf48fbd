# trinityd: everything is built out of tree, in $(BUILD). `make help` lists the targets.
#
# A source file is part of the program because it stands in config/, engine/ or server/; a C file with a main under
# tests/ is a test program, except in the folders of TOOL_DIRS, whose programs other tests run.

BUILD   ?= build
PREFIX  ?= /usr/local
# A sanitizer build (SAN=...) has defaults of its own: UndefinedBehaviorSanitizer and -Wconversion disagree about
# harmless code, so it does not turn warnings into errors.
CFLAGS  ?= $(if $(SAN),-O1,-O2) -g
WERROR  ?= $(if $(SAN),,-Werror)
HARDEN  ?= $(if $(SAN),,-fstack-protector-strong -D_FORTIFY_SOURCE=2 -fcf-protection)
PARTS   ?= config engine server
# Where the configuration file goes: /etc for a package, below the prefix otherwise.
SYSCONFDIR ?= $(if $(filter /usr,$(PREFIX)),/etc,$(PREFIX)/etc)

# ---- flags ----

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wpointer-arith -Wcast-qual -Wwrite-strings -Wstrict-prototypes \
        -Wmissing-prototypes -Wundef -Wvla -Wformat=2 -Wdouble-promotion -Wconversion -Wno-sign-conversion \
        -Wimplicit-fallthrough
ifeq ($(findstring clang,$(CC)),)
WARN += -Wlogical-op -Wduplicated-cond -Wduplicated-branches -Wjump-misses-init
endif

# SAN names a sanitizer build: address, thread, or fuzz (clang only).
SAN_FLAGS_address := -fsanitize=address,undefined -fno-sanitize-recover=all
SAN_FLAGS_thread  := -fsanitize=thread
SAN_FLAGS_fuzz    := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
SAN_FLAGS := $(SAN_FLAGS_$(SAN))

# Contraction is off everywhere: the same bits on every x86 need every fma to be written as one.
BASE_FLAGS := -std=c17 -D_GNU_SOURCE -I. -ffp-contract=off -fno-omit-frame-pointer -pthread
ALL_CFLAGS  = $(BASE_FLAGS) $(CFLAGS) $(WARN) $(WERROR) $(HARDEN) $(SAN_FLAGS) $(CPPFLAGS) -MMD -MP
ALL_LDFLAGS = $(LDFLAGS) $(SAN_FLAGS) -pthread -Wl,-z,relro,-z,now
LIBS       := -lmicrohttpd -lgnutls -lseccomp -luv -ljansson -lpcre2-8 -lutf8proc -lopenblas -lm

# One instruction set a file; no other file has any. clang with coverage and UndefinedBehaviorSanitizer together takes a
# quarter of an hour for an unrolled kernel; the fuzz targets read files and requests, and do without the latter there.
KERNEL_FLAGS := $(if $(SAN),,-O3) -fno-math-errno -fno-trapping-math $(if $(filter fuzz,$(SAN)),-fno-sanitize=undefined)
AVX2_FLAGS   := -mavx2 -mfma -mf16c
AVX512_FLAGS := $(AVX2_FLAGS) -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni
AMX_FLAGS    := $(AVX512_FLAGS) -mamx-tile -mamx-int8 -mamx-bf16
$(BUILD)/engine/kernels/%.o:        KERNEL = $(KERNEL_FLAGS)
$(BUILD)/engine/kernels/%_avx2.o:   KERNEL = $(KERNEL_FLAGS) $(AVX2_FLAGS)
$(BUILD)/engine/kernels/%_avx512.o: KERNEL = $(KERNEL_FLAGS) $(AVX512_FLAGS)
$(BUILD)/engine/kernels/%_amx.o:    KERNEL = $(KERNEL_FLAGS) $(AMX_FLAGS)

# ---- files ----

SRC      := $(sort $(shell find $(PARTS) -name '*.c' 2>/dev/null))
OBJ      := $(SRC:%.c=$(BUILD)/%.o)
LIB      := $(BUILD)/libtrinity.a
LIB_OBJ  := $(filter-out $(BUILD)/server/main.o,$(OBJ))

TOOL_DIRS := tests/tools tests/template tests/bench
TEST_ALL  := $(filter-out tests/fuzz/%,$(sort $(shell find tests -name '*.c' 2>/dev/null)))
TEST_MAIN := $(if $(TEST_ALL),$(shell grep -l '^int main' $(TEST_ALL)))
TEST_HELP := $(filter-out $(TEST_MAIN),$(TEST_ALL))
TOOL_SRC  := $(foreach d,$(TOOL_DIRS),$(filter $(d)/%,$(TEST_MAIN)))
TEST_SRC  := $(filter-out $(TOOL_SRC),$(TEST_MAIN))
TESTS     := $(TEST_SRC:%.c=$(BUILD)/%)
TOOLS     := $(TOOL_SRC:%.c=$(BUILD)/%)
HELP_OBJ  := $(TEST_HELP:%.c=$(BUILD)/%.o)
FUZZ_SRC  := $(sort $(wildcard tests/fuzz/fuzz_*.c))
FUZZ      := $(FUZZ_SRC:%.c=$(BUILD)/%)

.PHONY: build objs tests run test clients unit bench asan tsan fuzz regress lint lint-sources format format-check tidy check install \
        uninstall image image-check deb tools \
        deploy-check load-all clean help FORCE
.DEFAULT_GOAL := build
.SECONDARY:
.SECONDEXPANSION:
.DELETE_ON_ERROR:

# `make V=1` shows whole commands.
Q   := $(if $(V),,@)
say  = @$(if $(V),:,printf '%-3s %s\n' $(1) $(2))

# ---- compiling ----

build: $(BUILD)/trinityd ## the daemon: build/trinityd

objs: $(OBJ) $(TESTS:%=%.o) ## every object, nothing linked (use with -k)

tests: $(TESTS) $(TOOLS) $(if $(filter fuzz,$(SAN)),,$(FUZZ)) ## the C test programs, without running them

# Stamps that change when the compiler or a flag does (everything is built again), or the list of files.
$(BUILD)/flags: STAMP = $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(KERNEL_FLAGS) $(AMX_FLAGS)
$(BUILD)/list:  STAMP = $(LIB_OBJ)
$(BUILD)/flags $(BUILD)/list: FORCE
	@mkdir -p $(@D)
	@echo '$(STAMP)' | cmp -s - $@ || echo '$(STAMP)' > $@

$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) $(KERNEL) -c -o $@ $<

# The page is in its object as it stands.
$(BUILD)/server/api/page.o: $(wildcard server/page/*)

$(LIB): $(LIB_OBJ) $(BUILD)/list
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $(LIB_OBJ)

$(BUILD)/trinityd: $(BUILD)/server/main.o $(LIB)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

# A test program is linked with the C files of its folder that have no main.
BESIDE = $(filter $(@D)/%,$(HELP_OBJ))
$(TESTS) $(TOOLS): $(BUILD)/%: $(BUILD)/%.o $$(BESIDE) $(LIB)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(LIBS)

# A fuzz target is linked with libFuzzer, or with a main that replays files.
ifeq ($(SAN),fuzz)
$(FUZZ): $(BUILD)/%: $(BUILD)/%.o $(LIB)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(LIBS)
else
$(FUZZ): $(BUILD)/%: $(BUILD)/%.o $(BUILD)/tests/fuzz/replay.o $(LIB)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)
endif

-include $(patsubst %.c,$(BUILD)/%.d,$(SRC) $(TEST_ALL) $(wildcard tests/fuzz/*.c))

# ---- running ----

JOBS ?= $(shell nproc 2>/dev/null || echo 1)
VENV := build/venv
SUB  := $(MAKE) --no-print-directory
T    ?= tests

run: ## installs what the build needs, builds, starts the daemon with the demo checkpoint
	@deploy/packages build run
	@$(SUB) -j$(JOBS) build
	@deploy/try $(BUILD)/trinityd

test: ## installs what the tests need, builds, runs them all; T=PATH runs some
	@deploy/packages build test
	@$(SUB) -j$(JOBS) build tests $(VENV)/ready
	@$(VENV)/bin/python tests/run --build $(BUILD) --jobs $(JOBS) $(T) --programs $(TESTS) $(FUZZ)

unit: tests ## the C test programs alone; T=PATH runs some
	@tests/run --build $(BUILD) --jobs $(JOBS) --c-only $(T) --programs $(TESTS)

regress: $(FUZZ) ## replays the inputs that fuzzing has kept
	@tests/run --build $(BUILD) --jobs $(JOBS) --c-only tests/fuzz --programs $(FUZZ)

# Each file of requirements is installed in an environment of its own.
define environment
@echo "installing Python packages in $(@D)"
$(Q)python3 -m venv --clear $(@D)
$(Q)$(@D)/bin/pip install -q --disable-pip-version-check -r $<
@touch $@
endef

$(VENV)/ready: tests/requirements.txt
	$(environment)

build/clients/%/ready: tests/clients/%.txt
	$(environment)

build/tools/%/ready: tests/deploy/%.txt
	$(environment)

CLIENTS := $(patsubst tests/clients/%.txt,build/clients/%,$(wildcard tests/clients/*.txt))

clients: build $(VENV)/ready $(CLIENTS:%=%/ready) ## the tests with other projects' clients, installed in build/clients
	$(Q)BUILD=$(BUILD) $(VENV)/bin/pytest -c tests/pytest.ini tests/clients

tools: build/tools/tools/ready build/tools/kubectl ## what the tests of deploy/ run: proxies, checkers; some of Debian's start as services
	@deploy/packages deploy

deploy-check: build tools $(VENV)/ready build/tools/checkov/ready ## the tests of deploy/ alone, checkov included
	$(Q)BUILD=$(BUILD) $(VENV)/bin/pytest -c tests/pytest.ini tests/deploy

build/tools/kubectl: tests/deploy/kubectl.py $(VENV)/ready
	$(Q)$(VENV)/bin/python $< $@

load-all: build $(BUILD)/tests/bench/load/load ## every load generator that is installed, in turn, against the demo: build/load
	@deploy/load/all $(BUILD) $(BUILD)/load

# PEER: folder with llama.cpp's llama-bench and llama-batched-bench; built once by PEERS/build_llama.sh if PEERS is given.
PEERS ?=
PEER  ?= $(BUILD)/peer/build/bin

bench: build $(VENV)/ready ## speed of MODEL, or of Nano-shaped checkpoints (TYPES="Q4_0 Q8_0 Q4_K BF16") against a peer
ifneq ($(MODEL),)
	@$(BUILD)/trinityd bench --model $(MODEL)
else
	$(Q)[ -x $(PEER)/llama-bench ] || [ ! -x $(PEERS)/build_llama.sh ] || sh $(PEERS)/build_llama.sh $(BUILD)/peer
	$(Q)$(VENV)/bin/python tests/bench/compare.py $(BUILD)/trinityd "$$([ -x $(PEER)/llama-bench ] && echo $(PEER))" \
		$(BUILD)/bench $(TYPES)
endif

asan: ## the tests under AddressSanitizer and UndefinedBehaviorSanitizer, in build/asan
	@$(SUB) BUILD=build/asan SAN=address test

tsan: ## the tests under ThreadSanitizer, in build/tsan
	@$(SUB) BUILD=build/tsan SAN=thread test

# make fuzz F=json SECS=60
SECS ?= 60
fuzz: ## fuzzes one target with libFuzzer: F=NAME SECS=60
	@deploy/packages build lint
	@$(SUB) -j$(JOBS) BUILD=build/fuzz SAN=fuzz CC=clang build/fuzz/tests/fuzz/fuzz_$(F)
	@mkdir -p build/fuzz/found/$(F) tests/fuzz/corpus/$(F) tests/fuzz/regression/$(F)
	build/fuzz/tests/fuzz/fuzz_$(F) -max_total_time=$(SECS) -rss_limit_mb=4096 -timeout=10 \
	    -artifact_prefix=tests/fuzz/regression/$(F)/ build/fuzz/found/$(F) tests/fuzz/corpus/$(F)

# ---- care ----

C_FILES = $(shell git ls-files --cached --others --exclude-standard '*.c' '*.h')

format: ## clang-format over every C file
	@clang-format -i $(C_FILES)

format-check: ## fails where clang-format would change something
	@clang-format --dry-run -Werror $(C_FILES)

lint: ## the form of the sources: clang-format, and the rules of tests/lint
	@deploy/packages build test lint
	@$(SUB) -k -j$(JOBS) format-check lint-sources

lint-sources: build
	@tests/lint $(BUILD)

tidy: ## clang-tidy over the files that it has not seen yet
	@deploy/packages build lint
	@$(SUB) -k -j$(JOBS) $(SRC:%.c=$(BUILD)/tidy/%)

# An object is newer than the headers it was made from, and so is what clang-tidy has to see again.
TIDY_FLAGS = $(BASE_FLAGS) $(AMX_FLAGS) $(if $(filter config/err,$*),,-include tests/rules/tidy.h)
$(BUILD)/tidy/%: $(BUILD)/%.o .clang-tidy tests/rules/tidy.h
	@mkdir -p $(@D)
	$(call say,TI,$*.c)
	$(Q)clang-tidy --quiet $*.c -- $(TIDY_FLAGS) 2>$@.log || { cat $@.log; false; }
	@touch $@

check: ## what a change must pass, all that CI runs: lint, tidy, gcc and clang builds, tests, fuzz corpora under ASan
	@.ci/run

# ---- installing ----

INSTALL ?= install
SHARE   := $(DESTDIR)$(PREFIX)/share/trinityd
ETC     := $(DESTDIR)$(SYSCONFDIR)/trinityd
LIBDIR  := $(DESTDIR)$(PREFIX)/lib
UNITS   := $(LIBDIR)/systemd/system
FILL    := sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@SYSCONFDIR@|$(SYSCONFDIR)|g' \
               -e 's|"config/demo"|"$(PREFIX)/share/trinityd/demo"|'

install: build ## the binary, the default configuration, the demo checkpoint and what systemd wants
	$(INSTALL) -D -m 755 $(BUILD)/trinityd $(DESTDIR)$(PREFIX)/bin/trinityd
	$(INSTALL) -d $(SHARE)/demo $(ETC) $(UNITS) $(LIBDIR)/sysusers.d $(LIBDIR)/tmpfiles.d
	$(INSTALL) -m 644 config/demo/* $(SHARE)/demo
	test -e $(ETC)/trinityd.json || $(FILL) config/trinityd.json > $(ETC)/trinityd.json
	$(FILL) deploy/systemd/trinityd.service > $(UNITS)/trinityd.service
	$(INSTALL) -m 644 deploy/systemd/trinityd.socket $(UNITS)
	$(INSTALL) -m 644 deploy/systemd/sysusers.conf $(LIBDIR)/sysusers.d/trinityd.conf
	$(INSTALL) -m 644 deploy/systemd/tmpfiles.conf $(LIBDIR)/tmpfiles.d/trinityd.conf

uninstall: ## what install has installed, the configuration excepted
	rm -rf $(DESTDIR)$(PREFIX)/bin/trinityd $(SHARE) $(UNITS)/trinityd.service $(UNITS)/trinityd.socket \
	    $(LIBDIR)/sysusers.d/trinityd.conf $(LIBDIR)/tmpfiles.d/trinityd.conf

deb: build ## a Debian package of what is built: build/deb/trinityd_*.deb
	@deploy/packages deb
	@deploy/debian/build $(BUILD) build/deb

IMAGE ?= localhost/trinityd
BASE  ?= auto
image: ## a container image with the demo checkpoint inside: IMAGE=NAME BASE=IMAGE
	@deploy/image $(IMAGE) $(BASE)

image-check: ## builds the image twice from nothing: the ids must be equal
	@deploy/image $(IMAGE) $(BASE) twice

clean: ## removes the build folder
	rm -rf $(BUILD)

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' Makefile | expand -t 14
